// StreamShared: what the segments of a stream share, as its writer has it.
#pragma once

#include "nimble/encoding/ints/distinct_values.h"
#include "nimble/encoding/ints/shared_dictionary.h"
#include "nimble/encoding/symbols/shared_phrases.h"

namespace nimble {

struct StreamShared {
  explicit StreamShared(ValueType type) : dictionary(type) {}

  StreamPhrases phrases;
  StreamDictionary dictionary;

  void lend_to(EncodeContext* context) {
    context->phrases = &phrases;
    context->dictionary = &dictionary;
  }
};

// Bits of a code for `count` values.
double code_bits(double count);
// What `distinct` takes as codes of the dictionary that the stream shares, with
// what it adds to that; infinite where it cannot have them, or where they would
// begin one and take more than `limit` without later segments. As a dictionary
// of their own the values are stored in `stored` bytes.
double shared_dictionary_bytes(const DistinctValues& distinct, double stored,
                               double limit, const EncodeContext& context);

}  // namespace nimble
