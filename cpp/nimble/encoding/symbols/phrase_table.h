// A table of up to 4,096 phrases of 1 to 16 bytes, and greedy matching with it,
// longest phrase first. Strings become phrase numbers of at most 12 bits. FSST
// has fewer and shorter symbols. The idea is from OnPair (Gargiulo and
// Venturini 2025).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "nimble/base/compiler.h"
#include "nimble/base/result.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

inline constexpr uint32_t kMaxPhraseBytes = 16;
inline constexpr uint32_t kMaxPhraseBits = 12;
inline constexpr uint32_t kMaxPhrases = 1u << kMaxPhraseBits;

// Masks for the first n of 16 bytes: the first eight bytes, and the others.
struct FrontMasks {
  uint64_t low[kMaxPhraseBytes + 1] = {};
  uint64_t high[kMaxPhraseBytes + 1] = {};

  constexpr FrontMasks() {
    for (uint32_t n = 1; n <= kMaxPhraseBytes; ++n) {
      low[n] = ~uint64_t{0} >> (n < 8 ? 64 - 8 * n : 0);
      high[n] = n <= 8 ? 0 : ~uint64_t{0} >> (128 - 8 * n);
    }
  }
};
inline constexpr FrontMasks kFrontMasks;

// 16 bytes, the first byte lowest, zeros after the last byte.
struct Phrase {
  uint64_t low = 0;
  uint64_t high = 0;
  uint32_t length = 0;

  bool operator==(const Phrase&) const = default;

  static Phrase of(const uint8_t* bytes, uint32_t length);
  // The first `length` bytes of this phrase.
  Phrase front(uint32_t length) const;
};

// a followed by b.
// REQUIRES: they have at most 16 bytes together.
Phrase concatenate(const Phrase& a, const Phrase& b);

// Maps codes to phrases. Codes without a phrase map to nothing. Thread-safe.
class PhraseTable {
 public:
  // REQUIRES: at most kMaxPhrases phrases.
  explicit PhraseTable(const std::vector<Phrase>& phrases) {
    for (size_t i = 0; i < phrases.size(); ++i) {
      bytes_[i] = {phrases[i].low, phrases[i].high};
      lengths_[i] = static_cast<uint8_t>(phrases[i].length);
    }
  }

  // Expand codes [first, first + n) to `out` and return the size. positions[i]
  // becomes the output offset of code first + i, and positions[n] the end.
  // REQUIRES: code 0 begins at codes.data, and the 8 bytes before it are
  // readable; `out` has room for expanded_bound(n).
  struct Codes {
    const uint8_t* data;
    uint64_t size;  // bytes
    uint32_t width;
  };
  uint64_t expand(const Codes& codes, uint64_t first, uint64_t n, uint8_t* out,
                  uint32_t* positions) const;
  // Like expand() above, but does not return positions.
  uint64_t expand(const Codes& codes, uint64_t first, uint64_t n,
                  uint8_t* out) const;
  // Expands codes from `first` on to `out`, until n codes are expanded or there
  // are `enough` bytes. Returns the size.
  // REQUIRES: `out` has room for `enough` bytes and a phrase.
  uint64_t expand_front(const Codes& codes, uint64_t first, uint64_t n,
                        uint64_t enough, uint8_t* out) const;
  // REQUIRES: as expand().
  static uint32_t code_at(const Codes& codes, uint64_t index) {
    const uint64_t bit = index * codes.width;
    const uint64_t end = (bit + codes.width + 7) / 8;
    const auto word = load<uint64_t>(codes.data + end - 8);
    return static_cast<uint32_t>(word >> (64 - (end * 8 - bit))) &
           ((1u << codes.width) - 1);
  }
  // The bytes of a code's phrase; 16 bytes are readable.
  const uint8_t* bytes(uint32_t code) const {
    return reinterpret_cast<const uint8_t*>(&bytes_[code]);
  }
  uint32_t length(uint32_t code) const { return lengths_[code]; }
  // The exact size of the output of these codes.
  uint64_t expanded_size(const Codes& codes, uint64_t first, uint64_t n) const;
  // Enough room for any n codes: each store writes 16 bytes.
  static uint64_t expanded_bound(uint64_t n) {
    return (n + 1) * kMaxPhraseBytes;
  }

 private:
  struct Bytes {
    uint64_t low, high;
  };
  std::array<Bytes, kMaxPhrases> bytes_{};
  std::array<uint8_t, kMaxPhrases> lengths_{};
};

// Finds the longest phrase at a position of a text. The caller numbers the
// phrases. All possible lengths are looked up at once, so the only
// data-dependent branch is a false positive of the longest length. Add the most
// frequent phrases first, because they are then found with the first probe.
// Thread-safe after the last add().
class PhraseMatcher {
 public:
  struct Match {
    uint32_t id;  // kNoPhrase: a byte without a phrase
    uint32_t length;
  };
  static constexpr uint32_t kNoPhrase = UINT16_MAX;

