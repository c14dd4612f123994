#include "nimble/encoding/strings/phrase_table.h"

#include <algorithm>
#include <cstring>

namespace nimble {
namespace {

constexpr uint16_t kNone = UINT16_MAX;

}  // namespace

Phrase Phrase::front(uint32_t n) const {
  return {low_bytes(low, std::min(n, 8u)), low_bytes(high, n > 8 ? n - 8 : 0),
          n};
}

Phrase Phrase::of(const uint8_t* bytes, uint32_t length) {
  uint8_t all[kMaxPhraseBytes] = {};
  std::memcpy(all, bytes, length);
  return {load<uint64_t>(all), load<uint64_t>(all + 8), length};
}

Phrase concatenate(const Phrase& a, const Phrase& b) {
  uint8_t bytes[2 * kMaxPhraseBytes];
  store(bytes, a.low);
  store(bytes + 8, a.high);
  store(bytes + a.length, b.low);
  store(bytes + a.length + 8, b.high);
  return Phrase::of(bytes, a.length + b.length);
}

// ----------------------------------------------------------------- expansion

// put(i, code) for i = 0 .. n - 1.
template <class Put>
void PhraseTable::each(const Codes& codes, uint64_t first, uint64_t n,
                       Put&& put) const {
  const uint32_t width = codes.width;
  const uint32_t mask = (1u << width) - 1;
  uint64_t bit = first * width;
  uint64_t i = 0;
  const auto next = [&](uint64_t word) {
    put(i++, static_cast<uint32_t>(word) & mask);
  };
  // Four at once, as long as a whole word is there.
  static_assert(7 + 4 * kMaxPhraseBits <= 64);
  while (i + 4 <= n && bit / 8 + 8 <= codes.size) {
    const uint64_t word = load<uint64_t>(codes.data + bit / 8) >> (bit % 8);
    next(word);
    next(word >> width);
    next(word >> (2 * width));
    next(word >> (3 * width));
    bit += 4 * width;
  }
  // The others from words that end with the code's last byte.
  for (; i < n; bit += width) {
    const uint64_t end = (bit + width + 7) / 8;
    const uint64_t word = load<uint64_t>(codes.data + end - 8);
    next(word >> (64 - (end * 8 - bit)));
  }
}

uint64_t PhraseTable::expand(const Codes& codes, uint64_t first, uint64_t n,
                             uint8_t* out, uint32_t* positions) const {
  const Bytes* const bytes = bytes_.data();
  const uint8_t* const lengths = lengths_.data();
  uint64_t at = 0;
  each(codes, first, n, [&](uint64_t i, uint32_t code) {
    positions[i] = static_cast<uint32_t>(at);
    std::memcpy(out + at, bytes + code, sizeof(Bytes));
    at += lengths[code];
  });
  positions[n] = static_cast<uint32_t>(at);
  return at;
}

uint64_t PhraseTable::expand(const Codes& codes, uint64_t first, uint64_t n,
                             uint8_t* out) const {
  const Bytes* const bytes = bytes_.data();
  const uint8_t* const lengths = lengths_.data();
  uint64_t at = 0;
  each(codes, first, n, [&](uint64_t, uint32_t code) {
    std::memcpy(out + at, bytes + code, sizeof(Bytes));
    at += lengths[code];
  });
  return at;
}

uint64_t PhraseTable::expanded_size(const Codes& codes, uint64_t first,
                                    uint64_t n) const {
  uint64_t size = 0;
  each(codes, first, n,
       [&](uint64_t, uint32_t code) { size += lengths_[code]; });
  return size;
}

// ------------------------------------------------------------------ matching

PhraseMatcher::PhraseMatcher()
    : places_(size_t{1} << 13, kFree),
      fronts_(size_t{1} << kFrontBits),
      two_(65536, kNone) {
  for (uint32_t b = 0; b < 256; ++b) one_[b] = b;
}

bool PhraseMatcher::add(const Phrase& phrase, uint32_t id) {
  const uint32_t n = phrase.length;
  if (n == 1) {
    one_[phrase.low] = id;
    return true;
  }
  if (n == 2) {
    uint16_t& two = two_[phrase.low];
    if (two != kNone) return false;
    two = static_cast<uint16_t>(id);
    return true;
  }
  if (find(phrase) != kFree) return false;
  if (2 * (bytes_.size() + 1) > places_.size()) {
    places_.assign(2 * places_.size(), kFree);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      place_of({bytes_[i].low, bytes_[i].high, tails_[i].length}) =
          static_cast<uint16_t>(i);
    }
  }
  place_of(phrase) = static_cast<uint16_t>(bytes_.size());
  bytes_.push_back({phrase.low, phrase.high});
  tails_.push_back({static_cast<uint16_t>(n), static_cast<uint16_t>(id)});
  const uint64_t front = hash_of(phrase.front(n == 3 ? 3 : n & ~1u));
  fronts_[front >> (64 - kFrontBits)] |= static_cast<uint16_t>(1u << (n - 3));
  return true;
}

PhraseMatcher::Match PhraseMatcher::match(const uint8_t* text,
                                          uint64_t remaining) const {
  const Phrase all{load<uint64_t>(text), load<uint64_t>(text + 8), 16};
  const auto left = static_cast<uint32_t>(std::min<uint64_t>(remaining, 16));
  // Bit n - 3: a phrase of n bytes may be it. All looks at once.
  uint32_t lengths = (lengths_of(low_bytes(all.low, 3), 0) & 0x1) |
                     (lengths_of(low_bytes(all.low, 4), 0) & 0x6) |
                     (lengths_of(low_bytes(all.low, 6), 0) & 0x18) |
                     (lengths_of(all.low, 0) & 0x60) |
                     (lengths_of(all.low, low_bytes(all.high, 2)) & 0x180) |
                     (lengths_of(all.low, low_bytes(all.high, 4)) & 0x600) |
                     (lengths_of(all.low, low_bytes(all.high, 6)) & 0x1800) |
                     (lengths_of(all.low, all.high) & 0x2000);
  lengths &= ((2u << left) - 1) >> 3;
  while (lengths != 0) {
    const auto n = static_cast<uint32_t>(std::bit_width(lengths)) + 2;
    const uint16_t place = find(all.front(n));
    if (place != kFree) return {tails_[place].id, n};
    lengths ^= 1u << (n - 3);
  }
  if (left >= 2) {
    const uint16_t two = two_[all.low & 0xffff];
    if (two != kNone) return {two, 2};
  }
  return {one_[all.low & 0xff], 1};
}

}  // namespace nimble
