// SectionSink: receives the parts of an index while the index is built. It
// writes the bytes as one section of the file, at a multiple of 8, and returns
// the section's location.
#pragma once

#include <functional>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/section_ref.h"

namespace nimble {

using SectionSink = std::function<Result<SectionRef>(ByteSpan)>;

}  // namespace nimble
