// How many bytes a compressed page holds, by its own words. Decompressors that
// fill less than the buffer that they are given would leave the rest undefined.
#pragma once

#include "nimble/base/bytes.h"
#include "nimble/base/status.h"
#include "nimble/parquet/metadata.h"

namespace nimble::parquet {

// Fails with kCorrupt unless snappy or lz4 bytes hold exactly `size` bytes.
// Other codecs pass: their decompressors tell how much they wrote.
Status check_stored_size(Codec codec, ByteSpan in, uint64_t size);

}  // namespace nimble::parquet
