#include "nimble/encoding/ints/delta.h"

#include "nimble/encoding/blocks/packed_blocks.h"
#include "nimble/encoding/blocks/running_sums.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {
namespace {

constexpr uint32_t kDeltaFields = 2;  // first value, smallest difference

// Values of up to 4 bytes use 32-bit words, others 64-bit words.
template <class Word>
constexpr bool kIs64 = sizeof(Word) == 8;

template <class F>
decltype(auto) with_word(const ValueType& type, F&& f) {
  return type.width == 8 ? f(uint64_t{}) : f(uint32_t{});
}

// ---------------------------------------------------------------------- encode

// One block as words. differences[0] is a copy of differences[1].
template <class Word>
struct DeltaBlock {
  Word first = 0;
  Word min = 0;
  uint32_t width = 0;
  Word differences[kBlockValues];

  void load_block(const ValueType& type, const uint8_t* data, uint32_t n) {
    with_int_type(type, [&](auto tag) {
      using T = decltype(tag);
      Word before = static_cast<Word>(load<T>(data));
      first = before;
      for (uint32_t i = 0; i < n; ++i) {
        const Word v = static_cast<Word>(load<T>(data + i * sizeof(T)));
        differences[i] = static_cast<Word>(v - before);
        before = v;
      }
    });
    if (n > 1) differences[0] = differences[1];
    const MinMax range =
        min_max(ValueType::signed_int(sizeof(Word)),
                reinterpret_cast<const uint8_t*>(differences), n);
    min = static_cast<Word>(range.min);
    width = bit_width_of(static_cast<Word>(range.max - range.min));
    differences[0] = min;
  }
  void append(uint32_t n, uint32_t packed_width, ByteBuffer* body) const {
    const size_t size = 24 + static_cast<size_t>(packed_bytes(n, packed_width));
    uint8_t* p = body->extend(size);
    const auto* words = reinterpret_cast<const uint8_t*>(differences);
    store(p + 8, static_cast<uint64_t>(first));
    store(p + 16, static_cast<uint64_t>(min));
    if constexpr (kIs64<Word>) {
      n == kBlockValues ? pack64(packed_width, words, min, p + 24)
                        : pack_tail64(packed_width, words, n, min, p + 24);
    } else {
      n == kBlockValues ? pack32(packed_width, words, min, p + 24)
                        : pack_tail32(packed_width, words, n, min, p + 24);
    }
    store(p, checksum64({p + 8, size - 8}));
  }
};

const uint8_t* block_data(const Values& values, uint32_t block) {
  return values.data + uint64_t{block} * kBlockValues * values.type.width;
}

BlockWidths widths_of(const Values& values) {
  std::vector<uint8_t> widths;
  with_word(values.type, [&](auto word) {
    DeltaBlock<decltype(word)> block;
    for (uint32_t b = 0; b < num_blocks_of(values.size); ++b) {
      block.load_block(values.type, block_data(values, b),
                       block_rows(b, values.size));
      widths.push_back(static_cast<uint8_t>(block.width));
    }
  });
  return BlockWidths::choose(std::move(widths), values.size, kDeltaFields);
}

// ---------------------------------------------------------------------- decode

void unpack_differences(const uint8_t* packed, uint32_t n, uint32_t width,
                        uint64_t min, uint8_t* out) {
  if (n == kBlockValues) return unpack64(width, packed, min, out);
  unpack_tail64(width, packed, n, min, out);
}
void unpack_differences(const uint8_t* packed, uint32_t n, uint32_t width,
                        uint32_t min, uint8_t* out) {
  if (n == kBlockValues) return unpack32(width, packed, min, out);
  unpack_tail32(width, packed, n, min, out);
}

class DeltaDecoder final : public Decoder {
 public:
  DeltaDecoder(const DecodeContext& context, PackedBlocks blocks)
      : Decoder(context.type, context.num_values), blocks_(std::move(blocks)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    blocks_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    // All differences up to the row are read. Two cache lines are prefetched;
    // from there on, the hardware prefetcher follows the block.
    type().width == 8 ? blocks_.prefetch<uint64_t>(body, row)
                      : blocks_.prefetch<uint32_t>(body, row);
    __builtin_prefetch(body.data + blocks_.range(row / kBlockValues).begin +
                       64);
  }
  std::string describe() const override {
    return "delta " + blocks_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + blocks_.memory_bytes();
  }

 private:
  // Decodes the first `n` rows of a block.
  // REQUIRES: `out` has room for kBlockValues values.
  Status read_block(const SegmentBody& body, uint32_t block, uint32_t n,
                    uint8_t* out) const {
    return with_word(type(), [&](auto word) {
      return read_words<decltype(word)>(body, block, n, out);
    });
  }
  template <class Word>
  Status read_words(const SegmentBody& body, uint32_t block, uint32_t n,
                    uint8_t* out) const;

  // Decodes a few rows of a block whose width is not zero.
  Status gather_few(const SegmentBody& body, uint32_t block,
                    const uint32_t* rows, size_t n, uint8_t* out) const;
  Status gather_even(const SegmentBody& body, uint32_t block,
                     const uint32_t* rows, size_t n, uint8_t* out) const;

