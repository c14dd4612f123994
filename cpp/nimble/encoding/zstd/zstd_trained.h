// zstd_trained: strings in small blocks, each a zstd frame that begins where a
// dictionary, trained on all of them, ends: the size of large blocks, and a row
// costs the decompression of a few KiB.
//
// Head:  child: the dictionary, 1 value of bytes | bytes of all strings varint
//        | string blocks (string_blocks.h); each holds a frame
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// What a segment's frames share. Empty where the strings are too few.
std::vector<uint8_t> train_zstd(const Values& strings, Effort effort);

// Values of kind kBytes, none longer than kMaxZstdBlockBytes; any dictionary.
Status encode_zstd_trained(const Values& values, ByteSpan dictionary,
                           Effort effort, SegmentBuilder* out);
// Bytes that this takes, from a few of the blocks.
uint64_t estimate_zstd_trained(const Values& values, ByteSpan dictionary,
                               Effort effort);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_zstd_trained(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
