#include "nimble/index/vector/vector_math.h"

#include <cstring>
#include <limits>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

// 16 numbers, which a processor adds in one to four steps. The order of
// additions is the same on all processors.
using Floats = float __attribute__((vector_size(64)));
using Doubles = double __attribute__((vector_size(64)));

template <class V, class T>
NIMBLE_ALWAYS_INLINE void get(const T* from, V* to) {
  __builtin_memcpy(to, from, sizeof *to);
}

template <class V>
NIMBLE_ALWAYS_INLINE auto sum_of(const V& v) {
  constexpr size_t n = sizeof(V) / sizeof(v[0]);
  std::remove_cvref_t<decltype(v[0])> parts[n];
  __builtin_memcpy(parts, &v, sizeof v);
  for (size_t half = n / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

template <class V, class T>
NIMBLE_ALWAYS_INLINE T dot_of(const T* a, const T* b, uint64_t n) {
  constexpr uint64_t w = sizeof(V) / sizeof(T);
  V s0{}, s1{}, x, y;
  uint64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    get(a + i, &x);
    get(b + i, &y);
    s0 += x * y;
    get(a + i + w, &x);
    get(b + i + w, &y);
    s1 += x * y;
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  s0 += s1;
  return sum + sum_of(s0);
}

template <class V, class T>
NIMBLE_ALWAYS_INLINE T distance_of(const T* a, const T* b, uint64_t n) {
  constexpr uint64_t w = sizeof(V) / sizeof(T);
  V s0{}, s1{}, x, y;
  uint64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    get(a + i, &x);
    get(b + i, &y);
    x -= y;
    s0 += x * x;
    get(a + i + w, &x);
    get(b + i + w, &y);
    x -= y;
    s1 += x * x;
  }
  T sum = 0;
  for (; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  s0 += s1;
  return sum + sum_of(s0);
}

NIMBLE_ALWAYS_INLINE float dot_and_norm_of(const float* a, const float* b,
                                           uint64_t n, float* norm) {
  constexpr uint64_t w = 16;
  Floats s{}, t{}, x, y;
  uint64_t i = 0;
  for (; i + w <= n; i += w) {
    get(a + i, &x);
    get(b + i, &y);
    s += x * y;
    t += y * y;
  }
  float sum = 0, square = 0;
  for (; i < n; ++i) {
    sum += a[i] * b[i];
    square += b[i] * b[i];
  }
  *norm = square + sum_of(t);
  return sum + sum_of(s);
}

template <uint32_t kRows>
NIMBLE_ALWAYS_INLINE void tile(const float* rows, const float* panel,
                               uint64_t n, float* out) {
  Floats sums[kRows] = {};
  for (uint64_t j = 0; j < n; ++j) {
    Floats c;
    get(panel + j * VectorPanels::kPanel, &c);
    for (uint32_t r = 0; r < kRows; ++r) sums[r] += rows[r * n + j] * c;
  }
  __builtin_memcpy(out, sums, sizeof sums);
}

NIMBLE_CLONES void tile6(const float* rows, const float* panel, uint64_t n,
                         float* out) {
  tile<6>(rows, panel, n, out);
}
NIMBLE_CLONES void tile1(const float* rows, const float* panel, uint64_t n,
                         float* out) {
  tile<1>(rows, panel, n, out);
}

// Computes 16 distances, norm - 2 * product, and stores all of them. Returns
// whether one of them is below `least`.
NIMBLE_CLONES bool any_below(const float* products, const float* norms,
                             float least, float* out) {
  int below = 0;
  for (uint32_t i = 0; i < VectorPanels::kPanel; ++i) {
    out[i] = norms[i] - 2 * products[i];
    below |= out[i] < least;
  }
  return below != 0;
}

}  // namespace

NIMBLE_CLONES float dot_product(const float* a, const float* b, uint64_t n) {
  return dot_of<Floats>(a, b, n);
}
NIMBLE_CLONES float squared_distance(const float* a, const float* b,
                                     uint64_t n) {
  return distance_of<Floats>(a, b, n);
}
NIMBLE_CLONES void squared_distances(const float* a, const float* rows,
                                     uint64_t n, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = distance_of<Floats>(a, rows + i * n, n);
  }
}
NIMBLE_CLONES double dot_product(const double* a, const double* b, uint64_t n) {
  return dot_of<Doubles>(a, b, n);
}
NIMBLE_CLONES double squared_distance(const double* a, const double* b,
                                      uint64_t n) {
  return distance_of<Doubles>(a, b, n);
}
NIMBLE_CLONES void dots_and_norms(const float* a, const float* rows, uint64_t n,
                                  uint64_t count, float* products,
                                  float* norms) {
  for (uint64_t i = 0; i < count; ++i) {
    products[i] = dot_and_norm_of(a, rows + i * n, n, &norms[i]);
  }
}
NIMBLE_CLONES int32_t dot_product(const int8_t* a, const int16_t* b,
                                  uint64_t n) {
  int32_t sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

VectorPanels::VectorPanels(const float* vectors, uint32_t count,
                           uint32_t dimensions)
    : count_(count), dimensions_(dimensions) {
  const uint64_t num_panels = (uint64_t{count} + kPanel - 1) / kPanel;
  const uint64_t size = num_panels * kPanel * dimensions * sizeof(float);
  panels_.resize(size);
  std::memset(panels_.data(), 0, size);
  // The infinite norms of padding vectors mean that they are never the nearest.
  norms_.assign(num_panels * kPanel, std::numeric_limits<float>::infinity());
  auto* const to = reinterpret_cast<float*>(panels_.data());
  for (uint64_t i = 0; i < count; ++i) {
    const float* const v = vectors + i * dimensions;
    norms_[i] = dot_product(v, v, dimensions);
    float* const panel = to + i / kPanel * kPanel * dimensions + i % kPanel;
    for (uint64_t j = 0; j < dimensions; ++j) panel[j * kPanel] = v[j];
  }
}

void VectorPanels::multiply(const float* rows, uint32_t num_rows,
                            uint32_t first, float* out) const {
  const float* const panel = reinterpret_cast<const float*>(panels_.data()) +
                             uint64_t{first} * dimensions_;
  if (num_rows == 6) return tile6(rows, panel, dimensions_, out);
  for (uint32_t r = 0; r < num_rows; ++r) {
    tile1(rows + uint64_t{r} * dimensions_, panel, dimensions_,
          out + r * kPanel);
  }
}

void VectorPanels::nearest(const float* rows, uint64_t num_rows,
                           uint32_t* out) const {
  std::vector<float> least(num_rows, std::numeric_limits<float>::infinity());
  for (uint64_t i = 0; i < num_rows; ++i) out[i] = 0;
  float distances[kPanel];
  products(rows, num_rows,
           [&](uint64_t row, uint32_t first, const float* products) {
             if (!any_below(products, &norms_[first], least[row], distances)) {
               return;
             }
             for (uint32_t i = 0; i < kPanel; ++i) {
               if (distances[i] < least[row]) {
                 least[row] = distances[i];
                 out[row] = first + i;
               }
             }
           });
}

}  // namespace nimble
