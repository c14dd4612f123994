#include "nimble/encoding/strings/present.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/later_encodings.h"
#include "nimble/encoding/core/packed_offsets.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

using Words = uint64_t[kSelectionWords];

// Calls f(i) for every bit i of `n` words that is set, ascending.
template <class F>
void for_set_bits(const uint64_t* words, uint32_t n, F&& f) {
  for (uint32_t w = 0; w < n; ++w) {
    for (uint64_t left = words[w]; left != 0; left &= left - 1) {
      f(w * 64 + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
}

// The values from `first` on, of which a child has written those of the rows
// that has(i) names, get their places among `rows` of them; the strings between
// are empty. From the last to the first: no end is overwritten before it moves.
template <class F>
void spread_ends(uint64_t first, uint64_t rows, F&& has, BytesSink* sink) {
  uint64_t from = sink->count;
  sink->add_values(rows - (from - first));
  for (uint64_t i = rows; i > 0; --i) {
    const uint64_t end = from > 0 ? sink->end_of(from - 1) : 0;
    sink->set_end(first + i - 1, end);
    if (has(i - 1)) --from;
  }
}

class PresentDecoder final : public Decoder {
 public:
  PresentDecoder(const DecodeContext& context, Child where, PackedOffsets ranks,
                 Child strings)
      : Decoder(context.type, context.num_values),
        where_(std::move(where)),
        ranks_(std::move(ranks)),
        strings_(std::move(strings)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t from = begin / kBlockValues;
    const uint32_t to = (end - 1) / kBlockValues + 1;
    where_.append_ranges(from * kBlockValues, end, out);
    // Which of them these rows are is known when the booleans are.
    const uint32_t first = rank_before(from);
    const uint32_t last = std::max(first, rank_before(to));
    strings_.append_ranges(first, last, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    where_.prefetch(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return "present n=" + std::to_string(strings_.size()) + " (" +
           where_.describe() + ") of " + strings_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + where_.memory_bytes() + ranks_.memory_bytes() +
           strings_.memory_bytes();
  }

 private:
  // Strings before this block; hostile heads may claim anything.
  uint32_t rank_before(uint32_t block) const {
    if (block == 0) return 0;
    if (block > ranks_.count()) return strings_.size();
    return static_cast<uint32_t>(
        std::min<uint64_t>(ranks_.get(block - 1), strings_.size()));
  }
  // Which rows of `block` have a string, of the first `rows` rows.
  Status read_where(const SegmentBody& body, uint32_t block, uint32_t rows,
                    Words& words) const {
    std::fill(std::begin(words), std::end(words), 0);
    Output to;
    to.data = reinterpret_cast<uint8_t*>(words);
    const uint32_t first = block * kBlockValues;
    return where_.decode(body, first, first + rows, to);
  }
  Status check_strings(uint64_t first, uint64_t count) const {
    if (in_bounds(first, count, strings_.size())) return Status::ok();
    return Status::corrupt("strings [" + std::to_string(first) + ", " +
                           std::to_string(first + count) + ") of " +
                           std::to_string(strings_.size()) +
                           " that are not empty");
  }

  Child where_;
  PackedOffsets ranks_;
  Child strings_;
};

Status PresentDecoder::decode(const SegmentBody& body, uint32_t begin,
                              uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  // Whole blocks of booleans, from the start of the first row's.
  const uint32_t skip = begin % kBlockValues;
  AlignedBuffer where(div_ceil(skip + (end - begin), 8));
  Output to;
  to.data = where.data();
  NIMBLE_RETURN_IF_ERROR(where_.decode(body, begin - skip, end, to));
  const uint64_t first =
      rank_before(begin / kBlockValues) + count_bits(where.data(), 0, skip);
  const uint64_t count = count_bits(where.data(), skip, end - begin);
  NIMBLE_RETURN_IF_ERROR(check_strings(first, count));
  const uint64_t at = out.bytes->count;
  if (count > 0) {
    NIMBLE_RETURN_IF_ERROR(strings_.decode(body, static_cast<uint32_t>(first),
                                           static_cast<uint32_t>(first + count),
                                           out));
  }
  spread_ends(
      at, end - begin,
      [&](uint64_t i) { return get_bit(where.data(), skip + i); }, out.bytes);
  return Status::ok();
}

Status PresentDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                              size_t count, const Output& out) const {
  return for_chunks(count, [&](size_t begin, uint32_t n) -> Status {
    uint32_t wanted[kBlockValues];
    Words has = {};
    uint32_t found = 0;
    NIMBLE_RETURN_IF_ERROR(for_row_groups(
        rows + begin, n, [&](uint32_t block, size_t from, size_t some) {
          const uint32_t* const group = rows + begin + from;
          Words where;
          NIMBLE_RETURN_IF_ERROR(read_where(
              body, block, group[some - 1] % kBlockValues + 1, where));
          const auto* bits = reinterpret_cast<const uint8_t*>(where);
          uint64_t rank = rank_before(block);
          uint32_t seen = 0;
          for (size_t i = 0; i < some; ++i) {
            const uint32_t row = group[i] % kBlockValues;
            rank += count_bits(bits, seen, row - seen);
            seen = row;
            if (!get_bit(bits, row)) continue;
            NIMBLE_RETURN_IF_ERROR(check_strings(rank, 1));
            set_bit(reinterpret_cast<uint8_t*>(has), from + i);
            wanted[found++] = static_cast<uint32_t>(rank);
          }
          return Status::ok();
        }));
    // Ranks of a damaged head may descend; children count on their order.
    if (!std::is_sorted(wanted, wanted + found)) {
      return Status::corrupt("strings that are not empty: counts descend");
    }
    const uint64_t at = out.bytes->count;
    if (found > 0) {
      NIMBLE_RETURN_IF_ERROR(strings_.gather(body, wanted, found, out));
    }
    spread_ends(
        at, n,
        [&](uint64_t i) {
          return get_bit(reinterpret_cast<const uint8_t*>(has), i);
        },
        out.bytes);
    return Status::ok();
  });
}

// The strings' own encoding answers for them, one answer does for the rest.
Status PresentDecoder::filter(const SegmentBody& body, const Predicate& test,
                              uint64_t* selection) const {
  const bool keeps_empty = passes(test, std::string_view());
  std::vector<uint64_t> inner(size_t{num_blocks_of(strings_.size())} *
                              kSelectionWords);
  auto* const asked = reinterpret_cast<uint8_t*>(inner.data());
  // Which rows have a string, of blocks with a selected row.
  std::vector<uint64_t> rows(size_t{num_blocks_of(size())} * kSelectionWords);
  for (uint32_t b = 0; b < num_blocks_of(size()); ++b) {
    uint64_t* const selected = selection + b * kSelectionWords;
    if (count_selected(selected, kSelectionWords) == 0) continue;
    Words where;
    NIMBLE_RETURN_IF_ERROR(read_where(body, b, block_rows(b, size()), where));
    uint64_t rank = rank_before(b);
    NIMBLE_RETURN_IF_ERROR(
        check_strings(rank, count_selected(where, kSelectionWords)));
    const auto* bits = reinterpret_cast<const uint8_t*>(selected);
    for_set_bits(where, kSelectionWords, [&](uint32_t row) {
      if (get_bit(bits, row)) set_bit(asked, rank);
      ++rank;
    });
    std::copy(std::begin(where), std::end(where),
              rows.data() + b * kSelectionWords);
  }
  if (!inner.empty()) {
    NIMBLE_RETURN_IF_ERROR(strings_.filter(body, test, inner.data()));
  }
  for (uint32_t b = 0; b < num_blocks_of(size()); ++b) {
    const uint64_t* const where = rows.data() + b * kSelectionWords;
    uint64_t* const selected = selection + b * kSelectionWords;
    uint64_t rank = rank_before(b);
    for_set_bits(where, kSelectionWords, [&](uint32_t row) {
      if (!get_bit(asked, rank++)) {
        clear_bit(reinterpret_cast<uint8_t*>(selected), row);
      }
    });
    if (keeps_empty) continue;
    for (uint32_t w = 0; w < kSelectionWords; ++w) selected[w] &= where[w];
  }
  return Status::ok();
}

}  // namespace

Status encode_present(const Values& values, const EncodeContext& context,
                      SegmentBuilder* out) {
  std::vector<uint8_t> where(div_ceil(values.size, 64) * 8);
  std::vector<ByteSlice> strings;
  std::vector<uint64_t> ranks;
  for (uint32_t i = 0; i < values.size; ++i) {
    if (i > 0 && i % kBlockValues == 0) ranks.push_back(strings.size());
    if (values.slices[i].size == 0) continue;
    set_bit(where.data(), i);
    strings.push_back(values.slices[i]);
  }
  put_encoding_id(LaterEncodingId::kPresent, out);
  out->head.put_varint(strings.size());
  Values bits;
  bits.type = ValueType::boolean();
  bits.size = values.size;
  bits.data = where.data();
  NIMBLE_RETURN_IF_ERROR(encode_child(bits, context, 0, out));
  PackedOffsets::write(ranks, &out->head);
  Values rest = values;
  rest.size = static_cast<uint32_t>(strings.size());
  rest.slices = strings.data();
  rest.empty_is_null = false;
  return encode_child(rest, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_present(ByteReader* head,
                                              const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("present holds strings only");
  }
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("number of strings"));
  if (count > context.num_values) {
    return Status::corrupt(std::to_string(count) + " strings in " +
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
      Child strings,
      Child::open(head, context, context.type, static_cast<uint32_t>(count)));
  return std::unique_ptr<Decoder>(std::make_unique<PresentDecoder>(
      context, std::move(where), std::move(ranks), std::move(strings)));
}

}  // namespace nimble
