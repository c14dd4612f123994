// The only switch over EncodingId.
#include "nimble/encoding/bit_packed.h"
#include "nimble/encoding/bool_bitmap.h"
#include "nimble/encoding/constant.h"
#include "nimble/encoding/encoding.h"
#include "nimble/encoding/fsst.h"
#include "nimble/encoding/plain.h"
#include "nimble/encoding/plain_bytes.h"

namespace nimble {
namespace {

// The concrete decoder of an open() as the contract's.
template <class T>
Result<std::unique_ptr<Decoder>> upcast(Result<std::unique_ptr<T>> opened) {
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<Decoder>(std::move(opened).value());
}

}  // namespace

Result<std::unique_ptr<Decoder>> open_decoder(ByteReader* head,
                                              const DecodeContext& context) {
  const uint8_t id = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("encoding id"));
  if (context.depth >= kMaxEncodingDepth) {
    return Status::corrupt("encodings are nested more than " +
                           std::to_string(kMaxEncodingDepth) + " deep");
  }
  switch (static_cast<EncodingId>(id)) {
    case EncodingId::kConstant: return open_constant(head, context);
    case EncodingId::kPlain: return upcast(PlainDecoder::open(head, context));
    case EncodingId::kBitPacked:
      return upcast(BitPackedDecoder::open(head, context));
    case EncodingId::kBitmap: return open_bitmap(head, context);
    case EncodingId::kPlainBytes: return open_plain_bytes(head, context);
    case EncodingId::kFsst: return open_fsst(head, context);
    default: break;
  }
  return Status::corrupt("unknown encoding id " + std::to_string(id));
}

}  // namespace nimble
