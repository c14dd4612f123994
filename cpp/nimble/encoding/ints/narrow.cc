#include "nimble/encoding/ints/narrow.h"

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/joined_decoder.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

template <uint32_t kWords>
NIMBLE_ALWAYS_INLINE void extend_words(const int64_t* __restrict values,
                                       uint32_t n, uint8_t* __restrict out) {
  for (uint32_t i = 0; i < n; ++i, out += 8 * kWords) {
    store(out, values[i]);
    for (uint32_t w = 1; w < kWords; ++w) store(out + 8 * w, values[i] >> 63);
  }
}

NIMBLE_CLONES void sign_extend(const int64_t* __restrict values, uint32_t n,
                               uint32_t width, uint8_t* __restrict out) {
  if (width == 16) return extend_words<2>(values, n, out);
  extend_words<4>(values, n, out);
}

// Returns false if a value does not fit: its high words must equal the sign of
// the low word. Checked once per block.
template <uint32_t kWords>
bool cut_words(const Values& values, uint64_t* low) {
  uint64_t lost = 0;
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint8_t* p = values.data + uint64_t{i} * 8 * kWords;
    const int64_t v = load<int64_t>(p);
    for (uint32_t w = 1; w < kWords; ++w) {
      lost |= static_cast<uint64_t>(load<int64_t>(p + 8 * w) ^ (v >> 63));
    }
    low[i] = static_cast<uint64_t>(v);
    if (i % kBlockValues == 0 && lost != 0) return false;
  }
  return lost == 0;
}

// ---------------------------------------------------------------------- decode

// Translates a test of wide values into a test of 8-byte integers.
Predicate narrow_test(const Predicate& test) {
  const WideInt least{uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0},
                      ~uint64_t{0}};
  const WideInt most{~uint64_t{0} >> 1, 0, 0, 0};
  const Bounds<WideInt>& from = test.wides;
  Predicate out = test.derived(ValueType::signed_int(8));
  if (test.shape == Predicate::Shape::kNothing ||
      compare_wide(from.high, least) < 0 || compare_wide(most, from.low) < 0) {
    return out;
  }
  out.shape = test.shape;
  out.ints.low = compare_wide(from.low, least) < 0 ? least[0] : from.low[0];
  out.ints.high = compare_wide(most, from.high) < 0 ? most[0] : from.high[0];
  for (const WideInt& v : from.set) {
    if (compare_wide(v, least) < 0 || compare_wide(most, v) < 0) continue;
    out.ints.set.push_back(v[0]);
  }
  // The bounds of a set follow from the remaining values.
  if (test.shape == Predicate::Shape::kSet) out.set_int_bounds();
  return out;
}

class NarrowDecoder final : public JoinedDecoder {
 public:
  using JoinedDecoder::JoinedDecoder;

  bool has_narrow_values() const override { return true; }
  Status decode_narrow(const SegmentBody& body, uint32_t begin, uint32_t end,
                       const Output& out) const override {
    return child(0).decode(body, begin, end, out);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override {
    return child(0).filter(body, narrow_test(test), selection);
  }
  std::string describe() const override {
    return "narrow " + child(0).describe();
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    if (rows.count == 1) {
      const uint32_t row = rows.list != nullptr ? *rows.list : rows.first;
      uint64_t bits = 0;
      NIMBLE_RETURN_IF_ERROR(child(0).value(rows.body, row, &bits));
      const auto one = static_cast<int64_t>(bits);
      sign_extend(&one, 1, type().width, out);
      return Status::ok();
    }
    Scratch scratch;
    NIMBLE_RETURN_IF_ERROR(rows.read(child(0), scratch.output()));
    sign_extend(scratch.as<int64_t>(), rows.count, type().width, out);
    return Status::ok();
  }
};

}  // namespace

// --------------------------------------------------------------------- encode

bool can_be_narrow(const ValueType& type) {
  return type.kind == ValueKind::kFixed && type.is_signed &&
         (type.width == 16 || type.width == 32);
}

std::vector<uint64_t> narrowed(const Values& values) {
  std::vector<uint64_t> low(values.size);
  const bool fits = values.type.width == 16 ? cut_words<2>(values, low.data())
                                            : cut_words<4>(values, low.data());
  if (!fits) low.clear();
  return low;
}

Status encode_narrow(const Values& values, const std::vector<uint64_t>& low,
                     const EncodeContext& context, SegmentBuilder* out) {
  put_encoding_id(EncodingId::kNarrow, out);
  Values child;
  child.type = ValueType::signed_int(8);
  child.size = values.size;
  child.data = reinterpret_cast<const uint8_t*>(low.data());
  return encode_child(child, context, 0, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_narrow(ByteReader* head,
                                             const DecodeContext& context) {
  if (!can_be_narrow(context.type)) {
    return Status::corrupt(
        "only signed values of 16 or 32 bytes can be narrowed");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child child,
      Child::open(head, context, ValueType::signed_int(8), context.num_values));
  std::vector<Child> children;
  children.push_back(std::move(child));
  return std::unique_ptr<Decoder>(
      std::make_unique<NarrowDecoder>(context, std::move(children)));
}

}  // namespace nimble
