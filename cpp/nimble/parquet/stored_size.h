// Checks how many bytes a compressed page says that it holds. If a page holds
// less than its buffer, some decompressors would leave the rest of the buffer
// undefined.
#pragma once

#include "nimble/base/bytes.h"
#include "nimble/base/status.h"
#include "nimble/parquet/metadata.h"

namespace nimble::parquet {

// Fails with kCorrupt unless snappy or lz4 bytes hold exactly `size` bytes.
// Other codecs pass, because their decompressors return how much they wrote.
Status check_stored_size(Codec codec, ByteSpan in, uint64_t size);

}  // namespace nimble::parquet
