// The choice of an encoding: the schemes of each kind of value, and the loop
// over them.
#include <algorithm>
#include <span>

#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"

namespace nimble {
namespace {

// In the order in which they are considered. The schemes before the safe ones
// are also used for Effort::kFast, for few values and for deeply nested values.
constexpr const Scheme* kInts[] = {
    &scheme::kConstant, &scheme::kEvenDelta, &scheme::kBitPacked,
    &scheme::kPlain,    &scheme::kEven,      &scheme::kPresent,
    &scheme::kSparse,   &scheme::kRunLength, &scheme::kDictionary,
    &scheme::kScaled,   &scheme::kDelta,     &scheme::kDifferences,
    &scheme::kPatched,  &scheme::kSplitInt,  &scheme::kZstdBlocks,
};
constexpr const Scheme* kFloats[] = {
    &scheme::kConstant,   &scheme::kPlain,     &scheme::kAlp,
    &scheme::kPresent,    &scheme::kSparse,    &scheme::kRunLength,
    &scheme::kDictionary, &scheme::kFloatBits, &scheme::kSplitFloat,
    &scheme::kZstdBlocks,
};
constexpr const Scheme* kFixed[] = {
    &scheme::kConstant,   &scheme::kNarrow,     &scheme::kPlain,
    &scheme::kPresent,    &scheme::kSparse,     &scheme::kRunLength,
    &scheme::kDictionary, &scheme::kZstdBlocks,
};
constexpr const Scheme* kBools[] = {
    &scheme::kConstant,
    &scheme::kBitmap,
    &scheme::kSparseBits,
    &scheme::kRunsOfBools,
};
constexpr const Scheme* kText[] = {
    &scheme::kConstant,
    &scheme::kPlainBytes,
    &scheme::kPresentText,
    &scheme::kRunsOfText,
    &scheme::kSharedTextDictionary,
    &scheme::kTextDictionary,
    &scheme::kTemplate,
    &scheme::kKnownPhrases,
    &scheme::kFsst,
    &scheme::kSharedPhrases,
    &scheme::kPhrases,
    &scheme::kFrontCoded,
    &scheme::kZstdStrings,
    &scheme::kPhrasesForZstd,
    &scheme::kNewTextDictionary,
    &scheme::kNumberedText,
};

std::span<const Scheme* const> schemes_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kBool:
      return kBools;
    case ValueKind::kInt:
      return kInts;
    case ValueKind::kFloat:
      return kFloats;
    case ValueKind::kFixed:
      return kFixed;
    case ValueKind::kBytes:
      return kText;
  }
  return {};
}

// Whether the safe scheme is used without trying others.
bool is_safe_enough(const Values& values, const EncodeContext& context) {
  const ValueKind kind = values.type.kind;
  if (kind == ValueKind::kBytes) return values.size == 0;
  return context.effort == Effort::kFast || context.random_access_only ||
         values.size < kMinSelectionValues ||
         (kind != ValueKind::kBool && context.depth >= kMaxSelectionDepth) ||
         (kind == ValueKind::kFixed && values.type.width > kMaxNestedWidth);
}

bool has_sample(ValueKind kind) {
  return kind != ValueKind::kBytes && kind != ValueKind::kBool;
}

// The size of a shared dictionary before an attempt to encode values. It can
// remove the values that the attempt added. Borrows the dictionary, which may
// be null.
class DictionaryCheckpoint {
 public:
  explicit DictionaryCheckpoint(StreamDictionary* dictionary)
      : dictionary_(dictionary),
        size_(dictionary == nullptr ? 0 : dictionary->size()) {}

  bool has_new_values() const {
    return dictionary_ != nullptr && dictionary_->size() > size_;
  }
  void roll_back() const {
    if (has_new_values()) dictionary_->drop_from(size_);
  }

 private:
  StreamDictionary* dictionary_;
  uint32_t size_;
};

