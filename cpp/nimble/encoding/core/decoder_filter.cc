// The default Decoder::filter(), for every encoding. Blocks without selected
// rows are skipped. If a block has few selected rows, only these are read.
// Otherwise the block is decoded.
#include <bit>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

// At most one in kGatherShare rows of a block is gathered.
constexpr uint32_t kGatherShare = 32;

// Buffer for the decoded values of one block. Strings are cleared for each
// block.
class BlockValues {
 public:
  explicit BlockValues(const ValueType& type) : type_(type) {
    bytes_.wide = true;
    if (type.kind == ValueKind::kBytes) return;
    fixed_.resize(type.kind == ValueKind::kBool
                      ? kBlockValues / 8
                      : uint64_t{kBlockValues} * type.width);
  }
  Output output() {
    Output out;
    out.data = fixed_.data();
    bytes_.data.clear();
    bytes_.offsets.clear();
    bytes_.count = 0;
    out.bytes = &bytes_;
    return out;
  }
  void test(const Predicate& test, uint32_t n, uint64_t* selection) const {
    if (type_.kind == ValueKind::kBytes) {
      apply_predicate(test, bytes_, n, selection);
    } else {
      apply_predicate(test, fixed_.data(), n, selection);
    }
  }

 private:
  ValueType type_;
  AlignedBuffer fixed_;
  BytesSink bytes_;
};

Status filter_few(const Decoder& decoder, const SegmentBody& body,
                  const Predicate& test, uint32_t first, BlockValues* values,
                  uint64_t* selection) {
  uint32_t rows[kBlockValues];
  const uint32_t n = selected_rows(selection, kSelectionWords, first, rows);
  NIMBLE_RETURN_IF_ERROR(decoder.gather(body, rows, n, values->output()));
  uint64_t passed[kSelectionWords];
  for (uint32_t i = 0; i < n; i += 64) {
    passed[i / 64] = n - i >= 64 ? ~uint64_t{0} : low_bits(n - i);
  }
  values->test(test, n, passed);
  for (uint32_t i = 0; i < n; ++i) {
    if ((passed[i / 64] >> (i % 64) & 1) != 0) continue;
    const uint32_t at = rows[i] - first;
    selection[at / 64] &= ~(uint64_t{1} << (at % 64));
  }
  return Status::ok();
}

// Rows of a block, from the first selected row to the last.
struct RowSpan {
  uint32_t begin;
  uint32_t end;
};

// REQUIRES: at least one row is selected.
RowSpan selected_span(const uint64_t* selection) {
  uint32_t low = 0;
  while (selection[low] == 0) ++low;
  uint32_t high = kSelectionWords - 1;
  while (selection[high] == 0) --high;
  return {low * 64 + static_cast<uint32_t>(std::countr_zero(selection[low])),
          high * 64 + static_cast<uint32_t>(std::bit_width(selection[high]))};
}

// Tests `values`, which hold the rows of `span`, and updates `selection`.
void test_span(const BlockValues& values, const Predicate& test, RowSpan span,
               uint64_t* selection) {
  const uint32_t n = span.end - span.begin;
  uint64_t passed[kSelectionWords];
  for (uint32_t i = 0; i < n; i += 64) {
    passed[i / 64] = n - i >= 64 ? ~uint64_t{0} : low_bits(n - i);
  }
  values.test(test, n, passed);
  for (uint32_t i = 0; i < n; ++i) {
    if ((passed[i / 64] >> (i % 64) & 1) != 0) continue;
    const uint32_t at = span.begin + i;
    selection[at / 64] &= ~(uint64_t{1} << (at % 64));
  }
}

}  // namespace

Status Decoder::filter(const SegmentBody& body, const Predicate& test,
                       uint64_t* selection) const {
  return filter_decoded(body, test, selection);
}

Status Decoder::filter_decoded(const SegmentBody& body, const Predicate& test,
                               uint64_t* selection) const {
  BlockValues values(type());
  for (uint32_t b = 0; b < num_blocks_of(size()); ++b) {
    uint64_t* const words = selection + b * kSelectionWords;
    const uint32_t wanted = count_selected(words, kSelectionWords);
    if (wanted == 0) continue;
    const uint32_t first = b * kBlockValues;
    const uint32_t n = block_rows(b, size());
    if (wanted * kGatherShare <= n) {
      NIMBLE_RETURN_IF_ERROR(
          filter_few(*this, body, test, first, &values, words));
      continue;
    }
    // Decodes only from the first selected row to the last: a parent may have
    // read only the bytes of these rows.
    const RowSpan span = selected_span(words);
    if (span.begin == 0 && span.end == n) {
      NIMBLE_RETURN_IF_ERROR(decode(body, first, first + n, values.output()));
      values.test(test, n, words);
    } else {
      NIMBLE_RETURN_IF_ERROR(
          decode(body, first + span.begin, first + span.end, values.output()));
      test_span(values, test, span, words);
    }
  }
  return Status::ok();
}

}  // namespace nimble
