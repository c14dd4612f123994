// phrases: strings as numbers of up to 12 bits, each of which stands for a
// phrase of up to 16 bytes (phrase_table.h), in the blocks of string_blocks.h.
// A string is decoded without its neighbours; the phrases are read once a
// segment.
//
// Head:  child: the phrases, bytes | bits of a code u8 | bytes of all strings
//        varint | string blocks; their lengths count codes
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/strings/phrase_table.h"

namespace nimble {

// The best phrases for these strings, by a sample of them.
std::vector<Phrase> train_phrases(const Values& strings);

// Values of kind kBytes. Any phrases do, of which single bytes are all that the
// strings have.
Status encode_phrases(const Values& values, const std::vector<Phrase>& phrases,
                      SegmentBuilder* out);
// Bytes that this takes, from some of the strings.
uint64_t estimate_phrases(const Values& values,
                          const std::vector<Phrase>& phrases);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_phrases(ByteReader* head,
                                              const DecodeContext& context);

}  // namespace nimble
