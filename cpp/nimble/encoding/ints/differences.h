// differences: the first value of every block, and the differences between
// consecutive values, as a child. If differences repeat (counters with jumps,
// times in bursts), this is smaller than delta, which packs them.
//
// Head:  child: first values of the blocks, of the segment's type
//        | child: differences, signed ints of the type's width, one per row;
//        those of the blocks' first rows are unused
//
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends head and body to `out`.
Status encode_differences(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_differences(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
