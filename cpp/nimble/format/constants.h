// Sizes and magic numbers of the file format. docs/format/file.md.
#pragma once

#include <cstdint>

namespace nimble {

// The first and the last eight bytes of a file.
inline constexpr char kMagic[8] = {'N', 'I', 'M', 'B', 'L', 'E', 'P', 'Y'};
// The magic of files that pre-releases wrote. Readers refuse these files.
inline constexpr char kPrereleaseMagic[8] = {'N', 'I', 'M', 'B',
                                             'L', 'P', 'Y', '1'};
inline constexpr uint64_t kPostscriptSize = 64;
inline constexpr uint16_t kMajorVersion = 1;
inline constexpr uint16_t kMinorVersion = 0;
// Required feature bits of the postscript, docs/format/versioning.md. A reader
// refuses a file that has bits it does not know.
// This bit: key chunks may store only every n-th key;
// docs/format/key_chunks.md.
inline constexpr uint64_t kFeatureSampledKeys = 1;
inline constexpr uint64_t kSupportedFeatures = kFeatureSampledKeys;
// Segment bodies begin at multiples of this number, so that plain values of a
// mapped file can be returned as aligned arrays.
inline constexpr uint64_t kBodyAlignment = 64;
// open() reads this many bytes at the end of the file. A larger footer needs a
// second read.
inline constexpr uint64_t kTailReadSize = 64 * 1024;
// Stripes and groups have fewer rows than this, so that positions in them fit
// in 32 bits.
inline constexpr uint64_t kMaxStripeRows = uint64_t{1} << 31;
// Maximum size of a column's shared phrases: 4,096 phrases of 16 bytes.
inline constexpr uint64_t kMaxPhrasesSection = 2 + 4096 * 17;
// Maximum number of values of a shared dictionary.
inline constexpr uint32_t kMaxSharedValues = 131072;

// Name of the optional section with column Bloom filters.
inline constexpr char kColumnBloomSection[] = "nimble.column_bloom";

}  // namespace nimble
