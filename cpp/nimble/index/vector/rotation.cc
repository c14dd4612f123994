#include "nimble/index/vector/rotation.h"

#include <cmath>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

constexpr uint64_t kSeed = 0x6e696d626c65;  // "nimble"
constexpr uint32_t kRounds = 4;

// Random number i of SplitMix64.
uint64_t random_bits(uint64_t i) {
  uint64_t z = kSeed + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Walsh-Hadamard transform of n numbers, a power of two.
NIMBLE_CLONES void transform(float* x, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 4) {
    const float a = x[i] + x[i + 1], b = x[i] - x[i + 1];
    const float c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];
    x[i] = a + c;
    x[i + 1] = b + d;
    x[i + 2] = a - c;
    x[i + 3] = b - d;
  }
  for (uint32_t h = 4; h < n; h *= 2) {
    for (uint32_t i = 0; i < n; i += 2 * h) {
      float* const low = x + i;
      float* const high = x + i + h;
      for (uint32_t j = 0; j < h; ++j) {
        const float a = low[j], b = high[j];
        low[j] = a + b;
        high[j] = a - b;
      }
    }
  }
}

NIMBLE_CLONES void multiply(float* x, const float* by, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) x[i] *= by[i];
}

NIMBLE_CLONES void multiply(float* x, float by, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) x[i] *= by;
}

// Mixes the two halves of n numbers.
NIMBLE_CLONES void mix_halves(float* x, uint32_t n) {
  constexpr float kHalfRoot = 0.70710678118654752f;
  const uint32_t half = n / 2;
  for (uint32_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = (a + b) * kHalfRoot;
    x[i + half] = (a - b) * kHalfRoot;
  }
}

}  // namespace

Rotation::Rotation(uint32_t padded) : padded_(padded), power_(1) {
  while (power_ * 2 <= padded) power_ *= 2;
  scale_ = 1 / std::sqrt(static_cast<float>(power_));
  signs_.resize(uint64_t{kRounds} * padded);
  for (uint64_t i = 0; i < signs_.size(); ++i) {
    signs_[i] = random_bits(i) >> 63 != 0 ? -1.0f : 1.0f;
  }
}

void Rotation::apply(float* values) const {
  for (uint32_t round = 0; round < kRounds; ++round) {
    multiply(values, signs_.data() + uint64_t{round} * padded_, padded_);
    float* const part = round % 2 == 0 ? values : values + padded_ - power_;
    transform(part, power_);
    multiply(part, scale_, power_);
    if (power_ == padded_) {
      if (round == 1) return;
    } else {
      mix_halves(values, padded_);
    }
  }
}

}  // namespace nimble
