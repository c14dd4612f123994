#include "nimble/encoding/bit_packed.h"
#include "nimble/encoding/bool_bitmap.h"
#include "nimble/encoding/constant.h"
#include "nimble/encoding/encoding.h"
#include "nimble/encoding/plain.h"
#include "nimble/encoding/plain_bytes.h"

namespace nimble {

Status encode_values(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out) {
  (void)context;
  if (is_constant(values)) return encode_constant(values, out);
  if (values.type.kind == ValueKind::kBool) return encode_bitmap(values, out);
  if (values.type.kind == ValueKind::kBytes) {
    return encode_plain_bytes(values, out);
  }
  if (is_int(values.type)) return encode_bit_packed(values, out);
  return encode_plain(values, out);
}

}  // namespace nimble
