// Required feature bits of the postscript; docs/format/versioning.md.
#pragma once

#include "nimble/format/constants.h"

namespace nimble {

// Some segments have encodings added after the first version of the format.
inline constexpr uint64_t kFeatureLaterEncodings = 2;
// Some segments have phrases, which were added later than those.
inline constexpr uint64_t kFeaturePhrases = 4;
// Some segments have phrases that their column's segments share.
inline constexpr uint64_t kFeatureSharedPhrases = 8;
// Some segments have codes of a dictionary that their column's segments share.
inline constexpr uint64_t kFeatureSharedDictionary = 16;
// Some segments have parts in pieces, interleaved with pieces of other parts.
inline constexpr uint64_t kFeaturePieces = 32;
// Files with any other bit are refused.
inline constexpr uint64_t kSupportedFeatures =
    kKnownRequiredFeatures | kFeatureLaterEncodings | kFeaturePhrases |
    kFeatureSharedPhrases | kFeatureSharedDictionary | kFeaturePieces;

// The feature bits that a segment requires. `id` is the highest id of its
// encodings. `has_pieces`: some part is in pieces.
constexpr uint64_t features_of(uint8_t id, bool has_pieces) {
  return (id > 17 ? kFeatureLaterEncodings : 0) |
         (id > 24 ? kFeaturePhrases : 0) |
         (id > 25 ? kFeatureSharedPhrases : 0) |
         (id > 26 ? kFeatureSharedDictionary : 0) |
         (has_pieces ? kFeaturePieces : 0);
}

}  // namespace nimble
