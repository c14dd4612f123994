// differences: the first value of every block, and what every other value adds
// to the one before it, as a child: where differences repeat (counters with
// jumps, times in bursts) it takes less than delta's packed ones.
//
// Head:  child: first values of the blocks, of the segment's type
//        | child: differences, signed ints of the type's width, one a row;
//          those of the blocks' first rows mean nothing
//
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

Status encode_differences(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_differences(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
