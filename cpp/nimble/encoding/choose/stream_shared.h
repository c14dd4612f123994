// StreamShared: what the segments of a stream share, as its writer has it.
#pragma once

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

// What a file of one stripe, which shares with nobody, may take more for a
// dictionary that others would share.
inline constexpr double kMaxGrowth = 1.1;
// The share of a first segment's `count` values that it pays for, as later ones
// use them too. Its first half has `early` of them.
double part_of_first(double count, double early);
// Bits of a code for `count` values.
double code_bits(double count);
// What `distinct`, collected or sorted, takes if it begins the dictionary.
double begun_dictionary_bytes(const DistinctValues& distinct, double stored);
// What `distinct` takes as codes of the dictionary that the stream shares, with
// what it adds to that; infinite where it cannot have them. As a dictionary of
// their own the values are stored in `stored` bytes. Whoever begins one pays
// for a part: see kMaxGrowth.
double shared_dictionary_bytes(const DistinctValues& distinct, double stored,
                               const EncodeContext& context);

}  // namespace nimble
