#include "nimble/encoding/ints/constant.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {

namespace {

template <class T>
NIMBLE_ALWAYS_INLINE void repeat(const uint8_t* value, uint64_t n,
                                 uint8_t* __restrict out) {
  const T v = load<T>(value);
  for (uint64_t i = 0; i < n; ++i) store(out + i * sizeof(T), v);
}

}  // namespace

NIMBLE_CLONES void fill_value(const uint8_t* value, uint32_t width, uint64_t n,
                              uint8_t* __restrict out) {
  switch (width) {
    case 1:
      std::memset(out, value[0], static_cast<size_t>(n));
      return;
    case 2:
      return repeat<uint16_t>(value, n, out);
    case 4:
      return repeat<uint32_t>(value, n, out);
    case 8:
      return repeat<uint64_t>(value, n, out);
    default:
      for (uint64_t i = 0; i < n; ++i)
        std::memcpy(out + i * width, value, width);
  }
}

namespace {

class ConstantDecoder final : public Decoder {
 public:
  ConstantDecoder(const DecodeContext& context, ByteSpan value)
      : Decoder(context.type, context.num_values),
        value_(value.begin(), value.end()) {
    if (!value_.empty()) {
      std::memcpy(&bits_, value_.data(), std::min<size_t>(value_.size(), 8));
    }
    if (context.type.kind == ValueKind::kBool && bits_ != 0) bits_ = 1;
  }

  void append_ranges(uint32_t, uint32_t,
                     std::vector<ByteRange>*) const override {}
  Status decode(const SegmentBody&, uint32_t begin, uint32_t end,
                const Output& out) const override {
    repeat(end - begin, out);
    return Status::ok();
  }
  Status gather(const SegmentBody&, const uint32_t*, size_t count,
                const Output& out) const override {
    repeat(count, out);
    return Status::ok();
  }
  Status value(const SegmentBody&, uint32_t, uint64_t* out) const override {
    *out = bits_;
    return Status::ok();
  }
  Status filter(const SegmentBody&, const Predicate& test,
                uint64_t* selection) const override {
    const bool pass =
        type().kind == ValueKind::kBytes
            ? passes(test, std::string_view(
                               reinterpret_cast<const char*>(value_.data()),
                               value_.size()))
            : passes(test, value_.data());
    if (!pass) {
      std::memset(selection, 0, num_blocks_of(size()) * kSelectionWords * 8);
    }
    return Status::ok();
  }
  std::string describe() const override { return "constant"; }
  size_t memory_bytes() const override {
    return sizeof *this + value_.capacity();
  }

 private:
  void repeat(uint64_t n, const Output& out) const {
    if (n == 0) return;
    if (type().kind == ValueKind::kBool) {
      fill_bits(out.data, out.bit_offset, n, value_[0] != 0);
    } else if (type().kind == ValueKind::kBytes) {
      const uint64_t first = out.bytes->add_values(n);
      AlignedBuffer& data = out.bytes->data;
      data.reserve(data.size() + n * value_.size());
      for (uint64_t i = 0; i < n; ++i) {
        data.append(value_.data(), value_.size());
        out.bytes->set_end(first + i, data.size());
      }
    } else {
      fill_value(value_.data(), type().width, n, out.data);
    }
  }

  std::vector<uint8_t> value_;
  uint64_t bits_ = 0;  // its first bytes
};

}  // namespace

bool is_constant(const Values& values) {
  if (values.type.kind == ValueKind::kBool) {
    if (values.size == 0) return true;
    const uint64_t ones = count_bits(values.data, 0, values.size);
    return ones == 0 || ones == values.size;
  }
  if (values.type.kind == ValueKind::kBytes) {
    for (uint32_t i = 0; i < values.size; ++i) {
      const ByteSlice& a = values.slices[0];
      const ByteSlice& b = values.slices[i];
      if (a.size > kMaxConstantBytes || a.size != b.size) return false;
      if (a.size > 0 && std::memcmp(a.data, b.data, a.size) != 0) return false;
    }
    return true;
  }
  const size_t width = values.type.width;
  if (width > kMaxConstantBytes) return false;
  // Compares the bytes with themselves, shifted by one value: they match if and
  // only if all values are equal.
  return values.size < 2 || std::memcmp(values.data, values.data + width,
                                        (values.size - 1) * width) == 0;
}

Status encode_constant(const Values& values, SegmentBuilder* out) {
  put_encoding_id(EncodingId::kConstant, out);
  const bool any = values.size > 0;
  if (values.type.kind == ValueKind::kBool) {
    out->head.put_u8(any && get_bit(values.data, 0) ? 1 : 0);
  } else if (values.type.kind == ValueKind::kBytes) {
    const ByteSlice value = any ? values.slices[0] : ByteSlice{nullptr, 0};
    out->head.put_sized({value.data, static_cast<size_t>(value.size)});
  } else if (any) {
    out->head.put_bytes(values.data, values.type.width);
  } else {
    out->head.extend(values.type.width);
  }
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_constant(ByteReader* head,
                                               const DecodeContext& context) {
  ByteSpan value;
  if (context.type.kind == ValueKind::kBytes) {
    value = head->get_sized();
  } else {
    value = head->get_bytes(
        context.type.kind == ValueKind::kBool ? 1 : context.type.width);
  }
  NIMBLE_RETURN_IF_ERROR(head->status("constant value"));
  if (value.size() > kMaxConstantBytes) {
    return Status::corrupt("constant of " + std::to_string(value.size()) +
                           " bytes, but at most " +
                           std::to_string(kMaxConstantBytes) + " are allowed");
  }
  return std::unique_ptr<Decoder>(
      std::make_unique<ConstantDecoder>(context, value));
}

}  // namespace nimble
