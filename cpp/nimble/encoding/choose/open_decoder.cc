// Opens decoders: the only place that maps every EncodingId to its code.
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

using Opened = Result<std::unique_ptr<Decoder>>;

// Converts the concrete decoder that T::open() returns to a Decoder.
template <class T>
Opened open_as(ByteReader* head, const DecodeContext& context) {
  auto opened = T::open(head, context);
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<Decoder>(std::move(opened).value());
}

Opened open_any_present(ByteReader* head, const DecodeContext& context) {
  return context.type.kind == ValueKind::kBytes
             ? open_present(head, context)
             : open_present_values(head, context);
}

struct Encoding {
  EncodingId id;
  Opened (*open)(ByteReader*, const DecodeContext&);
};

constexpr Encoding kEncodings[] = {
    {EncodingId::kConstant, open_constant},
    {EncodingId::kRunLength, open_run_length},
    {EncodingId::kDictionary, open_dictionary},
    {EncodingId::kSharedDictionary, open_shared_dictionary},
    {EncodingId::kPresent, open_any_present},
    {EncodingId::kPlain, open_as<PlainDecoder>},
    {EncodingId::kSparse, open_sparse},
    {EncodingId::kZstdBlocks, open_zstd_blocks},
    {EncodingId::kBitPacked, open_as<BitPackedDecoder>},
    {EncodingId::kDelta, open_delta},
    {EncodingId::kDifferences, open_differences},
    {EncodingId::kScaled, open_scaled},
    {EncodingId::kSplitInt, open_split_int},
    {EncodingId::kNarrow, open_narrow},
    {EncodingId::kAlp, open_alp},
    {EncodingId::kSplitFloat, open_split_float},
    {EncodingId::kFloatBits, open_float_bits},
    {EncodingId::kBitmap, open_bitmap},
    {EncodingId::kSparseBits, open_sparse_bits},
    {EncodingId::kPlainBytes, open_plain_bytes},
    {EncodingId::kFsst, open_fsst},
    {EncodingId::kPhrases, open_phrases},
    {EncodingId::kSharedPhrases, open_shared_phrases},
    {EncodingId::kFrontCoded, open_front_coded},
    {EncodingId::kTemplate, open_template},
    {EncodingId::kNumberedText, open_numbered_text},
    {EncodingId::kZstdStrings, open_zstd_strings},
};

constexpr bool are_ids_in_order() {
  uint8_t next = 1;
  for (const Encoding& encoding : kEncodings) {
    if (static_cast<uint8_t>(encoding.id) != next++) return false;
  }
  return true;
}
static_assert(are_ids_in_order(), "open_decoder() indexes by id");

}  // namespace

Result<std::unique_ptr<Decoder>> open_decoder(ByteReader* head,
                                              const DecodeContext& context) {
  const uint8_t id = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("encoding id"));
  if (context.depth >= kMaxEncodingDepth) {
    return Status::corrupt("encodings are nested more than " +
                           std::to_string(kMaxEncodingDepth) + " deep");
  }
  if (id == 0 || id > std::size(kEncodings)) {
    return Status::corrupt("unknown encoding id " + std::to_string(id));
  }
  return kEncodings[id - 1].open(head, context);
}

}  // namespace nimble
