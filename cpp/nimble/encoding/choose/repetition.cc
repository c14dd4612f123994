// Schemes for all fixed widths, which depend on equality alone, and zstd.
#include <algorithm>
#include <cmath>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/ints/sparse.h"
#include "nimble/encoding/zstd/zstd_blocks.h"

namespace nimble {

Analysis::Analysis(const Values& all_values,
                   const EncodeContext& encode_context)
    : values(all_values), context(encode_context) {
  plain_bytes = static_cast<double>(values.size) * values.type.width;
  value_bits = 8.0 * values.type.width;
}

namespace {

const uint8_t* most_frequent(const Analysis& a) {
  return a.values.data + uint64_t{a.sample.top_row} * a.values.type.width;
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

// Estimated size of the segment's own dictionary, or of a shared dictionary if
// that is smaller.
double dictionary_bytes(Analysis* a) {
  const Values& values = a->values;
  const StreamDictionary* shared = dictionary_for(values, a->context);
  const double count = distinct_of(a->sample, values.size);
  // In compact files, codes are compressed by frequency.
  const auto bytes_of = [&](double codes, double stored) {
    const double entropy =
        a->is_compact() && codes <= kMaxByteCodes ? kLikelyEntropy : 1;
    return (values.size * code_bits(codes) * entropy + stored * a->value_bits) /
           8;
  };
  double bytes =
      count > DistinctLimits().max_values ? kNever : bytes_of(count, count);
  if (shared != nullptr && shared->size() > 0) {
    const double missing =
        count * (1 - known_share(values, a->sample, *shared));
    if (missing <= StreamDictionary::kMaxValues) {
      bytes = std::min(bytes, bytes_of(shared->size() + missing, missing));
    }
  } else if (shared != nullptr && count <= StreamDictionary::kMaxValues) {
    const double early = distinct_of(a->sample, values.size / 2);
    bytes =
        std::min(bytes, bytes_of(count, count * part_of_first(count, early)));
  }
  return bytes;
}

Result<bool> try_dictionary(Analysis* a, SegmentBuilder* out) {
  const Values& values = a->values;
  const EncodeContext& context = a->context;
  const StreamDictionary* shared = dictionary_for(values, context);
  DistinctLimits own;
  own.max_bytes =
      a->is_balanced() ? kMaxBalancedDictionaryBytes : kMaxDictionaryBytes;
  DistinctLimits limits = own;
  if (shared != nullptr) {
    limits = {StreamDictionary::kMaxValues, StreamDictionary::kMaxBytes};
  }
  DistinctValues distinct;
  if (!distinct.collect(values, limits)) return false;
  const uint32_t count = distinct.count();
  const double stored = count * a->value_bits / 8;
  const bool is_large =
      a->is_balanced() &&
      double{1} * count * values.type.width > kLargeDictionaryBytes;
  const double own_share = is_large ? kLargeDictionaryShare : kRepetitionShare;
  const double shared_share =
      is_large ? a->large_shared_share : kRepetitionShare;
  const bool may_be_own = count <= own.max_values &&
                          uint64_t{count} * values.type.width <= own.max_bytes;
  if (!may_be_own && shared != nullptr && shared->size() == 0 &&
      !a->is_below(shared_share, begun_dictionary_bytes(distinct, stored))) {
    return false;  // stop before a useless sort
  }
  distinct.sort(values);
  double own_bytes =
      stored + (a->is_compact() && count <= kMaxByteCodes
                    ? code_entropy(distinct) / 8
                    : values.size / 8.0 * bit_width_of(count - 1));
  if (!may_be_own || !a->is_below(own_share, own_bytes)) own_bytes = kNever;
  double shared_bytes = shared_dictionary_bytes(distinct, stored, context);
  if (!a->is_below(shared_share, shared_bytes)) shared_bytes = kNever;
  if (std::min(own_bytes, shared_bytes) == kNever) return false;
  if (shared_bytes > own_bytes) {
    return written(encode_dictionary(distinct, context, out));
  }
  const bool begins = context.dictionary->size() == 0;
  NIMBLE_RETURN_IF_ERROR(
      encode_shared_dictionary(distinct, context.dictionary, context, out));
  const double codes = values.size * code_bits(context.dictionary->size()) / 8;
  // If there are no later segments, this segment pays for the whole dictionary.
  const double least = begins ? (codes + stored) / kMaxGrowth : shared_bytes;
  out->shared_bytes += static_cast<uint64_t>(
      std::max(0.0, std::max(shared_bytes, least) - codes));
  return true;
}

// Bits of a run's value: stored as it is, as a code of the shared dictionary if
// that has most values, or as a code of a dictionary of the runs' own.
double run_value_bits(const Analysis& a) {
  const double runs = a.sample.runs(a.values.size);
  if (runs * 2 > a.values.size) return a.value_bits;  // codes take less space
  const StreamDictionary* shared = dictionary_for(a.values, a.context);
  if (shared != nullptr && known_share(a.values, a.sample, *shared) > 0.5) {
    return std::min(a.value_bits, code_bits(shared->size()));
  }
  const double count = distinct_of(a.sample, a.values.size);
  return std::min(a.value_bits, code_bits(count) + count * a.value_bits / runs);
}

// zstd may take this many bytes.
double zstd_limit(const Analysis& a) {
  return a.is_compact() ? a.best_bytes * kCompactZstdShare
                        : a.plain_bytes * kZstdShare;
}

}  // namespace

namespace scheme {

constinit const Scheme kConstant = {
    .id = EncodingId::kConstant,
    .stage = Stage::kAtOnce,
    .applies = [](const Analysis& a) { return is_constant(a.values); },
    .encode = encode_by<encode_constant>};

// One bit per row says whether the row has the most frequent value. The
// remaining values are fewer, and often need fewer bits each.
constinit const Scheme kPresent = {
    .id = EncodingId::kPresent,
    .share = kPresentShare,
    .applies =
        [](const Analysis& a) {
          const double others = a.sample.exceptions(a.values.size);
          // With very few other values, sparse is used.
          return can_be_present(a.values.type) && a.sample.distinct >= 3 &&
                 others / a.values.size <= kMaxPresentOthers &&
                 others / a.values.size > kMaxSparseExceptions;
        },
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          const double others = a->sample.exceptions(n) / n;
          double bits = a->safe_bytes * 8 / n;
          if (a->sample.distinct * 2 <= a->sample.size) {
            bits = std::min(bits, std::ceil(std::log2(a->sample.distinct - 1)));
          }
          return n * (kPresenceBits + others * bits) / 8;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          const Values& values = a->values;
          const uint32_t width = values.type.width;
          const uint8_t* common = most_frequent(*a);
          std::vector<uint8_t> other(div_ceil(values.size, 64) * 8);
          for (uint32_t i = 0; i < values.size; ++i) {
            const uint8_t* p = values.data + uint64_t{i} * width;
            if (std::memcmp(p, common, width) != 0) set_bit(other.data(), i);
          }
          return written(encode_present_values(values, common, other.data(),
                                               a->context, out, nullptr));
        }};

constinit const Scheme kSparse = {
    .id = EncodingId::kSparse,
    .share = kRepetitionShare,
    .applies =
        [](const Analysis& a) {
          return can_be_sparse(a.values.type) &&
                 a.sample.exceptions(a.values.size) <=
                     a.values.size * kMaxSparseExceptions;
        },
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          return a->sample.exceptions(n) * (16 + a->value_bits) / 8 + n / 100.0;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(
              encode_sparse(a->values, most_frequent(*a), a->context, out));
        }};

constinit const Scheme kRunLength = {
    .id = EncodingId::kRunLength,
    .share = kRepetitionShare,
    .applies =
        [](const Analysis& a) { return can_be_run_length(a.values.type); },
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          a->run_bytes = (kRunEndBits + run_value_bits(*a)) / 8;
          return a->sample.runs(n) * a->run_bytes + n / 500.0;
        },
    .encode = [](Analysis* a, SegmentBuilder* out) -> Result<bool> {
      const double most_runs = a->safe_bytes * kRepetitionShare / a->run_bytes;
      const std::vector<uint32_t> ends =
          run_ends(a->values, static_cast<uint32_t>(most_runs) + 1);
      if (ends.empty()) return false;
      return written(encode_run_length(a->values, ends, a->context, out));
    }};

