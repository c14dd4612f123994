#include "nimble/encoding/ints/bit_packed.h"

#include <numeric>

#include "nimble/base/unpack_ranges.h"
#include "nimble/encoding/core/decode_ranges.h"

namespace nimble {
namespace {

constexpr uint32_t kFields = 1;  // base
static_assert(kUnpackOvershoot <= kRangeOvershoot);
// Up to this many rows of a block are extracted without decoding the others.
constexpr size_t kFewRows = 64;

// Packs one block given as 64-bit or 32-bit words.
void pack_words(uint32_t word_bytes, const uint8_t* words, uint32_t n,
                uint64_t base, uint32_t width, uint8_t* out) {
  const uint32_t base32 = static_cast<uint32_t>(base);
  if (n == kBlockValues) {
    if (word_bytes == 8) return pack64(width, words, base, out);
    return pack32(width, words, base32, out);
  }
  if (word_bytes == 8) return pack_tail64(width, words, n, base, out);
  pack_tail32(width, words, n, base32, out);
}

// Appends a block of n values of `type` at `data`.
void put_block(const ValueType& type, const uint8_t* data, uint32_t n,
               uint64_t base, uint32_t width, ByteBuffer* body) {
  const size_t begin = body->size();
  uint8_t* p = body->extend(16 + static_cast<size_t>(packed_bytes(n, width)));
  store(p + 8, base);
  if (type.width >= 4) {
    pack_words(type.width, data, n, base, width, p + 16);
  } else {
    uint32_t words[kBlockValues];
    with_int_type(type, [&](auto tag) {
      using T = decltype(tag);
      for (uint32_t i = 0; i < n; ++i) {
        words[i] = static_cast<uint32_t>(load<T>(data + i * sizeof(T)));
      }
    });
    pack_words(4, reinterpret_cast<const uint8_t*>(words), n, base, width,
               p + 16);
  }
  store(p, checksum64({p + 8, body->size() - begin - 8}));
}

BlockWidths choose_widths(uint32_t num_values, std::span<const MinMax> stats) {
  std::vector<uint8_t> widths;
  for (const MinMax& s : stats)
    widths.push_back(static_cast<uint8_t>(s.width()));
  return BlockWidths::choose(std::move(widths), num_values, kFields);
}

}  // namespace

// --------------------------------------------------------------------- encode

uint64_t bit_packed_bytes(uint32_t num_values, std::span<const MinMax> stats) {
  return choose_widths(num_values, stats).part_bytes(num_values, kFields);
}

Status encode_bit_packed(const Values& values, SegmentBuilder* out) {
  return encode_bit_packed(values, block_min_max(values), out);
}

Status encode_bit_packed(const Values& values, std::span<const MinMax> stats,
                         SegmentBuilder* out) {
  const BlockWidths widths = choose_widths(values.size, stats);
  const uint64_t begin = out->begin_part();
  out->body.reserve(begin + widths.part_bytes(values.size, kFields));
  for (uint32_t b = 0; b < stats.size(); ++b) {
    put_block(values.type,
              values.data + uint64_t{b} * kBlockValues * values.type.width,
              block_rows(b, values.size), stats[b].min, widths.width(b),
              &out->body);
  }
  put_encoding_id(EncodingId::kBitPacked, out);
  out->put_part(begin);
  widths.write(&out->head);
  out->head.put_u8(0);
  return Status::ok();
}

namespace {

uint32_t count_outside(const uint64_t* values, uint32_t n, uint64_t base,
                       uint64_t limit) {
  uint32_t outside = 0;
  for (uint32_t i = 0; i < n; ++i) outside += values[i] - base > limit;
  return outside;
}

// The middle of the window of size `limit` that contains the most of n values.
uint64_t window_middle(const ValueType& type, const uint64_t* values,
                       uint32_t n, uint64_t limit) {
  constexpr uint32_t kMost = 64;
  uint64_t sorted[kMost];
  const uint32_t count = std::min(n, kMost);
  for (uint32_t i = 0; i < count; ++i) {
    sorted[i] = values[uint64_t{i} * n / count];
  }
  std::sort(sorted, sorted + count, [&](uint64_t a, uint64_t b) {
    return int_less(type.is_signed, a, b);
  });
  uint32_t best = 0;
  uint32_t middle = 0;
  for (uint32_t begin = 0, end = 0; begin < count; ++begin) {
    while (end < count && sorted[end] - sorted[begin] <= limit) ++end;
    if (end - begin > best) {
      best = end - begin;
      middle = begin + best / 2;
    }
  }
  return sorted[middle];
}

// Returns a base for which most of n values are in [base, base + 2^width). This
// is the block's minimum if few values are outside. Otherwise it is near the
// middle of the best window over a sample of the values.
uint64_t window_base(const ValueType& type, const uint64_t* values, uint32_t n,
                     uint64_t min, uint32_t width) {
  const uint64_t limit = low_bits(width);
  if (count_outside(values, n, min, limit) <= n / 32) return min;
  const uint64_t middle = window_middle(type, values, n, limit);
  uint64_t below = 0;  // largest distances from the middle inside the window
  uint64_t above = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t up = values[i] - middle;
    const uint64_t down = middle - values[i];
    if (up <= limit) above = std::max(above, up);
    if (down <= limit) below = std::max(below, down);
  }
  const uint64_t bases[] = {min, middle - below, middle + above - limit,
                            middle - limit / 2};
  uint64_t best = min;
  uint32_t fewest = UINT32_MAX;
  for (const uint64_t base : bases) {
    const uint32_t outside = count_outside(values, n, base, limit);
    if (outside < fewest) best = base;
    fewest = std::min(fewest, outside);
  }
  return best;
}

}  // namespace

