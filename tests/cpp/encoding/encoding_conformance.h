// A harness that every encoding must pass. For given values and their encoded
// form, it checks
//   - decoding all, sub-ranges at every block boundary, gathered rows;
// - that append_ranges() names all bytes needed: other bytes are poisoned;
// - that damaged bodies give an error or correct values, and damaged heads an
//   error or any values, but never a crash (run it under sanitizers).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "encoding/sample.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble::testing {

using Encode = std::function<Status(const Values&, SegmentBuilder*)>;

// Encodes and runs every check. Failures mention `what`.
void check_encoding(const std::string& what, const Sample& sample,
                    const Encode& encode);
// encode_values() with every effort.
void check_selection(const std::string& what, const Sample& sample);

// The encoding that encode_values() chooses, as the decoder's describe().
std::string chosen(const Sample& sample, Effort effort = Effort::kBalanced);
// Head and body bytes of an encoding.
uint64_t encoded_bytes(const Sample& sample, const Encode& encode);

}  // namespace nimble::testing
