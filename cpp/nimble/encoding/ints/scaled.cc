#include "nimble/encoding/ints/scaled.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/joined_decoder.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

// Divides by a constant and detects numbers that are not multiples of it.
// Multiplies by the inverse of the divisor's odd part, because a division would
// dominate the cost.
class ExactDivision {
 public:
  // 0 is treated as 1.
  explicit ExactDivision(uint64_t divisor)
      : shift_(static_cast<uint32_t>(std::countr_zero(divisor | !divisor))),
        most_(UINT64_MAX / (divisor | !divisor)) {
    const uint64_t odd = (divisor | !divisor) >> shift_;
    inverse_ = odd;  // correct in 3 bits; each round doubles that
    for (int i = 0; i < 5; ++i) inverse_ *= 2 - odd * inverse_;
  }
  uint64_t quotient(uint64_t x) const {
    return std::rotr(x * inverse_, static_cast<int>(shift_));
  }
  // If the division is not exact, the quotient is larger than any exact one.
  bool is_exact(uint64_t quotient) const { return quotient <= most_; }

 private:
  uint32_t shift_;
  uint64_t most_;
  uint64_t inverse_;
};

// ---------------------------------------------------------------------- decode

template <class T>
NIMBLE_ALWAYS_INLINE void multiply(uint32_t n, uint64_t base, uint64_t step,
                                   uint64_t divisor,
                                   uint8_t* __restrict values) {
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t* p = values + i * sizeof(T);
    store(p, static_cast<T>(base + i * step + load<T>(p) * divisor));
  }
}

// Computes base + i * step + multiple i * divisor, in place.
NIMBLE_CLONES void multiply_ints(uint32_t n, uint32_t width, uint64_t base,
                                 uint64_t step, uint64_t divisor,
                                 uint8_t* __restrict values) {
  switch (width) {
    case 1:
      return multiply<uint8_t>(n, base, step, divisor, values);
    case 2:
      return multiply<uint16_t>(n, base, step, divisor, values);
    case 4:
      return multiply<uint32_t>(n, base, step, divisor, values);
    default:
      return step == 0 ? multiply<uint64_t>(n, base, 0, divisor, values)
                       : multiply<uint64_t>(n, base, step, divisor, values);
  }
}

template <class T>
NIMBLE_ALWAYS_INLINE void count_up(uint32_t n, uint64_t first, uint64_t step,
                                   uint8_t* __restrict values) {
  for (uint32_t i = 0; i < n; ++i) {
    store(values + i * sizeof(T), static_cast<T>(first + i * step));
  }
}

// Computes first + i * step.
NIMBLE_CLONES void count_up_ints(uint32_t n, uint32_t width, uint64_t first,
                                 uint64_t step, uint8_t* __restrict values) {
  switch (width) {
    case 1:
      return count_up<uint8_t>(n, first, step, values);
    case 2:
      return count_up<uint16_t>(n, first, step, values);
    case 4:
      return count_up<uint32_t>(n, first, step, values);
    default:
      return count_up<uint64_t>(n, first, step, values);
  }
}

template <class T>
NIMBLE_ALWAYS_INLINE void step_to(const uint32_t* rows, uint32_t n,
                                  uint64_t step, uint8_t* __restrict values) {
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t* p = values + i * sizeof(T);
    store(p, static_cast<T>(load<T>(p) + rows[i] * step));
  }
}

// Adds rows[i] * step to value i.
NIMBLE_CLONES void step_ints(const uint32_t* rows, uint32_t n, uint32_t width,
                             uint64_t step, uint8_t* __restrict values) {
  switch (width) {
    case 1:
      return step_to<uint8_t>(rows, n, step, values);
    case 2:
      return step_to<uint16_t>(rows, n, step, values);
    case 4:
      return step_to<uint32_t>(rows, n, step, values);
    default:
      return step_to<uint64_t>(rows, n, step, values);
  }
}

class ScaledDecoder final : public JoinedDecoder {
 public:
  ScaledDecoder(const DecodeContext& context, const Scale& scale,
                std::vector<Child> multiples)
      : JoinedDecoder(context, std::move(multiples)),
        scale_(scale),
        is_sequence_(child(0).id() == EncodingId::kConstant) {}

  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    NIMBLE_RETURN_IF_ERROR(child(0).value(body, row, out));
    *out = scale_.base + row * scale_.step + *out * scale_.divisor;
    return Status::ok();
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override {
    const bool is_known = test.shape != Predicate::Shape::kTable;
    if (scale_.step != 0 || !is_known) {
      return filter_decoded(body, test, selection);
    }
    return child(0).filter(body, test_of_multiples(test), selection);
  }
  std::string describe() const override {
    std::string text = "scaled";
    if (scale_.divisor != 1) text += " by " + std::to_string(scale_.divisor);
    if (scale_.step != 0) {
      text += " step=" + std::to_string(static_cast<int64_t>(scale_.step));
    }
    return text + " (" + child(0).describe() + ")";
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    const uint32_t width = type().width;
    if (is_sequence_ && rows.list == nullptr) {
      uint64_t first = 0;
      NIMBLE_RETURN_IF_ERROR(value(rows.body, rows.first, &first));
      count_up_ints(rows.count, width, first, scale_.step, out);
      return Status::ok();
    }
    Output to;
    to.data = out;
    NIMBLE_RETURN_IF_ERROR(rows.read(child(0), to));
    const bool is_range = rows.list == nullptr;
    multiply_ints(rows.count, width,
                  scale_.base + (is_range ? rows.first * scale_.step : 0),
                  is_range ? scale_.step : 0, scale_.divisor, out);
    if (!is_range && scale_.step != 0) {
      step_ints(rows.list, rows.count, width, scale_.step, out);
    }
    return Status::ok();
  }