  PackedBlocks blocks_;
};

template <class Word>
Status DeltaDecoder::read_words(const SegmentBody& body, uint32_t block,
                                uint32_t n, uint8_t* out) const {
  const uint8_t* fields = nullptr;
  NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
  const uint32_t rows = blocks_.rows(block);
  const uint32_t width = blocks_.width(block);
  const Word first = static_cast<Word>(load<uint64_t>(fields));
  const Word min = static_cast<Word>(load<uint64_t>(fields + 8));
  Word scratch[kBlockValues];
  // Decodes in place if the caller wants the whole block, in words of this
  // width.
  const bool in_place = type().width == sizeof(Word) && n == rows;
  uint8_t* words = in_place ? out : reinterpret_cast<uint8_t*>(scratch);
  if (width == 0) {
    for (uint32_t i = 0; i < n; ++i) {
      store(words + i * sizeof(Word), static_cast<Word>(first + i * min));
    }
  } else {
    unpack_differences(fields + 16, rows, width, min, words);
    add_up(sizeof(Word), first - min, n, words);
  }
  if (in_place) return Status::ok();
  if (type().width == sizeof(Word)) {
    std::memcpy(out, scratch, n * sizeof(Word));
  } else if constexpr (!kIs64<Word>) {
    narrow_ints32(scratch, n, type().width, out);
  }
  return Status::ok();
}

Status DeltaDecoder::decode(const SegmentBody& body, uint32_t begin,
                            uint32_t end, const Output& out) const {
  uint8_t* to = out.data;
  const uint32_t width = type().width;
  return for_blocks(
      begin, end, [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
        if (from == 0) {
          NIMBLE_RETURN_IF_ERROR(read_block(body, block, until, to));
        } else {
          uint8_t scratch[kBlockValues * 8];
          NIMBLE_RETURN_IF_ERROR(read_block(body, block, until, scratch));
          std::memcpy(to, scratch + from * width, (until - from) * width);
        }
        to += (until - from) * width;
        return Status::ok();
      });
}

// ---------------------------------------------------------------------- gather

// Decodes rows of a block with equal differences, without the other rows.
Status DeltaDecoder::gather_even(const SegmentBody& body, uint32_t block,
                                 const uint32_t* rows, size_t n,
                                 uint8_t* out) const {
  const uint8_t* fields = nullptr;
  NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
  const uint64_t first = load<uint64_t>(fields);
  const uint64_t difference = load<uint64_t>(fields + 8);
  for (size_t i = 0; i < n; ++i) {
    store_int(type().width, first + rows[i] % kBlockValues * difference,
              out + i * type().width);
  }
  return Status::ok();
}

Status DeltaDecoder::gather_few(const SegmentBody& body, uint32_t block,
                                const uint32_t* rows, size_t n,
                                uint8_t* out) const {
  const uint8_t* fields = nullptr;
  NIMBLE_RETURN_IF_ERROR(blocks_.read(body, block, &fields));
  const uint64_t first = load<uint64_t>(fields);
  const uint64_t min = load<uint64_t>(fields + 8);
  return with_word(type(), [&](auto word) {
    using Word = decltype(word);
    uint8_t words[kBlockValues * sizeof(Word)];
    unpack_differences(fields + 16, blocks_.rows(block), blocks_.width(block),
                       static_cast<Word>(min), words);
    // The first difference is the smallest, unless the file is damaged.
    const uint64_t before = first - min + load<Word>(words);
    if (type().width == sizeof(Word)) {
      running_sums_at(sizeof(Word), before, words, rows, n, out);
      return Status::ok();
    }
    Word sums[kFewSums];
    running_sums_at(sizeof(Word), before, words, rows, n,
                    reinterpret_cast<uint8_t*>(sums));
    if constexpr (!kIs64<Word>) {
      narrow_ints32(sums, static_cast<uint32_t>(n), type().width, out);
    }
    return Status::ok();
  });
}

Status DeltaDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                            size_t count, const Output& out) const {
  const auto ask = [&](uint32_t row) { DeltaDecoder::prefetch(body, row); };
  return for_row_groups_ahead(
      body, rows, count, ask,
      [&](uint32_t block, size_t first, size_t n) -> Status {
        if (blocks_.width(block) == 0) {
          return gather_even(body, block, rows + first, n,
                             out.data + first * type().width);
        }
        if (n <= kFewSums) {
          return gather_few(body, block, rows + first, n,
                            out.data + first * type().width);
        }
        uint8_t scratch[kBlockValues * 8];
        const uint32_t last = rows[first + n - 1] % kBlockValues;
        NIMBLE_RETURN_IF_ERROR(read_block(body, block, last + 1, scratch));
        pick_values(scratch, type().width, rows + first, n,
                    block * kBlockValues, out.data + first * type().width);
        return Status::ok();
      });
}

}  // namespace

uint64_t delta_bytes(const Values& values) {
  return widths_of(values).part_bytes(values.size, kDeltaFields);
}

Status encode_delta(const Values& values, SegmentBuilder* out) {
  const BlockWidths widths = widths_of(values);
  const uint64_t begin = out->begin_part();
  out->body.reserve(begin + widths.part_bytes(values.size, kDeltaFields));
  with_word(values.type, [&](auto word) {
    DeltaBlock<decltype(word)> block;
    for (uint32_t b = 0; b < num_blocks_of(values.size); ++b) {
      const uint32_t n = block_rows(b, values.size);
      block.load_block(values.type, block_data(values, b), n);
      block.append(n, widths.width(b), &out->body);
    }
  });
  put_encoding_id(EncodingId::kDelta, out);
  out->put_part(begin);
  widths.write(&out->head);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_delta(ByteReader* head,
                                            const DecodeContext& context) {
  if (!is_int(context.type)) {
    return Status::corrupt("only integers can be stored as differences");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      PackedBlocks blocks,
      PackedBlocks::open(head, context, kDeltaFields,
                         context.type.width == 8 ? 64 : 32));
  return std::unique_ptr<Decoder>(
      std::make_unique<DeltaDecoder>(context, std::move(blocks)));
}

}  // namespace nimble
