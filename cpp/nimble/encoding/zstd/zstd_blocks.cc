#include "nimble/encoding/zstd/zstd_blocks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"
#include "nimble/encoding/zstd/zstd_codec.h"

namespace nimble {
namespace {

constexpr uint64_t kChecksumBytes = 8;
// Number of blocks that a thread keeps. A column may have several parts with
// such blocks that are read alternately, for example the numbers in log lines.
constexpr size_t kKeptBlocks = 8;
// Larger buffers are not kept for the thread's next block.
constexpr size_t kMaxKeptBytes = 1u << 17;

// The values of a block, kept by the thread, because a caller that decodes 1024
// codes at a time needs the same zstd block several times.
struct RawBlock {
  AlignedBuffer bytes;
  uint64_t decoder = 0;  // number of its decoder; 0: none
  uint32_t index = 0;
};

// Borrows a block from the thread's kept blocks. Consecutively opened decoders
// use different slots.
class BorrowedBlock {
 public:
  explicit BorrowedBlock(uint64_t decoder)
      : kept_(&kept()[decoder % kKeptBlocks]) {
    std::swap(raw_, *kept_);
  }
  ~BorrowedBlock() {
    if (raw_.bytes.capacity() <= kMaxKeptBytes) std::swap(raw_, *kept_);
  }
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;

  RawBlock* get() { return &raw_; }

 private:
  static std::array<RawBlock, kKeptBlocks>& kept() {
    thread_local std::array<RawBlock, kKeptBlocks> blocks;
    return blocks;
  }

  RawBlock raw_;
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
    part_.append(start_of(begin / block_rows_),
                 start_of((end - 1) / block_rows_ + 1), out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  std::string describe() const override {
    return "zstd blocks=" + std::to_string(num_blocks_);
  }
  size_t memory_bytes() const override {
    return sizeof *this + starts_.memory_bytes() + verified_.memory_bytes() +
           part_.memory_bytes();
  }

 private:
  ZstdBlocksDecoder(const DecodeContext& context, uint32_t block_rows,
                    uint32_t num_blocks)
      : Decoder(context.type, context.num_values),
        block_rows_(block_rows),
        num_blocks_(num_blocks),
        verified_(num_blocks) {}

  uint64_t start_of(uint32_t block) const {
    if (block == 0) return 0;
    return block < num_blocks_ ? starts_.get(block - 1) : part_.size();
  }
  uint64_t raw_size(uint32_t block) const {
    const uint64_t rows = std::min(block_rows_, size() - block * block_rows_);
    return rows * type().width;
  }
  Status check_blocks() const;
  // Verifies the block and returns its frame.
  Result<ByteSpan> frame(const SegmentBody& body, uint32_t block) const;
  // Decompresses all values of the block, unless `raw` has them already.
  Status decompress(const SegmentBody& body, uint32_t block,
                    RawBlock* raw) const;

  const uint64_t number_ = next_number();
  uint32_t block_rows_;
  uint32_t num_blocks_;
  Part part_;
  PackedOffsets starts_;
  VerifiedBlocks verified_;
};

Result<std::unique_ptr<Decoder>> ZstdBlocksDecoder::open(
    ByteReader* head, const DecodeContext& context) {
  const uint64_t rows = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("zstd blocks"));
  const uint64_t width = context.type.width;
  if (width == 0 || rows == 0 || rows > kSegmentValues ||
      rows > kMaxZstdBlockBytes / width) {
    return Status::corrupt("zstd blocks cannot have " + std::to_string(rows) +
                           " values of " + std::to_string(width) + " bytes");
  }
  const uint64_t num_blocks = div_ceil(context.num_values, rows);
  std::unique_ptr<ZstdBlocksDecoder> out(new ZstdBlocksDecoder(
      context, static_cast<uint32_t>(rows), static_cast<uint32_t>(num_blocks)));
  NIMBLE_ASSIGN_OR_RETURN(out->part_, Part::read(head, context));
  NIMBLE_ASSIGN_OR_RETURN(
      out->starts_,
      PackedOffsets::open(head, num_blocks > 0 ? num_blocks - 1 : 0));
  NIMBLE_RETURN_IF_ERROR(out->check_blocks());
  return std::unique_ptr<Decoder>(std::move(out));
}

// Blocks are large and therefore few, so all are checked on open.
Status ZstdBlocksDecoder::check_blocks() const {
  for (uint32_t b = 0; b < num_blocks_; ++b) {
    const uint64_t begin = start_of(b);
    const uint64_t end = start_of(b + 1);
    if (begin > end || end > part_.size() || end - begin < kChecksumBytes ||
        raw_size(b) > (end - begin) * kMaxZstdRatio ||
        end - begin > part_.together(begin)) {
      return Status::corrupt(
          "zstd block " + std::to_string(b) + " of " +
          std::to_string(raw_size(b)) + " bytes cannot be in bytes [" +
          std::to_string(begin) + ", " + std::to_string(end) +
          ") of a part of " + std::to_string(part_.size()) + " bytes");
    }
  }
  return Status::ok();
}

Result<ByteSpan> ZstdBlocksDecoder::frame(const SegmentBody& body,
                                          uint32_t block) const {
  if (part_.end() > body.size) {
    return Status::corrupt("segment body of " + std::to_string(body.size) +
                           " bytes is cut short");
  }
  const uint8_t* const begin = body.data + part_.place(start_of(block));
  const ByteSpan out(begin + kChecksumBytes,
                     start_of(block + 1) - start_of(block) - kChecksumBytes);
  NIMBLE_RETURN_IF_ERROR(
      verified_.check(body, block, out, load<uint64_t>(begin)));
  return out;
}

Status ZstdBlocksDecoder::decompress(const SegmentBody& body, uint32_t block,
                                     RawBlock* raw) const {
  NIMBLE_ASSIGN_OR_RETURN(const ByteSpan bytes, frame(body, block));
  if (raw->decoder == number_ && raw->index == block) return Status::ok();
  raw->decoder = 0;
  raw->bytes.resize(raw_size(block));
  NIMBLE_RETURN_IF_ERROR(
      zstd_decompress(bytes, raw->bytes.data(), raw_size(block)));
  raw->decoder = number_;
  raw->index = block;
  return Status::ok();
}

Status ZstdBlocksDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  BorrowedBlock borrowed(number_);
  RawBlock* const raw = borrowed.get();
  const uint64_t width = type().width;
  uint8_t* to = out.data;
  for (uint32_t row = begin; row < end;) {
    const uint32_t block = row / block_rows_;
    const uint32_t first = block * block_rows_;
    const uint32_t until = std::min({end - first, size() - first, block_rows_});
    const uint64_t bytes = uint64_t{until - (row - first)} * width;
    if (bytes == raw_size(block)) {
      NIMBLE_ASSIGN_OR_RETURN(const ByteSpan compressed, frame(body, block));
      NIMBLE_RETURN_IF_ERROR(zstd_decompress(compressed, to, bytes));
    } else {
      NIMBLE_RETURN_IF_ERROR(decompress(body, block, raw));
      std::memcpy(to, raw->bytes.data() + uint64_t{row - first} * width, bytes);
    }
    to += bytes;
    row = first + until;
  }
  return Status::ok();
}

Status ZstdBlocksDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  BorrowedBlock borrowed(number_);
  RawBlock* const raw = borrowed.get();
  const uint64_t width = type().width;
  for (size_t i = 0; i < count;) {
    const uint32_t block = rows[i] / block_rows_;
    NIMBLE_RETURN_IF_ERROR(decompress(body, block, raw));
    for (; i < count && rows[i] / block_rows_ == block; ++i) {
      std::memcpy(out.data + i * width,
                  raw->bytes.data() + (rows[i] % block_rows_) * width, width);
    }
  }
  return Status::ok();
}

