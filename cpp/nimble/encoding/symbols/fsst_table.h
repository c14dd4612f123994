// The symbol table of FSST (Boncz, Neumann, Leis: "FSST: Fast Random Access
// String Compression", VLDB 2020): at most 255 symbols of 1 to 8 bytes. Code c
// stands for symbol c. Code 255 is an escape: the next byte is literal.
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include <array>

#include "nimble/base/byte_reader.h"
#include "nimble/base/result.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

inline constexpr uint32_t kFsstMaxSymbols = 255;
inline constexpr uint8_t kFsstEscape = 255;

// A symbol of `length` bytes, 1 to 8.
struct FsstSymbol {
  uint64_t bytes = 0;  // first byte lowest, then zeros
  uint32_t length = 0;

  bool operator==(const FsstSymbol&) const = default;
};

// Decompresses codes. Thread-safe after the last add().
class FsstTable {
 public:
  FsstTable() = default;
  // Appends a symbol. Codes are assigned in this order.
  // REQUIRES: symbols are added in ascending order of length.
  void add(const FsstSymbol& symbol) {
    bytes_[count_] = symbol.bytes;
    lengths_[count_] = static_cast<uint8_t>(symbol.length);
    ++count_;
  }

  void write(ByteBuffer* head) const;
  static Result<FsstTable> open(ByteReader* head);
  uint64_t written_size() const;

  uint32_t size() const { return count_; }
  FsstSymbol symbol(uint32_t code) const {
    return {bytes_[code], lengths_[code]};
  }

  // Prefetches the table, because a string's codes access all parts of it.
  void prefetch() const {
    const auto* p = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < sizeof *this; at += 64) __builtin_prefetch(p + at);
  }

  // Decompresses codes [codes, end) to `out`. Returns the end of the output, or
  // null if the codes end within an escape. Never reads past `end`. Codes
  // without a symbol decompress to nothing.
  // REQUIRES: `out` has room for decompressed_bound() bytes.
  uint8_t* decompress(const uint8_t* codes, const uint8_t* end,
                      uint8_t* out) const;
  // Like decompress(), but stops after at least `enough` bytes.
  // REQUIRES: `out` has room for enough + 8 bytes.
  uint8_t* decompress_front(const uint8_t* codes, const uint8_t* end,
                            uint64_t enough, uint8_t* out) const {
    const uint8_t* const stop = out + enough;
    while (codes < end && out < stop) {
      const uint8_t code = *codes++;
      if (code != kFsstEscape) {
        store(out, bytes_[code]);
        out += lengths_[code];
        continue;
      }
      if (codes == end) return nullptr;
      *out++ = *codes++;
    }
    return out;
  }
  // Like decompress(), for n codes of many strings at once, without a branch
  // per string. positions[i] becomes the output offset of code i, and
  // positions[n] the end of the output. For the byte after an escape, the
  // position is kInEscape. Returns false if the codes end within an escape.
  // REQUIRES: n <= kMaxTogether.
  static constexpr uint64_t kMaxTogether = 12288;
  static constexpr uint32_t kInEscape = UINT32_MAX;
  bool decompress_together(const uint8_t* codes, uint64_t n, uint8_t* out,
                           uint32_t* positions) const;
  // Like decompress_together(), for codes without escapes; about twice as fast.
  // fourths[i] becomes the output offset of code 4 * i, up to n / 4. Returns
  // the size of the output.
  uint64_t decompress_plain(const uint8_t* codes, uint64_t n, uint8_t* out,
                            uint32_t* fourths) const;
  // The output offset of code `i` after decompress_plain().
  // REQUIRES: i <= n.
  uint32_t place_of(const uint8_t* codes, uint64_t n, uint64_t i,
                    const uint32_t* fourths) const {
    uint32_t at = fourths[i / 4];
    const uint64_t begin = i / 4 * 4;
    if (begin + 4 > n) {
      for (uint64_t k = begin; k < i; ++k) at += lengths_[codes[k]];
      return at;
    }
    // Turns the codes from i on into escapes, which have length 0.
    const uint32_t four =
        load<uint32_t>(codes + begin) | ~uint32_t{0} << (8 * (i - begin));
    return at + lengths_[four & 0xff] + lengths_[(four >> 8) & 0xff] +
           lengths_[(four >> 16) & 0xff];
  }
  // The exact size of the output, if the codes are well-formed.
  uint64_t decompressed_size(const uint8_t* codes, const uint8_t* end) const;
  // Enough room for any n codes: each store writes 8 bytes.
  static uint64_t decompressed_bound(uint64_t n) { return n * 8 + 8; }

 private:
  // Slot 255 and unused slots have length 0.
  std::array<uint64_t, 256> bytes_{};
  std::array<uint8_t, 256> lengths_{};
  uint32_t count_ = 0;
};

}  // namespace nimble
