#include "nimble/encoding/choose/bytes_selection.h"

#include <algorithm>
#include <cmath>

#include "nimble/base/hash.h"
#include "nimble/encoding/blocks/presence.h"
#include "nimble/encoding/blocks/string_blocks.h"
#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/strings/front_coded.h"
#include "nimble/encoding/strings/numbered_text.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/strings/present.h"
#include "nimble/encoding/strings/template_text.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "nimble/encoding/symbols/phrases.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_strings.h"

namespace nimble {
namespace {

enum class Choice : uint8_t {
  kPlain,
  kFsst,
  kPhrases,
  kSharedPhrases,
  kFrontCoded,
  kDictionary,
  kSharedDictionary,
  kRunLength,
  kZstd,
};

struct Sizes {
  uint64_t rows = 0;
  uint64_t total = 0;
  uint64_t min = UINT64_MAX;
  uint64_t max = 0;
  uint64_t plain = 0;  // as plain_bytes
  uint64_t empty = 0;  // number of empty rows
};

// Repetition among the sampled rows.
struct Repeats {
  uint32_t rows = 0;
  uint32_t empty = 0;     // number of empty rows
  uint32_t repeated = 0;  // rows equal to another sampled row
  uint32_t adjacent = 0;  // rows equal to the row before
};

class Selection {
 public:
  Selection(const Values& values, const EncodeContext& context)
      : values_(values), context_(context) {}

  Status encode(SegmentBuilder* out);

 private:
  void measure();
  void offer(Choice choice, uint64_t size) {
    if (size < best_size_) {
      best_ = choice;
      best_size_ = size;
    }
  }
  // Whether the stream's shared dictionary has most of the non-empty strings.
  bool are_known() const;
  bool is_better_without_empty(const Repeats& sample) const;
  void consider_repeats(const Repeats& sample);
  void consider_text();
  // How much strings share with the string before them, which front coding
  // would encode them against.
  struct Fronts {
    double shared = 0;       // share of their bytes
    double length_bits = 0;  // bits per row for both lengths
    std::vector<ByteSlice> rests;
  };
  Fronts sample_fronts() const;
  bool begin_alike() const { return sample_fronts().shared >= kMinSharedFront; }
  // Estimated size with front coding, if the rest of the text takes
  // `text_share` of its size with FSST. Infinite if neighbours share little.
  double front_coded_size(double text_share) const;
  // True if a new shared dictionary would take less than `size` bytes, and
  // would not make a file of one stripe much larger.
  bool is_better_as_new_dictionary(uint64_t size) const {
    return new_dictionary_size_ < static_cast<double>(size) &&
           new_dictionary_now_ < static_cast<double>(size) * kMaxGrowth;
  }
  void consider_new_dictionary();
  bool consider_known_phrases();
  void consider_phrases(double fsst_size);
  void consider_new_phrases(double limit);
  void consider_own_phrases(double limit);
  void choose_phrases(Choice choice, uint64_t size,
                      std::vector<Phrase> phrases);
  void consider_zstd(double fsst_size);
  Status encode_best(SegmentBuilder* out);
  Result<bool> encode_as_template(SegmentBuilder* out) const;
  Result<bool> encode_as_numbered(SegmentBuilder* out) const;
  bool may_nest() const { return context_.depth < kMaxNestingDepth; }
  bool is_compact() const { return context_.effort == Effort::kCompact; }
  double lengths() const {  // in bytes, for all strings
    return static_cast<double>(sizes_.plain) -
           static_cast<double>(sizes_.total);
  }

