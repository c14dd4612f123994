#include "nimble/encoding/blocks/running_sums.h"

#include <algorithm>

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {
namespace {

template <class T>
NIMBLE_ALWAYS_INLINE void sums_at(uint64_t first,
                                  const uint8_t* __restrict differences,
                                  const uint32_t* rows, size_t n,
                                  uint8_t* __restrict out) {
  T sum = static_cast<T>(first);
  uint32_t next = 1;  // difference to be added
  for (size_t i = 0; i < n; ++i) {
    const uint32_t end = rows[i] % kBlockValues + 1;
    // Of its own, so that the loop is vector code.
    T more = 0;
    for (uint32_t k = next; k < end; ++k) {
      more = static_cast<T>(more + load<T>(differences + k * sizeof(T)));
    }
    next = std::max(next, end);
    sum = static_cast<T>(sum + more);
    store(out + i * sizeof(T), sum);
  }
}

}  // namespace

NIMBLE_CLONES void running_sums_at(uint32_t width, uint64_t first,
                                   const uint8_t* __restrict differences,
                                   const uint32_t* rows, size_t n,
                                   uint8_t* __restrict out) {
  switch (width) {
    case 1:
      return sums_at<uint8_t>(first, differences, rows, n, out);
    case 2:
      return sums_at<uint16_t>(first, differences, rows, n, out);
    case 4:
      return sums_at<uint32_t>(first, differences, rows, n, out);
    default:
      return sums_at<uint64_t>(first, differences, rows, n, out);
  }
}

}  // namespace nimble
