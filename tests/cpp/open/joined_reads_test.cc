#include "nimble/open/joined_reads.h"

#include <algorithm>
#include <numeric>

#include "testing/check.h"

namespace nimble {
namespace {

// A file where each byte depends on its offset.
class Bytes : public ReadableFile {
 public:
  Bytes() : bytes_(1000) {
    std::iota(bytes_.begin(), bytes_.end(), uint8_t{0});
  }
  uint64_t size() const override { return bytes_.size(); }
  Status read_at(const ReadRequest& r) const override {
    if (r.offset + r.size > bytes_.size()) return Status::io_error("too far");
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(r.offset), r.size,
                r.out);
    return Status::ok();
  }
  const std::string& name() const override { return name_; }

 private:
  std::vector<uint8_t> bytes_;
  std::string name_ = "<bytes>";
};

TEST(JoinedReads, NearRangesAreOneRequest) {
  const std::vector<ByteRange> ranges = {{10, 20}, {20, 30}, {25, 28},
                                         {35, 40}, {46, 50}, {200, 210}};
  const auto joined = join_ranges(ranges, 5);
  REQUIRE(joined.size() == 3);
  CHECK_EQ(joined[0].begin, 10);
  CHECK_EQ(joined[0].end, 40);
  CHECK_EQ(joined[0].last, 4);
  CHECK_EQ(joined[1].first, 4);
  CHECK_EQ(joined[1].end, 50);
  CHECK_EQ(joined[2].last, 6);
  CHECK_EQ(total_size(joined), 44);
  CHECK(join_ranges({}, 5).empty());
}

TEST(JoinedReads, RequestsHaveALargestSize) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  std::vector<ByteRange> ranges;
  for (uint64_t i = 0; i < 40; ++i)
    ranges.push_back({i * kMiB, (i + 1) * kMiB});
  ranges.push_back({40 * kMiB, 80 * kMiB});
  const auto joined = join_ranges(ranges, UINT64_MAX);
  CHECK_EQ(joined.size(), 4);
  for (const JoinedRead& r : joined) {
    CHECK(r.size() <= 16 * kMiB || r.last - r.first == 1);
  }
}

TEST(JoinedReads, GiveEachRangeItsBytesAndCountOneRound) {
  const std::vector<ByteRange> ranges = {{3, 7}, {9, 10}, {100, 140}};
  auto joined = join_ranges(ranges, 2);
  ReadStats stats;
  REQUIRE(read_joined(Bytes(), &stats, ReadKind::kData, &joined).is_ok());
  for (const JoinedRead& r : joined) {
    for (size_t i = r.first; i < r.last; ++i) {
      CHECK_EQ(*r.at(ranges[i].begin), ranges[i].begin);
    }
  }
  CHECK_EQ(stats.data_reads.load(), 2);
  CHECK_EQ(stats.data_bytes.load(), 47);
  CHECK_EQ(stats.rounds.load(), 1);

  std::vector<JoinedRead> none;
  REQUIRE(read_joined(Bytes(), &stats, ReadKind::kData, &none).is_ok());
  CHECK_EQ(stats.rounds.load(), 1);
  auto far = join_ranges(std::vector<ByteRange>{{990, 1001}}, 0);
  CHECK(!read_joined(Bytes(), &stats, ReadKind::kData, &far).is_ok());
}

}  // namespace
}  // namespace nimble
