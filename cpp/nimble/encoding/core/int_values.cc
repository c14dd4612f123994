#include "nimble/encoding/core/int_values.h"

#include <algorithm>
#include <limits>

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/part.h"

namespace nimble {
namespace {

template <class T>
NIMBLE_ALWAYS_INLINE MinMax min_max_of(const uint8_t* data, uint32_t n) {
  T low = std::numeric_limits<T>::max();
  T high = std::numeric_limits<T>::min();
  for (uint32_t i = 0; i < n; ++i) {
    const T v = load<T>(data + i * sizeof(T));
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  return {static_cast<uint64_t>(low), static_cast<uint64_t>(high)};
}

template <class To, class From>
NIMBLE_ALWAYS_INLINE void cut(const From* __restrict values, uint32_t n,
                              uint8_t* __restrict out) {
  for (uint32_t i = 0; i < n; ++i) {
    store(out + i * sizeof(To), static_cast<To>(values[i]));
  }
}

}  // namespace

// All cases are in one function, so that NIMBLE_CLONES compiles the loops for
// each CPU.
NIMBLE_CLONES MinMax min_max(const ValueType& type, const uint8_t* data,
                             uint32_t n) {
  switch (type.width * 2 + (type.is_signed ? 1 : 0)) {
    case 2:
      return min_max_of<uint8_t>(data, n);
    case 3:
      return min_max_of<int8_t>(data, n);
    case 4:
      return min_max_of<uint16_t>(data, n);
    case 5:
      return min_max_of<int16_t>(data, n);
    case 8:
      return min_max_of<uint32_t>(data, n);
    case 9:
      return min_max_of<int32_t>(data, n);
    case 16:
      return min_max_of<uint64_t>(data, n);
    default:
      return min_max_of<int64_t>(data, n);
  }
}

std::vector<MinMax> block_min_max(const Values& values) {
  std::vector<MinMax> blocks(num_blocks_of(values.size));
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    blocks[b] =
        min_max(values.type,
                values.data + uint64_t{b} * kBlockValues * values.type.width,
                block_rows(b, values.size));
  }
  return blocks;
}

MinMax total_min_max(const ValueType& type, const std::vector<MinMax>& blocks) {
  if (blocks.empty()) return {};
  MinMax total = blocks[0];
  for (const MinMax& b : blocks) {
    if (int_less(type.is_signed, b.min, total.min)) total.min = b.min;
    if (int_less(type.is_signed, total.max, b.max)) total.max = b.max;
  }
  return total;
}

void widen_ints(const ValueType& type, const uint8_t* data, uint32_t n,
                uint64_t* out) {
  with_int_type(type, [&](auto tag) {
    using T = decltype(tag);
    for (uint32_t i = 0; i < n; ++i) {
      out[i] = static_cast<uint64_t>(load<T>(data + i * sizeof(T)));
    }
  });
}

NIMBLE_CLONES void narrow_ints32(const uint32_t* __restrict values, uint32_t n,
                                 uint32_t width, uint8_t* __restrict out) {
  switch (width) {
    case 1:
      return cut<uint8_t>(values, n, out);
    case 2:
      return cut<uint16_t>(values, n, out);
    default:
      return cut<uint32_t>(values, n, out);
  }
}

}  // namespace nimble
