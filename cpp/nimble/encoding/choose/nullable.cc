#include "nimble/encoding/choose/nullable.h"

#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/patches.h"
#include "nimble/encoding/blocks/presence.h"
#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/present_values.h"

namespace nimble {
namespace {

bool drops_nulls(const Values& values, const uint8_t* validity,
                 const EncodeContext& context) {
  if (context.effort == Effort::kFast || context.random_access_only ||
      values.size < kMinSelectionValues || !can_be_present(values.type)) {
    return false;
  }
  const uint64_t nulls = values.size - count_bits(validity, 0, values.size);
  return nulls * kRowsPerNull >= values.size && !is_constant(values);
}

}  // namespace

Status encode_nullable(const Values& values, const uint8_t* validity,
                       const EncodeContext& context, SegmentBuilder* out,
                       ByteBuffer* validity_head) {
  if (values.type.kind == ValueKind::kBytes) {
    EncodeContext strings = context;
    if (values.empty_is_null) strings.validity_head = validity_head;
    return encode_values(values, strings, out);
  }
  if (!drops_nulls(values, validity, context)) {
    return encode_values(values, context, out);
  }
  constexpr uint8_t kZeros[Patches::kMaxWidth] = {};
  EncodeContext present = context;
  --present.depth;  // encode like a column without nulls
  return encode_present_values(values, kZeros, validity, present, out,
                               validity_head);
}

}  // namespace nimble
