// zstd_blocks: values in blocks that are separate zstd frames. Used if no other
// encoding saves space, because a row decompresses a block.
//
// block: checksum u64 | lengths of strings, W bits per row, packed | frame
// head:  [strings: W u8 | length of every string varint, if W = 0
//          | bytes of all strings varint]
//        | number of blocks varint | first rows of blocks 1 .. n-1
//        | part | starts of blocks 1 .. n-1
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Maximum decompressed size of a block.
inline constexpr uint64_t kMaxZstdBlockBytes = 16u << 20;

// Encodes strings or fixed-width values (not kBool). Fails with kUnsupported if
// a value is longer than kMaxZstdBlockBytes.
Status encode_zstd_blocks(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_blocks(ByteReader* head,
                                                  const DecodeContext& context);

// Compresses a sample, to estimate how much zstd shrinks the strings.
struct ZstdSizes {
  uint64_t compressed = 0;
  uint64_t raw = 0;
};
ZstdSizes measure_zstd(const Values& strings, const EncodeContext& context);

}  // namespace nimble
