// Decimals as text.
#pragma once

#include <string>

#include "nimble/base/bytes.h"

namespace nimble {

// The scale in an Arrow format "d:precision,scale[,bits]"; 0 without one.
int decimal_scale(const std::string& format);
// Formats little-endian two's complement as decimal digits, with as many digits
// after the point as `scale`. With a negative scale, the text ends with zeros.
// Scales outside of [-256, 256] are ignored.
std::string decimal_text(ByteSpan value, int scale);

}  // namespace nimble
