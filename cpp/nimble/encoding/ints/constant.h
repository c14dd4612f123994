// constant: all values are equal. No body.
//
// Head:  kBool: 1 byte, 0 or 1 | kBytes: varint length and bytes
//        else: `width` bytes of value
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Maximum size of a value that a head may store.
inline constexpr uint64_t kMaxConstantBytes = 4096;

// An empty stream is encoded as if its value was zero or empty.
// REQUIRES: is_constant(values).
Status encode_constant(const Values& values, SegmentBuilder* out);
// Whether all values are equal, and short enough for encode_constant().
bool is_constant(const Values& values);

// Writes n copies of the `width` bytes at `value` to `out`.
void fill_value(const uint8_t* value, uint32_t width, uint64_t n, uint8_t* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_constant(ByteReader* head,
                                               const DecodeContext& context);

}  // namespace nimble
