// zstd's one-shot functions behind Status, with one context a thread, and
// dictionaries that frames share.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/memory/aligned_buffer.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

// Appends `raw` as one frame. Matches shorter than `min_match` bytes are not
// looked for; 0: as the level has it.
Status zstd_append_frame(ByteSpan raw, int level, int min_match,
                         ByteBuffer* out);

// Fills exactly `size` bytes at `out`; anything else in the frame is corrupt.
Status zstd_decompress(ByteSpan frame, uint8_t* out, uint64_t size);

// Up to `capacity` bytes of what the samples, one after the other in `bytes`,
// have in common, with tables of how often bytes and lengths occur in frames of
// this level; empty where there is too little to learn from. Deterministic.
std::vector<uint8_t> zstd_train(ByteSpan bytes,
                                const std::vector<size_t>& sizes,
                                size_t capacity, int level);

// A dictionary made ready for compression.
class ZstdCompressor {
 public:
  ZstdCompressor(ByteSpan dictionary, int level);
  ~ZstdCompressor();
  ZstdCompressor(const ZstdCompressor&) = delete;
  ZstdCompressor& operator=(const ZstdCompressor&) = delete;

  // Appends `raw` as one frame, which names neither size nor dictionary.
  Status append_frame(ByteSpan raw, ByteBuffer* out) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

// And for decompression, by any number of threads.
class ZstdDecompressor {
 public:
  // Whatever the bytes are; corrupt where they claim to be a dictionary's and
  // are not.
  static Result<std::unique_ptr<ZstdDecompressor>> open(ByteSpan dictionary);
  ~ZstdDecompressor();
  ZstdDecompressor(const ZstdDecompressor&) = delete;
  ZstdDecompressor& operator=(const ZstdDecompressor&) = delete;

  // As zstd_decompress().
  Status decompress(ByteSpan frame, uint8_t* out, uint64_t size) const;

 private:
  ZstdDecompressor() = default;

  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace nimble
