// zstd_strings: strings in small blocks, each a zstd frame. The frames share a
// dictionary that is trained on the segment, so that they are about as small
// as large blocks would be, but a row decompresses only a few KiB.
//
// Head:  bytes of the dictionary varint
//        | if not 0: part: checksum u64 | a zstd frame of the dictionary
//        | bytes of all strings varint
//        | string blocks (string_blocks.h), each with one frame
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Trains a dictionary for a segment's frames. Returns an empty vector if there
// are too few strings.
std::vector<uint8_t> train_zstd(const Values& strings, Effort effort);

// Encodes strings with any dictionary, which may be empty. Fails with
// kUnsupported if a string is longer than kMaxZstdBlockBytes.
// REQUIRES: values.type.kind == kBytes.
Status encode_zstd_strings(const Values& values, ByteSpan dictionary,
                           Effort effort, SegmentBuilder* out);

// Estimated size with this dictionary, from a few of the blocks.
uint64_t estimate_zstd_strings(const Values& values, ByteSpan dictionary,
                               Effort effort);
// Estimated size with larger blocks and no dictionary, from four of them. Much
// cheaper than training. Says whether training may be worthwhile.
uint64_t probe_zstd_strings(const Values& values, Effort effort);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_strings(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