// ------------------------------------------------------------------ encoding

struct Settings {
  int level;
  int min_match;         // 0: the level's default
  uint64_t block_bytes;  // decompressed
};

// For one-byte values, zstd mainly exploits their frequencies. Small blocks are
// enough for that, and short matches would only cost time.
constexpr Settings kOfBytes = {1, 7, 4096};
constexpr uint64_t kUsualBlock = 16384;

Settings settings_of(const ValueType& type, Effort effort) {
  if (type.width == 1) return kOfBytes;
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

}  // namespace

Status encode_zstd_blocks(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out) {
  const uint64_t width = values.type.width;
  const Settings settings = settings_of(values.type, context.effort);
  const auto rows =
      static_cast<uint32_t>(div_ceil(settings.block_bytes, width));
  put_encoding_id(EncodingId::kZstdBlocks, out);
  out->head.put_varint(rows);
  std::vector<uint64_t> starts;
  const uint64_t part = out->begin_part();
  for (uint32_t row = 0; row < values.size; row += rows) {
    const uint32_t n = std::min(rows, values.size - row);
    const size_t begin = out->body.size();
    if (row > 0) starts.push_back(begin - part);
    out->body.extend(kChecksumBytes);
    NIMBLE_RETURN_IF_ERROR(
        zstd_append_frame({values.data + row * width, n * width},
                          settings.level, settings.min_match, &out->body));
    const ByteSpan frame = out->body.span().subspan(begin + kChecksumBytes);
    store(out->body.data() + begin, checksum64(frame));
  }
  out->put_part(part);
  PackedOffsets::write(starts, &out->head);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_zstd_blocks(
    ByteReader* head, const DecodeContext& context) {
  return ZstdBlocksDecoder::open(head, context);
}

}  // namespace nimble
