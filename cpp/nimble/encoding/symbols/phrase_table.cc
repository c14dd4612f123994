#include "nimble/encoding/symbols/phrase_table.h"

#include <cstring>

namespace nimble {
namespace {

// Size of the prefix by which a phrase is registered in fronts_.
constexpr uint32_t front_of(uint32_t length) {
  return length < 4 ? length : length & ~1u;
}

}  // namespace

Phrase Phrase::front(uint32_t n) const {
  return {low & kFrontMasks.low[n], high & kFrontMasks.high[n], n};
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

namespace {

// Calls put(i, code) for i = 0 .. n - 1.
template <class Put>
NIMBLE_ALWAYS_INLINE void each(const PhraseTable::Codes& codes, uint32_t width,
                               uint64_t first, uint64_t n, Put&& put) {
  const uint8_t* const data = codes.data;
  const uint64_t whole = codes.size;
  const uint32_t mask = (1u << width) - 1;
  uint64_t bit = first * width;
  uint64_t i = 0;
  // Four codes at a time, while a whole word is available.
  static_assert(7 + 4 * kMaxPhraseBits <= 64);
  for (; i + 4 <= n && bit / 8 + 8 <= whole; i += 4, bit += 4 * width) {
    const uint64_t word = load<uint64_t>(data + bit / 8) >> (bit % 8);
    put(i, static_cast<uint32_t>(word) & mask);
    put(i + 1, static_cast<uint32_t>(word >> width) & mask);
    put(i + 2, static_cast<uint32_t>(word >> (2 * width)) & mask);
    put(i + 3, static_cast<uint32_t>(word >> (3 * width)) & mask);
  }
  // The remaining codes are loaded as words that end with the code's last byte,
  // so that no byte after the codes is read.
  for (; i < n; ++i) put(i, PhraseTable::code_at(codes, first + i));
}

// Uses a constant width for the codes of a full table, so that shifts are
// constants.
template <class Put>
NIMBLE_ALWAYS_INLINE void each(const PhraseTable::Codes& codes, uint64_t first,
                               uint64_t n, Put&& put) {
  if (codes.width == kMaxPhraseBits) {
    return each(codes, kMaxPhraseBits, first, n, put);
  }
  each(codes, codes.width, first, n, put);
}

}  // namespace

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

uint64_t PhraseTable::expand_front(const Codes& codes, uint64_t first,
                                   uint64_t n, uint64_t enough,
                                   uint8_t* out) const {
  uint64_t size = 0;
  for (uint64_t i = 0; i < n && size < enough; ++i) {
    const uint32_t code = code_at(codes, first + i);
    std::memcpy(out + size, bytes(code), sizeof(Bytes));
    size += lengths_[code];
  }
  return size;
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
    : bytes_(1),
      places_(size_t{1} << 10),
      fronts_(size_t{1} << kFrontBits, 1) {}

void PhraseMatcher::put(const Phrase& phrase, uint32_t id) {
  const_cast<Place&>(find(phrase.low, phrase.high, phrase.length)) = {
      static_cast<uint16_t>(id), static_cast<uint16_t>(phrase.length)};
}

bool PhraseMatcher::add(const Phrase& phrase, uint32_t id) {
  if (find(phrase.low, phrase.high, phrase.length).length != 0) return false;
  if (kSpread * ++used_ > places_.size()) {
    std::vector<Place> old(2 * places_.size());
    old.swap(places_);
    --place_shift_;
    for (const Place& p : old) {
      if (p.length == 0) continue;
      put({bytes_[p.id].low, bytes_[p.id].high, p.length}, p.id);
    }
  }
  if (id >= bytes_.size()) bytes_.resize(id + 1);
  put(phrase, id);
  bytes_[id] = {phrase.low, phrase.high};
  const uint32_t n = phrase.length;
  const Phrase front = phrase.front(front_of(n));
  const uint64_t hash = hash_of(front.low, front.high);
  fronts_[hash >> (64 - kFrontBits)] |= static_cast<uint16_t>(1u << (n - 1));
  return true;
}

}  // namespace nimble
