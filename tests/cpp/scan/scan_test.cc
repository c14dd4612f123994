// Scans of one and several files, with a filter of the caller, on threads.
#include "nimble/scan/scan.h"

#include <algorithm>
#include <atomic>

#include "nimble/threads/threads.h"
#include "reader/columns.h"

namespace nimble::testing {
namespace {

WriterOptions short_stripes() {
  WriterOptions o;
  o.stripe_rows = 1000;
  o.group_rows = 5000;
  return o;
}

// Files with the numbers 0, 1, 2, ... in one column.
struct Numbered {
  explicit Numbered(const std::vector<int64_t>& sizes)
      : field(struct_of({make_field("l")})) {
    int64_t number = 0;
    for (const int64_t size : sizes) {
      std::vector<int64_t> values(static_cast<size_t>(size));
      for (int64_t& v : values) v = number++;
      const void* leaf_buffers[2] = {nullptr, values.data()};
      const void* root_buffers[1] = {nullptr};
      ArrowArray leaf{}, root{};
      ArrowArray* child = &leaf;
      leaf.length = root.length = size;
      leaf.n_buffers = 2;
      leaf.buffers = leaf_buffers;
      root.n_buffers = 1;
      root.buffers = root_buffers;
      root.n_children = 1;
      root.children = &child;
      files.push_back(
          write_file(*ArrayView::open(field, root, ""), short_stripes()));
    }
  }

  Field field;
  std::vector<Bytes> files;
};

Status keep_every_third(const std::shared_ptr<const Column>& inputs,
                        std::span<uint64_t> mask) {
  const auto* values =
      reinterpret_cast<const int64_t*>(inputs->children[0].value_data());
  for (uint64_t i = 0; i < inputs->length(); ++i) {
    if (values[i] % 3 == 0) mask[i / 64] |= uint64_t{1} << (i % 64);
  }
  return Status::ok();
}

std::vector<ScanPart> parts_of(const Numbered& numbers, bool mapped,
                               RowTest test) {
  std::vector<ScanPart> parts;
  for (const Bytes& bytes : numbers.files) {
    const Reader file = mapped
                            ? open_mapped(bytes)
                            : open_file(std::make_shared<CountingFile>(bytes));
    const auto reader = RowReader::create_all(file);
    REQUIRE(reader.has_value());
    ScanPart part;
    part.output = *reader;
    part.ranges = {{1, file->num_rows() / 2},
                   {file->num_rows() / 2 + 1, file->num_rows()}};
    if (test) part.inputs = *reader;
    part.test = test;
    parts.push_back(part);
  }
  return parts;
}

// The numbers that a scan of these parts returns.
std::vector<int64_t> wanted_of(const Numbered& numbers,
                               const std::vector<int64_t>& sizes,
                               bool is_tested) {
  CHECK_EQ(numbers.files.size(), sizes.size());
  std::vector<int64_t> out;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    for (int64_t i = 1; i < size; ++i) {
      if (i == size / 2 || (is_tested && (first + i) % 3 != 0)) continue;
      out.push_back(first + i);
    }
    first += size;
  }
  return out;
}

std::vector<int64_t> drain(Scan* scan, uint64_t batch_rows) {
  std::vector<int64_t> out;
  while (true) {
    ArrowArray array{};
    REQUIRE(scan->next(&array).is_ok());
    if (array.release == nullptr) return out;
    CHECK(array.length > 0);
    CHECK(static_cast<uint64_t>(array.length) <= batch_rows);
    const auto* values =
        static_cast<const int64_t*>(array.children[0]->buffers[1]);
    out.insert(out.end(), values, values + array.length);
    array.release(&array);
  }
}

const std::vector<int64_t> kSizes = {1, 700, 20000, 3, 150000, 9000, 40};

TEST(Scan, RowsInOrderFromEveryKindOfFile) {
  const Numbered numbers(kSizes);
  for (const bool mapped : {true, false}) {
    for (const bool is_tested : {true, false}) {
      const RowTest test = is_tested ? keep_every_third : RowTest();
      const auto wanted = wanted_of(numbers, kSizes, is_tested);
      for (const uint32_t threads : {1u, 2u, 5u}) {
        for (const uint64_t batch_rows : {uint64_t{999}, uint64_t{65536}}) {
          ScanOptions options{batch_rows, threads};
          auto scan = Scan::create(parts_of(numbers, mapped, test), options);
          REQUIRE(scan.has_value());
          CHECK(drain(scan->get(), batch_rows) == wanted);
        }
        auto scan =
            Scan::create(parts_of(numbers, mapped, test), {100, threads});
        REQUIRE(scan.has_value());
        const auto count = (*scan)->count();
        REQUIRE(count.has_value());
        CHECK_EQ(*count, wanted.size());
      }
    }
  }
}

TEST(Scan, AFailureComesAfterTheRowsBeforeIt) {
  const Numbered numbers(kSizes);
  for (const uint32_t threads : {1u, 4u}) {
    const RowTest test = [](const auto& inputs, auto mask) {
      const auto* values =
          reinterpret_cast<const int64_t*>(inputs->children[0].value_data());
      if (values[0] > 25000) return Status::io_error("no");
      return keep_every_third(inputs, mask);
    };
    auto scan = Scan::create(parts_of(numbers, true, test), {100, threads});
    REQUIRE(scan.has_value());
    int64_t last = 0;
    Status status;
    while (status) {
      ArrowArray array{};
      status = (*scan)->next(&array);
      if (!status) break;
      REQUIRE(array.release != nullptr);
      last = static_cast<const int64_t*>(
          array.children[0]->buffers[1])[array.length - 1];
      array.release(&array);
    }
    CHECK_EQ(status.message(), std::string_view("no"));
    // The first slice of the file that begins at 20704 passes.
    CHECK(last > 20704);
    CHECK(last < 20704 + 150000 - 1000);
    ArrowArray array{};
    CHECK((*scan)->next(&array).is_ok());
    CHECK(array.release == nullptr);
  }
}

TEST(Scan, AnAbandonedScanStopsItsThreads) {
  const Numbered numbers(kSizes);
  std::atomic<int> running{0};
  const RowTest test = [&](const auto& inputs, auto mask) {
    ++running;
    Status status = keep_every_third(inputs, mask);
    --running;
    return status;
  };
  for (int i = 0; i < 20; ++i) {
    auto scan = Scan::create(parts_of(numbers, true, test), {100, 4});
    REQUIRE(scan.has_value());
    ArrowArray array{};
    REQUIRE((*scan)->next(&array).is_ok());
    array.release(&array);
    scan->reset();
    CHECK_EQ(running.load(), 0);
  }
}

TEST(Scan, ALimitEndsATask) {
  const Numbered numbers({200000});
  ScanOptions options{100, 1, 250};
  auto scan = Scan::create(parts_of(numbers, true, keep_every_third), options);
  REQUIRE(scan.has_value());
  const auto rows = drain(scan->get(), 100);
  CHECK(rows.size() >= 250);
  CHECK(rows.size() < 1000);
  CHECK_EQ(rows[0], 3);
}

}  // namespace
}  // namespace nimble::testing
