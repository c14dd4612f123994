// The filter of bit_packed. It subtracts the base from the range instead of
// adding it to every value. Often all offsets of a block pass, or all fail.
#include "nimble/encoding/core/predicate.h"
#include "nimble/encoding/ints/bit_packed.h"

namespace nimble {
namespace {

void clear_block(uint64_t* selection) {
  std::memset(selection, 0, kSelectionWords * 8);
}

}  // namespace

Status BitPackedDecoder::filter(const SegmentBody& body, const Predicate& test,
                                uint64_t* selection) const {
  using Shape = Predicate::Shape;
  const bool has_bounds =
      test.shape == Shape::kRange || test.shape == Shape::kSet;
  if (!has_bounds) return filter_decoded(body, test, selection);
  std::vector<uint64_t> before;
  if (patches_) {
    before.assign(selection,
                  selection + blocks_.num_blocks() * kSelectionWords);
  }
  for (uint32_t b = 0; b < blocks_.num_blocks(); ++b) {
    uint64_t* const words = selection + b * kSelectionWords;
    const uint32_t wanted = count_selected(words, kSelectionWords);
    if (wanted == 0) continue;
    const uint8_t* fields = nullptr;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &fields));
    if (wanted <= kExtractRows) {
      filter_extracted(fields, b, test, words);
    } else {
      filter_block(fields, b, test, words);
    }
  }
  if (!patches_) return Status::ok();
  return patches_->apply_filter(body, test, before.data(), selection);
}

void BitPackedDecoder::filter_extracted(const uint8_t* fields, uint32_t block,
                                        const Predicate& test,
                                        uint64_t* selection) const {
  uint32_t rows[kExtractRows];
  const uint32_t n = selected_rows(selection, kSelectionWords, 0, rows);
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t value[8];
    store(value, extract(fields, block, rows[i]));
    if (passes(test, value)) continue;
    selection[rows[i] / 64] &= ~(uint64_t{1} << (rows[i] % 64));
  }
}

void BitPackedDecoder::filter_block(const uint8_t* fields, uint32_t block,
                                    const Predicate& test,
                                    uint64_t* selection) const {
  const bool is_signed = type().is_signed;
  const uint32_t n = blocks_.rows(block);
  const uint64_t base = fit(load<uint64_t>(fields));
  const uint64_t top = fit(base + low_bits(blocks_.width(block)));
  alignas(64) uint8_t values[kBlockValues * 8];
  // Values that wrap around the end of their type are not in order.
  const bool wraps = int_less(is_signed, top, base) ||
                     top - base != low_bits(blocks_.width(block));
  if (wraps) {
    unpack(fields, block, values);
    return apply_predicate(test, values, n, selection);
  }
  if (int_less(is_signed, test.ints.high, base) ||
      int_less(is_signed, top, test.ints.low)) {
    return test.negated ? void() : clear_block(selection);
  }
  if (test.shape == Predicate::Shape::kSet) {
    unpack(fields, block, values);
    return apply_predicate(test, values, n, selection);
  }
  const bool low_holds = !int_less(is_signed, base, test.ints.low);
  const bool high_holds = !int_less(is_signed, test.ints.high, top);
  if (low_holds && high_holds) {
    return test.negated ? clear_block(selection) : void();
  }
  const uint64_t low = low_holds ? 0 : test.ints.low - base;
  const uint64_t high = (high_holds ? top : test.ints.high) - base;
  if (type().width == 8) {
    unpack_offsets64(fields + 8, block, values);
    return apply_span(values, 8, n, low, high - low, test.negated, selection);
  }
  unpack_offsets32(fields + 8, block, values);
  apply_span(values, 4, n, low, high - low, test.negated, selection);
}

void BitPackedDecoder::unpack_offsets64(const uint8_t* packed, uint32_t block,
                                        uint8_t* out) const {
  const uint32_t n = blocks_.rows(block);
  const uint32_t width = blocks_.width(block);
  if (n == kBlockValues) return unpack64(width, packed, 0, out);
  unpack_tail64(width, packed, n, 0, out);
}

void BitPackedDecoder::unpack_offsets32(const uint8_t* packed, uint32_t block,
                                        uint8_t* out) const {
  const uint32_t n = blocks_.rows(block);
  const uint32_t width = blocks_.width(block);
  if (n == kBlockValues) return unpack32(width, packed, 0, out);
  unpack_tail32(width, packed, n, 0, out);
}

}  // namespace nimble
