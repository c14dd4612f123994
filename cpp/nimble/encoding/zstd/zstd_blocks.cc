#include "nimble/encoding/zstd/zstd_blocks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "nimble/base/compiler.h"
#include "nimble/encoding/blocks/string_blocks.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/zstd/zstd_codec.h"

namespace nimble {
namespace {

constexpr uint64_t kChecksumBytes = 8;
// Limit for strings. The sum of this many 48-bit lengths fits in 64 bits.
constexpr uint32_t kMaxBlockStrings = 8192;
// Frames cannot expand more than this: a block of 128 KiB takes at least four
// bytes.
constexpr uint64_t kMaxRatio = 32768;
// Number of blocks that a thread keeps. A column may have several parts with
// such blocks (numbers in log lines, for example) that are read alternately.
constexpr size_t kKeptBlocks = 8;
// Larger buffers are not kept for the thread's next block.
constexpr size_t kKeptScratch = 1u << 17;

struct ZstdBlock {
  const uint8_t* packed = nullptr;  // lengths
  ByteSpan frame;
  uint64_t raw_size = 0;
  uint32_t index = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// The values of a block, kept by the thread, because a caller that decodes 1024
// codes at a time needs the same zstd block several times.
struct RawBlock {
  AlignedBuffer bytes;
  uint64_t decoder = 0;  // number of its decoder; 0: none
  uint32_t index = 0;
};

struct Scratch {
  RawBlock raw;
  AlignedBuffer ends;  // uint64_t

