// phrases: strings as phrase numbers of up to 12 bits, in the blocks of
// string_blocks.h. A phrase has up to 16 bytes (phrase_table.h). A string
// decodes without its neighbours. The phrases are read once. They belong to the
// segment or are shared by the stream's segments.
//
// Head:  child: the phrases, bytes; absent if they are shared
//        | bits of a code u8 | bytes of all strings varint
//        | string blocks; their lengths count codes
//
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/phrase_table.h"
#include "nimble/encoding/symbols/shared_phrases.h"

namespace nimble {

// Trains the best phrases for these strings, on a sample.
std::vector<Phrase> train_phrases(const Values& strings);
// Trains the best phrases for these strings and for similar ones, which may
// contain other bytes. Returns them in ascending order.
std::vector<Phrase> train_shared_phrases(const Values& strings);

// Encodes strings with phrases of the segment's own.
// REQUIRES: values.type.kind == kBytes; `phrases` include all single bytes of
// the strings.
Status encode_phrases(const Values& values, const std::vector<Phrase>& phrases,
                      SegmentBuilder* out);
// Estimates from few strings, in a tenth of the time of training, whether the
// best phrases may take less than `limit` bytes.
bool phrases_may_reach(const Values& strings, double limit);

// Encodes strings with the stream's phrases.
// REQUIRES: phrases.have_bytes_of(values).
Status encode_shared_phrases(const Values& values, const StreamPhrases& phrases,
                             SegmentBuilder* out);

// An estimate for all strings, from a sample.
struct PhrasesEstimate {
  double share = 0;    // bytes of codes per byte of text
  uint64_t bytes = 0;  // codes and lengths
};
PhrasesEstimate estimate_codes(const Values& values,
                               const std::vector<Phrase>& phrases,
                               const PhraseMatcher& matcher);
// Estimated size that encode_phrases() writes, including its table.
uint64_t estimate_phrases(const Values& values,
                          const std::vector<Phrase>& phrases);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_phrases(ByteReader* head,
                                              const DecodeContext& context);
Result<std::unique_ptr<Decoder>> open_shared_phrases(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
