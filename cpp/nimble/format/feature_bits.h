// Required feature bits of the postscript; docs/format/versioning.md.
#pragma once

#include "nimble/format/constants.h"

namespace nimble {

// Some segments have encodings that the first version of the format has not.
inline constexpr uint64_t kFeatureLaterEncodings = 2;
// And some have phrases, which came after those.
inline constexpr uint64_t kFeaturePhrases = 4;
// And some have phrases that their column's segments share.
inline constexpr uint64_t kFeatureSharedPhrases = 8;
// And some have codes of a dictionary that their column's segments share.
inline constexpr uint64_t kFeatureSharedDictionary = 16;
// And some have parts in pieces, side by side with those of other parts.
inline constexpr uint64_t kFeaturePieces = 32;
// Files with any other bit are refused.
inline constexpr uint64_t kSupportedFeatures =
    kKnownRequiredFeatures | kFeatureLaterEncodings | kFeaturePhrases |
    kFeatureSharedPhrases | kFeatureSharedDictionary | kFeaturePieces;

// What a file has to say of a segment: of the highest id of its encodings, and
// of parts that are in pieces.
constexpr uint64_t features_of(uint8_t id, bool has_pieces) {
  return (id > 17 ? kFeatureLaterEncodings : 0) |
         (id > 24 ? kFeaturePhrases : 0) |
         (id > 25 ? kFeatureSharedPhrases : 0) |
         (id > 26 ? kFeatureSharedDictionary : 0) |
         (has_pieces ? kFeaturePieces : 0);
}

}  // namespace nimble
