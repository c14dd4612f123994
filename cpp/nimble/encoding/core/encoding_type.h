// Ids of the encodings in files. They are stored: never renumber or reuse an
// id. docs/format/encodings.md describes each encoding's head and body.
#pragma once

#include <cstdint>

namespace nimble {

enum class EncodingId : uint8_t {
  kConstant = 1,     // all values equal
  kPlain = 2,        // fixed-width values, unencoded
  kBitPacked = 3,    // ints: per-block base + packed offsets
  kDelta = 4,        // ints: per-block first value + packed differences
  kRunLength = 5,    // runs: ends + values
  kDictionary = 6,   // distinct values + codes
  kSparse = 7,       // one common value + exceptions
  kAlp = 8,          // floats as scaled integers + exceptions
  kSplitFloat = 9,   // real doubles: high and low bits apart
  kNarrow = 10,      // 16/32-byte decimals whose values fit in 8 bytes
  kLimbs = 11,       // 16/32-byte values as 8-byte columns
  kBitmap = 12,      // booleans, one bit each
  kSparseBits = 13,  // booleans: positions of the rarer value
  kPlainBytes = 14,  // strings unencoded, packed lengths
  kFsst = 15,        // strings through a 255-symbol table
  kTemplate = 16,    // fixed-shape strings ("Clerk#000000951", UUIDs): digits
  kZstdBlocks = 17,  // any fixed-width or bytes: zstd frame a block
};

}  // namespace nimble
