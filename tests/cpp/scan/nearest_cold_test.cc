// A search in a mapped file announces the bytes that it accesses.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "nimble/index/vector/clusters.h"
#include "nimble/scan/nearest/nearest.h"
#include "reader/columns.h"
#include "testing/in_child.h"

namespace nimble::testing {
namespace {

constexpr uint32_t kDimensions = 64;
constexpr uint64_t kVectors = 40'000;

// A mapped file whose pages cannot be accessed until will_need() has named
// them.
class LockedFile final : public ReadableFile {
 public:
  explicit LockedFile(const Bytes& bytes) : size_(bytes->size()) {
    void* const p = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    map_ = static_cast<uint8_t*>(p);
    std::memcpy(map_, bytes->data(), size_);
    REQUIRE(::mprotect(map_, size_, PROT_NONE) == 0);
  }
  ~LockedFile() override { ::munmap(map_, size_); }

  uint64_t size() const override { return size_; }
  Status read_at(const ReadRequest& r) const override {
    std::memcpy(r.out, map_ + r.offset, r.size);
    return Status::ok();
  }
  const uint8_t* mapped() const override { return map_; }
  void will_need(uint64_t offset, uint64_t size) const override {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset - offset % page;
    const uint64_t end = round_up(offset + size, page);
    CHECK_EQ(::mprotect(map_ + begin, end - begin, PROT_READ), 0);
    announced += end - begin;
  }
  const std::string& name() const override { return name_; }

  mutable uint64_t announced = 0;

 private:
  uint64_t size_;
  uint8_t* map_;
  std::string name_ = "<locked>";
};

Bytes file_of_vectors() {
  RandomStream random(1);
  std::vector<float> values(kVectors * kDimensions);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t cluster = i / kDimensions % 100;
    values[i] = static_cast<float>(cluster * (i % kDimensions) % 17) +
                static_cast<float>(random.below(1'000'000)) / 1e6f;
  }
  Field root = struct_of({make_field("+w:64", {make_field("f")})});
  const void* value_buffers[2] = {nullptr, values.data()};
  const void* no_buffers[1] = {nullptr};
  ArrowArray items{}, vectors{}, rows{};
  ArrowArray *item = &items, *vector = &vectors;
  items.length = static_cast<int64_t>(values.size());
  items.n_buffers = 2;
  items.buffers = value_buffers;
  vectors.length = rows.length = kVectors;
  vectors.n_buffers = rows.n_buffers = 1;
  vectors.buffers = rows.buffers = no_buffers;
  vectors.n_children = rows.n_children = 1;
  vectors.children = &item;
  rows.children = &vector;
  WriterOptions options;
  IndexSpec& index = options.indexes.emplace_back();
  index.kind = IndexKind::kVector;
  index.columns.push_back({});
  index.columns[0].path = {0};
  return write_file(*ArrayView::open(root, rows, ""), options);
}

TEST(NearestCold, NoPageIsAccessedUnannounced) {
  if (!kForks) return;
  const Bytes bytes = file_of_vectors();
  const auto file = std::make_shared<LockedFile>(bytes);
  // An access of another page ends the child with SIGSEGV.
  const int before = failures;
  const int ended = in_child([&] {
    const Reader reader = open_file(file);
    const auto index = VectorIndex::open(*reader, 0);
    REQUIRE(index.has_value());
    CHECK((*index)->root().num_lists > 0);
    const uint64_t opened = file->announced;
    const auto column = RowReader::create(reader, {{{0}, "v"}});
    REQUIRE(column.has_value());
    NearestPart part;
    part.scan.output = *column;
    part.scan.ranges = {{0, kVectors}};
    part.index = index->get();
    const auto search = NearestSearch::prepare({part}, kDimensions);
    REQUIRE(search.has_value());
    for (int q = 0; q < 10; ++q) {
      std::vector<double> query(kDimensions);
      for (uint32_t i = 0; i < kDimensions; ++i) {
        query[i] = static_cast<double>(q) * i / 10 + 0.5;
      }
      NearestStats stats;
      const auto hits = (*search)->run(query, {}, &stats);
      REQUIRE(hits.has_value());
      CHECK_EQ((*hits)[0].size(), 10u);
      CHECK_EQ(stats.files_by_lists, 1u);
      if (q == 0) CHECK(file->announced < bytes->size() / 2);
    }
    CHECK(opened < bytes->size() / 10);
    return failures - before;
  });
  CHECK_EQ(ended, 0);
}

}  // namespace
}  // namespace nimble::testing
