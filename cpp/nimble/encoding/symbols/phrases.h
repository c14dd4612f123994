// phrases: strings as numbers of up to 12 bits, each of which stands for a
// phrase of up to 16 bytes (phrase_table.h), in the blocks of string_blocks.h.
// A string is decoded without its neighbours; the phrases are read once: a
// segment's own, or those that the stream's segments share.
//
// Head:  child: the phrases, bytes; nothing where they are shared |
//        bits of a code u8 | bytes of all strings varint |
//        string blocks; their lengths count codes
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/phrase_table.h"
#include "nimble/encoding/symbols/shared_phrases.h"

namespace nimble {

// The best phrases for these strings, by a sample of them.
std::vector<Phrase> train_phrases(const Values& strings);
// The best for these and for others like them, which may have other bytes.
// They ascend.
std::vector<Phrase> train_shared_phrases(const Values& strings);

// Values of kind kBytes. Any phrases do, of which single bytes are all that the
// strings have.
Status encode_phrases(const Values& values, const std::vector<Phrase>& phrases,
                      SegmentBuilder* out);
// From few of the strings, in a tenth of the time: may their best phrases take
// less than `limit` bytes?
bool phrases_may_reach(const Values& strings, double limit);

// With the phrases of the stream, which have the bytes of the strings.
Status encode_shared_phrases(const Values& values, const StreamPhrases& phrases,
                             SegmentBuilder* out);

// What codes of some of the strings say of them all.
struct PhrasesEstimate {
  double share = 0;    // bytes of codes for a byte of text
  uint64_t bytes = 0;  // of codes and lengths
};
PhrasesEstimate estimate_codes(const Values& values,
                               const std::vector<Phrase>& phrases,
                               const PhraseMatcher& matcher);
// Bytes that encode_phrases() gives, its table included.
uint64_t estimate_phrases(const Values& values,
                          const std::vector<Phrase>& phrases);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_phrases(ByteReader* head,
                                              const DecodeContext& context);
Result<std::unique_ptr<Decoder>> open_shared_phrases(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
