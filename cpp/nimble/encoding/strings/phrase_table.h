// A table of up to 4,096 phrases of 1 to 16 bytes, and greedy matching with
// it, longest phrase first. Strings become the numbers of their phrases, 12
// bits each at most: several times as many symbols as FSST has, and longer
// ones (the idea is that of OnPair, Gargiulo and Venturini 2025).
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

inline constexpr uint32_t kMaxPhraseBytes = 16;
inline constexpr uint32_t kMaxPhraseBits = 12;
inline constexpr uint32_t kMaxPhrases = 1u << kMaxPhraseBits;

// 16 bytes, the first one lowest, zeros behind the last.
struct Phrase {
  uint64_t low = 0;
  uint64_t high = 0;
  uint32_t length = 0;

  bool operator==(const Phrase&) const = default;

  static Phrase of(const uint8_t* bytes, uint32_t length);
  // The first `length` bytes of this one.
  Phrase front(uint32_t length) const;
};

// a, then b; they have at most 16 bytes together.
Phrase concatenate(const Phrase& a, const Phrase& b);

// What codes stand for. Codes that have no phrase stand for nothing.
class PhraseTable {
 public:
  // At most kMaxPhrases.
  explicit PhraseTable(const std::vector<Phrase>& phrases) {
    for (size_t i = 0; i < phrases.size(); ++i) {
      bytes_[i] = {phrases[i].low, phrases[i].high};
      lengths_[i] = static_cast<uint8_t>(phrases[i].length);
    }
  }

  // `codes` is where code 0 begins; 8 bytes in front of it are readable, and
  // none from codes + codes_size on. Codes first .. first + n - 1 of `width`
  // bits go to `out`, which has room for expanded_bound(n). positions[i]
  // becomes the place in the output of code first + i, positions[n] the end.
  struct Codes {
    const uint8_t* data;
    uint64_t size;  // bytes
    uint32_t width;
  };
  uint64_t expand(const Codes& codes, uint64_t first, uint64_t n, uint8_t* out,
                  uint32_t* positions) const;
  // The same without places.
  uint64_t expand(const Codes& codes, uint64_t first, uint64_t n,
                  uint8_t* out) const;
  // Bytes that these codes give, exactly.
  uint64_t expanded_size(const Codes& codes, uint64_t first, uint64_t n) const;
  // Room for any n codes: each store writes 16 bytes.
  static uint64_t expanded_bound(uint64_t n) {
    return (n + 1) * kMaxPhraseBytes;
  }

 private:
  template <class Put>
  void each(const Codes& codes, uint64_t first, uint64_t n, Put&& put) const;

  struct Bytes {
    uint64_t low, high;
  };
  std::array<Bytes, kMaxPhrases> bytes_{};
  std::array<uint8_t, kMaxPhrases> lengths_{};
};

// The longest phrase at a place of a text. Phrases have numbers, which are
// the caller's; every byte is a phrase, too.
class PhraseMatcher {
 public:
  struct Match {
    uint32_t id;
    uint32_t length;
  };

  PhraseMatcher();
  // Of phrases whose numbers are their places.
  explicit PhraseMatcher(const std::vector<Phrase>& phrases) : PhraseMatcher() {
    for (uint32_t i = 0; i < phrases.size(); ++i) add(phrases[i], i);
  }
  // False where there is this phrase already. Bytes may be given new ids.
  bool add(const Phrase& phrase, uint32_t id);

  // `text` has 16 readable bytes, `remaining` >= 1 of which count.
  Match match(const uint8_t* text, uint64_t remaining) const;

 private:
  struct Bytes {
    uint64_t low, high;
  };
  struct Tail {
    uint16_t length;
    uint16_t id;
  };
  static constexpr uint16_t kFree = UINT16_MAX;
  // Of hashes of fronts: false answers cost a look, no more.
  static constexpr uint32_t kFrontBits = 15;

  static uint64_t hash_of(uint64_t low, uint64_t high) {
    return low * 0x9E3779B97F4A7C15u + high * 0xD6E8FEB86659FD93u;
  }
  static uint64_t hash_of(const Phrase& p) { return hash_of(p.low, p.high); }
  // Which lengths phrases have that begin with these bytes.
  uint32_t lengths_of(uint64_t low, uint64_t high) const {
    return fronts_[hash_of(low, high) >> (64 - kFrontBits)];
  }
  // Of more than two bytes; the place where it belongs is free if it is not
  // there.
  const uint16_t& find(const Phrase& phrase) const {
    const uint64_t mask = places_.size() - 1;
    for (uint64_t i = hash_of(phrase) >> 20;; ++i) {
      const uint16_t& place = places_[i & mask];
      if (place == kFree) return place;
      const Bytes& b = bytes_[place];
      if (((b.low ^ phrase.low) | (b.high ^ phrase.high)) == 0 &&
          tails_[place].length == phrase.length) {
        return place;
      }
    }
  }
  uint16_t& place_of(const Phrase& phrase) {
    return const_cast<uint16_t&>(find(phrase));
  }

  std::vector<Bytes> bytes_;
  std::vector<Tail> tails_;
  std::vector<uint16_t> places_;  // of phrases, by hash: a power of two
  // By the hash of the first 3, 4, 6, 8, .. 16 bytes: bit n - 3 is set where
  // there is a phrase of n bytes, as many or one more, that begins with them.
  std::vector<uint16_t> fronts_;
  std::vector<uint16_t> two_;  // ids by two bytes, or kNone
  std::array<uint32_t, 256> one_{};
};

}  // namespace nimble
