// zstd's one-shot functions behind Status, with one context a thread.
#pragma once

#include "nimble/base/aligned_buffer.h"
#include "nimble/base/byte_buffer.h"
#include "nimble/base/status.h"

namespace nimble {

// Appends `raw` as one frame.
Status zstd_append_frame(ByteSpan raw, int level, ByteBuffer* out);

// Fills exactly `size` bytes at `out`; anything else in the frame is corrupt.
Status zstd_decompress(ByteSpan frame, uint8_t* out, uint64_t size);

}  // namespace nimble