Status encode_bit_packed_patched(const Values& values,
                                 std::span<const MinMax> stats, uint32_t width,
                                 const EncodeContext& context,
                                 SegmentBuilder* out) {
  std::vector<uint32_t> rows;
  ByteBuffer exceptions;
  const uint32_t value_bytes = values.type.width;
  const uint64_t begin = out->begin_part();
  for (uint32_t b = 0; b < stats.size(); ++b) {
    const uint32_t n = block_rows(b, values.size);
    const uint32_t first = b * kBlockValues;
    const uint8_t* data = values.data + uint64_t{first} * value_bytes;
    uint64_t wide[kBlockValues];
    widen_ints(values.type, data, n, wide);
    const uint64_t base =
        window_base(values.type, wide, n, stats[b].min, width);
    uint8_t kept[kBlockValues * 8];
    for (uint32_t i = 0; i < n; ++i) {
      if (wide[i] - base > low_bits(width)) {
        rows.push_back(first + i);
        exceptions.put_bytes(data + uint64_t{i} * value_bytes, value_bytes);
        wide[i] = base;
      }
      store_int(value_bytes, wide[i], kept + i * value_bytes);
    }
    put_block(values.type, kept, n, base, width, &out->body);
  }
  put_encoding_id(EncodingId::kBitPacked, out);
  out->put_part(begin);
  BlockWidths::uniform(width).write(&out->head);
  out->head.put_u8(1);
  Values patched = values;
  patched.size = static_cast<uint32_t>(rows.size());
  patched.data = exceptions.data();
  return Patches::write(rows, patched, values.size, context, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<BitPackedDecoder>> BitPackedDecoder::open(
    ByteReader* head, const DecodeContext& context) {
  if (!is_int(context.type)) {
    return Status::corrupt("only integers can be bit-packed");
  }
  const uint32_t max_width =
      context.type.width == 8 ? 64 : 8 * context.type.width;
  NIMBLE_ASSIGN_OR_RETURN(
      PackedBlocks blocks,
      PackedBlocks::open(head, context, kFields, max_width));
  std::unique_ptr<BitPackedDecoder> decoder(
      new BitPackedDecoder(context, std::move(blocks)));
  const uint8_t has_patches = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("bit-packed head"));
  if (has_patches > 1)
    return Status::corrupt("the head of bit-packed values is damaged");
  if (has_patches == 1) {
    NIMBLE_ASSIGN_OR_RETURN(Patches patches, Patches::open(head, context));
    decoder->patches_ = std::move(patches);
  }
  return decoder;
}

// --------------------------------------------------------------------- decode

void BitPackedDecoder::append_ranges(uint32_t begin, uint32_t end,
                                     std::vector<ByteRange>* out) const {
  blocks_.append_ranges(begin, end, out);
  if (patches_) patches_->append_ranges(begin, end, out);
}

void BitPackedDecoder::unpack(const uint8_t* fields, uint32_t block,
                              uint8_t* out) const {
  const uint32_t n = blocks_.rows(block);
  const uint32_t width = blocks_.width(block);
  const uint64_t base = load<uint64_t>(fields);
  const uint32_t base32 = static_cast<uint32_t>(base);
  if (type().width == 8) {
    if (n == kBlockValues) return unpack64(width, fields + 8, base, out);
    return unpack_tail64(width, fields + 8, n, base, out);
  }
  uint32_t words[kBlockValues];
  uint8_t* to = type().width == 4 ? out : reinterpret_cast<uint8_t*>(words);
  if (n == kBlockValues) {
    unpack32(width, fields + 8, base32, to);
  } else {
    unpack_tail32(width, fields + 8, n, base32, to);
  }
  if (type().width < 4) narrow_ints32(words, n, type().width, out);
}

void BitPackedDecoder::extract_few(const uint8_t* fields, uint32_t block,
                                   const uint32_t* rows, size_t n,
                                   uint8_t* out) const {
  if (blocks_.rows(block) < kBlockValues) {
    for (size_t i = 0; i < n; ++i) {
      store_int(type().width, extract(fields, block, rows[i] % kBlockValues),
                out + i * type().width);
    }
    return;
  }
  const uint32_t width = blocks_.width(block);
  const uint64_t base = load<uint64_t>(fields);
  if (type().width == 8) {
    return extract_rows64(width, fields + 8, base, rows, n, out);
  }
  extract_rows32(width, fields + 8, static_cast<uint32_t>(base), rows, n,
                 type().width, out);
}

Status BitPackedDecoder::decode(const SegmentBody& body, uint32_t begin,
                                uint32_t end, const Output& out) const {
  uint8_t* to = out.data;
  const uint32_t width = type().width;
  const auto decode_block = [&](uint32_t block, uint32_t from,
                                uint32_t until) -> Status {
    const uint8_t* fields = nullptr;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
    if (until - from == blocks_.rows(block)) {
      unpack(fields, block, to);
    } else if (blocks_.rows(block) < kBlockValues) {
      for (uint32_t i = from; i < until; ++i) {
        store_int(width, extract(fields, block, i), to + (i - from) * width);
      }
    } else if (until - from <= kFewRows) {
      uint32_t rows[kFewRows];
      std::iota(rows, rows + (until - from), from);
      extract_few(fields, block, rows, until - from, to);
    } else {
      uint8_t scratch[kBlockValues * 8];
      unpack(fields, block, scratch);
      std::memcpy(to, scratch + from * width, (until - from) * width);
    }
    to += (until - from) * width;
    return Status::ok();
  };
  NIMBLE_RETURN_IF_ERROR(for_blocks(begin, end, decode_block));
  if (!patches_) return Status::ok();
  return patches_->apply(body, begin, end, out.data);
}

Status BitPackedDecoder::decode_ranges(const SegmentBody& body,
                                       std::span<const RowRange> ranges,
                                       const Output& out) const {
  const uint32_t width = type().width;
  if (patches_ || width < 4) return Decoder::decode_ranges(body, ranges, out);
  RangeOutput to(*this, body, out);
  return to.decode(ranges, [&](uint64_t first, auto some, uint8_t** at) {
    const auto block = static_cast<uint32_t>(first / kBlockValues);
    const uint8_t* fields = nullptr;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
    const uint32_t bits = blocks_.width(block);
    const uint64_t base = load<uint64_t>(fields);
    *at = width == 8 ? unpack_ranges64(bits, fields + 8, first, some, base, *at)
                     : unpack_ranges32(bits, fields + 8, first, some,
                                       static_cast<uint32_t>(base), *at);
    return Status::ok();
  });
}

// --------------------------------------------------------------------- gather

Status BitPackedDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                size_t count, const Output& out) const {
  const uint32_t width = type().width;
  if (count == 1) {
    uint64_t value = 0;
    NIMBLE_RETURN_IF_ERROR(get(body, rows[0], &value));
    store_int(width, value, out.data);
    return Status::ok();
  }
  const auto gather_block = [&](uint32_t block, size_t first,
                                size_t n) -> Status {
    const uint8_t* fields = nullptr;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
    uint8_t* to = out.data + first * width;
    if (n <= kFewRows) {
      extract_few(fields, block, rows + first, n, to);
      return Status::ok();
    }
    uint8_t scratch[kBlockValues * 8];
    unpack(fields, block, scratch);
    pick_values(scratch, width, rows + first, n, block * kBlockValues, to);
    return Status::ok();
  };
  const auto ask = [&](uint32_t row) { BitPackedDecoder::prefetch(body, row); };
  NIMBLE_RETURN_IF_ERROR(
      for_row_groups_ahead(body, rows, count, ask, gather_block));
  if (!patches_) return Status::ok();
  return patches_->apply_gather(body, rows, count, out.data);
}

