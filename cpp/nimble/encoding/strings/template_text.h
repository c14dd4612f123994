// template_text: strings of one shape ("Clerk#000000951", UUIDs, ISO dates,
// phone numbers) as the numbers that their digits form. The numbers are
// children of 8-byte unsigned ints, in the order of the strings: what shrinks
// ints (frame of reference, delta, constants) shrinks them.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/strings/template_pattern.h"

namespace nimble {

// Values of kind kBytes that all fit `pattern`, see detect_template(). Null
// slots come back as the string before them (at the front: behind them). Says
// whether numbers went to a dictionary.
Result<bool> encode_template(const Values& values,
                             const TemplatePattern& pattern,
                             const EncodeContext& context, SegmentBuilder* out);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_template(ByteReader* head,
                                               const DecodeContext& context);

}  // namespace nimble
