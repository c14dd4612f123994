#include "nimble/encoding/choose/selection.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/bools/sparse_bits.h"
#include "nimble/encoding/choose/bytes_selection.h"
#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/narrow.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/ints/sparse.h"
#include "nimble/encoding/zstd/zstd_blocks.h"

namespace nimble {

Status encode_values(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out) {
  // Strings check for repetition themselves.
  if (values.type.kind == ValueKind::kBytes) {
    return encode_bytes(values, context, out);
  }
  if (is_constant(values)) return encode_constant(values, out);
  switch (values.type.kind) {
    case ValueKind::kBool:
      return select_bools(values, context, out);
    case ValueKind::kInt:
      return select_ints(values, context, out);
    case ValueKind::kFloat:
      return select_floats(values, context, out);
    case ValueKind::kFixed:
      return select_fixed(values, context, out);
    case ValueKind::kBytes:
      break;
  }
  return Status::invalid_argument("values of an unknown kind");
}

// ----------------------------------------------------------------- candidates

void Candidates::add(double bytes, double share, Try attempt) {
  if (bytes < limit_ * share)
    candidates_.push_back({bytes, std::move(attempt)});
}

double Candidates::least() const {
  double least = limit_;
  for (const Candidate& c : candidates_) least = std::min(least, c.bytes);
  return least;
}

namespace {

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

}  // namespace

Result<bool> Candidates::encode(SegmentBuilder* out) {
  std::stable_sort(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
  Checkpoint checkpoint(*out);
  const DictionaryCheckpoint dictionary_checkpoint(dictionary_);
  const Candidate* best = nullptr;
  const Candidate* last = nullptr;
  bool best_adds = false;
  double least = limit_;
  for (const Candidate& candidate : candidates_) {
    if (least <= candidate.bytes) break;  // no other estimate is smaller
    // Every candidate starts with the same dictionary.
    dictionary_checkpoint.roll_back();
    last = &candidate;
    NIMBLE_ASSIGN_OR_RETURN(const bool done, candidate.attempt(out));
    if (done && checkpoint.cost(*out) < least) {
      least = checkpoint.cost(*out);
      best = &candidate;
      best_adds = dictionary_checkpoint.has_new_values();
      checkpoint.save(*out);
    }
    checkpoint.roll_back(out);
  }
  if (best == last && best != nullptr) {
    checkpoint.restore(out);
    return true;
  }
  dictionary_checkpoint.roll_back();
  if (best == nullptr) return false;
  if (!best_adds) {
    checkpoint.restore(out);
    return true;
  }
  return best->attempt(out);  // undone by later attempts
}

// ----------------------------------------------------------------- repetition

namespace {

// The shared dictionary that may hold these values, or null.
const StreamDictionary* shared_of(const Values& values,
                                  const EncodeContext& context) {
  const StreamDictionary* shared = context.dictionary;
  return shared != nullptr && !context.random_access_only &&
                 shared->type() == values.type
             ? shared
             : nullptr;
}

// The expected number of distinct values among `rows` rows.
double distinct_of(const ValueSample& sample, uint32_t rows) {
  const double pool = sample.likely_distinct();
  return std::max(1.0, pool * -std::expm1(-sample.runs(rows) / pool));
}

// The share of sampled values that the shared dictionary already has.
double known_share(const Values& values, const ValueSample& sample,
                   const StreamDictionary& dictionary) {
  std::vector<uint8_t> data;
  const Values sampled = sampled_values(values, sample, &data);
  return 1.0 - double{1} * dictionary.find(sampled).missing / sampled.size;
}

// Adds dictionary candidates. A large shared dictionary must take at most
// `large_share` of the limit.
void add_dictionary(const Values& values, const EncodeContext& context,
                    const ValueSample& sample, double value_bits,
                    double large_share, Candidates* candidates) {
  const StreamDictionary* shared = shared_of(values, context);
  const double count = distinct_of(sample, values.size);
  // In compact files, codes are compressed by frequency.
  const bool by_frequency = context.effort == Effort::kCompact;
  const auto bytes_of = [&](double codes, double stored) {
    const double entropy =
        by_frequency && codes <= kMaxByteCodes ? kLikelyEntropy : 1;
    return (values.size * code_bits(codes) * entropy + stored * value_bits) / 8;
  };
  DistinctLimits own;
  own.max_bytes = context.effort == Effort::kBalanced
                      ? kMaxBalancedDictionaryBytes
                      : kMaxDictionaryBytes;
  double bytes = count > own.max_values ? kNever : bytes_of(count, count);
  DistinctLimits limits = own;
  if (shared != nullptr) {
    limits = {StreamDictionary::kMaxValues, StreamDictionary::kMaxBytes};
    if (shared->size() > 0) {
      const double missing = count * (1 - known_share(values, sample, *shared));
      if (missing <= limits.max_values) {
        bytes = std::min(bytes, bytes_of(shared->size() + missing, missing));
      }
    } else if (count <= limits.max_values) {
      const double early = distinct_of(sample, values.size / 2);
      bytes =
          std::min(bytes, bytes_of(count, count * part_of_first(count, early)));
    }
  }
  const bool is_balanced = context.effort == Effort::kBalanced;
  const double limit = candidates->limit();
  const auto attempt = [=](SegmentBuilder* out) -> Result<bool> {
    DistinctValues distinct;
    if (!distinct.collect(values, limits)) return false;
    const double stored = distinct.count() * value_bits / 8;
    const bool is_large =
        is_balanced && double{1} * distinct.count() * values.type.width >
                           kLargeDictionaryBytes;
    const bool may_be_own =
        distinct.count() <= own.max_values &&
        uint64_t{distinct.count()} * values.type.width <= own.max_bytes;
    if (!may_be_own && shared != nullptr && shared->size() == 0 &&
        begun_dictionary_bytes(distinct, stored) >=
            limit * (is_large ? large_share : kRepetitionShare)) {
      return false;  // before sorting for nothing
    }
    distinct.sort(values);
    double own_bytes = kNever;
    if (may_be_own) {
      own_bytes = stored + (by_frequency && distinct.count() <= kMaxByteCodes
                                ? code_entropy(distinct) / 8
                                : values.size / 8.0 *
                                      bit_width_of(distinct.count() - 1));
    }
    if (own_bytes >=
        limit * (is_large ? kLargeDictionaryShare : kRepetitionShare)) {
      own_bytes = kNever;
    }
    double shared_bytes = shared_dictionary_bytes(distinct, stored, context);
    if (shared_bytes >= limit * (is_large ? large_share : kRepetitionShare)) {
      shared_bytes = kNever;
    }
    if (std::min(own_bytes, shared_bytes) == kNever) return false;
    if (shared_bytes > own_bytes) {
      NIMBLE_RETURN_IF_ERROR(encode_dictionary(distinct, context, out));
      return true;
    }
    const bool begins = context.dictionary->size() == 0;
    NIMBLE_RETURN_IF_ERROR(
        encode_shared_dictionary(distinct, context.dictionary, context, out));
    const double codes =
        values.size * code_bits(context.dictionary->size()) / 8;
    // If there are no later segments, this segment pays for the whole
    // dictionary.
    const double least = begins ? (codes + stored) / kMaxGrowth : shared_bytes;
    out->shared_bytes += static_cast<uint64_t>(
        std::max(0.0, std::max(shared_bytes, least) - codes));
    return true;
  };
  candidates->add(bytes, kRepetitionShare, attempt);
}

}  // namespace

namespace {

// Adds the present candidate: one bit per row says whether the row has the most
// frequent value. The remaining values are fewer, and often need fewer bits
// each. If very few values remain, sparse is used instead.
void add_present(const Values& values, const EncodeContext& context,
                 const ValueSample& sample, Candidates* candidates) {
  const double others = sample.exceptions(values.size) / values.size;
  if (!can_be_present(values.type) || others > kMaxPresentOthers ||
      others <= kMaxSparseExceptions || sample.distinct < 3) {
    return;
  }
  double bits = candidates->limit() * 8 / values.size;
  if (sample.distinct * 2 <= sample.size) {
    bits = std::min(bits, std::ceil(std::log2(sample.distinct - 1)));
  }
  const uint8_t* common =
      values.data + uint64_t{sample.top_row} * values.type.width;
  candidates->add(values.size * (kPresenceBits + others * bits) / 8,
                  kPresentShare, [=](SegmentBuilder* out) -> Result<bool> {
                    const uint32_t width = values.type.width;
                    std::vector<uint8_t> other(div_ceil(values.size, 64) * 8);
                    for (uint32_t i = 0; i < values.size; ++i) {
                      const uint8_t* p = values.data + uint64_t{i} * width;
                      if (std::memcmp(p, common, width) != 0)
                        set_bit(other.data(), i);
                    }
                    NIMBLE_RETURN_IF_ERROR(encode_present_values(
                        values, common, other.data(), context, out, nullptr));
                    return true;
                  });
}

// Bits of a run's value: stored as it is, as a code of the shared dictionary if
// that has most values, or as a code of a dictionary of the runs' own.
double run_value_bits(const Values& values, const EncodeContext& context,
                      const ValueSample& sample, double value_bits) {
  const double runs = sample.runs(values.size);
  if (runs * 2 > values.size) return value_bits;  // codes alone are smaller
  const StreamDictionary* shared = shared_of(values, context);
  if (shared != nullptr && known_share(values, sample, *shared) > 0.5) {
    return std::min(value_bits, code_bits(shared->size()));
  }
  const double count = distinct_of(sample, values.size);
  return std::min(value_bits, code_bits(count) + count * value_bits / runs);
}

}  // namespace

void add_repetition(const Values& values, const EncodeContext& context,
                    const ValueSample& sample, double value_bits,
                    Candidates* candidates) {
  const uint32_t n = values.size;
  add_present(values, context, sample, candidates);
  const double exceptions = sample.exceptions(n);
  if (can_be_sparse(values.type) && exceptions <= n * kMaxSparseExceptions) {
    const uint8_t* common =
        values.data + uint64_t{sample.top_row} * values.type.width;
    candidates->add(
        exceptions * (16 + value_bits) / 8 + n / 100.0, kRepetitionShare,
        [=](SegmentBuilder* out) -> Result<bool> {
          NIMBLE_RETURN_IF_ERROR(encode_sparse(values, common, context, out));
          return true;
        });
  }
  if (can_be_run_length(values.type)) {
    const double run_bytes =
        (kRunEndBits + run_value_bits(values, context, sample, value_bits)) / 8;
    const double limit = candidates->limit() * kRepetitionShare;
    candidates->add(
        sample.runs(n) * run_bytes + n / 500.0, kRepetitionShare,
        [=](SegmentBuilder* out) -> Result<bool> {
          const std::vector<uint32_t> ends =
              run_ends(values, static_cast<uint32_t>(limit / run_bytes) + 1);
          if (ends.empty()) return false;
          NIMBLE_RETURN_IF_ERROR(encode_run_length(values, ends, context, out));
          return true;
        });
  }
  add_dictionary(values, context, sample, value_bits, kLargeSharedShare,
                 candidates);
}

// ----------------------------------------------------------------------- zstd

namespace {

double zstd_limit(const EncodeContext& context, double best, double plain) {
  return context.effort == Effort::kCompact ? best * kCompactZstdShare
                                            : plain * kZstdShare;
}

// Whether zstd may and should replace `best` bytes. Judged by a contiguous
// sample of the values.
Result<bool> is_zstd_worth(const Values& values, const EncodeContext& context,
                           double best) {
  const double plain = fixed_bytes(values);
  const bool is_compact = context.effort == Effort::kCompact;
  const bool is_hopeless =
      context.effort == Effort::kBalanced && best > plain * kHopelessShare;
  if ((!is_compact && !is_hopeless) || context.random_access_only ||
      plain < kMinZstdBytes) {
    return false;
  }
  // Nested values use zstd only for one-byte codes, because it exploits their
  // frequencies.
  if (context.depth > 0 && (!is_compact || values.type.width > 1)) return false;
  Values probe = values;
  probe.size = std::min(values.size, kZstdProbeValues);
  probe.data += uint64_t{(values.size - probe.size) / 2} * values.type.width;
  SegmentBuilder trial;
  NIMBLE_RETURN_IF_ERROR(encode_zstd_blocks(probe, context, &trial));
  return static_cast<double>(trial.body.size()) / fixed_bytes(probe) * plain <
         zstd_limit(context, best, plain);
}

}  // namespace

Status encode_best(const Values& values, const EncodeContext& context,
                   Candidates* candidates,
                   const std::function<Status(SegmentBuilder*)>& fallback,
                   SegmentBuilder* out) {
  Checkpoint checkpoint(*out);
  const DictionaryCheckpoint dictionary_checkpoint(context.dictionary);
  NIMBLE_ASSIGN_OR_RETURN(const bool found, candidates->encode(out));
  if (!found) NIMBLE_RETURN_IF_ERROR(fallback(out));
  const double best = checkpoint.cost(*out);
  NIMBLE_ASSIGN_OR_RETURN(const bool worth,
                          is_zstd_worth(values, context, best));
  if (!worth) return Status::ok();
  checkpoint.save(*out);
  checkpoint.roll_back(out);
  NIMBLE_RETURN_IF_ERROR(encode_zstd_blocks(values, context, out));
  if (checkpoint.cost(*out) < zstd_limit(context, best, fixed_bytes(values))) {
    dictionary_checkpoint.roll_back();
    return Status::ok();
  }
  checkpoint.roll_back(out);
  checkpoint.restore(out);
  return Status::ok();
}

// ------------------------------------------------------------- bools and fixed

Status select_bools(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out) {
  const uint64_t ones = count_bits(values.data, 0, values.size);
  const uint64_t rare = std::min(ones, values.size - ones);
  const double bitmap = values.size / 8.0 + 8.0 * num_blocks_of(values.size);
  if (context.random_access_only || context.effort == Effort::kFast ||
      values.size < kMinSelectionValues) {
    return encode_bitmap(values, out);
  }
  Candidates candidates(bitmap, context);
  candidates.add(static_cast<double>(sparse_bits_bytes(values.size, rare)),
                 kRepetitionShare, [&](SegmentBuilder* to) -> Result<bool> {
                   NIMBLE_RETURN_IF_ERROR(encode_sparse_bits(values, to));
                   return true;
                 });
  // Run length needs at least as many runs as sparse bits has positions, so it
  // only pays with long runs.
  constexpr uint32_t kRowsPerRun = 48;
  candidates.add(bitmap / 2, 1, [&](SegmentBuilder* to) -> Result<bool> {
    const auto ends = run_ends(values, values.size / kRowsPerRun);
    if (ends.empty()) return false;
    NIMBLE_RETURN_IF_ERROR(encode_run_length(values, ends, context, to));
    return true;
  });
  NIMBLE_ASSIGN_OR_RETURN(const bool done, candidates.encode(out));
  return done ? Status::ok() : encode_bitmap(values, out);
}

namespace {

// Decimals that fit 8 bytes are encoded as integers, with all integer
// encodings, or as codes of the shared dictionary.
Status select_narrow(const Values& values, const std::vector<uint64_t>& low,
                     const EncodeContext& context, SegmentBuilder* out) {
  if (shared_of(values, context) == nullptr ||
      values.size < kMinSelectionValues || context.effort == Effort::kFast) {
    return encode_narrow(values, low, context, out);
  }
  Checkpoint checkpoint(*out);
  NIMBLE_RETURN_IF_ERROR(encode_narrow(values, low, context, out));
  Candidates candidates(checkpoint.cost(*out), context);
  const auto [least, most] = std::minmax_element(
      low.begin(), low.end(),
      [](uint64_t a, uint64_t b) { return int_less(true, a, b); });
  add_dictionary(values, context, take_sample(values),
                 bit_width_of(*most - *least), kRepetitionShare, &candidates);
  checkpoint.save(*out);
  checkpoint.roll_back(out);
  NIMBLE_ASSIGN_OR_RETURN(const bool done, candidates.encode(out));
  if (!done) checkpoint.restore(out);
  return Status::ok();
}

}  // namespace

Status select_fixed(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out) {
  if (can_be_narrow(values.type) && values.size > 0) {
    const std::vector<uint64_t> low = narrowed(values);
    if (!low.empty()) return select_narrow(values, low, context, out);
  }
  if (context.effort == Effort::kFast || context.random_access_only ||
      values.size < kMinSelectionValues ||
      context.depth >= kMaxSelectionDepth ||
      values.type.width > kMaxNestedWidth) {
    return encode_plain(values, out);
  }
  const double plain = fixed_bytes(values);
  Candidates candidates(plain, context);
  const ValueSample sample = take_sample(values);
  add_repetition(values, context, sample, 8.0 * values.type.width, &candidates);
  return encode_best(
      values, context, &candidates,
      [&](SegmentBuilder* to) { return encode_plain(values, to); }, out);
}

}  // namespace nimble
