// Parts of a file that arrive in any order.
#include "nimble/io/sparse_file.h"

#include "testing/check.h"

namespace nimble {
namespace {

std::vector<uint8_t> numbered(uint64_t size) {
  std::vector<uint8_t> out(size);
  for (uint64_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(i * 7 + 1);
  return out;
}

TEST(SparseFile, PartsInAnyOrderEqualTheFile) {
  const std::vector<uint8_t> bytes = numbered(10000);
  uint64_t state = 5;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 50; ++round) {
    auto file = SparseFile::create(bytes.size(), "f").value();
    std::vector<bool> filled(bytes.size());
    for (int i = 0; i < 30; ++i) {
      FilePart part{random(bytes.size()), 0};
      part.size = random(std::min<uint64_t>(900, bytes.size() - part.offset));
      bool is_filled = true;
      for (uint64_t k = 0; k < part.size; ++k) {
        is_filled &= filled[part.offset + k];
      }
      CHECK_EQ(file->missing({&part, 1}).empty(), is_filled);
      CHECK(static_cast<bool>(file->fill(
          {&part, 1}, ByteSpan(bytes).subspan(part.offset, part.size))));
      for (uint64_t k = 0; k < part.size; ++k) filled[part.offset + k] = true;
    }
    uint64_t count = 0;
    for (uint64_t i = 0; i < bytes.size(); ++i) {
      CHECK_EQ(file->mapped()[i], filled[i] ? bytes[i] : 0);
      count += filled[i] ? 1 : 0;
    }
    CHECK_EQ(file->filled_bytes(), count);
  }
}

TEST(SparseFile, FilledBytesDoNotChange) {
  auto file = SparseFile::create(100, "f").value();
  const std::vector<uint8_t> ones(20, 1), twos(40, 2);
  const FilePart first{10, 20}, both{0, 40};
  CHECK(static_cast<bool>(file->fill({&first, 1}, ones)));
  CHECK(static_cast<bool>(file->fill({&both, 1}, twos)));
  for (uint64_t i = 0; i < 40; ++i) {
    CHECK_EQ(int{file->mapped()[i]}, i >= 10 && i < 30 ? 1 : 2);
  }
}

TEST(SparseFile, PartsOutsideOfTheFileAreRefused) {
  auto file = SparseFile::create(100, "f").value();
  const std::vector<uint8_t> bytes(10, 1);
  for (const FilePart part :
       {FilePart{95, 10}, FilePart{101, 10}, FilePart{UINT64_MAX, 10},
        FilePart{5, UINT64_MAX}, FilePart{0, 9}, FilePart{0, 11}}) {
    CHECK(!file->fill({&part, 1}, bytes));
  }
  const std::vector<FilePart> twice = {{0, 10}, {0, 10}};
  CHECK(!file->fill(twice, bytes));
  CHECK_EQ(file->filled_bytes(), uint64_t{0});
  CHECK(!SparseFile::create(UINT64_MAX, "f"));
  uint8_t byte = 0;
  CHECK(!file->read_at({100, 1, &byte}));
}

}  // namespace
}  // namespace nimble
