// Encodings added after the first version of the format. Files that use one set
// a required feature bit, so that earlier readers refuse them.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Ids continue after EncodingId. They are stored: never renumber or reuse an
// id.
enum class LaterEncodingId : uint8_t {
  kPresent = 18,           // values that are not null or empty + a bitmap
  kFrontCoded = 19,        // bytes: length shared with an earlier row + suffix
  kZstdTrained = 20,       // bytes: zstd frames with a common dictionary
  kScaled = 21,            // ints: base + multiples of a common divisor
  kDifferences = 22,       // ints: differences as a child
  kFloatBits = 23,         // floats as the integers of their bits
  kNumberedText = 24,      // bytes: text with its numbers as integers
  kPhrases = 25,           // bytes: phrase numbers, own table
  kSharedPhrases = 26,     // bytes: phrase numbers, shared table
  kSharedDictionary = 27,  // codes of the stream's shared dictionary
  kSplitInt = 28,          // ints: high bits and low bits apart
};

// Begins a head with this encoding.
inline void put_encoding_id(LaterEncodingId id, SegmentBuilder* out) {
  out->head.put_u8(static_cast<uint8_t>(id));
}

// Collects the facts of a segment's head. Fails if open_decoder() would fail.
Result<HeadFacts> facts_of(ByteSpan head, DecodeContext context);

}  // namespace nimble
