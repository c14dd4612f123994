// Compresses strings with an FSST symbol table, greedily, longest match first.
// Symbols of three or more bytes are in a hash table with one slot per
// three-byte prefix. Training drops symbols that collide: the paper's lossy
// perfect hash. Shorter symbols are in a table of all two-byte prefixes.
// The only data-dependent branch is the end of a string. Each match depends on
// the length of the previous match, so four strings are compressed at a time.
#pragma once

#include <span>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {

// The result of greedy matching at one position.
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

// Compresses strings with a table. Thread-safe after the last add().
class FsstMatcher {
 public:
  FsstMatcher();
  explicit FsstMatcher(const FsstTable& table);

  // Adds a symbol. Returns false if another symbol has the slot of its prefix.
  bool add(const FsstSymbol& symbol, uint8_t code);

  // Returns the match at the beginning of `word`, which has 8 bytes of input.
  // Only `remaining` of them belong to the string; it may be larger than 8.
  // REQUIRES: remaining >= 1.
  FsstMatch match(uint64_t word, uint64_t remaining) const {
    const Slot& slot = slots_[slot_of(word)];
    const bool hit = ((word << slot.shift) == slot.bytes) &
                     (slot.match.length() <= remaining);
    const uint64_t pair = word & 0xffff;
    const uint64_t single = 65536 + (word & 0xff);
    const FsstMatch other = short_[remaining == 1 ? single : pair];
    // A mask instead of a conditional: compilers would make it a branch, which
    // halves the speed.
    const uint32_t take = 0u - static_cast<uint32_t>(hit);
    return {static_cast<uint16_t>((slot.match.packed & take) |
                                  (other.packed & ~take))};
  }

  // Appends the codes of the strings to `codes`. Sets lengths[i] to the size of
  // string i's codes, in bytes.
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
    uint64_t bytes;  // shifted to the top: must equal word << shift
    uint32_t shift;
    FsstMatch match;
  };

  static uint32_t slot_of(uint64_t word) {
    const uint32_t prefix = static_cast<uint32_t>(word) & 0xffffff;
    return (prefix * 0x9E3779B1u) >> (32 - kSlotBits);
  }

  std::vector<Slot> slots_;
  // Matches of one or two bytes: indexed by two bytes, then by one.
  std::vector<FsstMatch> short_;
};

// Loads min(n, 8) bytes. The other bytes of the word are zero.
inline uint64_t load_tail(const uint8_t* p, uint64_t n) {
  uint64_t word = 0;
  std::memcpy(&word, p, n < 8 ? n : 8);
  return word;
}

}  // namespace nimble
