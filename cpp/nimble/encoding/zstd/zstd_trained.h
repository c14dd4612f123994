// zstd_trained: strings in small blocks, each a zstd frame that uses a
// dictionary trained on all of them. This is about as small as large blocks
// are, but a row decompresses only a few KiB.
//
// Head:  child: the dictionary, 1 value of bytes | bytes of all strings varint
//        | string blocks (string_blocks.h), each with one frame
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Trains a dictionary for a segment's frames. Returns an empty vector if there
// are too few strings.
std::vector<uint8_t> train_zstd(const Values& strings, Effort effort);

// Encodes strings with any dictionary. Fails with kUnsupported if a string is
// longer than kMaxZstdBlockBytes.
// REQUIRES: values.type.kind == kBytes.
Status encode_zstd_trained(const Values& values, ByteSpan dictionary,
                           Effort effort, SegmentBuilder* out);
// Estimated size, from a few of the blocks.
uint64_t estimate_zstd_trained(const Values& values, ByteSpan dictionary,
                               Effort effort);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_trained(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
