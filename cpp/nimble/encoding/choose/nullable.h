// Encodes values with nulls. The nulls need not take any space.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends them to `out`, leaving out null rows if that is
// worthwhile. `validity` is a bitmap from bit 0 with room for whole words. Null
// rows (bit not set) may decode to any value. If the encoded values imply which
// rows are null, `*validity_head` receives the head of a stream of booleans in
// the same body that serves as the validity stream. Otherwise `*validity_head`
// stays empty.
Status encode_nullable(const Values& values, const uint8_t* validity,
                       const EncodeContext& context, SegmentBuilder* out,
                       ByteBuffer* validity_head);

}  // namespace nimble
