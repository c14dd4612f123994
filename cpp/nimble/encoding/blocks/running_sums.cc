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
  uint32_t next = 1;  // next difference to add
  for (size_t i = 0; i < n; ++i) {
    const uint32_t end = rows[i] % kBlockValues + 1;
    // A separate sum, so that the loop vectorizes.
    T more = 0;
    for (uint32_t k = next; k < end; ++k) {
      more = static_cast<T>(more + load<T>(differences + k * sizeof(T)));
    }
    next = std::max(next, end);
    sum = static_cast<T>(sum + more);
    store(out + i * sizeof(T), sum);
  }
}

// Adds one word after the other: the remainder of a vector loop, or all words
// if vectors are not available.
template <class T>
NIMBLE_ALWAYS_INLINE void add_each(T sum, uint32_t n,
                                   uint8_t* __restrict words) {
  for (uint32_t i = 0; i < n; ++i) {
    sum = static_cast<T>(sum + load<T>(words + i * sizeof(T)));
    store(words + i * sizeof(T), sum);
  }
}

#if defined(__GNUC__) && !defined(__clang__)

// Adds four words at a time. The sums within a vector do not depend on earlier
// words, which are added to all four lanes at once.
template <class T>
NIMBLE_ALWAYS_INLINE void add_fours(T before, uint32_t n,
                                    uint8_t* __restrict words) {
  typedef T Lanes __attribute__((vector_size(4 * sizeof(T))));
  constexpr Lanes kNone{};
  Lanes sum = kNone + before;
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint8_t* const p = words + i * sizeof(T);
    Lanes v;
    __builtin_memcpy(&v, p, sizeof v);
    v += __builtin_shuffle(kNone, v, Lanes{0, 4, 5, 6});
    v += __builtin_shuffle(kNone, v, Lanes{0, 1, 4, 5});
    const Lanes sums = v + sum;
    __builtin_memcpy(p, &sums, sizeof sums);
    sum += __builtin_shuffle(v, Lanes{3, 3, 3, 3});
  }
  add_each<T>(sum[0], n - i, words + i * sizeof(T));
}

// Four words of 8 bytes need 32-byte vectors. With smaller vectors this would
// be twice as slow as the scalar loop.
#if defined(NIMBLE_TARGET_CLONES) && NIMBLE_TARGET_CLONES || defined(__AVX2__)
constexpr bool kHasWideVectors = true;
#else
constexpr bool kHasWideVectors = false;
#endif

template <class T>
NIMBLE_ALWAYS_INLINE void add_up(T before, uint32_t n,
                                 uint8_t* __restrict words) {
  if constexpr (sizeof(T) == 4 || kHasWideVectors) {
    add_fours(before, n, words);
  } else {
    add_each(before, n, words);
  }
}

#else

template <class T>
NIMBLE_ALWAYS_INLINE void add_up(T before, uint32_t n,
                                 uint8_t* __restrict words) {
  add_each(before, n, words);
}

#endif

}  // namespace

NIMBLE_CLONES void add_up(uint32_t width, uint64_t before, uint32_t n,
                          uint8_t* __restrict words) {
  switch (width) {
    case 1:
      return add_each(static_cast<uint8_t>(before), n, words);
    case 2:
      return add_each(static_cast<uint16_t>(before), n, words);
    case 4:
      return add_up(static_cast<uint32_t>(before), n, words);
    default:
      return add_up(before, n, words);
  }
}

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