  const Values& values_;
  EncodeContext context_;
  Sizes sizes_;
  Choice best_ = Choice::kPlain;
  uint64_t best_size_ = 0;
  DistinctValues distinct_;
  uint64_t distinct_size_ = 0;  // stored as a dictionary
  std::vector<uint32_t> run_ends_;
  FsstTable table_;
  std::vector<Phrase> phrases_;
  double phrases_share_ = 0;  // of new shared phrases
  // Size with the phrases that the stream already has; infinite if they do not
  // apply.
  double known_phrases_size_ = kNever;
  std::vector<uint8_t> zstd_dictionary_;
  // Size of a new shared dictionary: the part that this segment pays for, and
  // the size without any later segments.
  double new_dictionary_size_ = kNever;
  double new_dictionary_now_ = 0;
};

bool equal(const ByteSlice& a, const ByteSlice& b) {
  return a.size == b.size &&
         (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

Repeats sample_repeats(const Values& values) {
  Repeats out;
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
      out.empty += s.size == 0;
      out.adjacent += row > 0 && equal(s, values.slices[row - 1]);
    }
  }
  out.rows = static_cast<uint32_t>(hashes.size());
  std::sort(hashes.begin(), hashes.end());
  const auto distinct =
      std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  out.repeated = out.rows - static_cast<uint32_t>(distinct);
  return out;
}

void Selection::measure() {
  sizes_.rows = values_.size;
  for (uint32_t i = 0; i < values_.size; ++i) {
    const uint64_t size = values_.slices[i].size;
    sizes_.total += size;
    sizes_.empty += size == 0;
    sizes_.min = std::min(sizes_.min, size);
    sizes_.max = std::max(sizes_.max, size);
  }
  sizes_.plain =
      string_blocks_size(sizes_.rows, sizes_.total, sizes_.max, sizes_.min);
  best_size_ = sizes_.plain;
}

// Whether empty rows take more space than a boolean for every row would.
bool Selection::is_better_without_empty(const Repeats& sample) const {
  if (!may_nest() || context_.random_access_only || sizes_.empty == 0 ||
      sizes_.empty == sizes_.rows || sizes_.rows < kMinPresentRows) {
    return false;
  }
  // If the booleans double as the validity stream, they are free.
  if (context_.validity_head != nullptr && context_.effort != Effort::kFast) {
    return sizes_.empty * kRowsPerNull >= sizes_.rows;
  }
  // Bits that an empty row takes for its length, or for its dictionary code.
  double row_bits = bit_width_of(sizes_.max);
  const uint32_t filled = sample.rows - sample.empty;
  const uint32_t distinct = sample.rows - sample.repeated;
  if (are_known()) {
    row_bits = bit_width_of(context_.dictionary->size());
  } else if (sample.repeated * 2 > sample.rows) {
    row_bits = std::min<double>(row_bits, bit_width_of(distinct));
  } else if (distinct + kMinRepeats <= filled) {
    row_bits = std::log2(likely_distinct(distinct, filled));
  }
  const uint64_t rare = std::min(sizes_.empty, sizes_.rows - sizes_.empty);
  const double booleans = std::min(static_cast<double>(sizes_.rows) / 8,
                                   static_cast<double>(rare) * 2);
  return booleans < static_cast<double>(sizes_.empty) * row_bits / 8 *
                        kPresentStringsShare;
}

// Compressed bytes per input byte with FSST, estimated from a sample.
double fsst_share(const Values& strings) {
  const std::vector<ByteSlice> sample =
      sample_strings(strings, kMinFsstSampleBytes);
  const FsstSizes sizes = measure_fsst(train_fsst(sample), sample);
  return static_cast<double>(sizes.compressed) /
         static_cast<double>(std::max<uint64_t>(sizes.raw, 1));
}

// Estimated size of nested strings with `bytes` bytes in all.
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

bool Selection::are_known() const {
  if (context_.dictionary == nullptr || context_.dictionary->size() == 0) {
    return false;
  }
  std::vector<ByteSlice> slices;
  for (uint64_t i = 0; i < kKnownSampleRows; ++i) {
    const ByteSlice& s = values_.slices[i * values_.size / kKnownSampleRows];
    if (s.size > 0) slices.push_back(s);
  }
  Values sample = values_;
  sample.size = static_cast<uint32_t>(slices.size());
  sample.slices = slices.data();
  return context_.dictionary->find(sample).missing * 2 < sample.size;
}

// Considers run length and dictionaries.
void Selection::consider_repeats(const Repeats& sample) {
  if (!may_nest()) return;
  const uint64_t average = div_ceil(sizes_.total, sizes_.rows);
  if (!context_.random_access_only && sample.adjacent * 2 > sample.rows) {
    run_ends_ = run_ends(values_, values_.size / kMinRunRows);
    const uint64_t runs = run_ends_.size();
    if (runs > 0) {
      offer(Choice::kRunLength, runs * 2 + nested_size(runs, runs * average));
    }
  }
  DistinctLimits limits;
  if (are_known()) {
    limits = {values_.size, StreamDictionary::kMaxBytes};
  } else if (sample.repeated >= std::min(context_.dictionary == nullptr
                                             ? kMinRepeats
                                             : kMinSharedRepeats,
                                         sample.rows / 2)) {
    // A shared dictionary may have more values, because later segments use it
    // too.
    const uint32_t quarters = context_.dictionary == nullptr ? 2 : 3;
    limits = {values_.size / 4 * quarters,
              std::min(sizes_.total / 4 * quarters + 64,
                       StreamDictionary::kMaxBytes)};
  } else {
    return;
  }
  if (!distinct_.collect(values_, limits) || distinct_.count() == 0) return;
  const bool is_begun =
      context_.dictionary != nullptr && context_.dictionary->size() > 0;
  // If the dictionary exists already, missing values are appended to it. They
  // are usually few, so sorting is not worthwhile.
  if (!is_begun) distinct_.sort(values_);
  const Values strings = distinct_.distinct();
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < strings.size; ++i) bytes += strings.slices[i].size;
  const uint64_t stored = dictionary_size(strings, bytes);
  distinct_size_ = stored;
  const double shared =
      shared_dictionary_bytes(distinct_, static_cast<double>(stored), context_);
  if (is_begun && shared < static_cast<double>(best_size_)) {
    offer(Choice::kSharedDictionary, static_cast<uint64_t>(shared));
  } else if (!is_begun) {
    new_dictionary_size_ = shared;
    new_dictionary_now_ = static_cast<double>(
        sizes_.rows * bit_width_of(strings.size - 1) / 8 + stored);
  }
  const double least =  // lower bound for an own dictionary
      static_cast<double>(sizes_.rows * bit_width_of(strings.size - 1) / 8) +
      strings.size;
  if (shared < least || strings.size > values_.size / 2 ||
      bytes > kMaxOwnDictionaryBytes ||
      (!is_compact() && stored > kMaxStoredDictionaryBytes)) {
    return;
  }
  const uint64_t codes =
      is_compact() && strings.size <= kMaxByteCodes
          ? static_cast<uint64_t>(code_entropy(distinct_) / 8)
          : sizes_.rows * bit_width_of(strings.size - 1) / 8;
  offer(Choice::kDictionary, codes + stored);
  if (is_begun && best_ == Choice::kDictionary) distinct_.sort(values_);
}

void Selection::consider_new_dictionary() {
  if (is_better_as_new_dictionary(best_size_)) {
    best_ = Choice::kSharedDictionary;
    best_size_ = static_cast<uint64_t>(new_dictionary_size_);
  }
}

// Considers FSST, phrases, front coding and zstd, unless an encoding above
// already made the column small.
void Selection::consider_text() {
  if (context_.effort == Effort::kFast || sizes_.total < kMinFsstBytes) return;
  if (best_size_ * 4 < sizes_.plain) return;
  if (consider_known_phrases()) return;
  const std::vector<ByteSlice> sample = sample_strings(
      values_, std::clamp(sizes_.total / kFsstSampleShare, kMinFsstSampleBytes,
                          kFsstSampleBytes));
  table_ = train_fsst(sample);
  const FsstSizes fsst = measure_fsst(table_, sample);
  const double fsst_size =
      static_cast<double>(table_.written_size()) + lengths() +
      static_cast<double>(sizes_.total) * static_cast<double>(fsst.compressed) /
          static_cast<double>(std::max<uint64_t>(fsst.raw, 1));
  if (fsst_size < static_cast<double>(sizes_.plain) * 0.95) {
    offer(Choice::kFsst, static_cast<uint64_t>(fsst_size));
  }
  consider_phrases(fsst_size);
  // Front coding leaves suffixes that are text too, so phrases may encode them.
  const double text_size = std::min(fsst_size, static_cast<double>(best_size_));
  const double front_size = front_coded_size(text_size / fsst_size);
  if (front_size < text_size * kFrontShare) {
    offer(Choice::kFrontCoded, static_cast<uint64_t>(front_size));
  }
  consider_zstd(fsst_size);
  if (!is_compact() && best_ == Choice::kZstd) {
    consider_own_phrases(static_cast<double>(best_size_) *
                         kPhrasesForZstdShare);
  }
}

// Chooses the stream's phrases, if they compress these values as well as the
// values they were trained on. Returns true if nothing else needs to be
// considered. Returns false in compact files and if neighbours share prefixes.
bool Selection::consider_known_phrases() {
  const StreamPhrases* known = context_.phrases;
  if (known == nullptr || !known->exist() || !known->have_bytes_of(values_)) {
    return false;
  }
  const PhrasesEstimate estimate =
      estimate_codes(values_, known->phrases(), known->matcher());
  known_phrases_size_ = static_cast<double>(estimate.bytes);
  if (is_compact() || begin_alike() ||
      estimate.share > known->share() * kKnownPhrasesShare) {
    return false;
  }
  offer(Choice::kSharedPhrases, estimate.bytes);
  return true;
}

void Selection::consider_phrases(double fsst_size) {
  const StreamPhrases* stream = context_.phrases;
  const double limit =
      std::min(fsst_size * kPhrasesShare, static_cast<double>(best_size_));
  if (known_phrases_size_ < limit) {
    offer(Choice::kSharedPhrases, static_cast<uint64_t>(known_phrases_size_));
  }
  if (stream == nullptr ? !is_compact() : !stream->are_looked_for()) return;
  if (stream != nullptr && context_.may_change_shared && !stream->exist()) {
    return consider_new_phrases(limit);
  }
  const double share = is_compact() ? kPhrasesShare : kOwnPhrasesShare;
  consider_own_phrases(
      std::min({fsst_size * share, static_cast<double>(best_size_),
                known_phrases_size_ * kPhrasesShare}));
}

// Trains phrases that the stream's later segments will use too.
void Selection::consider_new_phrases(double limit) {
  if (sizes_.total <
          (is_compact() ? kMinCompactPhrasesBytes : kMinPhrasesBytes) ||
      (!is_compact() && !phrases_may_reach(values_, limit))) {
    return;
  }
  std::vector<Phrase> phrases = train_shared_phrases(values_);
  const PhrasesEstimate estimate =
      estimate_codes(values_, phrases, PhraseMatcher(phrases));
  // Half of the table is charged to later segments, because most columns have
  // some.
  const uint64_t size = estimate.bytes + serialize_phrases(phrases).size() / 2;
  if (static_cast<double>(size) >= limit) return;
  choose_phrases(Choice::kSharedPhrases, size, std::move(phrases));
  phrases_share_ = estimate.share;
}

void Selection::consider_own_phrases(double limit) {
  if (sizes_.total < kMinOwnPhrasesBytes ||
      (!is_compact() && !phrases_may_reach(values_, limit))) {
    return;
  }
  std::vector<Phrase> phrases = train_phrases(values_);
  const uint64_t size = estimate_phrases(values_, phrases);
  if (static_cast<double>(size) >= limit) return;
  choose_phrases(Choice::kPhrases, size, std::move(phrases));
}

void Selection::choose_phrases(Choice choice, uint64_t size,
                               std::vector<Phrase> phrases) {
  best_ = choice;
  best_size_ = size;
  phrases_ = std::move(phrases);
}

// Samples blocks from all over the segment.
Selection::Fronts Selection::sample_fronts() const {
  Fronts out;
  if (!may_nest() || context_.random_access_only) return out;
  constexpr uint32_t kRows = 1u << kFrontCodedShift;
  const uint32_t blocks = (values_.size + kRows - 1) / kRows;
  const uint32_t step = std::max(1u, blocks / kFrontSampleBlocks);
  uint64_t total = 0, shared = 0, longest_shared = 0, longest_rest = 0;
  for (uint32_t b = 0; b < blocks; b += step) {
    const uint32_t end = std::min((b + 1) * kRows, values_.size);
    for (uint32_t i = b * kRows; i < end; ++i) {
      const ByteSlice& s = values_.slices[i];
      const uint64_t n = shared_front(values_, i);
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

double Selection::front_coded_size(double text_share) const {
  const Fronts fronts = sample_fronts();
  if (fronts.shared < kMinSharedFront) {
    return kNever;
  }
  Values sampled = values_;
  sampled.size = static_cast<uint32_t>(fronts.rests.size());
  sampled.slices = fronts.rests.data();
  const double share =
      fronts.rests.empty() ? 0 : std::min(1.0, fsst_share(sampled));
  return static_cast<double>(sizes_.rows) * fronts.length_bits / 8 +
         static_cast<double>(sizes_.total) * (1 - fronts.shared) * share *
             text_share;
}

void Selection::consider_zstd(double fsst_size) {
  if (context_.random_access_only || sizes_.max > kMaxZstdBlockBytes) return;
  if (!is_compact() && context_.depth > 0) return;
  const auto best = static_cast<double>(best_size_);
  const auto rows = static_cast<double>(sizes_.rows);
  const double limit = is_compact() ? best * kCompactZstdStringsShare
                                    : std::min(best * kZstdStringsShare,
                                               best - rows * kZstdBytesOfRow);
  const auto probe =
      static_cast<double>(probe_zstd_strings(values_, context_.effort));
  if (is_compact() || probe < limit * kZstdProbeShare) {
    zstd_dictionary_ = train_zstd(values_, context_.effort);
  }
  if (!zstd_dictionary_.empty()) {
    const auto trained = static_cast<double>(
        estimate_zstd_strings(values_, zstd_dictionary_, context_.effort));
    // Its blocks are smaller than the probe's, so it may be a little larger.
    if (trained < limit && trained < probe * kTrainedShare) {
      offer(Choice::kZstd, static_cast<uint64_t>(trained));
      return;
    }
  }
  // Without a dictionary, zstd is for strings that FSST cannot shrink, and for
  // compact files.
  zstd_dictionary_.clear();
  if (context_.depth > 0) return;
  const bool is_hopeless = fsst_size >= static_cast<double>(sizes_.plain) * 0.9;
  if (!is_compact() && !is_hopeless) return;
  if (probe < limit) offer(Choice::kZstd, static_cast<uint64_t>(probe));
}

// Encodes a template in order to know its size, which depends on how its
// integers encode.
Result<bool> Selection::encode_as_template(SegmentBuilder* out) const {
  if (!may_nest()) return false;
  const std::optional<TemplatePattern> pattern = detect_template(values_);
  if (!pattern) return false;
  const Checkpoint checkpoint(*out);
  NIMBLE_ASSIGN_OR_RETURN(const bool has_dictionary,
                          encode_template(values_, *pattern, context_, out));
  // A dictionary decodes its strings once. A template assembles strings for
  // every row.
  if (has_dictionary &&
      (best_ == Choice::kDictionary || best_ == Choice::kSharedDictionary ||
       is_better_as_new_dictionary(best_size_))) {
    checkpoint.roll_back(out);
    return false;
  }
  // A template lookup needs no dictionary, and a scan copies no string twice,
  // so a template may be a little larger. A dictionary in the metadata costs a
  // lookup nothing and scans several times as fast.
  const uint64_t size = checkpoint.body_bytes(*out);
  if (is_better_as_new_dictionary(size)) {
    checkpoint.roll_back(out);
    return false;
  }
  const bool is_in_metadata =
      best_ == Choice::kDictionary && distinct_size_ <= kInlineBytes;
  const double share = is_compact() ? 1 : is_in_metadata ? 0.9 : 1.125;
  if (static_cast<double>(size) <= static_cast<double>(best_size_) * share &&
      size <= sizes_.plain) {
    return true;
  }
  checkpoint.roll_back(out);
  return false;
}

// Numbered text, too, is encoded in order to know its size.
Result<bool> Selection::encode_as_numbered(SegmentBuilder* out) const {
  if (!is_compact() || !may_nest() || context_.random_access_only ||
      values_.size < kMinNumberedRows) {
    return false;
  }
  const double limit = static_cast<double>(best_size_) * kNumberedShare;
  if (estimate_numbered_text(values_) >= limit) return false;
  const std::optional<NumberedText> text = NumberedText::find(values_);
  if (!text) return false;
  const Checkpoint checkpoint(*out);
  NIMBLE_RETURN_IF_ERROR(encode_numbered_text(values_, *text, context_, out));
  if (static_cast<double>(checkpoint.bytes(*out)) < limit) return true;
  checkpoint.roll_back(out);
  return false;
}

Status Selection::encode_best(SegmentBuilder* out) {
  switch (best_) {
    case Choice::kDictionary:
      return encode_dictionary(distinct_, context_, out);
    case Choice::kSharedDictionary:
      return encode_shared_dictionary(distinct_, context_.dictionary, context_,
                                      out);
    case Choice::kRunLength:
      return encode_run_length(values_, run_ends_, context_, out);
    case Choice::kFsst:
      return encode_fsst(values_, table_, out);
    case Choice::kPhrases:
      if (context_.phrases != nullptr && context_.may_change_shared) {
        context_.phrases->paid();
      }
      return encode_phrases(values_, phrases_, out);
    case Choice::kSharedPhrases:
      if (!context_.phrases->exist()) {
        context_.phrases->begin(std::move(phrases_), phrases_share_);
      }
      return encode_shared_phrases(values_, *context_.phrases, out);
    case Choice::kFrontCoded:
      return encode_front_coded(values_, context_, out);
    case Choice::kZstd:
      return encode_zstd_strings(values_, zstd_dictionary_, context_.effort,
                                 out);
    case Choice::kPlain:
      break;
  }
  return encode_plain_bytes(values_, out);
}

Status Selection::encode(SegmentBuilder* out) {
  if (is_constant(values_)) return encode_constant(values_, out);
  if (values_.size == 0) return encode_plain_bytes(values_, out);
  measure();
  const Repeats sample = sample_repeats(values_);
  if (is_better_without_empty(sample)) {
    return encode_present(values_, context_, out);
  }
  consider_repeats(sample);
  NIMBLE_ASSIGN_OR_RETURN(const bool is_template, encode_as_template(out));
  if (is_template) return Status::ok();
  consider_text();
  consider_new_dictionary();
  NIMBLE_ASSIGN_OR_RETURN(const bool is_numbered, encode_as_numbered(out));
  if (is_numbered) return Status::ok();
  const Checkpoint checkpoint(*out);
  NIMBLE_RETURN_IF_ERROR(encode_best(out));
  // Estimates may be wrong, but the result must not exceed plain bytes. Heads
  // count, because they hold symbol tables and small dictionaries.
  if (best_ == Choice::kPlain ||
      checkpoint.bytes(*out) <= sizes_.plain + kMaxHeadBytes) {
    return Status::ok();
  }
  checkpoint.roll_back(out);
  return encode_plain_bytes(values_, out);
}

}  // namespace

Status encode_bytes(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out) {
  return Selection(values, context).encode(out);
}

}  // namespace nimble
