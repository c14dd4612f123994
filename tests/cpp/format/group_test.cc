// A group's metadata: a round trip, every check, and hostile bytes.
#include "nimble/format/group.h"

#include <functional>

#include "nimble/format/constants.h"
#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::make_field;
using nimble::testing::Rng;
using nimble::testing::struct_of;

constexpr uint64_t kLimit = 1 << 20;
constexpr uint64_t kSegment = 131072;
constexpr uint64_t kRows = kSegment + 5;

struct Parts {
  std::vector<StripeMeta> stripes;
  ChunkDirectoryMeta chunks;
  bool has_chunks = true;

  std::vector<uint8_t> serialize() const {
    return serialize_group(stripes, has_chunks ? &chunks : nullptr);
  }
};

const Field& schema() {
  // Streams: validity of the root, validity and values of an int64.
  static const Field root = struct_of({make_field("l")});
  return root;
}

Parts parts() {
  Parts p;
  StripeMeta first;
  first.rows = 5;
  first.values = {0, 5, 5};
  first.segment_offsets = {64, 128};
  first.segment_sizes = {8, 40};
  first.head_ends = {2, 3};
  first.heads = {10, 11, 12};
  StripeMeta second;
  second.rows = kSegment;  // two segments of values? No: exactly one
  second.values = {0, 0, kSegment};
  second.segment_offsets = {192};
  second.segment_sizes = {kLimit - 192};
  second.head_ends = {0};
  p.stripes = {first, second};
  p.chunks.chunk_end_rows = {3, 1000, kRows};
  p.chunks.chunk_ends = {10, 10, 30};
  p.chunks.key_stream_offset = kLimit - 30;
  p.chunks.key_bytes = {1, 2, 3};
  p.chunks.key_ends = {1, 1, 3};
  return p;
}

Result<GroupView> open(ByteSpan bytes, uint64_t first_row = 100) {
  static const StreamPlan plan(schema());
  return GroupView::open(bytes, plan, first_row, kRows, kLimit);
}

// Accesses everything that the view offers.
uint64_t walk(const GroupView& view) {
  uint64_t sum = view.memory_bytes();
  for (const StripeView& s : view.stripes()) {
    for (uint32_t i = 0; i < s.segment_offsets.size(); ++i) {
      const SegmentRef ref = s.segment(i);
      sum += ref.offset + ref.size;
      for (const uint8_t b : ref.head) sum += b;
    }
  }
  const ChunkDirectoryRef& c = view.chunks();
  for (size_t i = 0; i < c.key_ends.size(); ++i) {
    sum += c.chunk_end_rows[i] + c.chunk_ends[i];
    for (uint32_t k = i == 0 ? 0 : c.key_ends[i - 1]; k < c.key_ends[i]; ++k)
      sum += c.key_bytes[k];
  }
  return sum;
}

TEST(Group, RoundTrip) {
  const std::vector<uint8_t> bytes = parts().serialize();
  const auto view = open(bytes);
  REQUIRE(view.has_value());
  REQUIRE(view->stripes().size() == 2);
  CHECK_EQ(view->num_segments(), 3);
  const StripeView& first = view->stripes()[0];
  const StripeView& second = view->stripes()[1];
  CHECK_EQ(first.first_row, 100);
  CHECK_EQ(second.first_row, 105);
  CHECK_EQ(second.segment_base, 2);
  CHECK(first.first_segment == std::vector<uint32_t>({0, 0, 1}));
  CHECK_EQ(first.segment(1).offset, 128);
  CHECK_EQ(first.segment(1).size, 40);
  CHECK_EQ(first.segment(0).head.size(), 2);
  CHECK_EQ(first.segment(1).head[0], 12);
  CHECK(second.segment(0).head.empty());
  CHECK(view->has_chunks());
  CHECK_EQ(view->chunks().key_stream_offset, kLimit - 30);
  CHECK_EQ(view->chunks().chunk_end_rows[1], 1000);
  for (const uint64_t row : {100, 104}) CHECK(&view->stripe_of(row) == &first);
  for (const uint64_t row : {uint64_t{105}, 99 + kRows}) {
    CHECK(&view->stripe_of(row) == &second);
  }
}

TEST(Group, AnyAlignmentOfTheBytes) {
  const std::vector<uint8_t> bytes = parts().serialize();
  const uint64_t sum = walk(*open(bytes)) - open(bytes)->memory_bytes();
  for (size_t shift = 0; shift < 9; ++shift) {
    std::vector<uint8_t> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    auto view = open(ByteSpan(moved).subspan(shift));
    REQUIRE(view.has_value());
    const GroupView elsewhere = std::move(*view);
    CHECK_EQ(walk(elsewhere) - elsewhere.memory_bytes(), sum);
  }
}

