// Sizes and magic numbers of the file, each once. docs/format/file.md.
#pragma once

#include <cstdint>

namespace nimble {

// First and last eight bytes of a file.
inline constexpr char kMagic[8] = {'N', 'I', 'M', 'B', 'L', 'P', 'Y', '1'};
inline constexpr uint64_t kPostscriptSize = 64;
inline constexpr uint16_t kMajorVersion = 1;
inline constexpr uint16_t kMinorVersion = 0;
// Bits of the postscript that a reader must know or refuse the file.
// Some key chunks hold every n-th key; docs/format/key_chunks.md.
inline constexpr uint64_t kFeatureSampledKeys = 1;
inline constexpr uint64_t kKnownRequiredFeatures = kFeatureSampledKeys;
// Segment bodies begin at multiples of this, so that plain values can be
// handed out of a mapping as aligned arrays.
inline constexpr uint64_t kBodyAlignment = 64;
// open() reads this much of the tail; larger footers cost a second read.
inline constexpr uint64_t kTailReadSize = 64 * 1024;
// A stripe's rows and a group's rows stay below this, so that positions
// inside them fit in 32 bits.
inline constexpr uint64_t kMaxStripeRows = uint64_t{1} << 31;
// Of phrases that a column's segments share: 4,096 of 16 bytes.
inline constexpr uint64_t kMaxPhrasesSection = 2 + 4096 * 17;
// And of the values of a dictionary that they share.
inline constexpr uint32_t kMaxSharedValues = 131072;

// Name of the optional section of column Bloom filters.
inline constexpr char kColumnBloomSection[] = "nimble.column_bloom";

}  // namespace nimble
