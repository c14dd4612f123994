// StreamShared: what the segments of a stream share while it is written.
#pragma once

#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/dictionaries/distinct_values.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/symbols/shared_phrases.h"

namespace nimble {

struct StreamShared {
  StreamShared(ValueType type, uint64_t max_dictionary_bytes)
      : dictionary(type, max_dictionary_bytes) {}

  StreamPhrases phrases;
  StreamDictionary dictionary;

  void lend_to(EncodeContext* context) {
    context->phrases = &phrases;
    context->dictionary = &dictionary;
  }
};

// The shared dictionary that may hold these values, or null.
const StreamDictionary* dictionary_for(const Values& values,
                                       const EncodeContext& context);
// The share of a dictionary that is charged to the first segment, because later
// segments will probably use it too. The segment has `count` distinct values,
// `early` of them in its first half.
double part_of_first(double count, double early);
// Bits of a code for one of `count` values.
double code_bits(double count);
// The estimated size if `distinct` starts the shared dictionary. `stored` is
// the stored size of the values.
// REQUIRES: `distinct` is collected; it may be sorted.
double begun_dictionary_bytes(const DistinctValues& distinct, double stored);
// The estimated size of the segment as codes of the shared dictionary,
// including the values that it adds to the dictionary. Infinite if the
// dictionary cannot be used. `stored` is the size of the values in a dictionary
// of their own. A segment that starts the dictionary is charged a part of it:
// see part_of_first().
double shared_dictionary_bytes(const DistinctValues& distinct, double stored,
                               const EncodeContext& context);

}  // namespace nimble
