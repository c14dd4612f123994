#include "nimble/encoding/zstd/zstd_strings.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/encoding/blocks/string_blocks.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_codec.h"
#include "nimble/memory/scratch.h"

namespace nimble {
namespace {

constexpr int kLevel = 5;
// In such small blocks, this level saves as much as blocks of 64 KiB would.
constexpr int kCompactLevel = 12;
// Bytes of strings per block. Half of this makes files 2 to 5 % larger. Twice
// as much makes them about as much smaller, but doubles the cost of a row.
constexpr uint64_t kTargetBytes = 4096;
// Without a dictionary, a block must be larger, because its strings share only
// what the block itself repeats.
constexpr uint64_t kAloneTargetBytes = 16384;
constexpr size_t kDictionaryBytes = 32768;
constexpr uint64_t kSampleBytes = 16 * kDictionaryBytes;
// Smaller segments do not use a dictionary.
constexpr uint64_t kMinTrainedBytes = 32768;
// The level of the dictionary's own frame.
constexpr int kDictionaryLevel = 9;
constexpr uint64_t kFrameChecksumBytes = 8;
// Memory of a prepared dictionary, besides its bytes.
constexpr size_t kPreparedBytes = 28 << 10;

class ZstdStringsDecoder final : public Decoder {
 public:
  // `dictionary` is the part with the frame of the dictionary. It is empty if
  // `dictionary_bytes` is 0.
  ZstdStringsDecoder(const DecodeContext& context, Part dictionary,
                     uint64_t dictionary_bytes, uint64_t raw_size,
                     StringBlocks blocks)
      : Decoder(context.type, context.num_values),
        dictionary_(std::move(dictionary)),
        dictionary_bytes_(dictionary_bytes),
        raw_size_(raw_size),
        blocks_(std::move(blocks)) {}
  ~ZstdStringsDecoder() override { delete prepared_.load(); }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    if (dictionary_bytes_ > 0 &&
        prepared_.load(std::memory_order_acquire) == nullptr) {
      dictionary_.append(0, dictionary_.size(), out);
    }
    blocks_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  std::string describe() const override {
    return "zstd strings dictionary=" + std::to_string(dictionary_bytes_) +
           " " + blocks_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + dictionary_.memory_bytes() + blocks_.memory_bytes() +
           kDictionaryBytes + kPreparedBytes;
  }

 private:
  Status prepare(const SegmentBody& body, const ZstdDecompressor** out) const;
  // Appends the block's strings to `to`. `ends` are the ends of its strings.
  Status append_block(const ZstdDecompressor& zstd, const StringBlock& block,
                      const uint64_t* ends, AlignedBuffer* to) const;

