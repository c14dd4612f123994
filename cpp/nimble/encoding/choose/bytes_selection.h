// Chooses the encoding of byte strings, by sampling and by the sizes that the
// candidates would have. Deterministic; never larger than plain bytes.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Values of kind kBytes.
Status encode_bytes(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);

}  // namespace nimble