TEST(Group, ContradictionsAreRefused) {
  using Change = std::function<void(Parts*)>;
  const Change changes[] = {
      [](Parts* p) { p->stripes.clear(); },
      [](Parts* p) { p->stripes.pop_back(); },
      [](Parts* p) { p->stripes[0].rows = 0; },
      [](Parts* p) { p->stripes[0].rows = 6; },
      [](Parts* p) { p->stripes[0].rows = kMaxStripeRows; },
      [](Parts* p) { p->stripes[0].rows = UINT64_MAX; },
      [](Parts* p) { p->stripes[0].values.pop_back(); },
      [](Parts* p) { p->stripes[0].values.push_back(0); },
      [](Parts* p) { p->stripes[0].values[0] = 1; },
      [](Parts* p) { p->stripes[0].values[1] = 0; },
      [](Parts* p) { p->stripes[1].values[2] = kSegment + 1; },
      [](Parts* p) { p->stripes[1].values[2] = UINT64_MAX; },
      [](Parts* p) {
        p->stripes[1].values = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
      },
      [](Parts* p) { p->stripes[0].segment_offsets.pop_back(); },
      [](Parts* p) { p->stripes[0].segment_sizes.pop_back(); },
      [](Parts* p) { p->stripes[0].segment_sizes.push_back(1); },
      [](Parts* p) { p->stripes[0].head_ends.pop_back(); },
      [](Parts* p) { p->stripes[0].head_ends = {3, 2}; },
      [](Parts* p) { p->stripes[0].head_ends = {2, 4}; },
      [](Parts* p) { p->stripes[0].heads.clear(); },
      [](Parts* p) { p->stripes[1].segment_sizes[0] += 1; },
      [](Parts* p) { p->stripes[1].segment_offsets[0] = UINT64_MAX; },
      [](Parts* p) { p->chunks = {}; },
      [](Parts* p) { p->chunks.chunk_end_rows.pop_back(); },
      [](Parts* p) { p->chunks.chunk_ends.pop_back(); },
      [](Parts* p) { p->chunks.key_ends.pop_back(); },
      [](Parts* p) { p->chunks.key_ends = {1, 0, 3}; },
      [](Parts* p) { p->chunks.key_ends = {1, 1, 4}; },
      [](Parts* p) { p->chunks.chunk_ends = {10, 9, 30}; },
      [](Parts* p) { p->chunks.chunk_ends[2] = 31; },
      [](Parts* p) { p->chunks.key_stream_offset = UINT64_MAX; },
      [](Parts* p) { p->chunks.chunk_end_rows = {0, 1000, kRows}; },
      [](Parts* p) { p->chunks.chunk_end_rows = {1000, 1000, kRows}; },
      [](Parts* p) { p->chunks.chunk_end_rows = {3, 1000, kRows + 1}; },
      [](Parts* p) { p->chunks.chunk_end_rows = {3, 1000, kRows - 1}; },
      [](Parts* p) {
        p->chunks.chunk_end_rows = {3, 3 + kMaxStripeRows, kRows};
      },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    Parts p = parts();
    changes[i](&p);
    const auto view = open(p.serialize());
    if (view.has_value())
      nimble::testing::fail(__FILE__, __LINE__, "change " + std::to_string(i));
  }
  Parts without = parts();
  without.has_chunks = false;
  const auto view = open(without.serialize());
  REQUIRE(view.has_value());
  CHECK(!view->has_chunks());
}

// Any outcome but undefined behaviour will do (run under sanitizers).
TEST(Group, HostileBytes) {
  const std::vector<uint8_t> bytes = parts().serialize();
  Rng rng(7);
  size_t refused = 0, accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> wrong = bytes;
    for (uint64_t n = 1 + rng() % 2; n > 0; --n) {
      uint8_t& b = wrong[rng() % wrong.size()];
      const uint8_t values[] = {0,
                                1,
                                4,
                                0x7f,
                                0x80,
                                0xff,
                                static_cast<uint8_t>(b ^ 4),
                                static_cast<uint8_t>(b + 4),
                                static_cast<uint8_t>(b - 4)};
      b = values[rng() % std::size(values)];
    }
    const auto view = open(wrong);
    if (!view) {
      ++refused;
      continue;
    }
    ++accepted;
    CHECK(walk(*view) > 0);
    for (uint64_t row = 100; row < 100 + kRows; row += 1000) {
      const StripeView& s = view->stripe_of(row);
      CHECK(row >= s.first_row && row < s.first_row + s.rows);
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 100);
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto view = open(ByteSpan(bytes).first(n));
    if (view) CHECK(walk(*view) > 0);
  }
}

}  // namespace
}  // namespace nimble
