// front_coded: strings as what they share with the front of an earlier string,
// and the rest: for sorted strings, and others whose neighbours begin alike.
//
// Row i of a block of 2^k rows shares with row i & (i - 1) of the block, its
// first row with nothing. Half of the rows so share with the row before them,
// and no row needs more than k others: a lookup takes at most k + 1 strings.
//
// Head:  k u8 | child: bytes shared, u16, one a row | child: the rests, bytes
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Of a block of front-coded strings.
inline constexpr uint32_t kFrontCodedShift = 8;

// Row of the block whose front row i > 0 of the block shares.
inline uint32_t front_row(uint32_t i) { return i & (i - 1); }

// Values of kind kBytes.
Status encode_front_coded(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);
// Bytes that front coding leaves out of this row.
uint64_t shared_front(const Values& values, uint32_t row);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_front_coded(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
