// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for tokens that clients
// must not be able to make. Not fast, and not used in files.
#pragma once

#include <array>

#include "nimble/base/bytes.h"

namespace nimble {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(ByteSpan message);
Sha256 hmac_sha256(ByteSpan key, ByteSpan message);

}  // namespace nimble
