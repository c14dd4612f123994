// present, of fixed-width values: one value that many rows have, or none worth
// keeping (nulls); which rows have another; and those, one after the other.
//
// Head:  number of other values varint | the common value, `width` bytes
//        | child: booleans, true where a row has another value
//        | how many such rows there are before blocks 1 .. B-1 (PackedOffsets)
//        | child: the other values
//
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Fixed widths up to Patches::kMaxWidth.
bool can_be_present(const ValueType& type);
// `other` is a bitmap of the rows that have another value, room for whole
// words; the rest has `common`, values.type.width bytes. The head of a
// stream of exactly these booleans, of the same body, goes to `other_head` if
// that is not null.
Status encode_present_values(const Values& values, const uint8_t* common,
                             const uint8_t* other, const EncodeContext& context,
                             SegmentBuilder* out, ByteBuffer* other_head);
Result<std::unique_ptr<Decoder>> open_present_values(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
