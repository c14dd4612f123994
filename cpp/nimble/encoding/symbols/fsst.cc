#include "nimble/encoding/symbols/fsst.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nimble/base/bitmap.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/blocks/block_strings.h"
#include "nimble/encoding/symbols/front_test.h"
#include "nimble/encoding/symbols/fsst_compressor.h"

namespace nimble {
namespace {

// If there are more codes than this, their decompressed size is computed before
// memory is reserved. The upper bound of eight bytes per code would waste
// memory.
constexpr uint64_t kMeasureAbove = 65536;
constexpr uint32_t kCodes = 256;

class FsstDecoder final : public BlockStrings {
 public:
  FsstDecoder(const DecodeContext& context, const FsstTable& table,
              const Room& room, StringBlocks blocks)
      : BlockStrings(context, std::move(blocks), room), table_(table) {}

  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    BlockStrings::prefetch(body, row);
    table_.prefetch();
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return "fsst symbols=" + std::to_string(table_.size()) + " " +
           blocks_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + blocks_.memory_bytes();
  }

 protected:
  Status decode_block(const SegmentBody& body, const StringBlock& block,
                      uint32_t from, uint32_t to, uint64_t at,
                      BytesSink* sink) const override;

 private:
  Status filter_block(const StringBlock& block, const FrontTest<kCodes>& front,
                      uint64_t* selection) const;

  FsstTable table_;  // last because it is large
};

Status trailing_escape(uint64_t row) {
  return Status::corrupt("codes of string " + std::to_string(row) +
                         " end within an escape");
}

// The codes of consecutive strings.
struct CodeRun {
  const uint8_t* codes;
  uint64_t begin;  // of the first string, in codes
  uint64_t* ends;  // ends in codes; replaced by ends in the output
  uint32_t count;
  uint64_t first_row;
};

Status decompress_together(const FsstTable& table, const CodeRun& run,
                           uint8_t* out) {
  uint32_t positions[FsstTable::kMaxTogether + 1];
  const uint64_t n = run.ends[run.count - 1] - run.begin;
  const uint8_t* const codes = run.codes + run.begin;
  if (n == 0 || std::memchr(codes, kFsstEscape, n) == nullptr) {
    table.decompress_plain(codes, n, out, positions);
    for (uint32_t i = 0; i < run.count; ++i) {
      run.ends[i] =
          table.place_of(codes, n, run.ends[i] - run.begin, positions);
    }
    return Status::ok();
  }
  if (!table.decompress_together(codes, n, out, positions)) {
    return trailing_escape(run.first_row + run.count - 1);
  }
  uint32_t highest = 0;
  for (uint32_t i = 0; i < run.count; ++i) {
    const uint32_t end = positions[run.ends[i] - run.begin];
    highest = std::max(highest, end);
    run.ends[i] = end;
  }
  if (highest != FsstTable::kInEscape) return Status::ok();
  const auto bad = std::find(run.ends, run.ends + run.count, highest);
  return trailing_escape(run.first_row + static_cast<uint64_t>(bad - run.ends));
}

Status decompress_singly(const FsstTable& table, const CodeRun& run,
                         uint8_t* out) {
  const uint8_t* const start = out;
  uint64_t begin = run.begin;
  for (uint32_t i = 0; i < run.count; ++i) {
    const uint64_t end = run.ends[i];
    out = table.decompress(run.codes + begin, run.codes + end, out);
    if (out == nullptr) return trailing_escape(run.first_row + i);
    run.ends[i] = static_cast<uint64_t>(out - start);
    begin = end;
  }
  return Status::ok();
}

// Reserves memory for the decompressed codes and the overshoot of stores.
void make_room(const FsstTable& table, const uint8_t* codes, uint64_t n,
               BytesSink* sink) {
  const uint64_t room = n <= kMeasureAbove
                            ? FsstTable::decompressed_bound(n)
                            : table.decompressed_size(codes, codes + n) + 16;
  sink->data.reserve(sink->data.size() + room);
}

Status FsstDecoder::decode_block(const SegmentBody& /*body*/,
                                 const StringBlock& block, uint32_t from,
                                 uint32_t to, uint64_t at,
                                 BytesSink* sink) const {
  uint64_t ends[kBlockValues];
  NIMBLE_RETURN_IF_ERROR(blocks_.read_ends(block, ends));
  const uint64_t begin = from > 0 ? ends[from - 1] : 0;
  const CodeRun run{block.bytes, begin, ends + from, to - from,
                    block.first_row + uint64_t{from}};
  const uint64_t size = ends[to - 1] - begin;
  make_room(table_, block.bytes + begin, size, sink);
  uint8_t* const start = sink->data.data() + sink->data.size();
  NIMBLE_RETURN_IF_ERROR(size <= FsstTable::kMaxTogether
                             ? decompress_together(table_, run, start)
                             : decompress_singly(table_, run, start));
  append_offsets(run.ends, run.count, sink->data.size(), at, sink);
  sink->data.resize(sink->data.size() + run.ends[run.count - 1]);
  return Status::ok();
}

Status FsstDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                           size_t count, const Output& out) const {
  BytesSink* sink = out.bytes;
  return blocks_.gather(
      body, rows, count, sink, [&](ByteSpan codes, uint32_t row) -> Status {
        make_room(table_, codes.data(), codes.size(), sink);
        uint8_t* const start = sink->data.data();
        const uint8_t* end =
            table_.decompress(codes.data(), codes.data() + codes.size(),
                              start + sink->data.size());
        if (NIMBLE_UNLIKELY(end == nullptr)) return trailing_escape(row);
        sink->data.resize(static_cast<size_t>(end - start));
        return Status::ok();
      });
}

