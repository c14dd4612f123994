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

// Has 16 partial sums, so that the order of additions does not depend on the
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
  // The product of the residual and (bits - 1/2) is sums.sizes / 2.
  if (sums.sizes > 0) out.scale = 2 * sums.squares / sums.sizes;
  if (metric != VectorMetric::kDot) {
    out.offset = sums.squares + out.scale * sums.centroid;
  }
  return out;
}

float search_key(VectorMetric metric, const float* query, const float* row,
                 const float* centroid, uint32_t padded) {
  const ResidualSums sums = sum_residual(row, centroid, padded);
  const float scale = sums.sizes > 0 ? 2 * sums.squares / sums.sizes : 0;
  float product = 0;  // <v, query>
  for (uint32_t i = 0; i < padded; ++i) {
    product += row[i] - centroid[i] >= 0 ? query[i] / 2 : -query[i] / 2;
  }
  if (metric == VectorMetric::kDot) {
    const float length = std::sqrt(dot_product(query, query, padded));
    return -dot_product(query, centroid, padded) -
           scale * (product + kGreatestError * length);
  }
  const float distance = squared_distance(query, centroid, padded);
  return distance + sums.squares + scale * sums.centroid -
         2 * scale * (product + kGreatestError * std::sqrt(distance));
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

void QueryCode::set(const float* rotated, uint32_t padded, uint32_t levels) {
  padded_ = padded;
  levels_ = levels;
  const uint32_t groups = padded / 4;
  // Values of the tables, before they are rounded.
  sums_.resize(uint64_t{groups} * 16);
  least_.resize(groups);
  float range = 1e-30f, greatest = 1e-30f;
  double offset = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    const float* const q = rotated + 4 * g;
    float* const s = &sums_[16 * uint64_t{g}];
    s[0] = 0;
    float low = 0, high = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      for (uint32_t c = 0; c < (1u << j); ++c) s[c + (1u << j)] = s[c] + q[j];
      (q[j] < 0 ? low : high) += q[j];
      greatest = std::max(greatest, std::fabs(q[j]));
    }
    least_[g] = low;
    offset += low;
    range = std::max(range, high - low);
  }
  table_offset_ = static_cast<float>(offset);
  const uint32_t most = (1u << (7 * levels)) - 1;
  table_scale_ = range / static_cast<float>(most);
  const float to_table = static_cast<float>(most) / range;
  for (uint32_t level = 0; level < levels; ++level) {
    tables_[level].resize(sums_.size());
  }
  for (uint64_t i = 0; i < sums_.size(); ++i) {
    const auto value = std::min(
        most,
        static_cast<uint32_t>((sums_[i] - least_[i / 16]) * to_table + .5f));
    for (uint32_t level = 0; level < levels; ++level) {
      tables_[level][i] =
          static_cast<uint8_t>(value >> (7 * (levels - 1 - level)) & 127);
    }
  }
  // With this limit, products fit in 32 bits: codes of centroids are at least
  // -128.
  const double limit =
      std::min(32767.0, 2147483647.0 / 128 / static_cast<double>(padded) - 1);
  scale_ = static_cast<float>(greatest / limit);
  whole_.resize(padded);
  for (uint32_t i = 0; i < padded; ++i) {
    whole_[i] =
        static_cast<int16_t>(std::lround(rotated[i] / greatest * limit));
  }
  norm_ = dot_product(rotated, rotated, padded);
}

float QueryCode::table_error() const {
  // Rounding errors are spread evenly over one step of the table.
  return 0.29f * table_scale_ * std::sqrt(static_cast<float>(padded_) / 4);
}

float QueryCode::centroid_distance(VectorMetric metric, const int8_t* code,
                                   float scale, float norm) const {
  const float product =
      scale * scale_ *
      static_cast<float>(dot_product(code, whole_.data(), padded_));
  return metric == VectorMetric::kDot ? -product : norm_ + norm - 2 * product;
}

}  // namespace nimble
