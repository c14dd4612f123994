// present, for fixed-width values. Stores one common value, a boolean for each
// row that says whether it has another value, and the other values. If the
// other rows are null, the common value is a placeholder.
//
// Head:  number of other values varint | the common value, `width` bytes
//        | child: booleans, true if a row has another value
//        | number of rows with another value before blocks 1 .. B-1
//        (PackedOffsets)
//        | child: the other values
//
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Whether the type has a fixed width of up to Patches::kMaxWidth.
bool can_be_present(const ValueType& type);
// Encodes `values`. `other` is a bitmap of the rows with another value, with
// room for whole words. The other rows have `common`, values.type.width bytes.
// If `other_head` is not null, it receives the head of a boolean stream equal
// to `other`, in the same body.
Status encode_present_values(const Values& values, const uint8_t* common,
                             const uint8_t* other, const EncodeContext& context,
                             SegmentBuilder* out, ByteBuffer* other_head);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_present_values(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
