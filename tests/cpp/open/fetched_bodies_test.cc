// Rounds of reads: near ranges are joined, and every byte is read once.
#include "nimble/open/fetched_bodies.h"

#include <numeric>

#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

// Wants exactly the bytes [begin, end) of a segment, as if rows were bytes.
class BytesDecoder final : public Decoder {
 public:
  BytesDecoder() : Decoder(ValueType::unsigned_int(1), 10000) {}
  Status decode(const SegmentBody&, uint32_t, uint32_t,
                const Output&) const override {
    return Status::ok();
  }
  Status gather(const SegmentBody&, const uint32_t*, size_t,
                const Output&) const override {
    return Status::ok();
  }
  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    out->push_back({begin, end});
  }
  std::string describe() const override { return "bytes"; }
  size_t memory_bytes() const override { return 0; }
};

struct Setup {
  explicit Setup(uint64_t cache_bytes = 1 << 20)
      : bytes(std::make_shared<std::vector<uint8_t>>(10000)),
        file(bytes),
        budget(cache_bytes),
        cache(&budget) {
    for (size_t i = 0; i < bytes->size(); ++i)
      (*bytes)[i] = static_cast<uint8_t>(i * 7);
  }
  bool right(const FetchedBodies& f, const SegmentRef& s, uint64_t begin,
             uint64_t end) {
    const SegmentBody body = f.body(s);
    return body.data != nullptr &&
           std::memcmp(body.data + begin, bytes->data() + s.offset + begin,
                       end - begin) == 0;
  }

  Bytes bytes;
  CountingFile file;
  CacheBudget budget;
  RangeCache cache;
  ReadStats stats;
  BytesDecoder decoder;
};

const SegmentRef kFirst{64, 1000, {}};
const SegmentRef kSecond{1088, 2000, {}};

TEST(FetchedBodies, CloseRangesAreOneRead) {
  Setup s;
  s.file.gap = 100;
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(kSecond, s.decoder, 0, 10);  // any order
  f.want(kFirst, s.decoder, 900, 1000);
  f.want(kFirst, s.decoder, 100, 110);
  f.want(kFirst, s.decoder, 105, 120);
  CHECK(f.fetch());
  CHECK_EQ(s.file.reads.load(), 2);
  CHECK_EQ(s.file.rounds.load(), 1);
  CHECK_EQ(s.file.read_bytes.load(), 20 + (1098 - 964));
  CHECK(s.right(f, kFirst, 100, 120));
  CHECK(s.right(f, kFirst, 900, 1000));
  CHECK(s.right(f, kSecond, 0, 10));
  CHECK_EQ(s.stats.data_reads.load(), 2);
  CHECK_EQ(s.stats.rounds.load(), 1);
  // Nothing new is wanted, so nothing is read.
  CHECK(f.fetch());
  CHECK_EQ(s.file.rounds.load(), 1);
}

TEST(FetchedBodies, CountingReadsNothingAndForgetsNothing) {
  Setup s;
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(kFirst, s.decoder, 100, 110);
  f.want(kSecond, s.decoder, 0, 10);
  for (int again = 0; again < 2; ++again) {
    uint64_t reads = 0, bytes = 0;
    f.count(&reads, &bytes);
    CHECK_EQ(reads, 2);
    CHECK_EQ(bytes, 20);
  }
  CHECK_EQ(s.file.reads.load(), 0);
  CHECK(f.fetch());
  CHECK_EQ(s.file.reads.load(), 2);
  CHECK(s.right(f, kFirst, 100, 110));
  CHECK(s.right(f, kSecond, 0, 10));
}

