// How encode_values() chooses an encoding, for every kind of value:
//
//   1. Trivial cases are settled first: all values equal, or nothing to gain.
//   2. A sample gives every other encoding an estimated size. Encodings that
//      make a random row more expensive must save more.
//   3. Candidates are tried in order of estimated size. This stops when no
//      remaining estimate is below the best actual size. A candidate that turns
//      out larger than the safe encoding is dropped.
//
// Deterministic: the same values and context give the same bytes.
#pragma once

#include <functional>
#include <vector>

#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Choose an encoding by kind of value and append to `out`. Strings: see
// bytes_selection.h.
// REQUIRES: `values` are not all equal.
Status select_ints(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out);
Status select_floats(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out);
Status select_fixed(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);
Status select_bools(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);

// Candidate encodings with estimated sizes. encode() writes the smallest one.
// Not thread-safe.
class Candidates {
 public:
  // `bytes` is the size of the encoding that always works. A candidate must be
  // smaller.
  Candidates(double bytes, const EncodeContext& context)
      : limit_(bytes), dictionary_(context.dictionary) {}

  // Appends to the builder. Returns false if the encoding does not apply or
  // does not pay; the caller then undoes what was written.
  using Try = std::function<Result<bool>(SegmentBuilder*)>;
  // Adds a candidate if its estimate `bytes` is below `share` of the limit.
  void add(double bytes, double share, Try attempt);
  double limit() const { return limit_; }
  // The smallest estimate, or the limit if there are no candidates.
  double least() const;

  // Writes the smallest candidate. Returns false if no candidate is below the
  // limit. The builder and the shared dictionary are then unchanged.
  Result<bool> encode(SegmentBuilder* out);

 private:
  struct Candidate {
    double bytes;
    Try attempt;
  };
  double limit_;
  StreamDictionary* dictionary_;  // candidates may add to it; null: no
  std::vector<Candidate> candidates_;
};

struct ValueSample;
// Adds the candidates that depend on equality alone: present, sparse, run
// length, dictionary. `value_bits` is the size of one stored value.
void add_repetition(const Values& values, const EncodeContext& context,
                    const ValueSample& sample, double value_bits,
                    Candidates* candidates);

// Writes the best candidate, or calls `fallback` without one. Replaces it by
// zstd if the context allows that, or if nothing else saves space.
// REQUIRES: values have a fixed width.
Status encode_best(const Values& values, const EncodeContext& context,
                   Candidates* candidates,
                   const std::function<Status(SegmentBuilder*)>& fallback,
                   SegmentBuilder* out);

inline double fixed_bytes(const Values& values) {
  return static_cast<double>(values.size) * values.type.width;
}

}  // namespace nimble
