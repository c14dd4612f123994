// split_int: integers that combine several fields, such as ids with a time, a
// machine and a counter. The low bits have few values or a small range. The
// high bits and the low bits are stored separately.
//
// Head:  R u8 | child: high bits, of the values' type | child: low R bits,
//        unsigned integers of the values' width
//        value = high << R | low
#pragma once

#include <string_view>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {

// The bits above the low `low_bits_count` bits of a 64-bit pattern.
inline uint64_t bits_above(const ValueType& type, uint64_t value,
                           uint32_t low_bits_count) {
  return type.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >>
                                                low_bits_count)
                        : value >> low_bits_count;
}
// REQUIRES: integers of 4 or 8 bytes.
Status encode_split_int(const Values& values, uint32_t low_bits,
                        const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_split_int(ByteReader* head,
                                                const DecodeContext& context);
// Opens a decoder that joins two children: high bits of type `high`, which is
// as wide as the values or two bytes wide, and low bits.
// REQUIRES: `name` outlives the decoder.
Result<std::unique_ptr<Decoder>> open_split(std::string_view name,
                                            const ValueType& high,
                                            uint32_t low_bits_count,
                                            ByteReader* head,
                                            const DecodeContext& context);

}  // namespace nimble
