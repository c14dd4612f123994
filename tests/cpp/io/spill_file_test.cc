#include "nimble/io/spill_file.h"

#include "io/temp_dir.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

TEST(SpillFile, GivesBackWhatWasAppendedAndHasNoName) {
  const TempDir dir;
  auto file = SpillFile::create(dir.path(""));
  REQUIRE(file.has_value());
  CHECK(dir.names().empty());
  REQUIRE((*file)->append(as_bytes("hello ")).is_ok());
  REQUIRE((*file)->append({}).is_ok());
  REQUIRE((*file)->append(as_bytes("world")).is_ok());
  CHECK_EQ((*file)->size(), 11);
  std::vector<uint8_t> out(5);
  REQUIRE((*file)->read_at(6, out.data(), 5).is_ok());
  CHECK_EQ(std::string(as_string(out)), "world");
}

TEST(SpillFile, ReadingPastTheEndIsAnError) {
  const TempDir dir;
  auto file = SpillFile::create(dir.path(""));
  REQUIRE(file.has_value());
  uint8_t byte;
  CHECK((*file)->read_at(0, &byte, 1).code() == StatusCode::kIoError);
}

TEST(SpillFile, NeedsADirectory) {
  CHECK(SpillFile::create("/nonexistent-directory").error().code() ==
        StatusCode::kIoError);
  CHECK(SpillFile::create("").has_value());
}

}  // namespace
}  // namespace nimble::testing