  PhraseMatcher();
  // Numbers the phrases by their index.
  explicit PhraseMatcher(const std::vector<Phrase>& phrases) : PhraseMatcher() {
    for (uint32_t i = 0; i < phrases.size(); ++i) add(phrases[i], i);
  }
  // Adds a phrase. Returns false if it exists already.
  bool add(const Phrase& phrase, uint32_t id);

  // Returns the longest match.
  // REQUIRES: `text` has 16 readable bytes; the first `remaining` >= 1 belong
  // to the string.
  Match match(const uint8_t* text, uint64_t remaining) const;

 private:
  struct Bytes {
    uint64_t low, high;
  };
  struct Place {
    uint16_t id = 0;
    uint16_t length = 0;  // 0: free
  };
  // Prefixes are hashed to this many bits. A false positive costs one extra
  // probe.
  static constexpr uint32_t kFrontBits = 15;
  // Slots per phrase: most phrases are in the first slot probed.
  static constexpr uint64_t kSpread = 4;

  static uint64_t hash_of(uint64_t low, uint64_t high) {
    return low * 0x9E3779B97F4A7C15u + high * 0xD6E8FEB86659FD93u;
  }
  // The possible lengths of phrases whose prefix has this hash.
  uint32_t lengths_of(uint64_t hash) const {
    return fronts_[hash >> (64 - kFrontBits)];
  }
  // The possible lengths of the longest phrase at this text, up to `left`
  // bytes: bit n - 1 is set for n bytes. Bit 0 is always set.
  uint32_t possible_lengths(uint64_t low, uint64_t high, uint32_t left) const;
  // Returns the slot of a phrase of n bytes, or the free slot where it belongs.
  const Place& find(uint64_t low, uint64_t high, uint32_t n) const {
    const uint64_t mask = places_.size() - 1;
    const uint64_t hash = hash_of(low, high) + n * 0x5851F42D4C957F2Du;
    for (uint64_t i = hash >> place_shift_;; ++i) {
      const Place& place = places_[i & mask];
      const Bytes& b = bytes_[place.id];
      if (NIMBLE_LIKELY(((b.low ^ low) | (b.high ^ high)) == 0 &&
                        place.length == n)) {
        return place;
      }
      if (place.length == 0) return place;
    }
  }
  void put(const Phrase& phrase, uint32_t id);

  std::vector<Bytes> bytes_;   // by id
  std::vector<Place> places_;  // by hash; size is a power of two
  size_t used_ = 0;
  uint32_t place_shift_ = 64 - 10;
  // Indexed by the hash of a prefix of 2, 3, 4, 6, 8, .. 16 bytes. Bit n - 1 is
  // set if a phrase of n bytes begins with the prefix, and the prefix has n or
  // n - 1 bytes.
  std::vector<uint16_t> fronts_;
};

inline uint32_t PhraseMatcher::possible_lengths(uint64_t low, uint64_t high,
                                                uint32_t left) const {
  // Looks up prefixes of up to eight bytes, then longer ones, all
  // independently.
  const auto of_low = [&](uint32_t n) {
    return lengths_of(hash_of(low & kFrontMasks.low[n], 0));
  };
  const auto of_both = [&](uint32_t n) {
    return lengths_of(hash_of(low, high & kFrontMasks.high[n]));
  };
  const uint32_t lengths =
      (of_low(2) & 0x2) | (of_low(3) & 0x4) | (of_low(4) & 0x18) |
      (of_low(6) & 0x60) | (of_low(8) & 0x180) | (of_both(10) & 0x600) |
      (of_both(12) & 0x1800) | (of_both(14) & 0x6000) | (of_both(16) & 0x8000);
  return (lengths | 1) & ((1u << left) - 1);
}

inline PhraseMatcher::Match PhraseMatcher::match(const uint8_t* text,
                                                 uint64_t remaining) const {
  const auto low = load<uint64_t>(text);
  const auto high = load<uint64_t>(text + 8);
  const auto left =
      static_cast<uint32_t>(std::min<uint64_t>(remaining, kMaxPhraseBytes));
  uint32_t lengths = possible_lengths(low, high, left);
  do {
    const auto n = static_cast<uint32_t>(std::bit_width(lengths));
    const Place place =
        find(low & kFrontMasks.low[n], high & kFrontMasks.high[n], n);
    if (NIMBLE_LIKELY(place.length != 0)) return {place.id, n};
    lengths ^= 1u << (n - 1);
  } while (lengths != 0);
  return {kNoPhrase, 1};
}

}  // namespace nimble
