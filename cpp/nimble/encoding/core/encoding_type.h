// Ids of the encodings in files. They are stored: never renumber or reuse an
// id of a release. docs/format/encodings.md describes each encoding's head and
// body.
#pragma once

#include <cstdint>

namespace nimble {

enum class EncodingId : uint8_t {
  // Any values.
  kConstant = 1,          // all values equal
  kRunLength = 2,         // runs: ends + values
  kDictionary = 3,        // distinct values + codes
  kSharedDictionary = 4,  // codes of the stream's shared dictionary
  kPresent = 5,           // values that are not null or empty + a bitmap
  // Fixed widths.
  kPlain = 6,       // unencoded
  kSparse = 7,      // one common value + exceptions
  kZstdBlocks = 8,  // a zstd frame per block
  // Integers.
  kBitPacked = 9,     // per-block base + packed offsets
  kDelta = 10,        // per-block first value + packed differences
  kDifferences = 11,  // differences as a child
  kScaled = 12,       // base + multiples of a common divisor
  kSplitInt = 13,     // high bits and low bits apart
  kNarrow = 14,       // 16/32-byte decimals whose values fit in 8 bytes
  // Floats.
  kAlp = 15,         // scaled integers + exceptions
  kSplitFloat = 16,  // high bits and low bits apart
  kFloatBits = 17,   // the integers of their bits
  // Booleans.
  kBitmap = 18,      // one bit each
  kSparseBits = 19,  // positions of the rarer value
  // Byte strings.
  kPlainBytes = 20,     // unencoded, packed lengths
  kFsst = 21,           // through a 255-symbol table
  kPhrases = 22,        // phrase numbers, own table
  kSharedPhrases = 23,  // phrase numbers, the stream's table
  kFrontCoded = 24,     // length shared with an earlier row + suffix
  kTemplate = 25,       // fixed shape ("Clerk#000000951", UUIDs): digits
  kNumberedText = 26,   // text with its numbers as integers
  kZstdStrings = 27,    // zstd frames with a common dictionary
};

}  // namespace nimble
