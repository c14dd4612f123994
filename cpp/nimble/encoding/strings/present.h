// present: the non-empty strings of a segment, and which rows have one. If many
// rows are null or empty, each takes only its share of a bitmap, or of another
// encoding of booleans.
//
// Head:  number of non-empty strings, varint | child: booleans, one per row
//        | number of non-empty strings before blocks 1 .. B-1 (PackedOffsets)
//        | child: the strings
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// REQUIRES: values.type.kind == kBytes.
Status encode_present(const Values& values, const EncodeContext& context,
                      SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_present(ByteReader* head,
                                              const DecodeContext& context);

}  // namespace nimble
