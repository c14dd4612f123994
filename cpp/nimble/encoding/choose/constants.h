// The constants of the choice of encodings: everything that was measured or
// decided, in one place. A "share" limits the size of an encoding relative to
// the best other one. If an encoding makes rows or scans slower, its share is
// below 1: it must save that much.
// docs/internals/what-encodings-bring.md says what each encoding saves.
#pragma once

#include <cstdint>
#include <limits>

namespace nimble {

// The estimated size of an encoding that does not apply.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// ------------------------------------------------------------- all values

// Values nested deeper than this are bit-packed, plain or constant.
inline constexpr int kMaxSelectionDepth = 4;
// With fewer values than this, only cheap encodings are considered.
inline constexpr uint32_t kMinSelectionValues = 64;
// Limits the stored size of a segment's dictionary, because a cold lookup reads
// all of it. Compact files have the larger limit.
inline constexpr uint64_t kMaxBalancedDictionaryBytes = 256u << 10;
inline constexpr uint64_t kMaxDictionaryBytes = 1u << 20;

// --------------------------------------- repetition, of all fixed widths

// Dictionaries and runs give a random row a second access: they must take at
// most this share.
inline constexpr double kRepetitionShare = 0.9;
// A large dictionary makes a cold lookup read more than a block of values, and
// takes memory when it is decoded. With its codes it must halve the size.
inline constexpr double kLargeDictionaryBytes = 32768;
inline constexpr double kLargeDictionaryShare = 0.5;
// A shared dictionary exists once per file, so it may save less.
inline constexpr double kLargeSharedShare = 0.7;
// Booleans: run length is not considered if runs have fewer rows than this on
// average.
inline constexpr uint32_t kMinBoolRunRows = 48;
// Sparse: the largest share of rows that differ from the common value.
inline constexpr double kMaxSparseExceptions = 0.1;
// Present: the largest share of rows that may differ from the most frequent
// value; the bits per row of the bitmap, with its checksums and counts; and the
// largest share of the safe scheme's size. A lookup counts bits, so present
// must save a lot.
inline constexpr double kMaxPresentOthers = 0.7;
inline constexpr double kPresenceBits = 1.08;
inline constexpr double kPresentShare = 0.7;
// Number of bits of the end of a run, which is a position in a segment.
inline constexpr double kRunEndBits = 17;

// Compact files compress codes by frequency. This is the expected share of the
// codes' size afterwards.
inline constexpr double kLikelyEntropy = 0.8;

// ------------------------------------------------- shared dictionaries

// Limits the stored size of a shared dictionary, which a cold lookup reads
// whole.
inline constexpr double kMaxBalancedSharedBytes = 2u << 20;
inline constexpr double kMaxCompactSharedBytes = 4u << 20;
// A file is assumed to have this many stripes.
inline constexpr uint32_t kLikelyStripes = 4;
// Maximum growth accepted for starting a shared dictionary that only one stripe
// uses.
inline constexpr double kMaxGrowth = 1.1;

// ---------------------------------------------------------- integers

// Plain values can be returned without a copy, so packing must take at most
// this share of plain.
inline constexpr double kPlainShare = 0.97;
// A random row of delta decodes a block. Delta must halve the size, unless the
// user asked for the smallest.
inline constexpr double kDeltaShare = 0.5;
inline constexpr double kCompactDeltaShare = 0.95;
// Differences stored as a child take several times as long to decode as packed
// differences. They must take at most an eighth of the packed size, or half if
// the user asked for the smallest. If packed differences do not qualify,
// kDeltaShare or kCompactDeltaShare applies instead.
inline constexpr double kDifferencesShare = 0.125;
inline constexpr double kCompactDifferencesShare = 0.5;
// Integers in two parts take twice as long to decode, and few columns have
// them.
inline constexpr double kSplitIntShare = 0.8;
inline constexpr uint32_t kMinSplitBits = 16;
// A row of a patched block searches the block's exceptions.
inline constexpr double kPatchShare = 0.9;

// Every possible split is tried on the sampled values. Every fourth of them is
// enough.
inline constexpr uint32_t kSplitSampleStep = 4;
inline constexpr uint32_t kMinSplitLowBits = 4;
// If more of the sampled low bits than this are distinct, a dictionary is not
// considered.
inline constexpr double kMaxSplitDistinctShare = 0.75;

// ------------------------------------------------------------- floats

// Plain values can be returned without a copy. ALP decodes fast and saves a
// lot. Splitting decodes more slowly and saves little.
inline constexpr double kAlpShare = 0.95;
inline constexpr double kSplitFloatShare = 0.9;
// If all values end in at least this many zero bits, leaving those bits out is
// worthwhile.
inline constexpr uint32_t kMinZeroBits = 8;

// --------------------------------------------------- zstd of fixed widths

// Balanced files take zstd only if everything else exceeds the first share of
// plain, and zstd stays below the second.
inline constexpr double kHopelessShare = 0.9;
inline constexpr double kZstdShare = 0.7;
// Compact files take zstd if it is at most this share of the best other
// encoding.
inline constexpr double kCompactZstdShare = 0.9;
inline constexpr uint32_t kZstdProbeValues = 8192;
inline constexpr double kMinZstdBytes = 4096;

// ------------------------------------------------------------ strings

inline constexpr uint64_t kMinFsstBytes = 4096;
inline constexpr double kFsstShare = 0.95;
// Measured on TPC-H's comments, compared with 24 KiB: 16 KiB costs 3 % in size,
// 32 KiB gains 1 %. Small segments use a smaller sample, so that training does
// not cost more than compressing.
inline constexpr uint64_t kFsstSampleBytes = 24576;
inline constexpr uint64_t kMinFsstSampleBytes = 8192;
inline constexpr uint64_t kFsstSampleShare = 128;
// If a head exceeds the head of plain bytes by more than this, its size is
// counted.
inline constexpr uint64_t kMaxHeadBytes = 64;
// Limits the distinct strings of a segment's own dictionary, which a scan keeps
// decoded.
inline constexpr uint64_t kMaxOwnDictionaryBytes = 4u << 20;
// Limits a dictionary's stored size, because a cold lookup reads all of it.
// Compact files have no such limit.
inline constexpr uint64_t kMaxStoredDictionaryBytes = 256u << 10;
// Below this size, a dictionary's size is estimated without sampling how well
// its strings compress.
inline constexpr uint64_t kSmallDictionaryBytes = 16u << 10;
inline constexpr uint32_t kSampleWindows = 16;
inline constexpr uint32_t kSampleWindowRows = 64;
inline constexpr uint32_t kKnownSampleRows = 256;  // sampled rows
inline constexpr uint32_t kMinSharedRepeats = 3;
inline constexpr uint32_t kMinRepeats = 8;  // counted among the sampled rows
inline constexpr uint32_t kMinRunRows = 4;  // on average
inline constexpr uint32_t kMinPresentRows = 256;
// A dictionary, then a template or FSST, then integers.
inline constexpr int kMaxNestingDepth = 3;

// Leaving out empty rows makes a lookup read a boolean as well. The booleans
// may cost at most this share of the bytes saved.
inline constexpr double kPresentStringsShare = 0.6;
// Phrases, with half of the shared table if it is new, must take at most this
// share of FSST's size. In balanced files, phrases of a segment's own must save
// more than shared ones, because a cold lookup needs one more read for their
// table. Trained zstd has the same extra read and costs ten times as much per
// row, so phrases may be a little larger than zstd.
inline constexpr double kPhrasesShare = 0.9;
inline constexpr double kOwnPhrasesShare = 0.85;
inline constexpr double kPhrasesForZstdShare = 1.1;
// If the stream's phrases compress these values almost as well as the segment
// they were trained on, they are chosen and nothing else is considered.
inline constexpr double kKnownPhrasesShare = 1.1;
// With less text than this, phrases save too little to be worth training. The
// limits are for a stream's phrases in balanced files, for a stream's phrases
// in compact files, and for a segment's own phrases.
inline constexpr uint64_t kMinPhrasesBytes = 256u << 10;
inline constexpr uint64_t kMinCompactPhrasesBytes = 16u << 10;
inline constexpr uint64_t kMinOwnPhrasesBytes = 64u << 10;
// Front coding makes a lookup decode several strings. It must take at most this
// share of the size of the best text encoding.
inline constexpr double kFrontShare = 0.85;
// This many blocks are sampled to see how much neighbours share.
inline constexpr uint32_t kFrontSampleBlocks = 16;
inline constexpr double kMinSharedFront = 0.15;
// In balanced files, a template must take at most this share of the best other
// size. The first share applies if the best other encoding is a dictionary in
// the metadata.
inline constexpr double kTemplateForInlineShare = 0.9;
inline constexpr double kTemplateShare = 1.125;
// Numbered text is for compact files only, because a scan assembles its strings
// three to seven times slower than FSST. It must take at most this share of the
// best other size.
inline constexpr double kNumberedShare = 0.95;
inline constexpr uint32_t kMinNumberedRows = 256;
// Zstd decompresses a block for every row. It must take at most this share of
// the best other size, in balanced files and in compact files.
inline constexpr double kZstdStringsShare = 0.8;
inline constexpr double kCompactZstdStringsShare = 0.95;
// Training is expensive. A dictionary is only trained if untrained zstd on a
// few blocks comes this near the limit.
inline constexpr double kZstdProbeShare = 1.2;
inline constexpr double kTrainedShare = 1.05;
// A zstd lookup takes some microseconds more than an FSST lookup. Balanced
// files accept that if zstd saves this many bytes per row.
inline constexpr double kZstdBytesOfRow = 6;

}  // namespace nimble
