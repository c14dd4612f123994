#include "nimble/index/vector/vector_elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "nimble/base/compiler.h"
#include "nimble/index/vector/vector_math.h"

namespace nimble {
namespace {

NIMBLE_CLONES void halves_to_floats(const uint8_t* from, uint64_t count,
                                    float* out) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t half = load<uint16_t>(from + 2 * i);
    const uint32_t sign = (half & 0x8000) << 16;
    const uint32_t bits = (half & 0x7fff) << 13;
    // Multiplying moves the exponent by 112. This is correct for subnormal
    // numbers too.
    const float moved = std::bit_cast<float>(bits) * 0x1p112f;
    const uint32_t special = bits | 0x7f800000;
    const uint32_t size =
        (half & 0x7c00) == 0x7c00 ? special : std::bit_cast<uint32_t>(moved);
    out[i] = std::bit_cast<float>(size | sign);
  }
}

template <class From, class To>
NIMBLE_ALWAYS_INLINE void convert(const uint8_t* from, uint64_t count,
                                  To* out) {
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<To>(load<From>(from + i * sizeof(From)));
  }
}

NIMBLE_CLONES void int8_to_floats(const uint8_t* from, uint64_t n, float* out) {
  convert<int8_t>(from, n, out);
}
NIMBLE_CLONES void uint8_to_floats(const uint8_t* from, uint64_t n,
                                   float* out) {
  convert<uint8_t>(from, n, out);
}

}  // namespace

Result<VectorType> VectorType::of(const Field& field) {
  VectorType out;
  const auto fail = [&] {
    return Status::invalid_argument(
        "column '" + field.name + "' is " + field.type_name() +
        "; expected a fixed-size list of float16, float32, float64, int8, "
        "uint8 or int32");
  };
  if (field.layout != Layout::kFixedList || field.children.size() != 1) {
    return fail();
  }
  const Field& item = field.children[0];
  if (item.layout != Layout::kFixed) return fail();
  if (item.logical == Logical::kFloat) {
    out.element = item.width == 2   ? VectorElement::kHalf
                  : item.width == 4 ? VectorElement::kFloat
                                    : VectorElement::kDouble;
  } else if (item.logical == Logical::kInt && item.width == 1) {
    out.element = item.is_signed ? VectorElement::kInt8 : VectorElement::kUint8;
  } else if (item.logical == Logical::kInt && item.width == 4 &&
             item.is_signed) {
    out.element = VectorElement::kInt32;
  } else {
    return fail();
  }
  if (field.list_size < 1 ||
      field.list_size > static_cast<int64_t>(kMaxVectorDimensions)) {
    return Status::invalid_argument(
        "column '" + field.name + "' has vectors of " +
        std::to_string(field.list_size) + " numbers; expected 1 to " +
        std::to_string(kMaxVectorDimensions));
  }
  out.dimensions = static_cast<uint32_t>(field.list_size);
  return out;
}

uint32_t VectorType::element_bytes() const {
  switch (element) {
    case VectorElement::kHalf:
      return 2;
    case VectorElement::kFloat:
    case VectorElement::kInt32:
      return 4;
    case VectorElement::kDouble:
      return 8;
    case VectorElement::kInt8:
    case VectorElement::kUint8:
      break;
  }
  return 1;
}

void to_floats(VectorElement element, const uint8_t* values, uint64_t count,
               float* out) {
  switch (element) {
    case VectorElement::kHalf:
      return halves_to_floats(values, count, out);
    case VectorElement::kFloat:
      std::memcpy(out, values, count * sizeof(float));
      return;
    case VectorElement::kDouble:
      return convert<double>(values, count, out);
    case VectorElement::kInt8:
      return int8_to_floats(values, count, out);
    case VectorElement::kUint8:
      return uint8_to_floats(values, count, out);
    case VectorElement::kInt32:
      return convert<int32_t>(values, count, out);
  }
}

void to_doubles(VectorElement element, const uint8_t* values, uint64_t count,
                double* out) {
  if (element == VectorElement::kDouble) {
    std::memcpy(out, values, count * sizeof(double));
    return;
  }
  if (element == VectorElement::kInt32) {
    return convert<int32_t>(values, count, out);
  }
  std::vector<float> floats(count);
  to_floats(element, values, count, floats.data());
  for (uint64_t i = 0; i < count; ++i) out[i] = double{floats[i]};
}

VectorFitness fitness_of(VectorMetric metric, const VectorType& type,
                         const uint8_t* row) {
  const uint64_t n = type.dimensions;
  thread_local std::vector<float> floats;
  floats.resize(n);
  to_floats(type.element, row, n, floats.data());
  const float norm = dot_product(floats.data(), floats.data(), n);
  constexpr float kLeast = 1e-30f, kGreatest = 1e36f;
  if (norm >= kLeast && norm <= kGreatest) return VectorFitness::kFine;
  std::vector<double> doubles(n);
  to_doubles(type.element, row, n, doubles.data());
  bool is_zero = true;
  for (const double x : doubles) {
    if (!std::isfinite(x)) return VectorFitness::kLeftOut;
    is_zero = is_zero && x == 0;
  }
  if (is_zero) {
    return metric == VectorMetric::kCosine ? VectorFitness::kLeftOut
                                           : VectorFitness::kFine;
  }
  return VectorFitness::kTooLong;
}

}  // namespace nimble
