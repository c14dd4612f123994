// front_coded: each string is stored as the length of the prefix it shares with
// an earlier string, and the remaining suffix. For sorted strings, and others
// whose neighbours have common prefixes.
//
// Row i of a block of 2^k rows shares a prefix with row i & (i - 1) of the
// block. The first row does not share a prefix. So half of the rows share with
// their predecessor, and no row depends on more than k others: a lookup reads
// at most k + 1 strings.
//
// Head:  k u8 | child: shared lengths, u16, one per row | child: suffixes,
//        bytes
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Block size used by the encoder: 2^8 rows.
inline constexpr uint32_t kFrontCodedShift = 8;

// The row of the block that row i shares its prefix with.
// REQUIRES: i > 0.
inline uint32_t front_row(uint32_t i) { return i & (i - 1); }

// REQUIRES: values.type.kind == kBytes.
Status encode_front_coded(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);
// Number of bytes that front coding saves in this row.
uint64_t shared_front(const Values& values, uint32_t row);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_front_coded(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
