// Scheme: one way to encode values, with the rule that decides for or against
// it. encode_values.cc has a table of schemes for each kind of value and the
// only loop over them. constants.h has the figures.
//
//   1. Trivial cases are settled at once, such as equal values.
//   2. The safe scheme always works. Its size is the limit for the others.
//   3. A sample gives every other scheme an estimated size. Encodings that make
//      a random row more expensive must save more.
//   4. Fixed widths: candidates are encoded in order of estimated size, until
//      no remaining estimate is below the best actual size. Text: only the
//      smallest estimate is encoded, because encoding text is expensive.
//      A candidate that turns out larger than the limit is dropped.
//
// Deterministic: the same values and context give the same bytes.
#pragma once

#include <memory>
#include <vector>

#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/dictionaries/distinct_values.h"
#include "nimble/encoding/floats/alp.h"
#include "nimble/encoding/symbols/fsst_table.h"
#include "nimble/encoding/symbols/phrase_table.h"

namespace nimble {

struct Analysis;

enum class Stage : uint8_t {
  kAtOnce,     // encode() decides: if it returns true, nothing else is tried
  kSafe,       // the first one with an estimate is what others must beat
  kEstimated,  // compared by estimated size, then by actual size
  kLast,       // replaces the encoding written before, if encode() returns true
};

struct Scheme {
  EncodingId id;
  Stage stage = Stage::kEstimated;
  // The estimate must be below this share of the safe scheme's size.
  double share = 1;
  // Whether the scheme can be used for these values; null: always.
  bool (*applies)(const Analysis&) = nullptr;
  // Estimated size in bytes, or kNever. Keeps in the analysis what encode()
  // needs. Null for schemes that are decided at once.
  double (*estimate)(Analysis*) = nullptr;
  // Appends to the builder. Returns false if the encoding does not apply or
  // does not pay. The caller then undoes what was written.
  Result<bool> (*encode)(Analysis*, SegmentBuilder*) = nullptr;
};

// What the schemes know about strings.
struct TextAnalysis {
  uint64_t total = 0;  // bytes of all strings
  uint64_t shortest = UINT64_MAX, longest = 0;
  uint64_t empty = 0;  // number of empty rows
  uint64_t plain = 0;  // size as plain_bytes

  // Counts among the sampled rows.
  uint32_t sampled = 0;
  uint32_t sampled_empty = 0;
  uint32_t repeated = 0;  // rows equal to another sampled row
  uint32_t adjacent = 0;  // rows equal to the row before

  std::vector<uint32_t> run_ends;
  // The shared dictionary has most of the strings that are not empty.
  bool is_in_shared_dictionary = false;
  DistinctValues distinct;  // empty if not collected
  uint64_t distinct_bytes = 0;
  uint64_t dictionary_bytes = 0;  // stored size of the distinct strings
  double shared_dictionary_bytes = kNever;
  // Size of a new shared dictionary: the part that this segment pays for, and
  // the size if no other segment uses it.
  double new_dictionary_bytes = kNever, lone_dictionary_bytes = 0;

  // True if the symbol encodings and zstd are still worth trying.
  bool may_compress = false;
  FsstTable table;
  double fsst_bytes = 0;
  // Estimated size with the phrases that the stream already has.
  double known_phrases_bytes = kNever;
  std::vector<Phrase> phrases;
  double phrases_share = 0;  // of new shared phrases
  std::vector<uint8_t> zstd_dictionary;

  // True if a new shared dictionary would take less than `bytes`, and would not
  // make a file of one stripe much larger.
  bool is_better_as_new_dictionary(double bytes) const {
    return new_dictionary_bytes < bytes &&
           lone_dictionary_bytes < bytes * kMaxGrowth;
  }
};

// What the schemes know about the values. Borrows the values and the context.
// Not thread-safe.
struct Analysis {
  Analysis(const Values& all_values, const EncodeContext& encode_context);

  bool is_text() const { return values.type.kind == ValueKind::kBytes; }
  bool is_compact() const { return context.effort == Effort::kCompact; }
  bool is_balanced() const { return context.effort == Effort::kBalanced; }
  // Whether children may be strings with an encoding of their own.
  bool may_nest_text() const { return context.depth < kMaxNestingDepth; }
  bool is_below(double share, double bytes) const {
    return bytes < safe_bytes * share;
  }

  const Values& values;
  const EncodeContext& context;
  double safe_bytes = 0;
  double best_bytes = 0;         // the smallest estimate so far
  const Scheme* best = nullptr;  // its scheme

  // For values of fixed width.
  double plain_bytes = 0;
  double value_bits = 0;       // one stored value
  ValueSample sample;          // taken after the safe scheme
  double run_bytes = 0;        // of one run
  std::vector<MinMax> blocks;  // integers: of each block
  MinMax all;                  // of all values
  double packed_bytes = 0;
  uint32_t patched_width = 0;
  std::vector<int64_t> differences;  // sampled, run after run
  double delta_bytes = 0;
  uint32_t split_low_bits = 0;
  AlpExponents alp;
  // A large shared dictionary must take at most this share of the safe scheme.
  double large_shared_share = kLargeSharedShare;

  // Strings; null for other values.
  std::unique_ptr<TextAnalysis> text;
};

struct Candidate {
  double bytes;  // estimated
  const Scheme* scheme;
};
// Encodes the smallest candidate. Returns false if none of them is smaller than
// analysis->safe_bytes. The builder and the shared dictionary are then
// unchanged.
Result<bool> encode_smallest(std::vector<Candidate> candidates,
                             Analysis* analysis, SegmentBuilder* out);

// Estimated size with FSST per byte of text, from a sample.
double fsst_share(const Values& strings);

// Converts an encoder's Status to a result of Scheme::encode: true, or the
// error.
inline Result<bool> written(Status status) {
  if (!status.is_ok()) return status;
  return true;
}
// Scheme::encode of an encoder that needs only the values and the context.
template <auto Encoder>
Result<bool> encode_by(Analysis* a, SegmentBuilder* out) {
  if constexpr (requires { Encoder(a->values, out); }) {
    return written(Encoder(a->values, out));
  } else {
    return written(Encoder(a->values, a->context, out));
  }
}

// Every scheme; grouped by the file that defines it.
namespace scheme {
// repetition.cc
extern const Scheme kConstant, kPresent, kSparse, kRunLength, kDictionary;
extern const Scheme kZstdBlocks;
// integers.cc
extern const Scheme kEvenDelta, kBitPacked, kPlain, kEven, kScaled, kDelta;
extern const Scheme kDifferences, kPatched, kSplitInt;
// floats.cc
extern const Scheme kAlp, kFloatBits, kSplitFloat;
// fixed.cc: booleans and wide values
extern const Scheme kBitmap, kSparseBits, kRunsOfBools, kNarrow;
// text.cc: repetition and structure of strings
extern const Scheme kPlainBytes, kPresentText, kRunsOfText,
    kSharedTextDictionary, kTextDictionary, kNewTextDictionary, kTemplate,
    kNumberedText;
// text_symbols.cc: compression of strings
extern const Scheme kKnownPhrases, kFsst, kSharedPhrases, kPhrases, kFrontCoded,
    kZstdStrings, kPhrasesForZstd;
}  // namespace scheme

}  // namespace nimble
