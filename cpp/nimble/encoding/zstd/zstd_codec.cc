#include "nimble/encoding/zstd/zstd_codec.h"

// Declares the training functions that take parameters. ZDICT_trainFromBuffer()
// would try many parameters.
#define ZDICT_STATIC_LINKING_ONLY
#include <zdict.h>
#include <zstd.h>

#include <memory>
#include <new>

namespace nimble {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
};

// Contexts are large and slow to create, so each thread keeps its own.
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

Status check_size(size_t got, uint64_t size) {
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

}  // namespace

namespace {

// Appends a frame with the context's parameters, then resets them.
Status append_frame_of(ZSTD_CCtx* context, ByteSpan raw, ByteBuffer* out) {
  const size_t before = out->size();
  const size_t bound = ZSTD_compressBound(raw.size());
  uint8_t* const frame = out->extend(bound);
  const size_t size =
      ZSTD_compress2(context, frame, bound, raw.data(), raw.size());
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  if (ZSTD_isError(size)) {
    return Status::invalid_argument(std::string("zstd: ") +
                                    ZSTD_getErrorName(size));
  }
  out->resize(before + size);
  return Status::ok();
}

}  // namespace

Status zstd_append_frame(ByteSpan raw, int level, int min_match,
                         ByteBuffer* out) {
  ZSTD_CCtx* const context = compression_context();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  if (min_match > 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, min_match);
  }
  return append_frame_of(context, raw, out);
}

Status zstd_decompress(ByteSpan frame, uint8_t* out, uint64_t size) {
  const size_t got = ZSTD_decompressDCtx(decompression_context(), out, size,
                                         frame.data(), frame.size());
  return check_size(got, size);
}

// --------------------------------------------------------------- dictionaries

std::vector<uint8_t> zstd_train(ByteSpan bytes,
                                const std::vector<size_t>& sizes,
                                size_t capacity, int level) {
  std::vector<uint8_t> out(capacity);
  ZDICT_fastCover_params_t parameters = {};
  parameters.k = 256;  // segment size in bytes
  parameters.d = 8;    // bytes per counted sequence
  parameters.f = 18;   // hash bits of the counters
  parameters.accel = 1;
  parameters.zParams.compressionLevel = level;
  const size_t size = ZDICT_trainFromBuffer_fastCover(
      out.data(), capacity, bytes.data(), sizes.data(),
      static_cast<unsigned>(sizes.size()), parameters);
  out.resize(ZDICT_isError(size) != 0 ? 0 : size);
  return out;
}

struct ZstdCompressor::Prepared {
  ZSTD_CDict* dictionary;
};

ZstdCompressor::ZstdCompressor(ByteSpan dictionary, int level)
    : prepared_(std::make_unique<Prepared>()) {
  prepared_->dictionary =
      ZSTD_createCDict(dictionary.data(), dictionary.size(), level);
  if (prepared_->dictionary == nullptr) throw std::bad_alloc();
}

ZstdCompressor::~ZstdCompressor() { ZSTD_freeCDict(prepared_->dictionary); }

Status ZstdCompressor::append_frame(ByteSpan raw, ByteBuffer* out) const {
  ZSTD_CCtx* const context = compression_context();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  ZSTD_CCtx_refCDict(context, prepared_->dictionary);
  return append_frame_of(context, raw, out);
}

struct ZstdDecompressor::Prepared {
  ZSTD_DDict* dictionary;
};

Result<std::unique_ptr<ZstdDecompressor>> ZstdDecompressor::open(
    ByteSpan dictionary) {
  ZSTD_DDict* const ready =
      ZSTD_createDDict(dictionary.data(), dictionary.size());
  if (ready == nullptr)
    return Status::corrupt("the zstd dictionary is damaged");
  std::unique_ptr<ZstdDecompressor> out(new ZstdDecompressor);
  out->prepared_ = std::make_unique<Prepared>(Prepared{ready});
  return out;
}

ZstdDecompressor::~ZstdDecompressor() { ZSTD_freeDDict(prepared_->dictionary); }

Status ZstdDecompressor::decompress(ByteSpan frame, uint8_t* out,
                                    uint64_t size) const {
  return check_size(ZSTD_decompress_usingDDict(decompression_context(), out,
                                               size, frame.data(), frame.size(),
                                               prepared_->dictionary),
                    size);
}

}  // namespace nimble
