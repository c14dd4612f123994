#include "nimble/encoding/ints/present_values.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/base/scratch.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/later_encodings.h"
#include "nimble/encoding/core/packed_offsets.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/patches.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/encoding/ints/constant.h"

namespace nimble {
namespace {

// Blocks whose other values are decoded at once.
constexpr uint32_t kChunkBlocks = 4;
constexpr uint32_t kChunkRows = kChunkBlocks * kBlockValues;
constexpr uint32_t kChunkWords = kChunkBlocks * kSelectionWords;

// Rows [from, to) of a bitmap: the next of `values` where a bit is set, else
// the common value, without a branch on a bit. At most one value past the last
// one is looked at.
template <class T>
void spread(const uint64_t* where, uint32_t from, uint32_t to,
            const uint8_t* values, const uint8_t* common, uint8_t* out) {
  const T usual = load<T>(common);
  for (uint32_t row = from; row < to;) {
    const uint32_t n = std::min(64 - row % 64, to - row);
    const uint64_t bits = where[row / 64] >> (row % 64);
    if (n == 64 && bits == ~uint64_t{0}) {
      std::memcpy(out, values, 64 * sizeof(T));
      values += 64 * sizeof(T);
    } else {
      for (uint32_t i = 0; i < n; ++i) {
        const uint64_t bit = bits >> i & 1;
        const auto is_other = static_cast<T>(0 - bit);
        store(out + i * sizeof(T),
              static_cast<T>(usual ^ ((load<T>(values) ^ usual) & is_other)));
        values += bit * sizeof(T);
      }
    }
    out += n * sizeof(T);
    row += n;
  }
}

void spread_values(const uint64_t* where, uint32_t from, uint32_t to,
                   uint32_t width, const uint8_t* values, const uint8_t* common,
                   uint8_t* out) {
  switch (width) {
    case 1:
      return spread<uint8_t>(where, from, to, values, common, out);
    case 2:
      return spread<uint16_t>(where, from, to, values, common, out);
    case 4:
      return spread<uint32_t>(where, from, to, values, common, out);
    case 8:
      return spread<uint64_t>(where, from, to, values, common, out);
    default:
      for (uint32_t row = from; row < to; ++row, out += width) {
        const bool is_other = (where[row / 64] >> (row % 64) & 1) != 0;
        std::memcpy(out, is_other ? values : common, width);
        if (is_other) values += width;
      }
  }
}

class PresentValuesDecoder final : public Decoder {
 public:
  PresentValuesDecoder(const DecodeContext& context, ByteSpan common,
                       Child where, PackedOffsets ranks, Child values)
      : Decoder(context.type, context.num_values),
        where_(std::move(where)),
        ranks_(std::move(ranks)),
        values_(std::move(values)) {
    std::copy(common.begin(), common.end(), common_);
  }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t from = begin / kBlockValues;
    where_.append_ranges(from * kBlockValues, end, out);
    // Which of them these rows have is known when the booleans are.
    const uint32_t first = rank_before(from);
    const uint32_t last = rank_before((end - 1) / kBlockValues + 1);
    values_.append_ranges(first, std::max(first, last), out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    where_.prefetch(body, row);
    const uint32_t block = row / kBlockValues;
    const uint64_t first = rank_before(block);
    const uint64_t last = rank_before(block + 1);
    if (last <= first) return;
    // About there, if they are evenly spread.
    const uint64_t at = first + (last - first) * (row % kBlockValues) /
                                    block_rows(block, size());
    values_.prefetch(body, static_cast<uint32_t>(at));
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override {
    return filter_decoded(body, test, selection);
  }
  std::string describe() const override {
    return "present n=" + std::to_string(values_.size()) + " (" +
           where_.describe() + ") of " + values_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + where_.memory_bytes() + ranks_.memory_bytes() +
           values_.memory_bytes();
  }

 private:
  struct Purpose {};

  // Other values before this block; hostile heads may claim anything.
  uint32_t rank_before(uint32_t block) const {
    if (block == 0) return 0;
    if (block > ranks_.count()) return values_.size();
    return static_cast<uint32_t>(
        std::min<uint64_t>(ranks_.get(block - 1), values_.size()));
  }
  // Which of the rows from `first` on, that of a block, have another value.
  Status read_where(const SegmentBody& body, uint32_t first, uint32_t n,
                    uint64_t* words) const {
    std::fill(words, words + div_ceil(n, 64), 0);
    Output to;
    to.data = reinterpret_cast<uint8_t*>(words);
    return where_.decode(body, first, first + n, to);
  }
  Status check_rank(uint64_t first, uint64_t count, uint64_t last) const {
    if (first + count <= last) return Status::ok();
    return Status::corrupt("other values [" + std::to_string(first) + ", " +
                           std::to_string(first + count) + ") of a block, " +
                           "which has those up to " + std::to_string(last));
  }

  uint8_t common_[Patches::kMaxWidth] = {};
  Child where_;
  PackedOffsets ranks_;
  Child values_;
};

Status PresentValuesDecoder::decode(const SegmentBody& body, uint32_t begin,
                                    uint32_t end, const Output& out) const {
  const uint32_t width = type().width;
  uint8_t* to = out.data;
  ThreadScratch<AlignedBuffer, Purpose> values;
  while (begin < end) {
    // Whole blocks of booleans, from the start of the first row's.
    const uint32_t block = begin / kBlockValues;
    const uint32_t first_row = block * kBlockValues;
    const uint32_t until = std::min(end - first_row, kChunkRows);
    const uint32_t from = begin - first_row;
    uint64_t where[kChunkWords];
    NIMBLE_RETURN_IF_ERROR(read_where(body, first_row, until, where));
    const auto* bits = reinterpret_cast<const uint8_t*>(where);
    const uint64_t first = rank_before(block) + count_bits(bits, 0, from);
    const uint64_t count = count_bits(bits, from, until - from);
    NIMBLE_RETURN_IF_ERROR(check_rank(
        first, count, rank_before((first_row + until - 1) / kBlockValues + 1)));
    values->resize(count * width);
    if (count > 0) {
      Output others;
      others.data = values->data();
      NIMBLE_RETURN_IF_ERROR(
          values_.decode(body, static_cast<uint32_t>(first),
                         static_cast<uint32_t>(first + count), others));
    }
    spread_values(where, from, until, width, values->data(), common_, to);
    to += uint64_t{until - from} * width;
    begin = first_row + until;
  }
  return Status::ok();
}

Status PresentValuesDecoder::gather(const SegmentBody& body,
                                    const uint32_t* rows, size_t count,
                                    const Output& out) const {
  const uint32_t width = type().width;
  return for_chunks(count, [&](size_t begin, uint32_t n) -> Status {
    uint32_t wanted[kBlockValues];
    uint64_t has[kSelectionWords] = {};
    uint32_t found = 0;
    uint64_t before = 0;  // ranks of a damaged head may descend
    NIMBLE_RETURN_IF_ERROR(for_row_groups(
        rows + begin, n,
        [&](uint32_t block, size_t from, size_t some) -> Status {
          const uint32_t* const group = rows + begin + from;
          uint64_t where[kSelectionWords];
          NIMBLE_RETURN_IF_ERROR(read_where(body, block * kBlockValues,
                                            group[some - 1] % kBlockValues + 1,
                                            where));
          const auto* bits = reinterpret_cast<const uint8_t*>(where);
          uint64_t rank = rank_before(block);
          uint32_t seen = 0;
          for (size_t i = 0; i < some; ++i) {
            const uint32_t row = group[i] % kBlockValues;
            rank += count_bits(bits, seen, row - seen);
            seen = row;
            if (!get_bit(bits, row)) continue;
            NIMBLE_RETURN_IF_ERROR(check_rank(rank, 1, rank_before(block + 1)));
            if (rank < before) return check_rank(before, 1, rank);
            before = rank;
            set_bit(reinterpret_cast<uint8_t*>(has), from + i);
            wanted[found++] = static_cast<uint32_t>(rank);
          }
          return Status::ok();
        }));
    uint8_t* const to = out.data + begin * width;
    ThreadScratch<AlignedBuffer, Purpose> values;
    values->resize(uint64_t{found} * width);
    if (found > 0) {
      Output others;
      others.data = values->data();
      NIMBLE_RETURN_IF_ERROR(values_.gather(body, wanted, found, others));
    }
    spread_values(has, 0, n, width, values->data(), common_, to);
    return Status::ok();
  });
}

}  // namespace

// --------------------------------------------------------------------- encode

bool can_be_present(const ValueType& type) {
  return type.width > 0 && type.width <= Patches::kMaxWidth;
}

Status encode_present_values(const Values& values, const uint8_t* common,
                             const uint8_t* other, const EncodeContext& context,
                             SegmentBuilder* out, ByteBuffer* other_head) {
  const uint32_t width = values.type.width;
  std::vector<uint64_t> ranks;
  std::vector<uint8_t> others(count_bits(other, 0, values.size) * width);
  uint8_t* to = others.data();
  for (uint32_t i = 0; i < values.size; ++i) {
    if (i > 0 && i % kBlockValues == 0) {
      ranks.push_back(static_cast<uint64_t>(to - others.data()) / width);
    }
    if (!get_bit(other, i)) continue;
    std::memcpy(to, values.data + uint64_t{i} * width, width);
    to += width;
  }
  Values rest;
  rest.type = values.type;
  rest.size = static_cast<uint32_t>(others.size() / width);
  rest.data = others.data();
  put_encoding_id(LaterEncodingId::kPresent, out);
  out->head.put_varint(rest.size);
  out->head.put_bytes(common, width);
  Values where;
  where.type = ValueType::boolean();
  where.size = values.size;
  where.data = other;
  const size_t place = out->head.size();
  NIMBLE_RETURN_IF_ERROR(encode_child(where, context, 0, out));
  if (other_head != nullptr) {
    other_head->put_bytes(out->head.span().subspan(place + 1));
  }
  PackedOffsets::write(ranks, &out->head);
  return encode_child(rest, context, 0, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_present_values(
    ByteReader* head, const DecodeContext& context) {
  if (!can_be_present(context.type)) {
    return Status::corrupt("present values of a type that cannot be");
  }
  const uint64_t count = head->get_varint();
  const ByteSpan common = head->get_bytes(context.type.width);
  NIMBLE_RETURN_IF_ERROR(head->status("present head"));
  if (count > context.num_values) {
    return Status::corrupt(std::to_string(count) + " other values in " +
                           std::to_string(context.num_values) + " rows");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child where,
      Child::open(head, context, ValueType::boolean(), context.num_values));
  const uint32_t blocks = num_blocks_of(context.num_values);
  NIMBLE_ASSIGN_OR_RETURN(
      PackedOffsets ranks,
      PackedOffsets::open(head, blocks > 0 ? blocks - 1 : 0));
  NIMBLE_ASSIGN_OR_RETURN(
      Child values,
      Child::open(head, context, context.type, static_cast<uint32_t>(count)));
  return std::unique_ptr<Decoder>(std::make_unique<PresentValuesDecoder>(
      context, common, std::move(where), std::move(ranks), std::move(values)));
}

}  // namespace nimble
