#include "nimble/index/vector/vector_codes.h"

#include <algorithm>
#include <cmath>

#include "nimble/base/compiler.h"
#include "nimble/index/vector/vector_math.h"

namespace nimble {
namespace {

struct ResidualSums {
  float squares = 0;   // |r|^2
  float sizes = 0;     // sum of |r_i|
  float centroid = 0;  // <sign(r), c>
};

// 16 partial sums, so that the order of additions does not depend on the
// processor.
NIMBLE_CLONES ResidualSums sum_residual(const float* row, const float* centroid,
                                        uint32_t n) {
  float squares[16] = {}, sizes[16] = {}, signs[16] = {};
  for (uint32_t i = 0; i < n; i += 16) {
    for (uint32_t j = 0; j < 16; ++j) {
      const float c = centroid[i + j];
      const float r = row[i + j] - c;
      squares[j] += r * r;
      sizes[j] += std::fabs(r);
      signs[j] += r >= 0 ? c : -c;
    }
  }
  ResidualSums out;
  for (uint32_t j = 0; j < 16; ++j) {
    out.squares += squares[j];
    out.sizes += sizes[j];
    out.centroid += signs[j];
  }
  return out;
}

}  // namespace

CodeNumbers encode_residual(VectorMetric metric, const float* rotated,
                            const float* centroid, uint32_t padded,
                            uint32_t lane, uint8_t* block) {
  for (uint32_t i = 0; i < padded; i += 8) {
    uint32_t bits = 0;
    for (uint32_t j = 0; j < 8; ++j) {
      bits |= uint32_t{rotated[i + j] - centroid[i + j] >= 0} << j;
    }
    block[uint64_t{i} / 8 * kVectorBlock + lane] = static_cast<uint8_t>(bits);
  }
  const ResidualSums sums = sum_residual(rotated, centroid, padded);
  CodeNumbers out;
  // <v, r> = sizes / 2 with v = bits - 1/2.
  if (sums.sizes > 0) out.scale = 2 * sums.squares / sums.sizes;
  if (metric != VectorMetric::kDot) {
    out.offset = sums.squares + out.scale * sums.centroid;
  }
  return out;
}

float encode_centroid(const float* centroid, uint32_t padded, int8_t* code) {
  float greatest = 0;
  for (uint32_t i = 0; i < padded; ++i) {
    greatest = std::max(greatest, std::fabs(centroid[i]));
  }
  const float scale = greatest / 127;
  for (uint32_t i = 0; i < padded; ++i) {
    code[i] = scale > 0 ? static_cast<int8_t>(std::lround(
                              std::clamp(centroid[i] / scale, -127.f, 127.f)))
                        : int8_t{0};
  }
  return scale;
}

QueryCode::QueryCode(const float* rotated, uint32_t padded)
    : table(uint64_t{padded} / 4 * 16), whole(padded) {
  // Values of the table, before they are scaled to 7 bits.
  std::vector<float> sums(table.size());
  std::vector<float> least(padded / 4);
  float range = 1e-30f, greatest = 1e-30f;
  double offset = 0;
  for (uint32_t g = 0; g < padded / 4; ++g) {
    const float* const q = rotated + 4 * g;
    float* const s = &sums[16 * uint64_t{g}];
    s[0] = 0;
    float low = 0, high = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      for (uint32_t c = 0; c < (1u << j); ++c) s[c + (1u << j)] = s[c] + q[j];
      (q[j] < 0 ? low : high) += q[j];
      greatest = std::max(greatest, std::fabs(q[j]));
    }
    least[g] = low;
    offset += low;
    range = std::max(range, high - low);
  }
  table_scale = range / 127;
  table_offset = static_cast<float>(offset);
  const float to_table = 127 / range;
  for (uint64_t i = 0; i < sums.size(); ++i) {
    table[i] = static_cast<uint8_t>((sums[i] - least[i / 16]) * to_table + .5f);
  }
  const double limit =
      std::min(32767.0, 2147483647.0 / 127 / static_cast<double>(padded) - 1);
  scale = static_cast<float>(greatest / limit);
  for (uint32_t i = 0; i < padded; ++i) {
    whole[i] = static_cast<int16_t>(std::lround(rotated[i] / greatest * limit));
  }
  norm = dot_product(rotated, rotated, padded);
}

}  // namespace nimble
