// Wraps zstd's one-shot functions, with one context per thread, and
// dictionaries that several frames share. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/memory/aligned_buffer.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

// Appends `raw` as one frame. Matches shorter than `min_match` bytes are not
// used; 0: the level's default.
Status zstd_append_frame(ByteSpan raw, int level, int min_match,
                         ByteBuffer* out);

// Decompresses to exactly `size` bytes at `out`. Fails with kCorrupt if the
// frame has another size.
Status zstd_decompress(ByteSpan frame, uint8_t* out, uint64_t size);

// Trains a dictionary of up to `capacity` bytes. It has the common parts of the
// samples, and entropy tables for frames of this level. The samples are one
// after the other in `bytes`. Returns an empty vector if there is too little
// data. Deterministic.
std::vector<uint8_t> zstd_train(ByteSpan bytes,
                                const std::vector<size_t>& sizes,
                                size_t capacity, int level);

// A dictionary prepared for compression.
class ZstdCompressor {
 public:
  ZstdCompressor(ByteSpan dictionary, int level);
  ~ZstdCompressor();
  ZstdCompressor(const ZstdCompressor&) = delete;
  ZstdCompressor& operator=(const ZstdCompressor&) = delete;

  // Appends `raw` as one frame without content size or dictionary id.
  Status append_frame(ByteSpan raw, ByteBuffer* out) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

// A dictionary prepared for decompression. Thread-safe.
class ZstdDecompressor {
 public:
  // Accepts any bytes as a raw dictionary. Fails with kCorrupt if they have a
  // dictionary header but are not a valid dictionary.
  static Result<std::unique_ptr<ZstdDecompressor>> open(ByteSpan dictionary);
  ~ZstdDecompressor();
  ZstdDecompressor(const ZstdDecompressor&) = delete;
  ZstdDecompressor& operator=(const ZstdDecompressor&) = delete;

  // See zstd_decompress().
  Status decompress(ByteSpan frame, uint8_t* out, uint64_t size) const;

 private:
  ZstdDecompressor() = default;

  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace nimble
