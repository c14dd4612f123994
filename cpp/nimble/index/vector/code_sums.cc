#include "nimble/index/vector/code_sums.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace nimble {
namespace {

constexpr uint32_t kRows = 32;
// The sum of two 7-bit values fits in a byte. The sum of 256 such bytes fits in
// 16 bits.
constexpr uint32_t kGroupsOf16Bits = 256;

void sum_plain(const uint8_t* codes, uint64_t num_blocks, uint32_t padded,
               const uint8_t* table, uint32_t* sums) {
  const uint32_t groups = padded / 8;
  for (uint64_t b = 0; b < num_blocks; ++b, sums += kRows) {
    std::memset(sums, 0, kRows * sizeof *sums);
    const uint8_t* t = table;
    for (uint32_t g = 0; g < groups; ++g, codes += kRows, t += 32) {
      for (uint32_t i = 0; i < kRows; ++i) {
        sums[i] += uint32_t{t[codes[i] & 15]} + t[16 + (codes[i] >> 4)];
      }
    }
  }
}

#if defined(__x86_64__)

// Adds 32 bytes to 16-bit sums. `odd` sums the upper byte of each pair. `all`
// sums the pairs as 16-bit numbers; it wraps, but all - 256 * odd are the sums
// of the lower bytes.
__attribute__((target("avx2"))) void sum_avx2(const uint8_t* codes,
                                              uint64_t num_blocks,
                                              uint32_t padded,
                                              const uint8_t* table,
                                              uint32_t* sums) {
  const uint32_t groups = padded / 8;
  const __m256i low4 = _mm256_set1_epi8(15);
  const __m256i low16 = _mm256_set1_epi32(0xffff);
  for (uint64_t b = 0; b < num_blocks; ++b, sums += kRows) {
    // Sums of rows 0, 4, 8, ..., then of rows 1, 5, 9, ..., and so on.
    __m256i total[4] = {};
    const uint8_t* t = table;
    for (uint32_t begin = 0; begin < groups; begin += kGroupsOf16Bits) {
      const uint32_t end =
          begin + kGroupsOf16Bits < groups ? begin + kGroupsOf16Bits : groups;
      __m256i all = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
      for (uint32_t g = begin; g < end; ++g, codes += kRows, t += 32) {
        const __m256i x =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
        const auto* const tables = reinterpret_cast<const __m128i*>(t);
        const __m256i first =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(tables));
        const __m256i second =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(tables + 1));
        const __m256i values = _mm256_add_epi8(
            _mm256_shuffle_epi8(first, _mm256_and_si256(x, low4)),
            _mm256_shuffle_epi8(
                second, _mm256_and_si256(_mm256_srli_epi16(x, 4), low4)));
        all = _mm256_add_epi16(all, values);
        odd = _mm256_add_epi16(odd, _mm256_srli_epi16(values, 8));
      }
      const __m256i even = _mm256_sub_epi16(all, _mm256_slli_epi16(odd, 8));
      total[0] = _mm256_add_epi32(total[0], _mm256_and_si256(even, low16));
      total[1] = _mm256_add_epi32(total[1], _mm256_and_si256(odd, low16));
      total[2] = _mm256_add_epi32(total[2], _mm256_srli_epi32(even, 16));
      total[3] = _mm256_add_epi32(total[3], _mm256_srli_epi32(odd, 16));
    }
    const __m256i a = _mm256_unpacklo_epi32(total[0], total[1]);
    const __m256i c = _mm256_unpackhi_epi32(total[0], total[1]);
    const __m256i d = _mm256_unpacklo_epi32(total[2], total[3]);
    const __m256i e = _mm256_unpackhi_epi32(total[2], total[3]);
    const __m256i r0 = _mm256_unpacklo_epi64(a, d);
    const __m256i r1 = _mm256_unpackhi_epi64(a, d);
    const __m256i r2 = _mm256_unpacklo_epi64(c, e);
    const __m256i r3 = _mm256_unpackhi_epi64(c, e);
    auto* const out = reinterpret_cast<__m256i*>(sums);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(r0, r1, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(r2, r3, 0x20));
    _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(r0, r1, 0x31));
    _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(r2, r3, 0x31));
  }
}

#elif defined(__aarch64__)

void sum_neon(const uint8_t* codes, uint64_t num_blocks, uint32_t padded,
              const uint8_t* table, uint32_t* sums) {
  const uint32_t groups = padded / 8;
  const uint8x16_t low4 = vdupq_n_u8(15);
  for (uint64_t b = 0; b < num_blocks; ++b, sums += kRows) {
    uint32x4_t total[8];
    for (uint32x4_t& v : total) v = vdupq_n_u32(0);
    const uint8_t* t = table;
    for (uint32_t begin = 0; begin < groups; begin += kGroupsOf16Bits) {
      const uint32_t end =
          begin + kGroupsOf16Bits < groups ? begin + kGroupsOf16Bits : groups;
      uint16x8_t part[4];
      for (uint16x8_t& v : part) v = vdupq_n_u16(0);
      for (uint32_t g = begin; g < end; ++g, codes += kRows, t += 32) {
        const uint8x16_t first = vld1q_u8(t), second = vld1q_u8(t + 16);
        for (int half = 0; half < 2; ++half) {
          const uint8x16_t x = vld1q_u8(codes + 16 * half);
          const uint8x16_t values =
              vaddq_u8(vqtbl1q_u8(first, vandq_u8(x, low4)),
                       vqtbl1q_u8(second, vshrq_n_u8(x, 4)));
          part[2 * half] = vaddw_u8(part[2 * half], vget_low_u8(values));
          part[2 * half + 1] = vaddw_high_u8(part[2 * half + 1], values);
        }
      }
      for (int i = 0; i < 4; ++i) {
        total[2 * i] = vaddw_u16(total[2 * i], vget_low_u16(part[i]));
        total[2 * i + 1] = vaddw_high_u16(total[2 * i + 1], part[i]);
      }
    }
    for (int i = 0; i < 8; ++i) vst1q_u32(sums + 4 * i, total[i]);
  }
}

#endif

struct Versions {
  std::array<NamedSumCodes, 2> all{};
  size_t count = 0;

  Versions() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) all[count++] = {"avx2", &sum_avx2};
#elif defined(__aarch64__)
    all[count++] = {"neon", &sum_neon};
#endif
    all[count++] = {"plain", &sum_plain};
  }
};

const Versions& versions() {
  static const Versions made;
  return made;
}

}  // namespace

void sum_codes(const uint8_t* codes, uint64_t num_blocks, uint32_t padded,
               const uint8_t* table, uint32_t* sums) {
  static const SumCodes fastest = versions().all[0].function;
  fastest(codes, num_blocks, padded, table, sums);
}

std::span<const NamedSumCodes> sum_codes_versions() {
  return std::span(versions().all).first(versions().count);
}

}  // namespace nimble
