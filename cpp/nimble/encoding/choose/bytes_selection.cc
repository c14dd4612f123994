#include "nimble/encoding/choose/bytes_selection.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/encoding/core/string_blocks.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/dictionary.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/strings/fsst.h"
#include "nimble/encoding/strings/fsst_training.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/strings/template_text.h"
#include "nimble/encoding/strings/zstd_blocks.h"

namespace nimble {
namespace {

constexpr uint64_t kMinFsstBytes = 4096;
// 16 KiB cost TPC-H's comments 3 % in size, 32 KiB gain 1 %. Small segments
// take less: training must not cost more than compressing.
constexpr uint64_t kFsstSampleBytes = 24576;
constexpr uint64_t kMinFsstSampleBytes = 8192;
constexpr uint64_t kFsstSampleShare = 128;
// What a head may have more than that of plain bytes before it counts.
constexpr uint64_t kHeadBytes = 64;
// A cold lookup reads the whole dictionary; a compact one may read more.
constexpr uint64_t kMaxDictionaryBytes = 128u << 10;
constexpr uint64_t kMaxCompactDictionaryBytes = 1u << 20;
constexpr uint32_t kSampleWindows = 16;
constexpr uint32_t kWindowRows = 64;
constexpr uint32_t kMinRepeats = 8;  // among the sampled rows
constexpr uint32_t kMinRunRows = 4;  // on average
// What nests in what: dictionary, then template or FSST, then integers.
constexpr int kMaxNestingDepth = 3;

enum class Choice : uint8_t { kPlain, kFsst, kDictionary, kRunLength, kZstd };

struct Sizes {
  uint64_t rows = 0;
  uint64_t total = 0;
  uint64_t min = UINT64_MAX;
  uint64_t max = 0;
  uint64_t plain = 0;  // as plain_bytes
};

// What the sampled rows say about repetition.
struct Repeats {
  uint32_t rows = 0;
  uint32_t repeated = 0;  // rows whose string another sampled row has too
  uint32_t adjacent = 0;  // rows equal to the one before them
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
  void consider_repeats();
  void consider_text();
  Status encode_best(SegmentBuilder* out) const;
  Result<bool> encode_as_template(SegmentBuilder* out) const;
  bool may_nest() const { return context_.depth < kMaxNestingDepth; }
  bool is_compact() const { return context_.effort == Effort::kCompact; }

