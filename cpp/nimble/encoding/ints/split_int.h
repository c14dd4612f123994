// split_int: integers that are put together of others, as ids of a time, a
// machine and a counter are: the low bits take few values, or leave the highest
// of them unused. The bits above, and those, are stored apart.
//
// Head:  R u8 | child: the bits above, of the values' type | child: low R bits,
//        unsigned integers of the values' width
//        value = high << R | low
#pragma once

#include <string_view>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {

// The bits above the low ones, of a 64-bit pattern.
inline uint64_t bits_above(const ValueType& type, uint64_t value,
                           uint32_t low_bits_count) {
  return type.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >>
                                                low_bits_count)
                        : value >> low_bits_count;
}
// Integers of 4 and 8 bytes.
Status encode_split_int(const Values& values, uint32_t low_bits,
                        const EncodeContext& context, SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_split_int(ByteReader* head,
                                                const DecodeContext& context);
// What two children make of this kind: the bits above, of type `high`, as wide
// as the values or two bytes, and the low ones. `name` outlives the decoder.
Result<std::unique_ptr<Decoder>> open_split(std::string_view name,
                                            const ValueType& high,
                                            uint32_t low_bits_count,
                                            ByteReader* head,
                                            const DecodeContext& context);

}  // namespace nimble
