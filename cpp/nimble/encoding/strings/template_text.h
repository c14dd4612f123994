// template_text: strings of one pattern ("Clerk#000000951", UUIDs, ISO dates,
// phone numbers), stored as the numbers that their digits form. The numbers are
// children with 8-byte unsigned integers, so all encodings of integers apply to
// them.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/strings/template_pattern.h"

namespace nimble {

// Returns whether the numbers use a dictionary. Null slots decode to the
// previous string, or to the first string of the segment.
// REQUIRES: values.type.kind == kBytes; all match `pattern`, see
// detect_template().
Result<bool> encode_template(const Values& values,
                             const TemplatePattern& pattern,
                             const EncodeContext& context, SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_template(ByteReader* head,
                                               const DecodeContext& context);

}  // namespace nimble