  const Values& values_;
  EncodeContext context_;
  Sizes sizes_;
  Choice best_ = Choice::kPlain;
  uint64_t best_size_ = 0;
  DistinctValues distinct_;
  std::vector<uint32_t> run_ends_;
  FsstTable table_;
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
    const uint64_t end = std::min(n, row + kWindowRows);
    for (next = end; row < end; ++row) {
      const ByteSlice& s = values.slices[row];
      hashes.push_back(checksum64({s.data, static_cast<size_t>(s.size)}));
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
    sizes_.min = std::min(sizes_.min, size);
    sizes_.max = std::max(sizes_.max, size);
  }
  sizes_.plain =
      string_blocks_size(sizes_.rows, sizes_.total, sizes_.max, sizes_.min);
  best_size_ = sizes_.plain;
}

// Nested text, by experience: FSST halves it where there is enough of it.
uint64_t nested_size(uint64_t rows, uint64_t bytes) {
  return rows + (bytes < kMinFsstBytes ? bytes : bytes * 6 / 10);
}

// Runs and dictionaries.
void Selection::consider_repeats() {
  if (!may_nest()) return;
  const Repeats sample = sample_repeats(values_);
  const uint64_t average = div_ceil(sizes_.total, sizes_.rows);
  if (!context_.random_access_only && sample.adjacent * 2 > sample.rows) {
    run_ends_ = run_ends(values_, values_.size / kMinRunRows);
    const uint64_t runs = run_ends_.size();
    if (runs > 0) {
      offer(Choice::kRunLength, runs * 2 + nested_size(runs, runs * average));
    }
  }
  if (sample.repeated < std::min(kMinRepeats, sample.rows / 2)) return;
  DistinctLimits limits;
  limits.max_values = values_.size / 2;
  limits.max_bytes =
      std::min(sizes_.total / 2 + 64,
               is_compact() ? kMaxCompactDictionaryBytes : kMaxDictionaryBytes);
  if (!distinct_.build(values_, limits) || distinct_.count() == 0) return;
  const Values strings = distinct_.distinct();
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < strings.size; ++i) bytes += strings.slices[i].size;
  const uint64_t codes =
      is_compact() && strings.size <= kMaxByteCodes
          ? static_cast<uint64_t>(code_entropy(distinct_) / 8)
          : sizes_.rows * bit_width_of(strings.size - 1) / 8;
  offer(Choice::kDictionary, codes + nested_size(strings.size, bytes));
}

// FSST and zstd: only where nothing above already made the column small.
void Selection::consider_text() {
  if (context_.effort == Effort::kFast || sizes_.total < kMinFsstBytes) return;
  if (best_size_ * 4 < sizes_.plain) return;
  const std::vector<ByteSlice> sample = sample_strings(
      values_, std::clamp(sizes_.total / kFsstSampleShare, kMinFsstSampleBytes,
                          kFsstSampleBytes));
  table_ = train_fsst(sample);
  const FsstSizes fsst = measure_fsst(table_, sample);
  const double plain = static_cast<double>(sizes_.plain);
  const double total = static_cast<double>(sizes_.total);
  const double lengths = plain - total;
  const double fsst_size =
      static_cast<double>(table_.written_size()) + lengths +
      total * static_cast<double>(fsst.compressed) /
          static_cast<double>(std::max<uint64_t>(fsst.raw, 1));
  if (fsst_size < plain * 0.95) {
    offer(Choice::kFsst, static_cast<uint64_t>(fsst_size));
  }
  // A zstd block a row is dear: wanted, or where FSST finds nothing.
  if (context_.random_access_only || sizes_.max > kMaxZstdBlockBytes) return;
  if (!is_compact() && fsst_size < plain * 0.9) return;
  const ZstdSizes zstd = measure_zstd(values_, context_);
  const double zstd_size =
      lengths + total * static_cast<double>(zstd.compressed) /
                    static_cast<double>(std::max<uint64_t>(zstd.raw, 1));
  if (zstd_size < plain * (is_compact() ? 0.95 : 0.7)) {
    offer(Choice::kZstd, static_cast<uint64_t>(zstd_size));
  }
}

// Templates are encoded to know their size: integers decide that.
Result<bool> Selection::encode_as_template(SegmentBuilder* out) const {
  if (!may_nest()) return false;
  const std::optional<TemplatePattern> pattern = detect_template(values_);
  if (!pattern) return false;
  const size_t head = out->head.size();
  const size_t body = out->body.size();
  NIMBLE_RETURN_IF_ERROR(encode_template(values_, *pattern, context_, out));
  // Lookups of a template need no dictionary, and no string is copied twice:
  // it may be a little larger.
  const uint64_t size = out->body.size() - body;
  const uint64_t tolerance = is_compact() ? 0 : best_size_ / 8;
  if (size <= std::min(best_size_ + tolerance, sizes_.plain)) return true;
  out->head.resize(head);
  out->body.resize(body);
  return false;
}

Status Selection::encode_best(SegmentBuilder* out) const {
  switch (best_) {
    case Choice::kDictionary:
      return encode_dictionary(distinct_, context_, out);
    case Choice::kRunLength:
      return encode_run_length(values_, run_ends_, context_, out);
    case Choice::kFsst:
      return encode_fsst(values_, table_, out);
    case Choice::kZstd:
      return encode_zstd_blocks(values_, context_, out);
    case Choice::kPlain:
      break;
  }
  return encode_plain_bytes(values_, out);
}

Status Selection::encode(SegmentBuilder* out) {
  if (is_constant(values_)) return encode_constant(values_, out);
  if (values_.size == 0) return encode_plain_bytes(values_, out);
  measure();
  consider_repeats();
  NIMBLE_ASSIGN_OR_RETURN(const bool is_template, encode_as_template(out));
  if (is_template) return Status::ok();
  consider_text();
  const size_t head = out->head.size();
  const size_t body = out->body.size();
  NIMBLE_RETURN_IF_ERROR(encode_best(out));
  // Samples may mislead, but never beyond the size of plain bytes. Heads
  // count, as they hold symbols and small dictionaries.
  const uint64_t size = out->body.size() - body + out->head.size() - head;
  if (best_ == Choice::kPlain || size <= sizes_.plain + kHeadBytes) {
    return Status::ok();
  }
  out->head.resize(head);
  out->body.resize(body);
  return encode_plain_bytes(values_, out);
}

}  // namespace

Status encode_bytes(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out) {
  return Selection(values, context).encode(out);
}

}  // namespace nimble
