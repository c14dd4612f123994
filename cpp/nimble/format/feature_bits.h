// Required feature bits of the postscript; docs/format/versioning.md.
#pragma once

#include "nimble/format/constants.h"

namespace nimble {

// Some segments have encodings that the first version of the format has not.
inline constexpr uint64_t kFeatureLaterEncodings = 2;
// Files with any other bit are refused.
inline constexpr uint64_t kSupportedFeatures =
    kKnownRequiredFeatures | kFeatureLaterEncodings;

}  // namespace nimble
