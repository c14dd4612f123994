// dictionary: the distinct values, once, and a small code for every row.
//
// Head:  count of distinct values varint | child: codes | child: values
//        Codes are unsigned integers of 1, 2 or 4 bytes, the fewest that hold
//        count - 1. Dictionaries of up to 2 KiB are inline in the head.
//
// shared_dictionary: codes of a dictionary that the stream's segments share.
//
// Head:  count of its values that codes may name varint | child: codes
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/dictionaries/coded_values.h"
#include "nimble/encoding/dictionaries/distinct_values.h"

namespace nimble {

class StreamDictionary;  // shared_dictionary.h

// `distinct` of distinct.build(values). Codes in order of frequency may have
// exceptions, others are bit-packed.
Status encode_dictionary(const DistinctValues& distinct,
                         const EncodeContext& context, SegmentBuilder* out);
// Adds to the dictionary what it lacks.
Status encode_shared_dictionary(const DistinctValues& distinct,
                                StreamDictionary* dictionary,
                                const EncodeContext& context,
                                SegmentBuilder* out);
// Fixed widths and kBytes.
Result<std::unique_ptr<Decoder>> open_dictionary(ByteReader* head,
                                                 const DecodeContext& context);
Result<std::unique_ptr<Decoder>> open_shared_dictionary(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
