#include "nimble/encoding/strings/zstd_codec.h"

#include <zstd.h>

#include <memory>
#include <new>

namespace nimble {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
};

// Contexts are large and slow to make, so threads keep theirs.
ZSTD_CCtx* compression_context() {
  thread_local std::unique_ptr<ZSTD_CCtx, FreeContext> context(
      ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}
ZSTD_DCtx* decompression_context() {
  thread_local std::unique_ptr<ZSTD_DCtx, FreeContext> context(
      ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

}  // namespace

Status zstd_append_frame(ByteSpan raw, int level, ByteBuffer* out) {
  const size_t before = out->size();
  const size_t bound = ZSTD_compressBound(raw.size());
  uint8_t* const frame = out->extend(bound);
  const size_t size = ZSTD_compressCCtx(compression_context(), frame, bound,
                                        raw.data(), raw.size(), level);
  if (ZSTD_isError(size)) {
    return Status::invalid_argument(std::string("zstd: ") +
                                    ZSTD_getErrorName(size));
  }
  out->resize(before + size);
  return Status::ok();
}

Status zstd_decompress(ByteSpan frame, uint8_t* out, uint64_t size) {
  const size_t got = ZSTD_decompressDCtx(decompression_context(), out, size,
                                         frame.data(), frame.size());
  if (ZSTD_isError(got)) {
    return Status::corrupt(std::string("zstd frame: ") +
                           ZSTD_getErrorName(got));
  }
  if (got != size) {
    return Status::corrupt("zstd frame of " + std::to_string(got) +
                           " bytes where " + std::to_string(size) +
                           " were expected");
  }
  return Status::ok();
}

}  // namespace nimble
