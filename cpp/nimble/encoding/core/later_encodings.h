// Encodings that the first version of the format has not. Files that use one
// say so by a required feature bit, so that earlier readers refuse them.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Go on where EncodingId ends. Persisted: never renumber, never reuse.
enum class LaterEncodingId : uint8_t {
  kPresent = 18,       // where values are that are not null or empty, and those
  kFrontCoded = 19,    // bytes: what is shared with a row before, and the rest
  kZstdTrained = 20,   // bytes: zstd frames that share a dictionary
  kScaled = 21,        // ints: a base and multiples of a common divisor
  kDifferences = 22,   // ints: differences as a child
  kFloatBits = 23,     // floats as the integers that their bits are
  kNumberedText = 24,  // bytes: text, and the numbers in it as integers
  kPhrases = 25,       // bytes: numbers of phrases
  kSharedPhrases = 26,     // bytes: numbers of phrases of the stream
  kSharedDictionary = 27,  // codes of a dictionary of the stream
  kSplitInt = 28,          // ints: the high bits and the low ones
};

// Begins the head of one.
inline void put_encoding_id(LaterEncodingId id, SegmentBuilder* out) {
  out->head.put_u8(static_cast<uint8_t>(id));
}

// What the head of a segment says of itself. Reads it as open_decoder() does.
Result<HeadFacts> facts_of(ByteSpan head, DecodeContext context);

}  // namespace nimble
