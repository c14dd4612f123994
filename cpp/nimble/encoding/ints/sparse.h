// sparse: one value that most rows have, and the rows with other values.
//
// Head:  the common value, `width` bytes | Patches
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values`.
// REQUIRES: can_be_sparse(values.type); `common` has values.type.width bytes.
Status encode_sparse(const Values& values, const uint8_t* common,
                     const EncodeContext& context, SegmentBuilder* out);
bool can_be_sparse(const ValueType& type);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_sparse(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
