// present: the strings of a segment that are not empty, and which rows have
// one. Nulls and empty strings are common where they are many, and take no
// more than their part of a bitmap (or of what else booleans are stored as).
//
// Head:  number of strings that are not empty varint | child: booleans, one a
//        row | how many such strings there are before blocks 1 .. B-1
//        (PackedOffsets) | child: the strings
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Values of kind kBytes.
Status encode_present(const Values& values, const EncodeContext& context,
                      SegmentBuilder* out);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_present(ByteReader* head,
                                              const DecodeContext& context);

}  // namespace nimble
