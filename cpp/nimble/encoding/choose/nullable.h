// Values of which some are null, which then need not take any space.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// encode_values() of the rows that are not null where that is worth it.
// `validity` is a bitmap from bit 0 with room for whole words; rows whose bit
// is not set may come back as anything. Where the values now tell which rows
// are null, `validity_head` is the head of a stream of booleans that says so,
// of the same body; else it stays empty.
Status encode_nullable(const Values& values, const uint8_t* validity,
                       const EncodeContext& context, SegmentBuilder* out,
                       ByteBuffer* validity_head);

}  // namespace nimble
