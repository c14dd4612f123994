// The symbol table of FSST (Boncz, Neumann, Leis: "FSST: Fast Random Access
// String Compression", VLDB 2020): at most 255 symbols of 1 to 8 bytes. Code c
// stands for symbol c; code 255 says that the next byte is meant literally.
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include <array>

#include "nimble/base/byte_reader.h"
#include "nimble/base/result.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

inline constexpr uint32_t kFsstMaxSymbols = 255;
inline constexpr uint8_t kFsstEscape = 255;

struct FsstSymbol {
  uint64_t bytes = 0;  // first byte lowest, zeros behind the last
  uint32_t length = 0;

  bool operator==(const FsstSymbol&) const = default;
};

class FsstTable {
 public:
  FsstTable() = default;
  // Takes the symbols in ascending order of length: the order of codes.
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

  // A string's codes need symbols from all over the table.
  void prefetch() const {
    const auto* p = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < sizeof *this; at += 64) __builtin_prefetch(p + at);
  }

  // Decompresses codes [codes, end) to `out`, which must have
  // decompressed_bound() bytes; returns the end of the output, or null where
  // the codes end within an escape. Never reads past `end`. Codes that no
  // symbol has decompress to nothing.
  uint8_t* decompress(const uint8_t* codes, const uint8_t* end,
                      uint8_t* out) const;
  // The same, but stops once there are `enough` bytes; `out` has room for
  // enough + 8.
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
  // decompress() for the n codes of many strings together, without a branch a
  // string: positions[i] becomes the place in the output of code i,
  // positions[n] the end, and kInEscape that of an escaped byte. False where
  // the codes end within an escape. n <= kMaxTogether.
  static constexpr uint64_t kMaxTogether = 12288;
  static constexpr uint32_t kInEscape = UINT32_MAX;
  bool decompress_together(const uint8_t* codes, uint64_t n, uint8_t* out,
                           uint32_t* positions) const;
  // The same for codes without an escape, which is about twice as fast:
  // fourths[i] becomes the place in the output of code 4 * i, up to n / 4.
  // Returns the bytes of output.
  uint64_t decompress_plain(const uint8_t* codes, uint64_t n, uint8_t* out,
                            uint32_t* fourths) const;
  // The place of code `i` <= n after decompress_plain().
  uint32_t place_of(const uint8_t* codes, uint64_t n, uint64_t i,
                    const uint32_t* fourths) const {
    uint32_t at = fourths[i / 4];
    const uint64_t begin = i / 4 * 4;
    if (begin + 4 > n) {
      for (uint64_t k = begin; k < i; ++k) at += lengths_[codes[k]];
      return at;
    }
    // Codes from i on become escapes, which have no length.
    const uint32_t four =
        load<uint32_t>(codes + begin) | ~uint32_t{0} << (8 * (i - begin));
    return at + lengths_[four & 0xff] + lengths_[(four >> 8) & 0xff] +
           lengths_[(four >> 16) & 0xff];
  }
  // Output bytes of these codes, exactly (where they are well-formed).
  uint64_t decompressed_size(const uint8_t* codes, const uint8_t* end) const;
  // Room for any n codes: each store writes 8 bytes.
  static uint64_t decompressed_bound(uint64_t n) { return n * 8 + 8; }

 private:
  // Slot 255 and those of absent symbols keep length 0.
  std::array<uint64_t, 256> bytes_{};
  std::array<uint8_t, 256> lengths_{};
  uint32_t count_ = 0;
};

}  // namespace nimble