// Tries the scheme `last`. If it pays, it replaces the encoding that was
// already written.
Status replace(const Scheme& last, const Checkpoint& before,
               const DictionaryCheckpoint& dictionary, Analysis* analysis,
               SegmentBuilder* out) {
  analysis->best_bytes = before.cost(*out);
  if (last.estimate(analysis) == kNever) return Status::ok();
  Checkpoint saved = before;
  saved.save(*out);
  saved.roll_back(out);
  NIMBLE_ASSIGN_OR_RETURN(const bool is_better, last.encode(analysis, out));
  if (is_better) {
    dictionary.roll_back();
    return Status::ok();
  }
  saved.roll_back(out);
  saved.restore(out);
  return Status::ok();
}

}  // namespace

Result<bool> encode_smallest(std::vector<Candidate> candidates,
                             Analysis* analysis, SegmentBuilder* out) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
  Checkpoint checkpoint(*out);
  const DictionaryCheckpoint dictionary(analysis->context.dictionary);
  const Candidate* best = nullptr;
  bool best_adds = false;
  double least = analysis->safe_bytes;
  if (analysis->is_text()) least += kMaxHeadBytes + 1;
  for (const Candidate& candidate : candidates) {
    if (least <= candidate.bytes) break;  // no other estimate is smaller
    // Every candidate starts with the same dictionary.
    dictionary.roll_back();
    NIMBLE_ASSIGN_OR_RETURN(const bool done,
                            candidate.scheme->encode(analysis, out));
    if (done && checkpoint.cost(*out) < least) {
      least = checkpoint.cost(*out);
      best = &candidate;
      const Candidate* next = best + 1;
      if (next == candidates.data() + candidates.size() ||
          least <= next->bytes) {
        return true;
      }
      best_adds = dictionary.has_new_values();
      checkpoint.save(*out);
    }
    checkpoint.roll_back(out);
  }
  dictionary.roll_back();
  if (best == nullptr) return false;
  if (best_adds) return best->scheme->encode(analysis, out);
  checkpoint.restore(out);
  return true;
}

Status encode_values(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out) {
  Analysis analysis(values, context);
  const Checkpoint checkpoint(*out);
  const DictionaryCheckpoint dictionary(context.dictionary);
  const Scheme* safe = nullptr;
  const Scheme* last = nullptr;
  std::vector<Candidate> candidates;
  for (const Scheme* scheme : schemes_of(values.type.kind)) {
    if (scheme->applies != nullptr && !scheme->applies(analysis)) continue;
    if (scheme->stage == Stage::kAtOnce) {
      NIMBLE_ASSIGN_OR_RETURN(const bool done, scheme->encode(&analysis, out));
      if (done) return Status::ok();
      continue;
    }
    if (scheme->stage == Stage::kLast) {
      last = scheme;
      continue;
    }
    if (scheme->stage == Stage::kSafe && safe != nullptr) continue;
    const double bytes = scheme->estimate(&analysis);
    if (bytes == kNever) continue;
    if (scheme->stage == Stage::kSafe) {
      safe = scheme;
      analysis.safe_bytes = analysis.best_bytes = bytes;
      if (is_safe_enough(values, context)) break;
      if (has_sample(values.type.kind)) {
        analysis.sample = take_sample(values);
      }
      continue;
    }
    if (!analysis.is_below(scheme->share, bytes)) continue;
    const bool is_best = bytes < analysis.best_bytes;
    if (is_best) {
      analysis.best_bytes = bytes;
      analysis.best = scheme;
    }
    if (analysis.is_text()) {
      if (!is_best) continue;
      candidates.clear();
    }
    candidates.push_back({bytes, scheme});
  }
  Result<bool> done = encode_smallest(std::move(candidates), &analysis, out);
  if (done && !*done) done = safe->encode(&analysis, out);
  if (!done) return std::move(done).error();
  if (last == nullptr) return Status::ok();
  return replace(*last, checkpoint, dictionary, &analysis, out);
}

}  // namespace nimble
