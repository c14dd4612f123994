#include "nimble/encoding/fsst_compressor.h"

namespace nimble {

FsstMatcher::FsstMatcher()
    : slots_(size_t{1} << kSlotBits), pairs_(65536), singles_(256) {
  // A free slot holds 8 bytes whose own prefix belongs elsewhere.
  const uint32_t slot_of_zero = slot_of(0);
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = {i == slot_of_zero ? uint64_t{1} : 0, 0, {0}};
  }
  const FsstMatch escape = FsstMatch::of(kFsstEscape, 2, 1);
  pairs_.assign(pairs_.size(), escape);
  singles_.assign(singles_.size(), escape);
}

FsstMatcher::FsstMatcher(const FsstTable& table) : FsstMatcher() {
  for (uint32_t code = 0; code < table.size(); ++code) {
    add(table.symbol(code), static_cast<uint8_t>(code));
  }
}

bool FsstMatcher::add(const FsstSymbol& symbol, uint8_t code) {
  const FsstMatch match = FsstMatch::of(code, 1, symbol.length);
  if (symbol.length == 1) {
    const uint64_t first = symbol.bytes & 0xff;
    singles_[first] = match;
    for (uint64_t pair = first; pair < pairs_.size(); pair += 256) {
      if (pairs_[pair].length() == 1) pairs_[pair] = match;
    }
    return true;
  }
  if (symbol.length == 2) {
    pairs_[symbol.bytes & 0xffff] = match;
    return true;
  }
  Slot& slot = slots_[slot_of(symbol.bytes)];
  if (slot.match.length() != 0) return false;
  slot.shift = 64 - 8 * symbol.length;
  slot.bytes = symbol.bytes << slot.shift;
  slot.match = match;
  return true;
}

uint8_t* FsstMatcher::compress(const ByteSlice& string, uint8_t* out) const {
  const uint8_t* p = string.data;
  uint64_t remaining = string.size;
  while (remaining >= 8) {
    const uint64_t word = load<uint64_t>(p);
    const FsstMatch found = match(word);
    out[0] = found.code();
    out[1] = static_cast<uint8_t>(word);  // stays where code is the escape
    out += found.written();
    p += found.length();
    remaining -= found.length();
  }
  uint64_t word = remaining == 0 ? 0 : load_tail(p, remaining);
  while (remaining > 0) {
    const FsstMatch found = match(word, static_cast<uint32_t>(remaining));
    out[0] = found.code();
    out[1] = static_cast<uint8_t>(word);
    out += found.written();
    word = found.length() == 8 ? 0 : word >> (8 * found.length());
    remaining -= found.length();
  }
  return out;
}

}  // namespace nimble
