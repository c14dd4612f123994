// Runs of levels and codes, whose directory is bounded.
#include "nimble/parquet/level_runs.h"

#include "testing/check.h"

namespace nimble::parquet {
namespace {

// `count` runs of one value each, and 8 bytes that may be read.
std::vector<uint8_t> short_runs(size_t count, uint32_t width) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(2);
    if (width > 0) out.push_back(i % 2);
  }
  out.resize(out.size() + 8);
  return out;
}

ByteSpan without_slack(const std::vector<uint8_t>& bytes) {
  return ByteSpan(bytes).first(bytes.size() - 8);
}

TEST(LevelRuns, ValuesWithoutBitsAreOneRun) {
  const std::vector<uint8_t> bytes = short_runs(100000, 0);
  const auto runs = LevelRuns::parse(without_slack(bytes), 0, 100000, 0);
  CHECK(runs.has_value());
  CHECK_EQ(runs->size(), 100000);
  CHECK_EQ(runs->num_counted(), 100000);
  CHECK(runs->memory_bytes() < 1000);
}

TEST(LevelRuns, TooManyRunsAreLeftToAnotherReader) {
  const size_t most = LevelRuns::kMaxRuns;
  std::vector<uint8_t> bytes = short_runs(most, 1);
  auto runs = LevelRuns::parse(without_slack(bytes), 1, most, 1);
  CHECK(runs.has_value());
  CHECK_EQ(runs->num_counted(), most / 2);
  bytes = short_runs(most + 1, 1);
  runs = LevelRuns::parse(without_slack(bytes), 1, most + 1, 1);
  CHECK(!runs.has_value());
  CHECK(runs.error().code() == StatusCode::kUnsupported);
}

TEST(LevelRuns, CodesAboveTheWidthAreNotCounted) {
  std::vector<uint8_t> bytes{3, 0xff, 0xff, 0xff};  // 8 packed values of 3 bits
  bytes.resize(12);
  const auto runs = LevelRuns::parse(ByteSpan(bytes).first(4), 3, 8, 7);
  CHECK_EQ(runs->num_counted(), 8);
  const auto none = LevelRuns::parse(ByteSpan(bytes).first(4), 3, 8, 8);
  CHECK_EQ(none->num_counted(), 0);
}

}  // namespace
}  // namespace nimble::parquet
