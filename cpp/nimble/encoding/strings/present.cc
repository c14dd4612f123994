#include "nimble/encoding/strings/present.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/presence.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

using Words = uint64_t[kSelectionWords];

// Calls f(i) for every set bit i of `n` words, ascending.
template <class F>
void for_set_bits(const uint64_t* words, uint32_t n, F&& f) {
  for (uint32_t w = 0; w < n; ++w) {
    for (uint64_t left = words[w]; left != 0; left &= left - 1) {
      f(w * 64 + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
}

// Moves the sink's values from `first` on, which are the non-empty strings, to
// the rows for which has(i) is true. Other rows become empty strings. Works
// backward, so that no end is overwritten before it is moved.
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
  PresentDecoder(const DecodeContext& context, Presence presence, Child strings)
      : Decoder(context.type, context.num_values),
        presence_(std::move(presence)),
        strings_(std::move(strings)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    presence_.append_ranges(begin, end, strings_, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    presence_.prefetch(body, row, strings_);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return presence_.describe() + strings_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + presence_.memory_bytes() + strings_.memory_bytes();
  }

 private:
  Presence presence_;
  Child strings_;
};

Status PresentDecoder::decode(const SegmentBody& body, uint32_t begin,
                              uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const uint32_t skip = begin % kBlockValues;
  AlignedBuffer where(div_ceil(skip + (end - begin), 64) * 8);
  NIMBLE_ASSIGN_OR_RETURN(
      const Presence::Own own,
      presence_.read(body, begin, end, where.as<uint64_t>()));
  const uint64_t at = out.bytes->count;
  if (own.count > 0) {
    NIMBLE_RETURN_IF_ERROR(
        strings_.decode(body, own.first, own.first + own.count, out));
  }
  spread_ends(
      at, end - begin,
      [&](uint64_t i) { return get_bit(where.data(), skip + i); }, out.bytes);
  return Status::ok();
}

Status PresentDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                              size_t count, const Output& out) const {
  return for_chunks(count, [&](size_t begin, uint32_t n) -> Status {
    uint32_t places[kBlockValues];
    Words has = {};
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t num_present,
                            presence_.find(body, rows + begin, n, has, places));
    const uint64_t at = out.bytes->count;
    if (num_present > 0) {
      NIMBLE_RETURN_IF_ERROR(strings_.gather(body, places, num_present, out));
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

// The strings' encoding filters the non-empty strings. All empty rows have the
// same result.
Status PresentDecoder::filter(const SegmentBody& body, const Predicate& test,
                              uint64_t* selection) const {
  const bool keeps_empty = passes(test, std::string_view());
  std::vector<uint64_t> inner(size_t{num_blocks_of(strings_.size())} *
                              kSelectionWords);
  auto* const asked = reinterpret_cast<uint8_t*>(inner.data());
  // Which rows have a string, for blocks with a selected row.
  std::vector<uint64_t> rows(size_t{num_blocks_of(size())} * kSelectionWords);
  for (uint32_t b = 0; b < num_blocks_of(size()); ++b) {
    uint64_t* const selected = selection + b * kSelectionWords;
    if (count_selected(selected, kSelectionWords) == 0) continue;
    const uint32_t first = b * kBlockValues;
    Words where = {};
    NIMBLE_ASSIGN_OR_RETURN(
        const Presence::Own own,
        presence_.read(body, first, first + block_rows(b, size()), where));
    uint64_t rank = own.first;
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
    uint64_t rank = presence_.before(b);
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
  for (uint32_t i = 0; i < values.size; ++i) {
    if (values.slices[i].size == 0) continue;
    set_bit(where.data(), i);
    strings.push_back(values.slices[i]);
  }
  put_encoding_id(EncodingId::kPresent, out);
  out->head.put_varint(strings.size());
  NIMBLE_RETURN_IF_ERROR(Presence::write(where.data(), values.size, context,
                                         out, context.validity_head));
  Values rest = values;
  rest.size = static_cast<uint32_t>(strings.size());
  rest.slices = strings.data();
  rest.empty_is_null = false;
  return encode_own(rest, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_present(ByteReader* head,
                                              const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("present holds strings only");
  }
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("number of strings"));
  NIMBLE_ASSIGN_OR_RETURN(Presence presence,
                          Presence::open(head, context, count));
  NIMBLE_ASSIGN_OR_RETURN(
      Child strings,
      Child::open(head, context, context.type, presence.count()));
  return std::unique_ptr<Decoder>(std::make_unique<PresentDecoder>(
      context, std::move(presence), std::move(strings)));
}

}  // namespace nimble
