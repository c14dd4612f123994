// What Decoder::filter must give, for every encoding: the same as a plain loop
// over the values, whatever is selected, reading no more than blocks with
// selected rows need.
#pragma once

#include <string>

#include "encoding/encoding_conformance.h"
#include "nimble/encoding/value_test.h"

namespace nimble::testing {

// Equality, ranges, sets and their negations, with values of the sample.
std::vector<ValueTest> tests_for(const Sample& sample);
// Does value `row` pass? Compares one by one, without the kernels.
bool passes_plainly(const ValueTest& test, const Sample& sample, uint32_t row);

// `body` has the bytes of the segment.
void check_filters(const std::string& what, const Sample& sample,
                   const Decoder& decoder, const SegmentBody& body);

}  // namespace nimble::testing
