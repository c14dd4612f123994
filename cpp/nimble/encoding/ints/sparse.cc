#include "nimble/encoding/ints/sparse.h"

#include <algorithm>

#include "nimble/encoding/blocks/patches.h"
#include "nimble/encoding/blocks/running_sums.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/ints/constant.h"

namespace nimble {

// --------------------------------------------------------------------- encode

bool can_be_sparse(const ValueType& type) {
  return type.width > 0 && type.width <= Patches::kMaxWidth;
}

Status encode_sparse(const Values& values, const uint8_t* common,
                     const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint32_t> rows;
  ByteBuffer exceptions;
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint8_t* value = values.data + uint64_t{i} * width;
    if (std::memcmp(value, common, width) == 0) continue;
    rows.push_back(i);
    exceptions.put_bytes(value, width);
  }
  put_encoding_id(EncodingId::kSparse, out);
  out->head.put_bytes(common, width);
  Values rest = values;
  rest.size = static_cast<uint32_t>(rows.size());
  rest.data = exceptions.data();
  return Patches::write(rows, rest, values.size, context, out);
}

namespace {

// --------------------------------------------------------------------- decode

class SparseDecoder final : public Decoder, public SummedDecoder {
 public:
  SparseDecoder(const DecodeContext& context, ByteSpan common, Patches patches)
      : Decoder(context.type, context.num_values),
        common_(common.begin(), common.end()),
        patches_(std::move(patches)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    patches_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    fill_value(common_.data(), type().width, end - begin, out.data);
    return patches_.apply(body, begin, end, out.data);
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    fill_value(common_.data(), type().width, count, out.data);
    return patches_.apply_gather(body, rows, count, out.data);
  }
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    *out = 0;
    std::memcpy(out, common_.data(), std::min<size_t>(common_.size(), 8));
    return patches_.apply_one(body, row, out);
  }
  Status sum_to(const SegmentBody& body, const uint32_t* rows, size_t n,
                uint64_t* sums) const override {
    return patches_.sum_to(body, type(), load_int(type(), common_.data(), 0),
                           rows, n, sums);
  }
  std::string describe() const override {
    return "sparse exceptions=" + std::to_string(patches_.count()) + " (" +
           patches_.describe() + ")";
  }
  size_t memory_bytes() const override {
    return sizeof *this + common_.capacity() + patches_.memory_bytes();
  }

 private:
  std::vector<uint8_t> common_;
  Patches patches_;
};

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_sparse(ByteReader* head,
                                             const DecodeContext& context) {
  if (!can_be_sparse(context.type)) {
    return Status::corrupt("this type cannot be stored as sparse values");
  }
  const ByteSpan common = head->get_bytes(context.type.width);
  NIMBLE_RETURN_IF_ERROR(head->status("sparse head"));
  NIMBLE_ASSIGN_OR_RETURN(Patches patches, Patches::open(head, context));
  return std::unique_ptr<Decoder>(
      std::make_unique<SparseDecoder>(context, common, std::move(patches)));
}

}  // namespace nimble
