#include "nimble/io/local_file.h"

#include <cerrno>
#include <filesystem>
#include <iterator>

#include "io/temp_dir.h"
#include "nimble/io/memory_file.h"

namespace nimble {
namespace {

using nimble::testing::TempDir;

std::string pattern(size_t n) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<char>(i * 31 + i / 256);
  return out;
}

void check_reads(const ReadableFile& file, const std::string& bytes) {
  REQUIRE(file.size() == bytes.size());
  for (const uint64_t offset : {0, 1, 4095, 5000, 9999, 10000}) {
    for (const uint64_t size : {0, 1, 77, 5000}) {
      std::vector<uint8_t> out(size);
      const Status status = file.read_at({offset, size, out.data()});
      if (offset + size <= bytes.size()) {
        CHECK(status.is_ok());
        CHECK(as_string(out) == bytes.substr(offset, size));
      } else {
        CHECK(status.code() == StatusCode::kCorrupt);
      }
    }
  }
  uint8_t byte = 0;
  CHECK(!file.read_at({UINT64_MAX, 1, &byte}).is_ok());
  CHECK(!file.read_at({1, UINT64_MAX, &byte}).is_ok());
}

TEST(LocalFile, PreadAndMapGiveTheSame) {
  const TempDir dir;
  const std::string bytes = pattern(10000);
  const std::string path = dir.write("a", bytes);
  for (const bool map : {false, true}) {
    auto file = LocalFile::open(path, map);
    REQUIRE(file.has_value());
    check_reads(**file, bytes);
    CHECK_EQ((*file)->name(), path);
    CHECK_EQ((*file)->mapped() != nullptr, map);
    if (map) CHECK(as_string({(*file)->mapped(), bytes.size()}) == bytes);
  }
}

// A process may have 65,530 mappings, but often only 1,024 descriptors.
TEST(LocalFile, MappedFileKeepsNoDescriptor) {
  const TempDir dir;
  const std::string path = dir.write("a", pattern(10000));
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/dev/fd"), {});
  };
  const auto before = open_descriptors();
  const auto mapped = LocalFile::open(path, true);
  REQUIRE(mapped.has_value());
  CHECK_EQ(open_descriptors(), before);
  const auto other = LocalFile::open(path, false);
  REQUIRE(other.has_value());
  CHECK_EQ(open_descriptors(), before + 1);
}

TEST(LocalFile, EmptyFileIsNotMapped) {
  const TempDir dir;
  auto file = LocalFile::open(dir.write("empty", ""), true);
  REQUIRE(file.has_value());
  CHECK_EQ((*file)->size(), 0);
  CHECK((*file)->mapped() == nullptr);
  CHECK((*file)->read_at({0, 0, nullptr}).is_ok());
}

TEST(LocalFile, MissingFilesAndDirectoriesAreIoErrors) {
  const TempDir dir;
  const auto missing = LocalFile::open(dir.path("none"), true);
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code() == StatusCode::kIoError);
  CHECK_EQ(missing.error().os_error(), ENOENT);
  const auto directory = LocalFile::open(dir.path("."), false);
  REQUIRE(!directory.has_value());
  CHECK_EQ(directory.error().os_error(), EISDIR);
}

TEST(LocalFile, FileThatShrankSaysSo) {
  const TempDir dir;
  const std::string path = dir.write("a", pattern(10000));
  auto file = LocalFile::open(path, false);
  REQUIRE(file.has_value());
  std::filesystem::resize_file(path, 100);
  std::vector<uint8_t> out(200);
  const Status status = (*file)->read_at({0, 200, out.data()});
  CHECK(status.code() == StatusCode::kCorrupt);
  CHECK(status.message().find("100") != std::string_view::npos);
  CHECK((*file)->read_at({0, 100, out.data()}).is_ok());
}

TEST(LocalFile, ReadManyStopsAtTheFirstFailure) {
  const TempDir dir;
  auto file = LocalFile::open(dir.write("a", pattern(100)), false);
  REQUIRE(file.has_value());
  std::vector<uint8_t> a(10), b(10);
  CHECK((*file)->read_many(
      std::vector<ReadRequest>{{0, 10, a.data()}, {90, 10, b.data()}}));
  CHECK(as_string(b) == pattern(100).substr(90));
  CHECK(!(*file)->read_many(
      std::vector<ReadRequest>{{0, 10, a.data()}, {91, 10, b.data()}}));
}

TEST(MemoryFile, Reads) {
  const std::string bytes = pattern(10000);
  const MemoryFile file(as_bytes(bytes), nullptr);
  check_reads(file, bytes);
  const MemoryFile none({}, nullptr);
  CHECK(none.read_at({0, 0, nullptr}).is_ok());
}

}  // namespace
}  // namespace nimble
