// How encode_values() chooses. For every kind of value:
//
//   1. what one look settles: all values the same, nothing to gain
//   2. a sample gives every other encoding an estimate of its size, taxed
//      where a random row becomes dearer
//   3. candidates are tried, smallest estimate first, until none of the rest
//      promises less than the best that came out; one that turns out larger
//      than what is known to work does not count
//
// The same values and context give the same bytes: no clocks, no randomness.
#pragma once

#include <functional>
#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Nested deeper than this, values are bit-packed, plain or constant.
inline constexpr int kMaxSelectionDepth = 4;
// Fewer values than this are not worth a second thought.
inline constexpr uint32_t kMinSelectionValues = 64;
// Of a segment's dictionary as it is stored: a cold lookup reads it whole. A
// compact one may read more.
inline constexpr uint64_t kMaxBalancedDictionaryBytes = 256u << 10;
inline constexpr uint64_t kMaxDictionaryBytes = 1u << 20;

// The choosers, each for its kind (strings: bytes_selection.h). `values` are
// not all the same.
Status select_ints(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out);
Status select_floats(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out);
Status select_fixed(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);
Status select_bools(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);

// Candidates with estimated sizes; the smallest that holds what it promises.
class Candidates {
 public:
  // `bytes` is what the encoding without risk takes; a candidate must come
  // out below it.
  Candidates(double bytes, const EncodeContext& context)
      : limit_(bytes), dictionary_(context.dictionary) {}

  // Appends to the builder; false where it did not work out (what it wrote
  // is undone).
  using Try = std::function<Result<bool>(SegmentBuilder*)>;
  // Only estimates below `share` of the limit are kept.
  void add(double bytes, double share, Try attempt);
  double limit() const { return limit_; }
  // The smallest estimate, the limit where there is none.
  double least() const;

  // Writes the smallest. False where none came out below the limit; the builder
  // is then as before, and so is what the stream shares.
  Result<bool> encode(SegmentBuilder* out);

 private:
  struct Candidate {
    double bytes;
    Try attempt;
  };
  double limit_;
  StreamDictionary* dictionary_;  // to which they may add; null: to none
  std::vector<Candidate> candidates_;
};

struct ValueSample;
// Candidates that depend on equality alone: sparse, run length, dictionary.
// `value_bits` is what a value takes where it must be stored.
void add_repetition(const Values& values, const EncodeContext& context,
                    const ValueSample& sample, double value_bits,
                    Candidates* candidates);

// The best candidate, else what `fallback` writes, else zstd where the context
// or a hopeless case allows it. Fixed widths.
Status encode_best(const Values& values, const EncodeContext& context,
                   Candidates* candidates,
                   const std::function<Status(SegmentBuilder*)>& fallback,
                   SegmentBuilder* out);

inline double fixed_bytes(const Values& values) {
  return static_cast<double>(values.size) * values.type.width;
}

}  // namespace nimble
