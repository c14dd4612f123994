// Strings as columns contain them, and unusual ones. All are deterministic.
#pragma once

#include <string>
#include <vector>

#include "encoding/encoding_conformance.h"

namespace nimble::testing {

// Like TPC-H's comments: 19 to 78 bytes of words from a short list.
std::string comment(uint64_t i);
// Version 4, lower case.
std::string uuid(uint64_t i);
// `size` random bytes of all values.
std::string noise(uint64_t i, uint64_t size);

// "0e 0a 02", as docs/format/ writes bytes.
std::string hex(ByteSpan bytes);

struct NamedSample {
  std::string name;
  Sample sample;
};
// A sample of each kind of content, short enough for damage tests.
std::vector<NamedSample> nasty_samples();
// Segments of full size, and of one very long string.
std::vector<NamedSample> large_samples();

}  // namespace nimble::testing
