// zstd_blocks: values of a fixed width in blocks, each a zstd frame. Reading a
// row decompresses a block, so this is used only if no other encoding saves
// space.
//
// block: checksum u64 | frame
// head:  values per block varint | part | starts of blocks 1 .. n-1
//
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Maximum decompressed size of a block of any zstd encoding.
inline constexpr uint64_t kMaxZstdBlockBytes = 16u << 20;
// A frame cannot expand more than this: a zstd block of 128 KiB takes at least
// four bytes.
inline constexpr uint64_t kMaxZstdRatio = 32768;

// REQUIRES: values have a fixed width, from 1 to kMaxZstdBlockBytes.
Status encode_zstd_blocks(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_blocks(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
