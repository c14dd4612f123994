#include "nimble/encoding/blocks/string_blocks.h"

#include <algorithm>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

constexpr uint64_t kTargetBlockBytes = 8192;
// Limits the rows of a block of short strings. A lookup sums lengths at about 1
// ns each. One checksum per 256 rows takes little space.
constexpr uint32_t kUsualShift = 8;
constexpr uint64_t kChecksumBytes = 8;

uint32_t choose_shift(uint64_t rows, uint64_t total) {
  return choose_block_shift(rows, total, kTargetBlockBytes, kUsualShift);
}

uint32_t length_width(uint64_t min, uint64_t max) {
  return min == max ? 0 : bit_width_of(max);
}

template <class End>
void store_ends(const uint64_t* ends, uint32_t n, uint64_t base, End* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = static_cast<End>(base + ends[i]);
}

}  // namespace

void PackedLengths::set_width(uint32_t width) {
  width_ = width;
  mask_ = (uint64_t{1} << width) - 1;
  // A load may begin 7 bits before the first field, and the sum of all fields
  // must fit in two fields.
  fields_ = width == 0 ? 0 : (64 - 7) / width;
  if (width < 6) fields_ = std::min(fields_, 1u << width);
  fields_ &= ~1u;
  pairs_ = ones_ = 0;
  for (uint32_t i = 0; i < fields_; i += 2) {
    ones_ |= uint64_t{1} << (i * width);
    pairs_ |= mask_ << (i * width);
  }
}

PackedLengths PackedLengths::write(std::span<const uint64_t> lengths,
                                   ByteBuffer* head) {
  PackedLengths out;
  uint64_t min = lengths.empty() ? 0 : UINT64_MAX;
  uint64_t max = 0;
  for (const uint64_t n : lengths) {
    min = std::min(min, n);
    max = std::max(max, n);
  }
  out.set_width(length_width(min, max));
  head->put_u8(static_cast<uint8_t>(out.width_));
  if (out.width_ == 0) {
    out.fixed_ = max;
    head->put_varint(max);
  }
  return out;
}

Result<PackedLengths> PackedLengths::open(ByteReader* head) {
  PackedLengths out;
  out.width_ = head->get_u8();
  if (out.width_ == 0) out.fixed_ = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("string lengths"));
  if (out.width_ > kMaxWidth || out.fixed_ >> kMaxWidth != 0) {
    return Status::corrupt("string lengths of " + std::to_string(out.width_) +
                           " bits or " + std::to_string(out.fixed_) +
                           " bytes; at most 48 bits are possible");
  }
  out.set_width(out.width_);
  return out;
}

void PackedLengths::running_ends(const uint8_t* packed, uint32_t rows,
                                 uint64_t* ends) const {
  uint64_t sum = 0;
  if (width_ == 0) {
    for (uint32_t i = 0; i < rows; ++i) ends[i] = (i + 1) * fixed_;
    return;
  }
  const uint64_t width = width_;
  const uint64_t mask = mask_;
  uint64_t bit_end = width;
  for (uint32_t i = 0; i < rows; ++i, bit_end += width) {
    const uint64_t byte_end = (bit_end + 7) / 8;
    const uint64_t word = load<uint64_t>(packed - 8 + byte_end);
    sum += (word >> (64 - width - (byte_end * 8 - bit_end))) & mask;
    ends[i] = sum;
  }
}

Result<StringBlocks> StringBlocks::open(ByteReader* head,
                                        const DecodeContext& context,
                                        bool holds_strings) {
  const uint32_t shift = head->get_u8();
  NIMBLE_ASSIGN_OR_RETURN(PackedLengths lengths, PackedLengths::open(head));
  if (shift > kMaxBlockShift) {
    return Status::corrupt("string blocks of 2^" + std::to_string(shift) +
                           " rows; at most 2^10 are allowed");
  }
  StringBlocks out(context.num_values, shift);
  out.lengths_ = lengths;
  NIMBLE_ASSIGN_OR_RETURN(out.part_, Part::read(head, context));
  // A lower bound of the part's size. Every whole block packs to whole bytes,
  // and the division rounds down.
  const uint64_t rows = context.num_values;
  const uint64_t least = out.num_blocks_ * kChecksumBytes +
                         rows * lengths.width() / 8 +
                         (holds_strings ? rows * lengths.fixed_length() : 0);
  if (out.part_.size() < least) {
    return Status::corrupt("string blocks of " + std::to_string(rows) +
                           " rows need at least " + std::to_string(least) +
                           " bytes, but their part has " +
                           std::to_string(out.part_.size()));
  }
  const uint32_t inner = out.num_blocks_ > 0 ? out.num_blocks_ - 1 : 0;
  NIMBLE_ASSIGN_OR_RETURN(out.starts_, PackedOffsets::open(head, inner));
  return out;
}

void StringBlocks::append_ranges(uint32_t begin, uint32_t end,
                                 std::vector<ByteRange>* out) const {
  if (begin >= end) return;
  // A hostile directory may contain any offsets, so ranges are limited to the
  // part.
  const uint64_t first = std::min(start_of(block_of(begin)), part_.size());
  const uint64_t last = std::min(start_of(block_of(end - 1) + 1), part_.size());
  part_.append(first, last, out);
}

