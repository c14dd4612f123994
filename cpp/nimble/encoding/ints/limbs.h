// limbs: 16 or 32-byte values cut into their 8-byte words, least significant
// first, each word a column of its own.
//
// Head:  a child of 8-byte integers for every word: unsigned, but the last one
//        signed where the values are
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

bool can_be_limbs(const ValueType& type);
Status encode_limbs(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_limbs(ByteReader* head,
                                            const DecodeContext& context);

}  // namespace nimble
