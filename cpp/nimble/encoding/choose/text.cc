// Schemes for strings that use repetition or a common structure.
#include <algorithm>
#include <cmath>

#include "nimble/base/hash.h"
#include "nimble/encoding/blocks/presence.h"
#include "nimble/encoding/blocks/string_blocks.h"
#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/strings/front_coded.h"
#include "nimble/encoding/strings/numbered_text.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/strings/present.h"
#include "nimble/encoding/strings/template_text.h"

namespace nimble {

namespace {

bool equal(const ByteSlice& a, const ByteSlice& b) {
  return a.size == b.size &&
         (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

void measure(const Values& values, TextAnalysis* text) {
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint64_t size = values.slices[i].size;
    text->total += size;
    text->empty += size == 0;
    text->shortest = std::min(text->shortest, size);
    text->longest = std::max(text->longest, size);
  }
  text->plain = string_blocks_size(values.size, text->total, text->longest,
                                   text->shortest);
}

void sample_repeats(const Values& values, TextAnalysis* text) {
  std::vector<uint64_t> hashes;
  const uint64_t n = values.size;
  const uint64_t windows = std::min<uint64_t>(kSampleWindows, n);
  uint64_t next = 0;
  for (uint64_t w = 0; w < windows; ++w) {
    uint64_t row = std::max(next, w * n / windows);
    const uint64_t end = std::min(n, row + kSampleWindowRows);
    for (next = end; row < end; ++row) {
      const ByteSlice& s = values.slices[row];
      hashes.push_back(checksum64({s.data, static_cast<size_t>(s.size)}));
      text->sampled_empty += s.size == 0;
      text->adjacent += row > 0 && equal(s, values.slices[row - 1]);
    }
  }
  text->sampled = static_cast<uint32_t>(hashes.size());
  std::sort(hashes.begin(), hashes.end());
  const auto distinct =
      std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  text->repeated = text->sampled - static_cast<uint32_t>(distinct);
}

// Whether the stream's shared dictionary has most of the strings that are not
// empty.
bool are_in_shared_dictionary(const Values& values,
                              const EncodeContext& context) {
  if (context.dictionary == nullptr || context.dictionary->size() == 0) {
    return false;
  }
  std::vector<ByteSlice> slices;
  for (uint64_t i = 0; i < kKnownSampleRows; ++i) {
    const ByteSlice& s = values.slices[i * values.size / kKnownSampleRows];
    if (s.size > 0) slices.push_back(s);
  }
  Values sample = values;
  sample.size = static_cast<uint32_t>(slices.size());
  sample.slices = slices.data();
  return context.dictionary->find(sample).missing * 2 < sample.size;
}

// Whether empty rows take more space than a boolean for every row would.
bool is_better_without_empty(const Analysis& a) {
  const TextAnalysis& text = *a.text;
  const uint32_t rows = a.values.size;
  if (!a.may_nest_text() || a.context.random_access_only || text.empty == 0 ||
      text.empty == rows || rows < kMinPresentRows) {
    return false;
  }
  // If the booleans double as the validity stream, they are free.
  if (a.context.validity_head != nullptr && a.context.effort != Effort::kFast) {
    return text.empty * kRowsPerNull >= rows;
  }
  // Bits that an empty row takes for its length, or for its dictionary code.
  double row_bits = bit_width_of(text.longest);
  const uint32_t filled = text.sampled - text.sampled_empty;
  const uint32_t distinct = text.sampled - text.repeated;
  if (text.is_in_shared_dictionary) {
    row_bits = bit_width_of(a.context.dictionary->size());
  } else if (text.repeated * 2 > text.sampled) {
    row_bits = std::min<double>(row_bits, bit_width_of(distinct));
  } else if (distinct + kMinRepeats <= filled) {
    row_bits = std::log2(likely_distinct(distinct, filled));
  }
  const uint64_t rare = std::min(text.empty, rows - text.empty);
  const double booleans =
      std::min(static_cast<double>(rows) / 8, static_cast<double>(rare) * 2);
  return booleans <
         static_cast<double>(text.empty) * row_bits / 8 * kPresentStringsShare;
}

// Estimated size of nested strings with `bytes` bytes in total.
uint64_t nested_size(uint64_t rows, uint64_t bytes) {
  // An empirical figure: FSST takes about 60 % if there is enough text to train
  // on.
  return rows + (bytes < kMinFsstBytes ? bytes : bytes * 6 / 10);
}

// Estimated size of a dictionary of sorted strings.
uint64_t dictionary_size(const Values& strings, uint64_t bytes) {
  if (bytes < kSmallDictionaryBytes) return nested_size(strings.size, bytes);
  uint64_t shared = 0;
  for (uint32_t i = 0; i < strings.size; ++i)
    shared += shared_front(strings, i);
  const double share = fsst_share(strings);
  const double whole = static_cast<double>(bytes) * share;
  // Front coding leaves suffixes, which compress less well than whole strings.
  const double rests =
      static_cast<double>(bytes - shared) * std::min(1.0, share * 1.25) +
      strings.size;
  return strings.size + static_cast<uint64_t>(std::min(whole, rests));
}

bool has_begun(const StreamDictionary* dictionary) {
  return dictionary != nullptr && dictionary->size() > 0;
}

// Limits for the distinct strings. The limit is 0 values if a dictionary cannot
// save space.
DistinctLimits distinct_limits(const Analysis& a) {
  const TextAnalysis& text = *a.text;
  if (text.is_in_shared_dictionary) {
    return {a.values.size, StreamDictionary::kMaxBytes};
  }
  const bool may_share = a.context.dictionary != nullptr;
  const uint32_t repeats = may_share ? kMinSharedRepeats : kMinRepeats;
  if (text.repeated < std::min(repeats, text.sampled / 2)) return {0, 0};
  // A shared dictionary may have more values, because later segments use it
  // too.
  const uint32_t quarters = may_share ? 3 : 2;
  return {a.values.size / 4 * quarters, std::min(text.total / 4 * quarters + 64,
                                                 StreamDictionary::kMaxBytes)};
}

uint64_t packed_code_bytes(const Analysis& a) {
  return uint64_t{a.values.size} * bit_width_of(a.text->distinct.count() - 1) /
         8;
}

// Collects the distinct strings, for all schemes with a dictionary.
void collect_distinct(Analysis* a) {
  TextAnalysis* text = a->text.get();
  const DistinctLimits limits = distinct_limits(*a);
  if (limits.max_values == 0 && limits.max_bytes == 0) return;
  DistinctValues distinct;
  if (!distinct.collect(a->values, limits)) return;
  text->distinct = std::move(distinct);
  if (text->distinct.count() == 0) return;
  // If the shared dictionary exists already, missing values are appended to it.
  // They are usually few, so sorting is not worthwhile.
  const bool is_begun = has_begun(a->context.dictionary);
  if (!is_begun) text->distinct.sort(a->values);
  const Values strings = text->distinct.distinct();
  for (uint32_t i = 0; i < strings.size; ++i) {
    text->distinct_bytes += strings.slices[i].size;
  }
  text->dictionary_bytes = dictionary_size(strings, text->distinct_bytes);
  const auto stored = static_cast<double>(text->dictionary_bytes);
  text->shared_dictionary_bytes =
      shared_dictionary_bytes(text->distinct, stored, a->context);
  if (!is_begun) {
    text->new_dictionary_bytes = text->shared_dictionary_bytes;
    text->lone_dictionary_bytes =
        static_cast<double>(packed_code_bytes(*a)) + stored;
  }
}

Result<bool> write_shared_dictionary(Analysis* a, SegmentBuilder* out) {
  return written(encode_shared_dictionary(
      a->text->distinct, a->context.dictionary, a->context, out));
}

// Encodes a template in order to know its size, which depends on how its
// integers encode.
Result<bool> try_template(Analysis* a, SegmentBuilder* out) {
  const std::optional<TemplatePattern> pattern = detect_template(a->values);
  if (!pattern) return false;
  const TextAnalysis& text = *a->text;
  const Checkpoint checkpoint(*out);
  NIMBLE_ASSIGN_OR_RETURN(
      const bool has_dictionary,
      encode_template(a->values, *pattern, a->context, out));
  const bool is_own = a->best == &scheme::kTextDictionary;
  const bool is_shared = a->best == &scheme::kSharedTextDictionary;
  const auto bytes = static_cast<double>(checkpoint.body_bytes(*out));
  // A dictionary decodes its strings once. A template assembles strings for
  // every row. A template lookup needs no dictionary, and a scan copies no
  // string twice, so a template may be a little larger. A dictionary in the
  // metadata costs a lookup nothing and scans several times as fast.
  const bool is_in_metadata = is_own && text.dictionary_bytes <= kInlineBytes;
  const double share = a->is_compact()  ? 1
                       : is_in_metadata ? kTemplateForInlineShare
                                        : kTemplateShare;
  const bool is_better =
      !(has_dictionary && (is_own || is_shared ||
                           text.is_better_as_new_dictionary(a->best_bytes))) &&
      !text.is_better_as_new_dictionary(bytes) &&
      bytes <= a->best_bytes * share && bytes <= a->safe_bytes;
  if (!is_better) checkpoint.roll_back(out);
  return is_better;
}

// Numbered text, too, is encoded in order to know its size.
Result<bool> try_numbered_text(Analysis* a, SegmentBuilder* out) {
  const double limit = a->best_bytes * kNumberedShare;
  if (estimate_numbered_text(a->values) >= limit) return false;
  const std::optional<NumberedText> text = NumberedText::find(a->values);
  if (!text) return false;
  const Checkpoint checkpoint(*out);
  NIMBLE_RETURN_IF_ERROR(
      encode_numbered_text(a->values, *text, a->context, out));
  if (static_cast<double>(checkpoint.bytes(*out)) < limit) return true;
  checkpoint.roll_back(out);
  return false;
}

}  // namespace

namespace scheme {

constinit const Scheme kPlainBytes = {
    .id = EncodingId::kPlainBytes,
    .stage = Stage::kSafe,
    .estimate =
        [](Analysis* a) {
          a->text = std::make_unique<TextAnalysis>();
          measure(a->values, a->text.get());
          sample_repeats(a->values, a->text.get());
          a->text->is_in_shared_dictionary =
              are_in_shared_dictionary(a->values, a->context);
          return static_cast<double>(a->text->plain);
        },
    .encode = encode_by<encode_plain_bytes>};

constinit const Scheme kPresentText = {.id = EncodingId::kPresent,
                                       .stage = Stage::kAtOnce,
                                       .applies = is_better_without_empty,
                                       .encode = encode_by<encode_present>};

constinit const Scheme kRunsOfText = {
    .id = EncodingId::kRunLength,
    .applies =
        [](const Analysis& a) {
          return a.may_nest_text() && !a.context.random_access_only &&
                 a.text->adjacent * 2 > a.text->sampled;
        },
    .estimate =
        [](Analysis* a) {
          const uint32_t rows = a->values.size;
          a->text->run_ends = run_ends(a->values, rows / kMinRunRows);
          const uint64_t runs = a->text->run_ends.size();
          if (runs == 0) return kNever;
          const uint64_t average = div_ceil(a->text->total, uint64_t{rows});
          return static_cast<double>(runs * 2 +
                                     nested_size(runs, runs * average));
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(
              encode_run_length(a->values, a->text->run_ends, a->context, out));
        }};

constinit const Scheme kSharedTextDictionary = {
    .id = EncodingId::kSharedDictionary,
    .applies = [](const Analysis& a) { return a.may_nest_text(); },
    .estimate =
        [](Analysis* a) {
          collect_distinct(a);
          return has_begun(a->context.dictionary)
                     ? std::floor(a->text->shared_dictionary_bytes)
                     : kNever;
        },
    .encode = write_shared_dictionary};

constinit const Scheme kTextDictionary = {
    .id = EncodingId::kDictionary,
    .applies = [](const Analysis& a) { return a.text->distinct.count() > 0; },
    .estimate =
        [](Analysis* a) {
          const TextAnalysis& text = *a->text;
          const uint32_t count = text.distinct.count();
          const uint64_t packed = packed_code_bytes(*a);
          if (text.shared_dictionary_bytes <
                  static_cast<double>(packed + count) ||
              count > a->values.size / 2 ||
              text.distinct_bytes > kMaxOwnDictionaryBytes ||
              (!a->is_compact() &&
               text.dictionary_bytes > kMaxStoredDictionaryBytes)) {
            return kNever;
          }
          const uint64_t codes =
              a->is_compact() && count <= kMaxByteCodes
                  ? static_cast<uint64_t>(code_entropy(text.distinct) / 8)
                  : packed;
          return static_cast<double>(codes + text.dictionary_bytes);
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          if (has_begun(a->context.dictionary))
            a->text->distinct.sort(a->values);
          return written(encode_dictionary(a->text->distinct, a->context, out));
        }};

constinit const Scheme kTemplate = {
    .id = EncodingId::kTemplate,
    .stage = Stage::kAtOnce,
    .applies = [](const Analysis& a) { return a.may_nest_text(); },
    .encode = try_template};

constinit const Scheme kNewTextDictionary = {
    .id = EncodingId::kSharedDictionary,
    .estimate =
        [](Analysis* a) {
          return a->text->is_better_as_new_dictionary(a->best_bytes)
                     ? std::floor(a->text->new_dictionary_bytes)
                     : kNever;
        },
    .encode = write_shared_dictionary};

constinit const Scheme kNumberedText = {
    .id = EncodingId::kNumberedText,
    .stage = Stage::kAtOnce,
    .applies =
        [](const Analysis& a) {
          return a.is_compact() && a.may_nest_text() &&
                 !a.context.random_access_only &&
                 a.values.size >= kMinNumberedRows;
        },
    .encode = try_numbered_text};

}  // namespace scheme
}  // namespace nimble