  // Translates a test of values into a test of multiples. Encoders ensure that
  // multiples do not wrap.
  Predicate test_of_multiples(const Predicate& test) const {
    const uint32_t width = type().width;
    Predicate out = test.derived(ValueType::unsigned_int(width));
    const uint64_t most = low_bits(8 * width);
    const auto below = [&](uint64_t v) {
      return int_less(type().is_signed, v, scale_.base);
    };
    if (test.shape == Predicate::Shape::kSet) {
      for (const uint64_t v : test.ints.set) {
        const uint64_t offset = v - scale_.base;
        if (below(v) || offset % scale_.divisor != 0) continue;
        if (offset / scale_.divisor > most) continue;
        out.ints.set.push_back(offset / scale_.divisor);
      }
      out.set_int_bounds();
      return out;
    }
    if (test.shape == Predicate::Shape::kNothing || below(test.ints.high)) {
      return out;
    }
    const uint64_t offset =
        below(test.ints.low) ? 0 : test.ints.low - scale_.base;
    const uint64_t low = offset / scale_.divisor +
                         static_cast<uint64_t>(offset % scale_.divisor != 0);
    const uint64_t high =
        std::min((test.ints.high - scale_.base) / scale_.divisor, most);
    if (low > high) return out;
    out.shape = Predicate::Shape::kRange;
    out.ints.low = low;
    out.ints.high = high;
    return out;
  }

  Scale scale_;
  bool is_sequence_;  // all multiples are equal
};

// --------------------------------------------------------------------- encode

Status write(const Scale& scale, const Values& multiples,
             const EncodeContext& context, SegmentBuilder* out) {
  put_encoding_id(EncodingId::kScaled, out);
  out->head.put(scale.base);
  out->head.put(scale.step);
  out->head.put_varint(scale.divisor);
  return encode_child(multiples, context, 0, out);
}

}  // namespace

std::optional<Scale> find_scale(const Values& values, uint64_t base,
                                uint64_t hint) {
  uint64_t divisor = hint;
  for (uint32_t b = 0; b < num_blocks_of(values.size); ++b) {
    const uint32_t n = block_rows(b, values.size);
    uint64_t wide[kBlockValues];
    widen_ints(values.type,
               values.data + uint64_t{b} * kBlockValues * values.type.width, n,
               wide);
    for (uint32_t i = 0; i < n;) {
      if (divisor == 1) return std::nullopt;
      const ExactDivision by(divisor);
      while (i < n && by.is_exact(by.quotient(wide[i] - base))) ++i;
      if (i < n) divisor = std::gcd(divisor, wide[i] - base);
    }
  }
  if (divisor <= 1) return std::nullopt;
  return Scale{base, 0, divisor};
}

bool is_even(const Values& values) {
  const auto at = [&](uint32_t i) {
    return load_int(values.type, values.data, i);
  };
  const uint64_t difference = at(1) - at(0);
  for (uint32_t i = 2; i < values.size; ++i) {
    if (at(i) - at(i - 1) != difference) return false;
  }
  return true;
}

Status encode_scaled(const Values& values, const Scale& scale,
                     const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint8_t> data(uint64_t{values.size} * width);
  const ExactDivision by(scale.divisor);
  with_int_type(values.type, [&](auto tag) {
    using T = decltype(tag);
    for (uint32_t i = 0; i < values.size; ++i) {
      const auto v =
          static_cast<uint64_t>(load<T>(values.data + i * sizeof(T)));
      store(data.data() + i * sizeof(T),
            static_cast<T>(by.quotient(v - scale.base)));
    }
  });
  Values multiples;
  multiples.type = ValueType::unsigned_int(width);
  multiples.size = values.size;
  multiples.data = data.data();
  return write(scale, multiples, context, out);
}

Status encode_even(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out) {
  Scale scale;
  scale.base = load_int(values.type, values.data, 0);
  scale.step = load_int(values.type, values.data, 1) - scale.base;
  const std::vector<uint8_t> zeros(uint64_t{values.size} * values.type.width);
  Values multiples;
  multiples.type = ValueType::unsigned_int(values.type.width);
  multiples.size = values.size;
  multiples.data = zeros.data();
  return write(scale, multiples, context, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_scaled(ByteReader* head,
                                             const DecodeContext& context) {
  Scale scale;
  scale.base = head->get<uint64_t>();
  scale.step = head->get<uint64_t>();
  scale.divisor = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("scaled head"));
  if (!is_int(context.type) || scale.divisor == 0) {
    return Status::corrupt(
        "scaled values must be integers with a divisor above 0, found " +
        std::to_string(context.type.width) + " bytes and divisor " +
        std::to_string(scale.divisor));
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child multiples,
      Child::open(head, context, ValueType::unsigned_int(context.type.width),
                  context.num_values));
  std::vector<Child> children;
  children.push_back(std::move(multiples));
  return std::unique_ptr<Decoder>(
      std::make_unique<ScaledDecoder>(context, scale, std::move(children)));
}

}  // namespace nimble