Status StringBlocks::read(const SegmentBody& body, uint32_t index,
                          StringBlock* out) const {
  const uint64_t begin = start_of(index);
  const uint64_t end = start_of(index + 1);
  const uint32_t num_rows = rows(index);
  const uint64_t overhead = kChecksumBytes + lengths_.packed_size(num_rows);
  if (NIMBLE_UNLIKELY(
          end > part_.size() || begin > end || end - begin < overhead ||
          end - begin > part_.together(begin) || part_.end() > body.size)) {
    return Status::corrupt("string block " + std::to_string(index) + " at [" +
                           std::to_string(begin) + ", " + std::to_string(end) +
                           ") of a part of " + std::to_string(part_.size()) +
                           " bytes");
  }
  const uint8_t* block = body.data + part_.place(begin);
  NIMBLE_RETURN_IF_ERROR(verified_.check(
      body, index, {block + kChecksumBytes, end - begin - kChecksumBytes},
      load<uint64_t>(block)));
  out->packed = block + kChecksumBytes;
  out->bytes = block + overhead;
  out->size = end - begin - overhead;
  out->first_row = first_row(index);
  out->rows = num_rows;
  return Status::ok();
}

void StringBlocks::prefetch(const SegmentBody& body, uint32_t row) const {
  const uint32_t index = block_of(row);
  const uint64_t begin = start_of(index), end = start_of(index + 1);
  if (begin > end || end > part_.size()) return;  // read() reports the error
  const uint32_t rows = std::min(1u << shift_, num_rows_ - (index << shift_));
  const uint64_t in_block = row - (index << shift_);
  const uint8_t* p = body.data + part_.place(begin);
  const uint64_t lengths = lengths_.packed_size(rows);
  // read() and the cursor access all lengths up to the row's.
  for (uint64_t at = 0;
       at <=
       kChecksumBytes + lengths_.packed_size(static_cast<uint32_t>(in_block));
       at += 64) {
    __builtin_prefetch(p + at);
  }
  // The position that the string would have if all strings had the same length
  // and the block were full.
  const uint64_t bytes =
      end - begin - std::min(end - begin, kChecksumBytes + lengths);
  const uint8_t* string =
      p + kChecksumBytes + lengths + ((bytes * in_block) >> shift_);
  for (int line = -1; line <= 1; ++line) __builtin_prefetch(string + 64 * line);
}

Status StringBlocks::read_ends(const StringBlock& block, uint64_t* ends) const {
  lengths_.running_ends(block.packed, block.rows, ends);
  if (NIMBLE_UNLIKELY(ends[block.rows - 1] != block.size)) {
    return Status::corrupt("string lengths of the block at row " +
                           std::to_string(block.first_row) + " sum to " +
                           std::to_string(ends[block.rows - 1]) + ", it has " +
                           std::to_string(block.size) + " bytes");
  }
  return Status::ok();
}

std::string StringBlocks::describe() const {
  std::string out = "rows=" + std::to_string(1u << shift_);
  if (lengths_.width() > 0)
    return out + " w=" + std::to_string(lengths_.width());
  return out + " length=" + std::to_string(lengths_.fixed_length());
}

uint32_t choose_block_shift(uint64_t rows, uint64_t total, uint64_t target,
                            uint32_t most) {
  uint32_t shift = most;
  const uint64_t average = rows > 0 ? div_ceil(total, rows) : 0;
  while (shift > 0 && average > (target >> shift)) --shift;
  return shift;
}

Status write_packed_blocks(std::span<const uint64_t> lengths, uint32_t shift,
                           const AppendRows& append, SegmentBuilder* out) {
  const uint32_t n = static_cast<uint32_t>(lengths.size());
  out->head.put_u8(static_cast<uint8_t>(shift));
  const PackedLengths packed = PackedLengths::write(lengths, &out->head);
  const uint64_t part = out->begin_part();
  std::vector<uint64_t> starts;
  for (uint32_t row = 0; row < n; row += 1u << shift) {
    const uint32_t rows = std::min(1u << shift, n - row);
    const size_t begin = out->body.size();
    if (row > 0) starts.push_back(begin - part);
    uint8_t* const block =
        out->body.extend(kChecksumBytes + packed.packed_size(rows));
    if (packed.width() > 0) {
      pack_sequential(lengths.subspan(row, rows), packed.width(),
                      block + kChecksumBytes);
    }
    NIMBLE_RETURN_IF_ERROR(append(row, row + rows));
    const ByteSpan bytes = out->body.span().subspan(begin + kChecksumBytes);
    store(out->body.data() + begin, checksum64(bytes));
  }
  out->put_part(part);
  PackedOffsets::write(starts, &out->head);
  return Status::ok();
}

void write_string_blocks(std::span<const uint64_t> lengths,
                         const CopyRows& copy, SegmentBuilder* out) {
  uint64_t total = 0;
  for (const uint64_t length : lengths) total += length;
  const auto append = [&](uint32_t begin, uint32_t end) {
    uint64_t bytes = 0;
    for (uint32_t i = begin; i < end; ++i) bytes += lengths[i];
    copy(begin, end, out->body.extend(bytes));
    return Status::ok();
  };
  const uint32_t shift = choose_shift(lengths.size(), total);
  // Copying cannot fail.
  static_cast<void>(write_packed_blocks(lengths, shift, append, out));
}

uint64_t string_blocks_size(uint64_t rows, uint64_t total, uint64_t max_length,
                            uint64_t min_length) {
  const uint64_t blocks = div_ceil(rows, 1ull << choose_shift(rows, total));
  const uint64_t bits = rows * length_width(min_length, max_length);
  return total + bits / 8 + blocks * (kChecksumBytes + 2);
}

void append_offsets(const uint64_t* ends, uint32_t n, uint64_t base,
                    uint64_t first, BytesSink* sink) {
  if (sink->wide) {
    store_ends(ends, n, base, sink->offsets.as<int64_t>() + first + 1);
  } else {
    store_ends(ends, n, base, sink->offsets.as<int32_t>() + first + 1);
  }
}

}  // namespace nimble