  Part dictionary_;
  uint64_t dictionary_bytes_;
  uint64_t raw_size_;  // a hint
  StringBlocks blocks_;
  // Created on first use, then kept as long as this decoder.
  mutable std::atomic<const ZstdDecompressor*> prepared_{nullptr};
};

Status ZstdStringsDecoder::prepare(const SegmentBody& body,
                                   const ZstdDecompressor** out) const {
  *out = prepared_.load(std::memory_order_acquire);
  if (*out != nullptr) return Status::ok();
  std::vector<uint8_t> bytes(dictionary_bytes_);
  if (!bytes.empty()) {
    if (dictionary_.end() > body.size) {
      return Status::corrupt("segment body of " + std::to_string(body.size) +
                             " bytes is cut short");
    }
    const uint8_t* const begin = body.data + dictionary_.place(0);
    const ByteSpan frame(begin + kFrameChecksumBytes,
                         dictionary_.size() - kFrameChecksumBytes);
    if (checksum64(frame) != load<uint64_t>(begin)) {
      return Status::corrupt("zstd dictionary: checksum does not match");
    }
    NIMBLE_RETURN_IF_ERROR(zstd_decompress(frame, bytes.data(), bytes.size()));
  }
  NIMBLE_ASSIGN_OR_RETURN(std::unique_ptr<ZstdDecompressor> ready,
                          ZstdDecompressor::open(bytes));
  if (prepared_.compare_exchange_strong(*out, ready.get(),
                                        std::memory_order_acq_rel)) {
    *out = ready.release();
  }
  return Status::ok();
}

Status ZstdStringsDecoder::append_block(const ZstdDecompressor& zstd,
                                        const StringBlock& block,
                                        const uint64_t* ends,
                                        AlignedBuffer* to) const {
  const uint64_t size = ends[block.rows - 1];
  if (size > kMaxZstdBlockBytes || size > block.size * kMaxZstdRatio) {
    return Status::corrupt("zstd block of " + std::to_string(size) +
                           " bytes, compressed to " +
                           std::to_string(block.size) +
                           "; at most 16 MiB and a ratio of 32768 are allowed");
  }
  const size_t before = to->size();
  to->resize(before + size);
  return zstd.decompress({block.bytes, block.size}, to->data() + before, size);
}

Status ZstdStringsDecoder::decode(const SegmentBody& body, uint32_t begin,
                                  uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const ZstdDecompressor* zstd = nullptr;
  NIMBLE_RETURN_IF_ERROR(prepare(body, &zstd));
  AlignedBuffer& data = out.bytes->data;
  if (end - begin == size()) {
    const uint64_t likely = blocks_.part_size() * 16 + kMaxZstdBlockBytes;
    data.reserve(data.size() + std::min(raw_size_, likely));
  }
  uint64_t ends[kBlockValues];
  return blocks_.decode(
      body, begin, end, out.bytes,
      [&](const StringBlock& block, uint32_t from, uint32_t to,
          uint64_t at) -> Status {
        blocks_.lengths().running_ends(block.packed, block.rows, ends);
        const size_t before = data.size();
        NIMBLE_RETURN_IF_ERROR(append_block(*zstd, block, ends, &data));
        const uint64_t skip = from > 0 ? ends[from - 1] : 0;
        const uint64_t kept = ends[to - 1] - skip;
        if (skip > 0) {
          std::memmove(data.data() + before, data.data() + before + skip, kept);
        }
        data.resize(before + kept);
        // Unsigned arithmetic wraps on purpose: skip may exceed `before`.
        append_offsets(ends + from, to - from, before - skip, at, out.bytes);
        return Status::ok();
      });
}

Status ZstdStringsDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                  size_t count, const Output& out) const {
  if (count == 0) return Status::ok();
  const ZstdDecompressor* zstd = nullptr;
  NIMBLE_RETURN_IF_ERROR(prepare(body, &zstd));
  BytesSink* const sink = out.bytes;
  const uint64_t at = sink->add_values(count);
  ThreadScratch<AlignedBuffer, ZstdStringsDecoder> text;
  uint64_t ends[kBlockValues];
  return for_row_groups(
      rows, count,
      [&](uint32_t b, size_t first, size_t n) -> Status {
        StringBlock block;
        NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &block));
        blocks_.lengths().running_ends(block.packed, block.rows, ends);
        text->clear();
        NIMBLE_RETURN_IF_ERROR(append_block(*zstd, block, ends, &*text));
        for (size_t i = first; i < first + n; ++i) {
          const uint32_t row = rows[i] - block.first_row;
          const uint64_t begin = row > 0 ? ends[row - 1] : 0;
          sink->data.append(text->data() + begin, ends[row] - begin);
          sink->set_end(at + i, sink->data.size());
        }
        return Status::ok();
      },
      blocks_.shift());
}

// ------------------------------------------------------------------- encoding

int level_of(Effort effort) {
  return effort == Effort::kCompact ? kCompactLevel : kLevel;
}

uint32_t block_shift(const Values& values, bool has_dictionary) {
  return choose_block_shift(values.size, total_bytes(values),
                            has_dictionary ? kTargetBytes : kAloneTargetBytes,
                            kMaxBlockShift);
}

// Appends strings [begin, end), one after the other.
void append_strings(const Values& values, uint32_t begin, uint32_t end,
                    AlignedBuffer* out) {
  for (uint32_t i = begin; i < end; ++i) {
    out->append(values.slices[i].data, values.slices[i].size);
  }
}

}  // namespace

std::vector<uint8_t> train_zstd(const Values& strings, Effort effort) {
  const uint64_t total = total_bytes(strings);
  if (total < kMinTrainedBytes) return {};
  const uint32_t rows = 1u << block_shift(strings, true);
  const uint64_t blocks = div_ceil(strings.size, rows);
  // Whole blocks from all over the segment, until the sample is full.
  const uint64_t step = std::max<uint64_t>(1, total / kSampleBytes);
  AlignedBuffer bytes;
  std::vector<size_t> sizes;
  for (uint64_t b = 0; b < blocks; b += step) {
    const auto begin = static_cast<uint32_t>(b * rows);
    const size_t before = bytes.size();
    append_strings(strings, begin, std::min(begin + rows, strings.size),
                   &bytes);
    if (bytes.size() > 2 * kSampleBytes) {
      bytes.resize(before);
      break;
    }
    sizes.push_back(bytes.size() - before);
  }
  // A dictionary must not take as much space as it saves.
  const size_t capacity = std::min<uint64_t>(kDictionaryBytes, total / 32);
  return zstd_train(bytes.span(), sizes, capacity, level_of(effort));
}

