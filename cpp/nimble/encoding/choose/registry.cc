// The only switch over EncodingId.
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/bools/sparse_bits.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/floats/alp.h"
#include "nimble/encoding/floats/float_bits.h"
#include "nimble/encoding/floats/split_float.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/differences.h"
#include "nimble/encoding/ints/narrow.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/sparse.h"
#include "nimble/encoding/ints/split_int.h"
#include "nimble/encoding/strings/front_coded.h"
#include "nimble/encoding/strings/numbered_text.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/strings/present.h"
#include "nimble/encoding/strings/template_text.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/phrases.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_strings.h"

namespace nimble {
namespace {

// Converts the concrete decoder that an open function returns to a Decoder.
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
    case EncodingId::kConstant:
      return open_constant(head, context);
    case EncodingId::kRunLength:
      return open_run_length(head, context);
    case EncodingId::kDictionary:
      return open_dictionary(head, context);
    case EncodingId::kSharedDictionary:
      return open_shared_dictionary(head, context);
    case EncodingId::kPresent:
      return context.type.kind == ValueKind::kBytes
                 ? open_present(head, context)
                 : open_present_values(head, context);
    case EncodingId::kPlain:
      return upcast(PlainDecoder::open(head, context));
    case EncodingId::kSparse:
      return open_sparse(head, context);
    case EncodingId::kZstdBlocks:
      return open_zstd_blocks(head, context);
    case EncodingId::kBitPacked:
      return upcast(BitPackedDecoder::open(head, context));
    case EncodingId::kDelta:
      return open_delta(head, context);
    case EncodingId::kDifferences:
      return open_differences(head, context);
    case EncodingId::kScaled:
      return open_scaled(head, context);
    case EncodingId::kSplitInt:
      return open_split_int(head, context);
    case EncodingId::kNarrow:
      return open_narrow(head, context);
    case EncodingId::kAlp:
      return open_alp(head, context);
    case EncodingId::kSplitFloat:
      return open_split_float(head, context);
    case EncodingId::kFloatBits:
      return open_float_bits(head, context);
    case EncodingId::kBitmap:
      return open_bitmap(head, context);
    case EncodingId::kSparseBits:
      return open_sparse_bits(head, context);
    case EncodingId::kPlainBytes:
      return open_plain_bytes(head, context);
    case EncodingId::kFsst:
      return open_fsst(head, context);
    case EncodingId::kPhrases:
      return open_phrases(head, context);
    case EncodingId::kSharedPhrases:
      return open_shared_phrases(head, context);
    case EncodingId::kFrontCoded:
      return open_front_coded(head, context);
    case EncodingId::kTemplate:
      return open_template(head, context);
    case EncodingId::kNumberedText:
      return open_numbered_text(head, context);
    case EncodingId::kZstdStrings:
      return open_zstd_strings(head, context);
  }
  return Status::corrupt("unknown encoding id " + std::to_string(id));
}

}  // namespace nimble
