// Checks Decoder::filter for every encoding: it must agree with a plain loop
// over the values for any selection, and read only what blocks with selected
// rows need.
#pragma once

#include <string>

#include "encoding/encoding_conformance.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble::testing {

// A test, and the rows that pass it as bits, found by comparing one by one
// without the kernels.
struct Question {
  Predicate test;
  std::vector<uint64_t> passing;
};
// Every step-th test: equality, ranges, sets and their negations, with values
// of the sample.
std::vector<Question> questions_for(const Sample& sample, size_t step);

// `body` has the bytes of the segment.
void check_filters(const std::string& what, const Sample& sample,
                   const Decoder& decoder, const SegmentBody& body);

}  // namespace nimble::testing