TEST(FetchedBodies, NothingIsWantedTwiceHoweverItWasPieced) {
  Setup s(0);  // a cache would hide it
  s.file.gap = 0;
  FetchedBodies f(s.file, &s.cache, &s.stats);
  // Adjacent ranges, in any order, with a gap at [300, 310).
  for (uint32_t i = 0; i < 30; ++i) {
    const uint32_t at = i * 7 % 30 * 10;
    f.want(kFirst, s.decoder, at, at + 10);
  }
  f.want(kFirst, s.decoder, 310, 400);
  CHECK(f.fetch());
  CHECK_EQ(s.file.read_bytes.load(), 390);
  for (const auto& [begin, end] :
       {std::pair{0u, 300u}, {5u, 295u}, {310u, 400u}}) {
    f.want(kFirst, s.decoder, begin, end);
    CHECK(f.fetch());
    CHECK_EQ(s.file.read_bytes.load(), 390);
  }
  f.want(kFirst, s.decoder, 295, 315);
  CHECK(f.fetch());
  CHECK_EQ(s.file.read_bytes.load(), 410);
  f.want(kFirst, s.decoder, 0, 400);
  CHECK(f.fetch());
  CHECK_EQ(s.file.read_bytes.load(), 410);
  CHECK(s.right(f, kFirst, 0, 400));
}

TEST(FetchedBodies, TheCacheAnswersTheNextOne) {
  Setup s;
  for (int round = 0; round < 3; ++round) {
    FetchedBodies f(s.file, &s.cache, &s.stats);
    f.want(kFirst, s.decoder, 10, 500);
    CHECK(f.fetch());
    f.want(kFirst, s.decoder, 100, 200);
    CHECK(f.fetch());
    CHECK(s.right(f, kFirst, 10, 500));
    CHECK_EQ(s.file.reads.load(), 1);
  }
  Setup without(0);
  for (int round = 1; round < 4; ++round) {
    FetchedBodies f(without.file, &without.cache, &without.stats);
    f.want(kFirst, without.decoder, 10, 500);
    CHECK(f.fetch());
    CHECK(without.right(f, kFirst, 10, 500));
    CHECK_EQ(without.file.reads.load(), round);
  }
}

TEST(FetchedBodies, NothingWantedIsNoRound) {
  Setup s;
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(kFirst, s.decoder, 5, 5);
  CHECK(f.fetch());
  CHECK_EQ(s.file.rounds.load(), 0);
}

TEST(FetchedBodies, CountsWithoutReading) {
  Setup s;
  s.file.gap = 0;
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(kFirst, s.decoder, 0, 10);
  f.want(kFirst, s.decoder, 10, 20);  // touches: one read
  f.want(kFirst, s.decoder, 21, 30);
  uint64_t reads = 0, bytes = 0;
  f.count(&reads, &bytes);
  CHECK_EQ(reads, 2);
  CHECK_EQ(bytes, 29);
  CHECK_EQ(s.file.reads.load(), 0);
}

TEST(FetchedBodies, AnyRangesAreRight) {
  Rng rng(32);
  Setup s(3000);
  for (int round = 0; round < 300; ++round) {
    s.file.gap = rng() % 200;
    FetchedBodies f(s.file, &s.cache, &s.stats);
    std::vector<std::pair<SegmentRef, ByteRange>> wanted;
    for (int i = 0; i < 8; ++i) {
      const SegmentRef& segment = rng() % 2 == 0 ? kFirst : kSecond;
      const uint64_t begin = rng() % segment.size;
      const uint64_t end =
          begin + 1 + rng() % std::min<uint64_t>(200, segment.size - begin);
      wanted.push_back({segment, {begin, end}});
      f.want(segment, s.decoder, static_cast<uint32_t>(begin),
             static_cast<uint32_t>(end));
      if (i % 3 == 2) CHECK(f.fetch());
    }
    CHECK(f.fetch());
    for (const auto& [segment, range] : wanted) {
      CHECK(s.right(f, segment, range.begin, range.end));
    }
  }
}

// A hostile group may have two segments at the same offset.
TEST(FetchedBodies, SegmentsOfOneOffsetDoNotShareMemory) {
  Setup s;
  const SegmentRef small{64, 8, {}}, large{64, 5000, {}};
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(small, s.decoder, 0, 8);
  f.want(large, s.decoder, 0, 5000);
  CHECK(f.fetch());
  CHECK(s.right(f, small, 0, 8));
  CHECK(s.right(f, large, 0, 5000));
}

TEST(FetchedBodies, FailuresAreReported) {
  Setup s;
  const SegmentRef outside{9990, 100, {}};
  FetchedBodies f(s.file, &s.cache, &s.stats);
  f.want(outside, s.decoder, 0, 100);
  CHECK(!f.fetch());
}

}  // namespace
}  // namespace nimble
