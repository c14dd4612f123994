#include "nimble/encoding/ints/present_values.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/patches.h"
#include "nimble/encoding/blocks/presence.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/encoding/ints/spread.h"
#include "nimble/memory/scratch.h"

namespace nimble {
namespace {

// Number of rows whose values are decoded at once, so that they remain in the
// L2 cache.
constexpr uint32_t kChunkRows = 8 * kBlockValues;

class PresentValuesDecoder final : public Decoder {
 public:
  PresentValuesDecoder(const DecodeContext& context, ByteSpan common,
                       Presence presence, Child values)
      : Decoder(context.type, context.num_values),
        presence_(std::move(presence)),
        values_(std::move(values)) {
    std::copy(common.begin(), common.end(), common_);
  }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    presence_.append_ranges(begin, end, values_, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    presence_.prefetch(body, row, values_);
  }
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint32_t place = 0;
    uint64_t has = 0;
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t num_present,
                            presence_.find(body, &row, 1, &has, &place));
    if (num_present > 0) return values_.value(body, place, out);
    *out = load<uint64_t>(common_);
    return Status::ok();
  }
  std::string describe() const override {
    return presence_.describe() + values_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + presence_.memory_bytes() + values_.memory_bytes();
  }

 private:
  struct Purpose {};

  uint8_t common_[Patches::kMaxWidth] = {};
  Presence presence_;
  Child values_;
};

Status PresentValuesDecoder::decode(const SegmentBody& body, uint32_t begin,
                                    uint32_t end, const Output& out) const {
  const uint32_t width = type().width;
  uint8_t* to = out.data;
  ThreadScratch<AlignedBuffer, Purpose> values;
  while (begin < end) {
    const uint32_t first_row = begin / kBlockValues * kBlockValues;
    const uint32_t until = std::min(end - first_row, kChunkRows);
    uint64_t where[kChunkRows / 64];
    NIMBLE_ASSIGN_OR_RETURN(
        const Presence::Own own,
        presence_.read(body, begin, first_row + until, where));
    values->resize(uint64_t{own.count} * width);
    if (own.count > 0) {
      Output others;
      others.data = values->data();
      NIMBLE_RETURN_IF_ERROR(
          values_.decode(body, own.first, own.first + own.count, others));
    }
    const uint32_t from = begin - first_row;
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
    uint32_t places[kBlockValues];
    uint64_t has[kSelectionWords] = {};
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t num_present,
                            presence_.find(body, rows + begin, n, has, places));
    ThreadScratch<AlignedBuffer, Purpose> values;
    values->resize(uint64_t{num_present} * width);
    if (num_present > 0) {
      Output others;
      others.data = values->data();
      NIMBLE_RETURN_IF_ERROR(values_.gather(body, places, num_present, others));
    }
    spread_values(has, 0, n, width, values->data(), common_,
                  out.data + begin * width);
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
  std::vector<uint8_t> others(count_bits(other, 0, values.size) * width);
  uint8_t* to = others.data();
  for (uint32_t i = 0; i < values.size; ++i) {
    if (!get_bit(other, i)) continue;
    std::memcpy(to, values.data + uint64_t{i} * width, width);
    to += width;
  }
  Values rest;
  rest.type = values.type;
  rest.size = static_cast<uint32_t>(others.size() / width);
  rest.data = others.data();
  put_encoding_id(EncodingId::kPresent, out);
  out->head.put_varint(rest.size);
  out->head.put_bytes(common, width);
  NIMBLE_RETURN_IF_ERROR(
      Presence::write(other, values.size, context, out, other_head));
  return encode_own(rest, context, 0, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_present_values(
    ByteReader* head, const DecodeContext& context) {
  if (!can_be_present(context.type)) {
    return Status::corrupt("this type cannot be stored as present values");
  }
  const uint64_t count = head->get_varint();
  const ByteSpan common = head->get_bytes(context.type.width);
  NIMBLE_RETURN_IF_ERROR(head->status("present head"));
  NIMBLE_ASSIGN_OR_RETURN(Presence presence,
                          Presence::open(head, context, count));
  NIMBLE_ASSIGN_OR_RETURN(
      Child values, Child::open(head, context, context.type, presence.count()));
  return std::unique_ptr<Decoder>(std::make_unique<PresentValuesDecoder>(
      context, common, std::move(presence), std::move(values)));
}

}  // namespace nimble
