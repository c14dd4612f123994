// dictionary: the distinct values, once, and a small code for every row.
//
// Head:  count of distinct values varint | child: codes | child: values
//        Codes are unsigned integers of 1, 2 or 4 bytes, the fewest that hold
//        count - 1. Dictionaries of up to 2 KiB are inline in the head.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/ints/distinct_values.h"

namespace nimble {

// Wider fixed values are not put in dictionaries or runs.
inline constexpr uint32_t kMaxNestedWidth = 256;

// `distinct` of distinct.build(values). Codes in order of frequency may have
// exceptions, others are bit-packed.
Status encode_dictionary(const DistinctValues& distinct,
                         const EncodeContext& context, SegmentBuilder* out);
// Fixed widths and kBytes.
Result<std::unique_ptr<Decoder>> open_dictionary(ByteReader* head,
                                                 const DecodeContext& context);

}  // namespace nimble
