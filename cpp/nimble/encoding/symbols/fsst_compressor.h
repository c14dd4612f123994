// Compression of strings with an FSST symbol table: greedy, longest match
// first. Symbols of three bytes and more sit in a hash table with one slot a
// three-byte prefix (training drops what does not fit: the paper's lossy
// perfect hash); one table of all 2-byte prefixes holds the rest. No branch
// depends on the data but the end of a string, and four strings at a time are
// under way, as each match waits for the length of the one before.
#pragma once

#include <span>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

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

  // The match at the front of `word`, 8 readable bytes of which `remaining`
  // (>= 1, may be more than 8) belong to the string.
  FsstMatch match(uint64_t word, uint64_t remaining) const {
    const Slot& slot = slots_[slot_of(word)];
    const bool hit = ((word << slot.shift) == slot.bytes) &
                     (slot.match.length() <= remaining);
    const uint64_t pair = word & 0xffff;
    const uint64_t single = 65536 + (word & 0xff);
    const FsstMatch other = short_[remaining == 1 ? single : pair];
    // By mask: compilers make a branch of the conditional, half the speed.
    const uint32_t take = 0u - static_cast<uint32_t>(hit);
    return {static_cast<uint16_t>((slot.match.packed & take) |
                                  (other.packed & ~take))};
  }

  // Appends the codes of the strings to `codes` and sets lengths[i] to the
  // number of bytes that string i takes there.
  void compress(std::span<const ByteSlice> strings, AlignedBuffer* codes,
                uint64_t* lengths) const;

 private:
  struct Lane;

  void step(Lane* lane) const;
  void compress_long(const ByteSlice& string, AlignedBuffer* codes) const;
  void compress_batch(std::span<const ByteSlice> strings, uint64_t bytes,
                      AlignedBuffer* codes, uint64_t* lengths) const;
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
  // What one or two bytes give: by two bytes, then by one.
  std::vector<FsstMatch> short_;
};

// Up to 8 bytes at p, of which `n` exist; zeros behind them.
inline uint64_t load_tail(const uint8_t* p, uint64_t n) {
  uint64_t word = 0;
  std::memcpy(&word, p, n < 8 ? n : 8);
  return word;
}

}  // namespace nimble
