#include "nimble/bindings/point_value.h"

#include "nimble/base/scratch.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {
namespace {

Status make_bytes(const PointColumn& column, const OneValue& value,
                  PyObject** out) {
  struct PointValue;
  Scratch<ValueBytes, PointValue> value_bytes;
  NIMBLE_RETURN_IF_ERROR(value.read(value_bytes->output()));
  static const uint8_t nothing = 0;
  const size_t size = value_bytes->size();
  *out = column.maker.make(size > 0 ? value_bytes->data() : &nothing, size);
  return Status::ok();
}

}  // namespace

Status RowPlace::stream(uint32_t number, OneValue* out) const {
  if (row >= stripe.values[number]) {
    return Status::corrupt("stream " + std::to_string(number) + " has only " +
                           std::to_string(stripe.values[number]) + " values");
  }
  const auto index = static_cast<uint32_t>(row / kSegmentValues);
  NIMBLE_ASSIGN_OR_RETURN(
      out->decoder,
      group.decoder(stripe, number, index, file.plan().streams()[number]));
  const uint32_t segment = stripe.first_segment[number] + index;
  out->body = {file.file().mapped() + stripe.segment_offsets[segment],
               stripe.segment_sizes[segment], true, &file.stats()->touches};
  out->row = static_cast<uint32_t>(row % kSegmentValues);
  return Status::ok();
}

Status make_value(const RowPlace& place, const PointColumn& column,
                  const OneValue& value, PyObject** out) {
  alignas(64) uint8_t bytes[32 + AlignedBuffer::kSlack];
  Output to;
  to.data = bytes;
  if (column.validity != kNoStream &&
      place.stripe.values[column.validity] > 0) {
    OneValue validity;
    NIMBLE_RETURN_IF_ERROR(place.stream(column.validity, &validity));
    NIMBLE_RETURN_IF_ERROR(validity.read(to));
    if ((bytes[0] & 1) == 0) {
      *out = Py_NewRef(Py_None);
      return Status::ok();
    }
  }
  if (column.layout == Layout::kBytes) return make_bytes(column, value, out);
  NIMBLE_RETURN_IF_ERROR(value.read(to));
  if (column.layout == Layout::kBool) bytes[0] &= 1;
  *out = column.maker.make(bytes, 0);
  return Status::ok();
}

}  // namespace nimble