Status FsstDecoder::filter(const SegmentBody& body, const Predicate& test,
                           uint64_t* selection) const {
  if (!FrontTest<kCodes>::can_decide(test)) {
    return filter_decoded(body, test, selection);
  }
  FrontTest<kCodes> front(test);
  for (uint32_t c = 0; c < table_.size(); ++c) {
    const FsstSymbol symbol = table_.symbol(c);
    char bytes[8];
    store(reinterpret_cast<uint8_t*>(bytes), symbol.bytes);
    front.set(c, {bytes, symbol.length});
  }
  for (uint32_t b = 0; b < blocks_.num_blocks(); ++b) {
    const uint32_t begin = blocks_.first_row(b);
    const uint32_t end = begin + blocks_.rows(b);
    const auto* bits = reinterpret_cast<const uint8_t*>(selection);
    if (count_bits(bits, begin, end - begin) == 0) continue;
    StringBlock block;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &block));
    NIMBLE_RETURN_IF_ERROR(filter_block(block, front, selection));
  }
  return Status::ok();
}

Status FsstDecoder::filter_block(const StringBlock& block,
                                 const FrontTest<kCodes>& front,
                                 uint64_t* selection) const {
  uint64_t ends[kBlockValues];
  NIMBLE_RETURN_IF_ERROR(blocks_.read_ends(block, ends));
  auto* const bits = reinterpret_cast<uint8_t*>(selection);
  uint8_t text[kMostDecidingBytes + 16];
  uint64_t begin = 0;
  for (uint32_t i = 0; i < block.rows; begin = ends[i++]) {
    const uint64_t row = uint64_t{block.first_row} + i;
    if (!get_bit(bits, row)) continue;
    const uint8_t* codes = block.bytes + begin;
    if (begin < ends[i] && front.of(*codes) != FrontVerdict::kOpen) {
      if (front.of(*codes) == FrontVerdict::kFails) clear_bit(bits, row);
      continue;
    }
    const uint8_t* end = table_.decompress_front(codes, block.bytes + ends[i],
                                                 front.num_bytes(), text);
    if (NIMBLE_UNLIKELY(end == nullptr)) return trailing_escape(row);
    const auto size =
        std::min(front.num_bytes(), static_cast<uint64_t>(end - text));
    if (!front.passes_front(text, size)) clear_bit(bits, row);
  }
  return Status::ok();
}

}  // namespace

Status encode_fsst(const Values& values, const FsstTable& table,
                   SegmentBuilder* out) {
  std::vector<uint64_t> lengths(values.size);
  AlignedBuffer codes;
  FsstMatcher(table).compress({values.slices, values.size}, &codes,
                              lengths.data());
  uint64_t raw_size = 0;
  for (uint32_t i = 0; i < values.size; ++i) raw_size += values.slices[i].size;
  // write_string_blocks() copies rows once and in order, so codes are copied
  // sequentially.
  const uint8_t* next = codes.data();
  const auto copy = [&](uint32_t begin, uint32_t end, uint8_t* to) {
    uint64_t size = 0;
    for (uint32_t i = begin; i < end; ++i) size += lengths[i];
    if (size > 0) std::memcpy(to, next, size);
    next += size;
  };
  put_encoding_id(EncodingId::kFsst, out);
  table.write(&out->head);
  out->head.put_varint(raw_size);
  write_string_blocks(lengths, copy, out);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_fsst(ByteReader* head,
                                           const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("fsst holds strings only");
  }
  NIMBLE_ASSIGN_OR_RETURN(const FsstTable table, FsstTable::open(head));
  const uint64_t raw_size = head->get_varint();
  NIMBLE_ASSIGN_OR_RETURN(StringBlocks blocks,
                          StringBlocks::open(head, context));
  const BlockStrings::Room room{
      raw_size, FsstTable::decompressed_bound(blocks.part_size()),
      FsstTable::decompressed_bound(kMeasureAbove)};
  return std::unique_ptr<Decoder>(
      std::make_unique<FsstDecoder>(context, table, room, std::move(blocks)));
}

}  // namespace nimble
