// dictionary: the distinct values, stored once, and a small code for every row.
//
// Head:  number of distinct values, varint | child: codes | child: values
//        Codes are unsigned integers of 1, 2 or 4 bytes, the smallest that fits
//        count - 1. Dictionaries of up to 2 KiB are inline in the head.
//
// shared_dictionary: codes of a dictionary that all segments of the stream
// share.
//
// Head:  codes are below this number, varint | child: codes
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/dictionaries/coded_values.h"
#include "nimble/encoding/dictionaries/distinct_values.h"

namespace nimble {

class StreamDictionary;  // shared_dictionary.h

// Encodes values as codes of a dictionary of their own. If the codes are
// ordered by frequency, large codes may become exceptions. Other codes are
// bit-packed.
// REQUIRES: distinct.build(values) succeeded.
Status encode_dictionary(const DistinctValues& distinct,
                         const EncodeContext& context, SegmentBuilder* out);
// Encodes values as codes of the shared dictionary. Appends missing values to
// it.
Status encode_shared_dictionary(const DistinctValues& distinct,
                                StreamDictionary* dictionary,
                                const EncodeContext& context,
                                SegmentBuilder* out);
// REQUIRES: the type is kBytes or has a fixed width.
Result<std::unique_ptr<Decoder>> open_dictionary(ByteReader* head,
                                                 const DecodeContext& context);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_shared_dictionary(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
