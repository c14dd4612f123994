// Chooses an encoding for byte strings from a sample and from the estimated
// sizes of the candidates. Deterministic. The result is never larger than plain
// bytes, apart from a few bytes of head.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends them to `out`.
// REQUIRES: values.type.kind == kBytes.
Status encode_bytes(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out);

}  // namespace nimble