Status encode_zstd_strings(const Values& values, ByteSpan dictionary,
                           Effort effort, SegmentBuilder* out) {
  std::vector<uint64_t> lengths(values.size);
  for (uint32_t i = 0; i < values.size; ++i) {
    lengths[i] = values.slices[i].size;
    if (lengths[i] <= kMaxZstdBlockBytes) continue;
    return Status::unsupported("zstd blocks cannot hold values of " +
                               std::to_string(lengths[i]) + " bytes");
  }
  put_encoding_id(EncodingId::kZstdStrings, out);
  out->head.put_varint(dictionary.size());
  if (!dictionary.empty()) {
    const uint64_t begin = out->begin_part();
    out->body.extend(kFrameChecksumBytes);
    NIMBLE_RETURN_IF_ERROR(
        zstd_append_frame(dictionary, kDictionaryLevel, 0, &out->body));
    const ByteSpan frame =
        out->body.span().subspan(begin + kFrameChecksumBytes);
    store(out->body.data() + begin, checksum64(frame));
    out->put_part(begin);
  }
  out->head.put_varint(total_bytes(values));
  const ZstdCompressor zstd(dictionary, level_of(effort));
  AlignedBuffer raw;
  const auto append = [&](uint32_t begin, uint32_t end) {
    raw.clear();
    append_strings(values, begin, end, &raw);
    return zstd.append_frame(raw.span(), &out->body);
  };
  return write_packed_blocks(lengths, block_shift(values, !dictionary.empty()),
                             append, out);
}

uint64_t estimate_zstd_strings(const Values& values, ByteSpan dictionary,
                               Effort effort) {
  constexpr uint32_t kSamples = 16;
  const ZstdCompressor zstd(dictionary, level_of(effort));
  const uint32_t rows = 1u << block_shift(values, !dictionary.empty());
  const uint64_t blocks = div_ceil(values.size, rows);
  AlignedBuffer raw;
  ByteBuffer frames;
  uint64_t sampled = 0, longest = 0;
  for (uint32_t i = 0; i < values.size; ++i) {
    longest = std::max(longest, values.slices[i].size);
  }
  // If possible, chooses other blocks than the dictionary's training sample.
  for (uint32_t s = 0; s < kSamples; ++s) {
    const uint64_t b = (2 * s + 1) * blocks / (2 * kSamples);
    const auto begin = static_cast<uint32_t>(b * rows);
    raw.clear();
    append_strings(values, begin, std::min(begin + rows, values.size), &raw);
    sampled += raw.size();
    if (!zstd.append_frame(raw.span(), &frames)) continue;
  }
  const double share = static_cast<double>(frames.size()) /
                       static_cast<double>(std::max<uint64_t>(sampled, 1));
  return static_cast<uint64_t>(share *
                               static_cast<double>(total_bytes(values))) +
         dictionary.size() / 2 + blocks * 10 +
         values.size * bit_width_of(longest) / 8;
}

uint64_t probe_zstd_strings(const Values& values, Effort effort) {
  constexpr uint32_t kSamples = 4;
  constexpr uint64_t kProbeBytes = 16384;
  const int level = effort == Effort::kCompact ? 9 : 3;
  AlignedBuffer raw;
  ByteBuffer frames;
  uint64_t sampled = 0, longest = 0;
  for (uint32_t i = 0; i < kSamples; ++i) {
    raw.clear();
    for (auto row = static_cast<uint32_t>(uint64_t{i} * values.size / kSamples);
         row < values.size && raw.size() < kProbeBytes; ++row) {
      append_strings(values, row, row + 1, &raw);
    }
    if (!zstd_append_frame(raw.span(), level, 0, &frames)) continue;
    sampled += raw.size();
  }
  for (uint32_t i = 0; i < values.size; ++i) {
    longest = std::max(longest, values.slices[i].size);
  }
  const double share = static_cast<double>(frames.size()) /
                       static_cast<double>(std::max<uint64_t>(sampled, 1));
  return static_cast<uint64_t>(share *
                               static_cast<double>(total_bytes(values))) +
         values.size * bit_width_of(longest) / 8;
}

Result<std::unique_ptr<Decoder>> open_zstd_strings(
    ByteReader* head, const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("zstd_strings hold strings only");
  }
  const uint64_t dictionary_bytes = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("zstd strings"));
  Part dictionary;
  if (dictionary_bytes > 0) {
    NIMBLE_ASSIGN_OR_RETURN(dictionary, Part::read(head, context));
    if (!dictionary.is_whole() || dictionary.size() < kFrameChecksumBytes ||
        dictionary_bytes > kMaxZstdBlockBytes ||
        dictionary_bytes > dictionary.size() * kMaxZstdRatio) {
      return Status::corrupt(
          "zstd dictionary of " + std::to_string(dictionary_bytes) +
          " bytes, compressed to " + std::to_string(dictionary.size()) +
          "; at most 16 MiB and a ratio of 32768 are allowed");
    }
  }
  const uint64_t raw_size = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("zstd strings"));
  NIMBLE_ASSIGN_OR_RETURN(StringBlocks blocks,
                          StringBlocks::open(head, context, false));
  return std::unique_ptr<Decoder>(std::make_unique<ZstdStringsDecoder>(
      context, std::move(dictionary), dictionary_bytes, raw_size,
      std::move(blocks)));
}

}  // namespace nimble
