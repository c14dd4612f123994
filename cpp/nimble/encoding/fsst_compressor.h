// Compression of strings with an FSST symbol table: greedy, longest match
// first. Symbols of three bytes and more sit in a hash table with one slot a
// three-byte prefix (training drops what does not fit: the paper's lossy
// perfect hash); one table of all 2-byte prefixes holds the rest. No branch
// depends on the data but the end of a string.
#pragma once

#include <vector>

#include "nimble/encoding/encoding.h"
#include "nimble/encoding/fsst_table.h"

namespace nimble {

// What greedy matching takes at one position.
struct FsstMatch {
  // code, bits 0-7 | bytes of output, bits 8-11 | bytes of input, bits 12-15
  uint16_t packed;

  static FsstMatch of(uint32_t code, uint32_t written, uint32_t length) {
    return {static_cast<uint16_t>(code | written << 8 | length << 12)};
  }
  uint8_t code() const { return static_cast<uint8_t>(packed); }
  uint32_t written() const { return (packed >> 8) & 0xf; }
  uint32_t length() const { return packed >> 12; }
};

class FsstMatcher {
 public:
  FsstMatcher();
  explicit FsstMatcher(const FsstTable& table);

  // False where another symbol has the slot of this one's prefix.
  bool add(const FsstSymbol& symbol, uint8_t code);

  // At least 8 bytes of input are in `word`.
  FsstMatch match(uint64_t word) const {
    const Slot& slot = slots_[slot_of(word)];
    const bool hit = (word << slot.shift) == slot.bytes;
    return hit ? slot.match : pairs_[word & 0xffff];
  }
  // Only the lowest `remaining` bytes (>= 1) are, zeros behind them.
  FsstMatch match(uint64_t word, uint32_t remaining) const {
    if (remaining >= 3) {
      const FsstMatch found = match(word);
      if (found.length() <= remaining) return found;
    }
    // The pair is right for two bytes or more, whatever follows.
    return remaining >= 2 ? pairs_[word & 0xffff] : singles_[word & 0xff];
  }

  // Compresses to `out`, which has max_compressed() bytes; returns its end.
  uint8_t* compress(const ByteSlice& string, uint8_t* out) const;
  static uint64_t max_compressed(uint64_t n) { return n * 2 + 2; }

 private:
  static constexpr uint32_t kSlotBits = 11;
  struct Slot {
    uint64_t bytes;  // shifted to the top: what word << shift must equal
    uint32_t shift;
    FsstMatch match;
  };

  static uint32_t slot_of(uint64_t word) {
    const uint32_t prefix = static_cast<uint32_t>(word) & 0xffffff;
    return (prefix * 0x9E3779B1u) >> (32 - kSlotBits);
  }

  std::vector<Slot> slots_;
  std::vector<FsstMatch> pairs_;    // by two bytes
  std::vector<FsstMatch> singles_;  // by one byte
};

// The lowest n bytes of `word`, n <= 8; n = 0 gives 0.
inline uint64_t low_bytes(uint64_t word, uint32_t n) {
  return n == 0 ? 0 : word & (~uint64_t{0} >> (64 - 8 * n));
}

// Up to 8 bytes at p, of which `n` exist; zeros behind them.
inline uint64_t load_tail(const uint8_t* p, uint64_t n) {
  uint64_t word = 0;
  std::memcpy(&word, p, n < 8 ? n : 8);
  return word;
}

}  // namespace nimble
