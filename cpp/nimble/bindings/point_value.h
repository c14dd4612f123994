// One value of one row of a mapped file, as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/bindings/python_values.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// A column of flat values.
struct PointColumn {
  ValueMaker maker;
  Layout layout = Layout::kFixed;
  uint32_t validity = kNoStream;
  uint32_t values = kNoStream;
};

// A stream of the row, ready to decode one value.
struct OneValue {
  // What most decoders take.
  static constexpr size_t kDecoderBytes = 256;

  const Decoder* decoder = nullptr;
  SegmentBody body;
  uint32_t row = 0;  // of the segment

  // First of the decoder, which must be there to ask for the value.
  void prefetch_decoder() const {
    const auto* p = reinterpret_cast<const uint8_t*>(decoder);
    for (size_t at = 0; at < kDecoderBytes; at += 64)
      __builtin_prefetch(p + at);
  }
  void prefetch() const { decoder->prefetch(body, row); }
  Status read(const Output& out) const {
    return decoder->gather(body, &row, 1, out);
  }
};

// The row of the file that is read, and where its streams are.
struct RowPlace {
  const OpenFile& file;
  const LoadedGroup& group;
  const StripeView& stripe;
  uint64_t row;  // of the stripe

  Status stream(uint32_t number, OneValue* out) const;
};

// `value` is the column's stream of values at `place`. *out becomes a new
// reference, or null with a Python error set.
Status make_value(const RowPlace& place, const PointColumn& column,
                  const OneValue& value, PyObject** out);

}  // namespace nimble
