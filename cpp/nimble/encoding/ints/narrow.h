// narrow: 16 or 32-byte two's complement values that all fit in 8 bytes, stored
// as 8-byte integers. Most decimals do, such as prices and quantities.
//
// Head:  child of signed 8-byte integers, one per value
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// The low 8 bytes of every value, or an empty vector if a value needs more.
std::vector<uint64_t> narrowed(const Values& values);
// REQUIRES: `low` is narrowed(values), and not empty.
Status encode_narrow(const Values& values, const std::vector<uint64_t>& low,
                     const EncodeContext& context, SegmentBuilder* out);
bool can_be_narrow(const ValueType& type);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_narrow(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
