// Schemes that compress strings: FSST, phrases, front coding and zstd.
#include <algorithm>
#include <cmath>

#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/strings/front_coded.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "nimble/encoding/symbols/phrases.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_strings.h"

namespace nimble {

double fsst_share(const Values& strings) {
  const std::vector<ByteSlice> sample =
      sample_strings(strings, kMinFsstSampleBytes);
  const FsstSizes sizes = measure_fsst(train_fsst(sample), sample);
  return static_cast<double>(sizes.compressed) /
         static_cast<double>(std::max<uint64_t>(sizes.raw, 1));
}

namespace {

// How many bytes strings share with the string before them. Front coding leaves
// these bytes out.
struct Fronts {
  double shared = 0;       // shared bytes as a fraction of all bytes
  double length_bits = 0;  // bits per row for the two lengths
  std::vector<ByteSlice> rests;
};

// Samples blocks from all over the segment.
Fronts sample_fronts(const Analysis& a) {
  Fronts out;
  if (!a.may_nest_text() || a.context.random_access_only) return out;
  constexpr uint32_t kRows = 1u << kFrontCodedShift;
  const uint32_t blocks = (a.values.size + kRows - 1) / kRows;
  const uint32_t step = std::max(1u, blocks / kFrontSampleBlocks);
  uint64_t total = 0, shared = 0, longest_shared = 0, longest_rest = 0;
  for (uint32_t b = 0; b < blocks; b += step) {
    const uint32_t end = std::min((b + 1) * kRows, a.values.size);
    for (uint32_t i = b * kRows; i < end; ++i) {
      const ByteSlice& s = a.values.slices[i];
      const uint64_t n = shared_front(a.values, i);
      total += s.size;
      shared += n;
      longest_shared = std::max(longest_shared, n);
      longest_rest = std::max(longest_rest, s.size - n);
      if (s.size > n) out.rests.push_back({s.data + n, s.size - n});
    }
  }
  out.shared = static_cast<double>(shared) /
               static_cast<double>(std::max<uint64_t>(total, 1));
  out.length_bits = bit_width_of(longest_shared) + bit_width_of(longest_rest);
  return out;
}

bool may_compress(const Analysis& a) { return a.text->may_compress; }

// Bytes that plain_bytes takes for the lengths of all strings.
double length_bytes(const TextAnalysis& text) {
  return static_cast<double>(text.plain) - static_cast<double>(text.total);
}

// Trains phrases that the stream's later segments will use too. Returns their
// estimated size if it is below `limit`.
double new_phrases_bytes(Analysis* a, double limit) {
  TextAnalysis* text = a->text.get();
  if (text->total <
          (a->is_compact() ? kMinCompactPhrasesBytes : kMinPhrasesBytes) ||
      (!a->is_compact() && !phrases_may_reach(a->values, limit))) {
    return kNever;
  }
  std::vector<Phrase> phrases = train_shared_phrases(a->values);
  const PhrasesEstimate estimate =
      estimate_codes(a->values, phrases, PhraseMatcher(phrases));
  // Half of the table is charged to later segments, because most columns have
  // more than one segment.
  const auto bytes = static_cast<double>(estimate.bytes +
                                         serialize_phrases(phrases).size() / 2);
  if (bytes >= limit) return kNever;
  text->phrases = std::move(phrases);
  text->phrases_share = estimate.share;
  return bytes;
}

// Trains phrases for this segment alone. Returns their estimated size if it is
// below `limit`.
double own_phrases_bytes(Analysis* a, double limit) {
  if (a->text->total < kMinOwnPhrasesBytes ||
      (!a->is_compact() && !phrases_may_reach(a->values, limit))) {
    return kNever;
  }
  std::vector<Phrase> phrases = train_phrases(a->values);
  const auto bytes = static_cast<double>(estimate_phrases(a->values, phrases));
  if (bytes >= limit) return kNever;
  a->text->phrases = std::move(phrases);
  return bytes;
}

Result<bool> write_phrases(Analysis* a, SegmentBuilder* out) {
  if (a->context.phrases != nullptr && a->context.may_change_shared) {
    a->context.phrases->paid();
  }
  return written(encode_phrases(a->values, a->text->phrases, out));
}

Result<bool> write_shared_phrases(Analysis* a, SegmentBuilder* out) {
  StreamPhrases* stream = a->context.phrases;
  if (!stream->exist()) {
    stream->begin(std::move(a->text->phrases), a->text->phrases_share);
  }
  return written(encode_shared_phrases(a->values, *stream, out));
}

// Estimated size of zstd, with a dictionary if training one saves space.
double zstd_bytes(Analysis* a) {
  TextAnalysis* text = a->text.get();
  const Effort effort = a->context.effort;
  const double limit =
      a->is_compact()
          ? a->best_bytes * kCompactZstdStringsShare
          : std::min(a->best_bytes * kZstdStringsShare,
                     a->best_bytes - a->values.size * kZstdBytesOfRow);
  const auto probe = static_cast<double>(probe_zstd_strings(a->values, effort));
  if (a->is_compact() || probe < limit * kZstdProbeShare) {
    text->zstd_dictionary = train_zstd(a->values, effort);
  }
  if (!text->zstd_dictionary.empty()) {
    const auto trained = static_cast<double>(
        estimate_zstd_strings(a->values, text->zstd_dictionary, effort));
    // Trained zstd has smaller blocks than the probe, so it may be a little
    // larger.
    if (trained < limit && trained < probe * kTrainedShare) return trained;
  }
  // Without a dictionary, zstd is for strings that FSST cannot shrink, and for
  // compact files.
  text->zstd_dictionary.clear();
  const bool is_hopeless = text->fsst_bytes >= a->safe_bytes * kHopelessShare;
  const bool may_be_untrained =
      a->context.depth == 0 && (a->is_compact() || is_hopeless);
  return may_be_untrained && probe < limit ? probe : kNever;
}

}  // namespace

namespace scheme {

// Decides first whether to try compression at all: an earlier scheme may have
// made the column small enough. If the stream's phrases compress these values
// as well as the values they were trained on, no other scheme is tried.
// Exceptions are compact files and neighbours that share prefixes.
constinit const Scheme kKnownPhrases = {
    .id = EncodingId::kSharedPhrases,
    .applies =
        [](const Analysis& a) {
          return a.context.effort != Effort::kFast &&
                 a.text->total >= kMinFsstBytes &&
                 a.best_bytes * 4 >= a.safe_bytes;
        },
    .estimate =
        [](Analysis* a) {
          TextAnalysis* text = a->text.get();
          text->may_compress = true;
          const StreamPhrases* stream = a->context.phrases;
          if (stream == nullptr || !stream->exist() ||
              !stream->have_bytes_of(a->values)) {
            return kNever;
          }
          const PhrasesEstimate estimate =
              estimate_codes(a->values, stream->phrases(), stream->matcher());
          text->known_phrases_bytes = static_cast<double>(estimate.bytes);
          if (a->is_compact() || sample_fronts(*a).shared >= kMinSharedFront ||
              estimate.share > stream->share() * kKnownPhrasesShare) {
            return kNever;
          }
          text->may_compress = false;
          return text->known_phrases_bytes;
        },
    .encode = write_shared_phrases};

constinit const Scheme kFsst = {
    .id = EncodingId::kFsst,
    .share = kFsstShare,
    .applies = may_compress,
    .estimate =
        [](Analysis* a) {
          TextAnalysis* text = a->text.get();
          const std::vector<ByteSlice> sample = sample_strings(
              a->values, std::clamp(text->total / kFsstSampleShare,
                                    kMinFsstSampleBytes, kFsstSampleBytes));
          text->table = train_fsst(sample);
          const FsstSizes fsst = measure_fsst(text->table, sample);
          text->fsst_bytes =
              static_cast<double>(text->table.written_size()) +
              length_bytes(*text) +
              static_cast<double>(text->total) *
                  static_cast<double>(fsst.compressed) /
                  static_cast<double>(std::max<uint64_t>(fsst.raw, 1));
          return std::floor(text->fsst_bytes);
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(encode_fsst(a->values, a->text->table, out));
        }};

// The stream's phrases. If they do not exist yet, trains them.
constinit const Scheme kSharedPhrases = {
    .id = EncodingId::kSharedPhrases,
    .applies = may_compress,
    .estimate =
        [](Analysis* a) {
          const TextAnalysis& text = *a->text;
          const StreamPhrases* stream = a->context.phrases;
          const double limit =
              std::min(text.fsst_bytes * kPhrasesShare, a->best_bytes);
          if (text.known_phrases_bytes < limit) {
            return text.known_phrases_bytes;
          }
          if (stream == nullptr || !stream->are_looked_for() ||
              stream->exist() || !a->context.may_change_shared) {
            return kNever;
          }
          return new_phrases_bytes(a, limit);
        },
    .encode = write_shared_phrases};

constinit const Scheme kPhrases = {
    .id = EncodingId::kPhrases,
    .applies =
        [](const Analysis& a) {
          const StreamPhrases* stream = a.context.phrases;
          if (!may_compress(a)) return false;
          if (stream == nullptr) return a.is_compact();
          return stream->are_looked_for() &&
                 (stream->exist() || !a.context.may_change_shared);
        },
    .estimate =
        [](Analysis* a) {
          const TextAnalysis& text = *a->text;
          const double share =
              a->is_compact() ? kPhrasesShare : kOwnPhrasesShare;
          return own_phrases_bytes(
              a, std::min({text.fsst_bytes * share, a->best_bytes,
                           text.known_phrases_bytes * kPhrasesShare}));
        },
    .encode = write_phrases};

// Front coding leaves suffixes that are text too, so phrases may encode them.
constinit const Scheme kFrontCoded = {
    .id = EncodingId::kFrontCoded,
    .applies = may_compress,
    .estimate =
        [](Analysis* a) {
          const TextAnalysis& text = *a->text;
          const Fronts fronts = sample_fronts(*a);
          if (fronts.shared < kMinSharedFront) return kNever;
          Values rests = a->values;
          rests.size = static_cast<uint32_t>(fronts.rests.size());
          rests.slices = fronts.rests.data();
          const double share =
              fronts.rests.empty() ? 0 : std::min(1.0, fsst_share(rests));
          const double text_bytes = std::min(text.fsst_bytes, a->best_bytes);
          const double bytes = a->values.size * fronts.length_bits / 8 +
                               static_cast<double>(text.total) *
                                   (1 - fronts.shared) * share *
                                   (text_bytes / text.fsst_bytes);
          return bytes < text_bytes * kFrontShare ? std::floor(bytes) : kNever;
        },
    .encode = encode_by<encode_front_coded>};

constinit const Scheme kZstdStrings = {
    .id = EncodingId::kZstdStrings,
    .applies =
        [](const Analysis& a) {
          return may_compress(a) && !a.context.random_access_only &&
                 a.text->longest <= kMaxZstdBlockBytes &&
                 (a.is_compact() || a.context.depth == 0);
        },
    .estimate = zstd_bytes,
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(encode_zstd_strings(
              a->values, a->text->zstd_dictionary, a->context.effort, out));
        }};

// Used in balanced files in place of zstd, even if the phrases are a little
// larger.
constinit const Scheme kPhrasesForZstd = {
    .id = EncodingId::kPhrases,
    .applies =
        [](const Analysis& a) {
          return a.best == &kZstdStrings && !a.is_compact();
        },
    .estimate =
        [](Analysis* a) {
          const double bytes =
              own_phrases_bytes(a, a->best_bytes * kPhrasesForZstdShare);
          if (bytes != kNever) a->best_bytes = kNever;
          return bytes;
        },
    .encode = write_phrases};

}  // namespace scheme
}  // namespace nimble
