// limbs: 16 or 32-byte values split into 8-byte words, least significant first.
// Each word is a column of its own.
//
// Head:  one child of 8-byte integers per word, unsigned, except that the last
//        word of signed values is signed
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

bool can_be_limbs(const ValueType& type);
// Encodes `values` and appends head and body to `out`.
Status encode_limbs(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_limbs(ByteReader* head,
                                            const DecodeContext& context);

}  // namespace nimble