  // Decoders that were opened consecutively use different slots.
  explicit Scratch(uint64_t decoder) : kept_(&kept()[decoder % kKeptBlocks]) {
    std::swap(raw, *kept_);
  }
  ~Scratch() {
    if (raw.bytes.capacity() <= kKeptScratch) std::swap(raw, *kept_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  static std::array<RawBlock, kKeptBlocks>& kept() {
    thread_local std::array<RawBlock, kKeptBlocks> blocks;
    return blocks;
  }

  RawBlock* kept_;
};

// Numbers identify decoders, because addresses may be reused.
uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

class ZstdBlocksDecoder final : public Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> open(ByteReader* head,
                                               const DecodeContext& context);

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    part_.append(start_of(block_of(begin)), start_of(block_of(end - 1) + 1),
                 out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  std::string describe() const override {
    return "zstd blocks=" + std::to_string(num_blocks_);
  }
  size_t memory_bytes() const override {
    return sizeof *this + row_starts_.memory_bytes() + starts_.memory_bytes() +
           verified_.memory_bytes() + part_.memory_bytes();
  }

 private:
  ZstdBlocksDecoder(const DecodeContext& context, uint32_t num_blocks)
      : Decoder(context.type, context.num_values),
        num_blocks_(num_blocks),
        verified_(num_blocks) {}

  bool is_bytes() const { return type().kind == ValueKind::kBytes; }
  uint32_t row_of(uint32_t block) const {
    if (block == 0) return 0;
    return block < num_blocks_
               ? static_cast<uint32_t>(row_starts_.get(block - 1))
               : size();
  }
  uint64_t start_of(uint32_t block) const {
    if (block == 0) return 0;
    return block < num_blocks_ ? starts_.get(block - 1) : part_.size();
  }
  uint32_t block_of(uint32_t row) const;
  Status check_directory() const;
  Status read(const SegmentBody& body, uint32_t index, Scratch* scratch,
              ZstdBlock* out) const;
  // Decompresses all values of the block to scratch->raw.
  Status decompress(const ZstdBlock& block, Scratch* scratch) const;
  Status decode_strings(const ZstdBlock& block, uint32_t from, uint32_t to,
                        uint64_t at, Scratch* scratch, BytesSink* sink) const;
  Status decode_fixed(const ZstdBlock& block, uint32_t from, uint32_t to,
                      Scratch* scratch, uint8_t* out) const;

  const uint64_t number_ = next_number();
  uint32_t num_blocks_;
  Part part_;
  PackedLengths lengths_;
  uint64_t raw_size_ = 0;  // of all strings; a hint
  PackedOffsets row_starts_;
  PackedOffsets starts_;
  VerifiedBlocks verified_;
};

Result<std::unique_ptr<Decoder>> ZstdBlocksDecoder::open(
    ByteReader* head, const DecodeContext& context) {
  PackedLengths lengths;
  uint64_t raw_size = 0;
  if (context.type.kind == ValueKind::kBytes) {
    NIMBLE_ASSIGN_OR_RETURN(lengths, PackedLengths::open(head));
    raw_size = head->get_varint();
  }
  const uint64_t num_blocks = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("zstd blocks"));
  if (context.type.kind == ValueKind::kBool ||
      num_blocks > context.num_values ||
      (num_blocks == 0) != (context.num_values == 0)) {
    return Status::corrupt(std::to_string(num_blocks) + " zstd blocks of " +
                           std::to_string(context.num_values) + " values");
  }
  std::unique_ptr<ZstdBlocksDecoder> out(
      new ZstdBlocksDecoder(context, static_cast<uint32_t>(num_blocks)));
  out->lengths_ = lengths;
  out->raw_size_ = raw_size;
  const uint64_t inner = num_blocks > 0 ? num_blocks - 1 : 0;
  NIMBLE_ASSIGN_OR_RETURN(out->row_starts_, PackedOffsets::open(head, inner));
  NIMBLE_ASSIGN_OR_RETURN(out->part_, Part::read(head, context));
  NIMBLE_ASSIGN_OR_RETURN(out->starts_, PackedOffsets::open(head, inner));
  NIMBLE_RETURN_IF_ERROR(out->check_directory());
  return std::unique_ptr<Decoder>(std::move(out));
}

// Blocks are large and therefore few, so all are checked on open.
Status ZstdBlocksDecoder::check_directory() const {
  for (uint32_t b = 0; b < num_blocks_; ++b) {
    const uint64_t row = b == 0 ? 0 : row_starts_.get(b - 1);
    const uint64_t next = b + 1 < num_blocks_ ? row_starts_.get(b) : size();
    const uint64_t begin = start_of(b);
    const uint64_t end = start_of(b + 1);
    const uint64_t raw = is_bytes() ? 0 : (next - row) * type().width;
    const bool rows_fit = row < next && next <= size() &&
                          raw <= kMaxZstdBlockBytes &&
                          (!is_bytes() || next - row <= kMaxBlockStrings);
    if (!rows_fit || begin > end || end > part_.size() ||
        end - begin < kChecksumBytes + lengths_.packed_size(
                                           static_cast<uint32_t>(next - row)) ||
        raw > (end - begin) * kMaxRatio ||
        end - begin > part_.together(begin)) {
      return Status::corrupt("zstd block " + std::to_string(b) + " has rows [" +
                             std::to_string(row) + ", " + std::to_string(next) +
                             ") and bytes [" + std::to_string(begin) + ", " +
                             std::to_string(end) + ") of " +
                             std::to_string(part_.size()));
    }
  }
  return Status::ok();
}

uint32_t ZstdBlocksDecoder::block_of(uint32_t row) const {
  uint32_t low = 0;
  uint32_t high = num_blocks_;  // the block is in [low, high)
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (row_of(middle) <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Verifies the block and stores the ends of its strings in the scratch.
Status ZstdBlocksDecoder::read(const SegmentBody& body, uint32_t index,
                               Scratch* scratch, ZstdBlock* out) const {
  if (part_.end() > body.size) {
    return Status::corrupt("segment body of " + std::to_string(body.size) +
                           " bytes is cut short");
  }
  const uint8_t* const block = body.data + part_.place(start_of(index));
  const uint64_t size = start_of(index + 1) - start_of(index);
  NIMBLE_RETURN_IF_ERROR(verified_.check(
      body, index, {block + kChecksumBytes, size - kChecksumBytes},
      load<uint64_t>(block)));
  out->index = index;
  out->first_row = row_of(index);
  out->rows = row_of(index + 1) - out->first_row;
  out->packed = block + kChecksumBytes;
  if (is_bytes()) {
    scratch->ends.resize(size_t{out->rows} * 8);
    uint64_t* const ends = scratch->ends.as<uint64_t>();
    lengths_.running_ends(out->packed, out->rows, ends);
    out->raw_size = ends[out->rows - 1];
  } else {
    out->raw_size = uint64_t{out->rows} * type().width;
  }
  const uint64_t overhead =
      kChecksumBytes + (is_bytes() ? lengths_.packed_size(out->rows) : 0);
  out->frame = {block + overhead, size - overhead};
  if (out->raw_size > kMaxZstdBlockBytes ||
      out->raw_size > out->frame.size() * kMaxRatio) {
    return Status::corrupt("zstd block of " + std::to_string(out->raw_size) +
                           " bytes in " + std::to_string(out->frame.size()) +
                           "; at most 16 MiB are allowed, and 32768 for one");
  }
  return Status::ok();
}

Status ZstdBlocksDecoder::decompress(const ZstdBlock& block,
                                     Scratch* scratch) const {
  RawBlock& raw = scratch->raw;
  if (raw.decoder == number_ && raw.index == block.index) return Status::ok();
  raw.decoder = 0;
  raw.bytes.resize(block.raw_size);
  NIMBLE_RETURN_IF_ERROR(
      zstd_decompress(block.frame, raw.bytes.data(), block.raw_size));
  raw.decoder = number_;
  raw.index = block.index;
  return Status::ok();
}

Status ZstdBlocksDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  Scratch scratch(number_);
  uint64_t at = 0;
  if (is_bytes()) {
    at = out.bytes->add_values(end - begin);
    if (end - begin == size()) {
      const uint64_t likely = part_.size() * 16 + kMaxZstdBlockBytes;
      out.bytes->data.reserve(out.bytes->data.size() +
                              std::min(raw_size_, likely));
    }
  }
  for (uint32_t b = block_of(begin); b < num_blocks_ && row_of(b) < end; ++b) {
    ZstdBlock block;
    NIMBLE_RETURN_IF_ERROR(read(body, b, &scratch, &block));
    const uint32_t from = std::max(begin, block.first_row) - block.first_row;
    const uint32_t to = std::min(end - block.first_row, block.rows);
    if (is_bytes()) {
      NIMBLE_RETURN_IF_ERROR(
          decode_strings(block, from, to, at, &scratch, out.bytes));
    } else {
      const uint64_t done = uint64_t{block.first_row} + from - begin;
      NIMBLE_RETURN_IF_ERROR(decode_fixed(block, from, to, &scratch,
                                          out.data + done * type().width));
    }
    at += to - from;
  }
  return Status::ok();
}

Status ZstdBlocksDecoder::decode_strings(const ZstdBlock& block, uint32_t from,
                                         uint32_t to, uint64_t at,
                                         Scratch* scratch,
                                         BytesSink* sink) const {
  const uint64_t* const ends = scratch->ends.as<uint64_t>();
  const size_t before = sink->data.size();
  const uint64_t skip = from > 0 ? ends[from - 1] : 0;
  const uint64_t last = ends[to - 1];
  // A whole block is decompressed directly to the sink, a part of one through
  // the scratch. Unsigned arithmetic wraps on purpose: skip may exceed
  // `before`.
  put_ends(ends + from, to - from, before - skip, at, sink);
  if (to - from == block.rows) {
    sink->data.resize(before + block.raw_size);
    return zstd_decompress(block.frame, sink->data.data() + before,
                           block.raw_size);
  }
  NIMBLE_RETURN_IF_ERROR(decompress(block, scratch));
  sink->data.append(scratch->raw.bytes.data() + skip, last - skip);
  return Status::ok();
}

Status ZstdBlocksDecoder::decode_fixed(const ZstdBlock& block, uint32_t from,
                                       uint32_t to, Scratch* scratch,
                                       uint8_t* out) const {
  if (to - from == block.rows) {
    return zstd_decompress(block.frame, out, block.raw_size);
  }
  NIMBLE_RETURN_IF_ERROR(decompress(block, scratch));
  const uint64_t width = type().width;
  std::memcpy(out, scratch->raw.bytes.data() + from * width,
              (to - from) * width);
  return Status::ok();
}

Status ZstdBlocksDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  Scratch scratch(number_);
  const uint64_t first = is_bytes() ? out.bytes->add_values(count) : 0;
  const uint64_t width = type().width;
  for (size_t i = 0; i < count;) {
    ZstdBlock block;
    NIMBLE_RETURN_IF_ERROR(read(body, block_of(rows[i]), &scratch, &block));
    NIMBLE_RETURN_IF_ERROR(decompress(block, &scratch));
    const uint8_t* const raw = scratch.raw.bytes.data();
    const uint64_t* const ends = scratch.ends.as<uint64_t>();
    for (; i < count && rows[i] - block.first_row < block.rows; ++i) {
      const uint32_t row = rows[i] - block.first_row;
      if (is_bytes()) {
        const uint64_t begin = row > 0 ? ends[row - 1] : 0;
        out.bytes->data.append(raw + begin, ends[row] - begin);
        out.bytes->set_end(first + i, out.bytes->data.size());
      } else {
        std::memcpy(out.data + i * width, raw + row * width, width);
      }
    }
  }
  return Status::ok();
}

// ------------------------------------------------------------------ encoding

struct Settings {
  int level;
  int min_match;    // 0: the level's default
  uint64_t target;  // raw bytes per block
};

// Of one-byte values zstd mainly exploits the frequencies. Small blocks are
// enough for that, and short matches would only be slow.
constexpr uint64_t kByteBlock = 4096;
constexpr int kByteLevel = 1;
constexpr int kByteMinMatch = 7;
constexpr uint64_t kUsualBlock = 16384;

Settings settings_of(const Values& values, Effort effort) {
  const bool is_byte =
      values.type.kind != ValueKind::kBytes && values.type.width == 1;
  if (is_byte) return {kByteLevel, kByteMinMatch, kByteBlock};
  switch (effort) {
    case Effort::kFast:
      return {1, 0, kUsualBlock};
    case Effort::kCompact:
      return {9, 0, kUsualBlock};
    case Effort::kBalanced:
      break;
  }
  return {3, 0, kUsualBlock};
}

uint64_t value_size(const Values& values, uint32_t row) {
  return values.type.kind == ValueKind::kBytes ? values.slices[row].size
                                               : values.type.width;
}

// Returns the end of the block that begins at `row`.
uint32_t block_end(const Values& values, uint32_t row, uint64_t target) {
  const uint32_t most =
      values.type.kind == ValueKind::kBytes ? kMaxBlockStrings : values.size;
  uint64_t bytes = 0;
  uint32_t end = row;
  while (end < values.size && end - row < most && bytes < target) {
    bytes += value_size(values, end);
    if (end > row && bytes > kMaxZstdBlockBytes) break;
    ++end;
  }
  return end;
}

// The values of a block, contiguous: a view of `values`, or a copy in `buffer`.
ByteSpan raw_bytes(const Values& values, uint32_t begin, uint32_t end,
                   AlignedBuffer* buffer) {
  if (values.type.kind != ValueKind::kBytes) {
    const uint64_t width = values.type.width;
    return {values.data + begin * width, (end - begin) * width};
  }
  buffer->clear();
  for (uint32_t i = begin; i < end; ++i) {
    buffer->append(values.slices[i].data, values.slices[i].size);
  }
  return buffer->span();
}

}  // namespace

Status encode_zstd_blocks(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out) {
  const bool is_bytes = values.type.kind == ValueKind::kBytes;
  for (uint32_t i = 0; i < values.size; ++i) {
    if (value_size(values, i) <= kMaxZstdBlockBytes &&
        values.type.kind != ValueKind::kBool) {
      continue;
    }
    return Status::unsupported("zstd blocks hold no bitmaps and no values of " +
                               std::to_string(value_size(values, i)) +
                               " bytes");
  }
  const Settings settings = settings_of(values, context.effort);
  out->head.put_u8(static_cast<uint8_t>(EncodingId::kZstdBlocks));
  std::vector<uint64_t> lengths;
  PackedLengths packed;
  if (is_bytes) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < values.size; ++i) {
      lengths.push_back(values.slices[i].size);
      total += lengths.back();
    }
    packed = PackedLengths::write(lengths, &out->head);
    out->head.put_varint(total);
  }
  std::vector<uint64_t> row_starts;
  std::vector<uint64_t> starts;
  AlignedBuffer buffer;
  const uint64_t part = out->begin_part();
  for (uint32_t row = 0; row < values.size;) {
    const uint32_t end = block_end(values, row, settings.target);
    const size_t begin = out->body.size();
    if (row > 0) row_starts.push_back(row);
    if (row > 0) starts.push_back(begin - part);
    uint8_t* const block =
        out->body.extend(kChecksumBytes + packed.packed_size(end - row));
    if (packed.width() > 0) {
      pack_sequential(std::span(lengths).subspan(row, end - row),
                      packed.width(), block + kChecksumBytes);
    }
    NIMBLE_RETURN_IF_ERROR(
        zstd_append_frame(raw_bytes(values, row, end, &buffer), settings.level,
                          settings.min_match, &out->body));
    const ByteSpan bytes = out->body.span().subspan(begin);
    store(out->body.data() + begin, checksum64(bytes.subspan(kChecksumBytes)));
    row = end;
  }
  out->head.put_varint(starts.size() + (values.size > 0 ? 1 : 0));
  PackedOffsets::write(row_starts, &out->head);
  out->put_part(part);
  PackedOffsets::write(starts, &out->head);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_zstd_blocks(
    ByteReader* head, const DecodeContext& context) {
  return ZstdBlocksDecoder::open(head, context);
}

ZstdSizes measure_zstd(const Values& strings, const EncodeContext& context) {
  constexpr uint32_t kSamples = 4;
  const Settings settings = settings_of(strings, context.effort);
  ZstdSizes sizes;
  AlignedBuffer buffer;
  ByteBuffer frame;
  for (uint32_t i = 0; i < kSamples; ++i) {
    const uint32_t row =
        static_cast<uint32_t>(uint64_t{i} * strings.size / kSamples);
    const uint32_t end = block_end(strings, row, settings.target);
    const ByteSpan raw = raw_bytes(strings, row, end, &buffer);
    if (raw.size() > kMaxZstdBlockBytes) continue;
    frame.clear();
    if (!zstd_append_frame(raw, settings.level, settings.min_match, &frame))
      continue;
    sizes.compressed += frame.size();
    sizes.raw += raw.size();
  }
  return sizes;
}

}  // namespace nimble
