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
    : slots_(size_t{1} << 12),
      from_eight_(size_t{1} << kFrontBits),
      from_four_(size_t{1} << kFrontBits),
      three_(size_t{1} << kFrontBits),
      two_(65536, kNone) {
  for (uint32_t b = 0; b < 256; ++b) one_[b] = b;
}

void PhraseMatcher::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.length == 0) continue;
    const_cast<Slot&>(find({slot.low, slot.high, slot.length})) = slot;
  }
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
  if (2 * used_ >= slots_.size()) grow();
  auto& slot = const_cast<Slot&>(find(phrase));
  if (slot.length != 0) return false;
  slot = {phrase.low, phrase.high, n, id};
  ++used_;
  const uint64_t front = front_of(phrase.front(n < 4 ? 3 : n < 8 ? 4 : 8).low);
  if (n >= 8) {
    from_eight_[front] |= static_cast<uint16_t>(1u << (n - 8));
  } else if (n >= 4) {
    from_four_[front] |= static_cast<uint8_t>(1u << (n - 4));
  } else {
    three_[front] = 1;
  }
  return true;
}

PhraseMatcher::Match PhraseMatcher::match(const uint8_t* text,
                                          uint64_t remaining) const {
  const Phrase all{load<uint64_t>(text), load<uint64_t>(text + 8), 16};
  const auto left = static_cast<uint32_t>(std::min<uint64_t>(remaining, 16));
  // Bit n: a phrase of n bytes may be it.
  uint32_t lengths =
      (uint32_t{from_eight_[front_of(all.low)]} << 8 |
       uint32_t{from_four_[front_of(low_bytes(all.low, 4))]} << 4 |
       uint32_t{three_[front_of(low_bytes(all.low, 3))]} << 3) &
      ((2u << left) - 1);
  while (lengths != 0) {
    const auto n = static_cast<uint32_t>(std::bit_width(lengths)) - 1;
    const Slot& slot = find(all.front(n));
    if (slot.length != 0) return {slot.id, n};
    lengths ^= 1u << n;
  }
  if (left >= 2) {
    const uint16_t two = two_[all.low & 0xffff];
    if (two != kNone) return {two, 2};
  }
  return {one_[all.low & 0xff], 1};
}

}  // namespace nimble