constinit const Scheme kDictionary = {.id = EncodingId::kDictionary,
                                      .share = kRepetitionShare,
                                      .estimate = dictionary_bytes,
                                      .encode = try_dictionary};

// Estimates the size by compressing one contiguous part of the values.
constinit const Scheme kZstdBlocks = {
    .id = EncodingId::kZstdBlocks,
    .stage = Stage::kLast,
    // Nested values use zstd only for one-byte codes, because it exploits their
    // frequencies.
    .applies =
        [](const Analysis& a) {
          if (a.plain_bytes < kMinZstdBytes) return false;
          if (a.context.depth == 0) return a.is_compact() || a.is_balanced();
          return a.is_compact() && a.values.type.width == 1;
        },
    .estimate =
        [](Analysis* a) {
          if (a->is_balanced() &&
              a->best_bytes <= a->plain_bytes * kHopelessShare) {
            return kNever;
          }
          Values probe = a->values;
          probe.size = std::min(probe.size, kZstdProbeValues);
          probe.data +=
              uint64_t{(a->values.size - probe.size) / 2} * probe.type.width;
          SegmentBuilder trial;
          if (!encode_zstd_blocks(probe, a->context, &trial).is_ok()) {
            return kNever;
          }
          const double bytes = static_cast<double>(trial.body.size()) /
                               (double{1} * probe.size * probe.type.width) *
                               a->plain_bytes;
          return bytes < zstd_limit(*a) ? bytes : kNever;
        },
    .encode = [](Analysis* a, SegmentBuilder* out) -> Result<bool> {
      const Checkpoint checkpoint(*out);
      NIMBLE_RETURN_IF_ERROR(encode_zstd_blocks(a->values, a->context, out));
      return checkpoint.cost(*out) < zstd_limit(*a);
    }};

}  // namespace scheme
}  // namespace nimble
