#include "nimble/encoding/symbols/fsst_compressor.h"

#include <algorithm>

namespace nimble {
namespace {

constexpr uint32_t kLanes = 4;
// Strings are copied in batches of about this size. 8 bytes are then readable
// from every position.
constexpr uint64_t kBatchBytes = 32768;
constexpr uint64_t kLongString = 4096;

uint64_t max_compressed(uint64_t n) { return n * 2 + 8; }

}  // namespace

// A sequence of strings that are compressed one after the other.
struct FsstMatcher::Lane {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;  // of the current string
  uint8_t* out = nullptr;
  uint8_t* out_begin = nullptr;  // of the current string
  uint32_t row = 0;
  uint32_t last_row = 0;

  uint32_t active() const { return at < end; }
  // Moves to the next non-empty string, if there is one.
  void advance(std::span<const ByteSlice> strings, uint64_t* lengths) {
    while (!active() && row < last_row) {
      lengths[row] = static_cast<uint64_t>(out - out_begin);
      out_begin = out;
      if (++row < last_row) end = at + strings[row].size;
    }
  }
};

FsstMatcher::FsstMatcher()
    : slots_(size_t{1} << kSlotBits),
      short_(65536 + 256, FsstMatch::of(kFsstEscape, 2, 1)) {
  // A free slot stores bytes that would belong to another slot, so it never
  // matches.
  const uint32_t slot_of_zero = slot_of(0);
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = {i == slot_of_zero ? uint64_t{1} : 0, 0, {0}};
  }
}

FsstMatcher::FsstMatcher(const FsstTable& table) : FsstMatcher() {
  for (uint32_t code = 0; code < table.size(); ++code) {
    add(table.symbol(code), static_cast<uint8_t>(code));
  }
}

bool FsstMatcher::add(const FsstSymbol& symbol, uint8_t code) {
  const FsstMatch match = FsstMatch::of(code, 1, symbol.length);
  if (symbol.length == 1) {
    for (uint64_t i = symbol.bytes; i < short_.size(); i += 256) {
      if (short_[i].length() == 1) short_[i] = match;
    }
    return true;
  }
  if (symbol.length == 2) {
    short_[symbol.bytes] = match;
    return true;
  }
  Slot& slot = slots_[slot_of(symbol.bytes)];
  if (slot.match.length() != 0) return false;
  slot.shift = 64 - 8 * symbol.length;
  slot.bytes = symbol.bytes << slot.shift;
  slot.match = match;
  return true;
}

inline void FsstMatcher::step(Lane* lane) const {
  const uint64_t word = load<uint64_t>(lane->at);
  const FsstMatch next =
      match(word, static_cast<uint64_t>(lane->end - lane->at));
  lane->out[0] = next.code();
  lane->out[1] = static_cast<uint8_t>(word);  // kept only after an escape
  lane->out += next.written();
  lane->at += next.length();
}

void FsstMatcher::compress(std::span<const ByteSlice> strings,
                           AlignedBuffer* codes, uint64_t* lengths) const {
  for (size_t i = 0; i < strings.size();) {
    uint64_t bytes = 0;
    size_t j = i;
    while (j < strings.size() && bytes < kBatchBytes &&
           strings[j].size <= kLongString) {
      bytes += strings[j++].size;
    }
    if (j > i) {
      compress_batch(strings.subspan(i, j - i), bytes, codes, lengths + i);
      i = j;
      continue;
    }
    const size_t before = codes->size();
    compress_long(strings[i], codes);
    lengths[i++] = codes->size() - before;
  }
}

void FsstMatcher::compress_batch(std::span<const ByteSlice> strings,
                                 uint64_t bytes, AlignedBuffer* codes,
                                 uint64_t* lengths) const {
  const uint32_t n = static_cast<uint32_t>(strings.size());
  uint8_t text[kBatchBytes + kLongString + 8];
  // Each lane has room for all of its codes. The room follows the previous
  // lane's.
  AlignedBuffer scratch(max_compressed(bytes) + 8 * kLanes);
  Lane lanes[kLanes];
  const uint8_t* starts[kLanes];
  uint8_t* to = text;
  for (uint32_t k = 0; k < kLanes; ++k) {
    Lane& lane = lanes[k];
    lane.row = k * n / kLanes;
    lane.last_row = (k + 1) * n / kLanes;
    lane.at = to;
    lane.end = to + (lane.row < lane.last_row ? strings[lane.row].size : 0);
    lane.out = lane.out_begin = scratch.data() + 2 * (to - text) + 8 * k;
    starts[k] = lane.out;
    for (uint32_t i = lane.row; i < lane.last_row; ++i) {
      if (strings[i].size > 0)
        std::memcpy(to, strings[i].data, strings[i].size);
      to += strings[i].size;
    }
    lane.advance(strings, lengths);
  }
  while (lanes[0].active() & lanes[1].active() & lanes[2].active() &
         lanes[3].active()) {
    do {
      for (Lane& lane : lanes) step(&lane);
    } while (lanes[0].active() & lanes[1].active() & lanes[2].active() &
             lanes[3].active());
    for (Lane& lane : lanes) lane.advance(strings, lengths);
  }
  for (uint32_t k = 0; k < kLanes; ++k) {
    Lane lane = lanes[k];
    while (lane.active()) {
      step(&lane);
      lane.advance(strings, lengths);
    }
    codes->append(starts[k], static_cast<size_t>(lane.out - starts[k]));
  }
}

// The last bytes are matched in a padded copy, because the bytes after the
// string may not be readable.
void FsstMatcher::compress_long(const ByteSlice& string,
                                AlignedBuffer* codes) const {
  codes->reserve(codes->size() + max_compressed(string.size));
  Lane lane;
  lane.out = codes->data() + codes->size();
  lane.at = string.data;
  lane.end = string.data + string.size;
  while (lane.end - lane.at >= 8) step(&lane);
  uint8_t tail[16] = {};
  const size_t rest = static_cast<size_t>(lane.end - lane.at);
  std::memcpy(tail, lane.at, rest);
  lane.at = tail;
  lane.end = tail + rest;
  while (lane.active()) step(&lane);
  codes->resize(static_cast<size_t>(lane.out - codes->data()));
}

}  // namespace nimble