Status BitPackedDecoder::patch_one(const SegmentBody& body, uint32_t row,
                                   uint64_t* value) const {
  NIMBLE_RETURN_IF_ERROR(patches_->apply_one(body, row, value));
  *value = fit(*value);
  return Status::ok();
}

Status BitPackedDecoder::search(const SegmentBody& body, uint32_t begin,
                                uint32_t end, uint64_t target,
                                uint32_t* row) const {
  // Searches the first values of blocks, and then one block. In all blocks
  // except the last, only a single value is read.
  uint32_t low = begin;
  uint32_t high = end;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const uint32_t block_begin = middle / kBlockValues * kBlockValues;
    if (block_begin > low) middle = block_begin;
    uint64_t value = 0;
    NIMBLE_RETURN_IF_ERROR(get(body, middle, &value));
    if (int_less(type().is_signed, value, target)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *row = low;
  return Status::ok();
}

// ------------------------------------------------------------------- describe

std::string BitPackedDecoder::describe() const {
  std::string text = "bit-packed " + blocks_.describe();
  if (patches_) text += " patches=" + std::to_string(patches_->count());
  return text;
}

size_t BitPackedDecoder::memory_bytes() const {
  return sizeof *this + blocks_.memory_bytes() +
         (patches_ ? patches_->memory_bytes() : 0);
}

}  // namespace nimble
