// zstd_blocks: values in blocks, each a zstd frame of its own: for what
// nothing else shrinks, where a row may cost the decompression of one block.
//
//   block: checksum u64 | lengths of strings, W bits a row, packed | frame
//   head:  [strings: W u8 | length of every string varint, where W = 0
//           | bytes of all strings varint]
//          | number of blocks varint | first rows of blocks 1 .. n-1
//          | part | starts of blocks 1 .. n-1
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// What one block's frame may decompress to, at most.
inline constexpr uint64_t kMaxZstdBlockBytes = 16u << 20;

// Strings, or values of a fixed width (not kBool). Fails with kUnsupported
// where one value is longer than kMaxZstdBlockBytes.
Status encode_zstd_blocks(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_blocks(ByteReader* head,
                                                  const DecodeContext& context);

// Is zstd likely to shrink these strings? Bytes after and before, of a sample.
struct ZstdSizes {
  uint64_t compressed = 0;
  uint64_t raw = 0;
};
ZstdSizes measure_zstd(const Values& strings, const EncodeContext& context);

}  // namespace nimble
