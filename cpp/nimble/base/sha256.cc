#include "nimble/base/sha256.h"

#include <bit>
#include <cstring>
#include <vector>

namespace nimble {
namespace {

constexpr size_t kShaBlock = 64;

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(const uint8_t* block, std::array<uint32_t, 8>* state) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] +
           (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t one =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
        ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const uint32_t two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
        ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) (*state)[i] += added[i];
}

}  // namespace

Sha256 sha256(ByteSpan message) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                   0xa54ff53a, 0x510e527f, 0x9b05688c,
                                   0x1f83d9ab, 0x5be0cd19};
  size_t at = 0;
  for (; message.size() - at >= kShaBlock; at += kShaBlock) {
    add_block(message.data() + at, &state);
  }
  // The rest, a one bit, zeros, and the number of bits.
  std::array<uint8_t, 2 * kShaBlock> tail{};
  const size_t rest = message.size() - at;
  if (rest > 0) std::memcpy(tail.data(), message.data() + at, rest);
  tail[rest] = 0x80;
  const size_t size = rest + 9 <= kShaBlock ? kShaBlock : 2 * kShaBlock;
  const uint64_t bits = uint64_t{message.size()} * 8;
  for (size_t i = 0; i < 8; ++i) {
    tail[size - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  }
  for (size_t i = 0; i < size; i += kShaBlock) {
    add_block(tail.data() + i, &state);
  }
  Sha256 out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

Sha256 hmac_sha256(ByteSpan key, ByteSpan message) {
  std::array<uint8_t, kShaBlock> block{};
  if (key.size() > kShaBlock) {
    const Sha256 hashed = sha256(key);
    std::memcpy(block.data(), hashed.data(), hashed.size());
  } else if (!key.empty()) {
    std::memcpy(block.data(), key.data(), key.size());
  }
  std::vector<uint8_t> inner, outer;
  for (const uint8_t b : block) {
    inner.push_back(b ^ 0x36);
    outer.push_back(b ^ 0x5c);
  }
  inner.insert(inner.end(), message.begin(), message.end());
  const Sha256 hashed = sha256(inner);
  outer.insert(outer.end(), hashed.begin(), hashed.end());
  return sha256(outer);
}

}  // namespace nimble
