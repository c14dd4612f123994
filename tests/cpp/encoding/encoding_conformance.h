// One harness that every encoding must pass. Given values and what an encoder
// made of them it checks
//   - decoding all, sub-ranges at every block boundary, gathered rows;
//   - that append_ranges() names enough: other bytes are poisoned;
//   - that damaged bodies give an error or the right values, and damaged heads
//     an error or any values, but never a crash (run it under sanitizers).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nimble/encoding/encoding.h"

namespace nimble::testing {

// Owned values to encode.
struct Sample {
  ValueType type;
  uint32_t size = 0;
  std::vector<uint8_t> data;         // fixed widths and bitmaps
  std::vector<std::string> strings;  // kBytes
  std::vector<ByteSlice> slices;

  Values values() const {
    Values v;
    v.type = type;
    v.size = size;
    v.data = data.data();
    v.slices = slices.data();
    return v;
  }
};

// Value i is the low bytes of make(i).
Sample int_sample(ValueType type, uint32_t size,
                  const std::function<uint64_t(uint32_t)>& make);
// Value i is what make writes to its second argument (type.width zero bytes).
Sample fixed_sample(ValueType type, uint32_t size,
                    const std::function<void(uint32_t, uint8_t*)>& make);
Sample double_sample(uint32_t size,
                     const std::function<double(uint32_t)>& make);
Sample float_sample(uint32_t size, const std::function<float(uint32_t)>& make);
Sample bool_sample(uint32_t size, const std::function<bool(uint32_t)>& make);
Sample bytes_sample(uint32_t size,
                    const std::function<std::string(uint32_t)>& make);

using Encode = std::function<Status(const Values&, SegmentBuilder*)>;

// Encodes and runs every check; failures name `what`.
void check_encoding(const std::string& what, const Sample& sample,
                    const Encode& encode);
// encode_values() with every effort.
void check_selection(const std::string& what, const Sample& sample);

// What encode_values() chooses: the decoder's describe().
std::string chosen(const Sample& sample, Effort effort = Effort::kBalanced);
// Head and body bytes of an encoding.
uint64_t encoded_bytes(const Sample& sample, const Encode& encode);

// Sizes at which blocks and segments begin and end.
inline constexpr uint32_t kSizes[] = {0,  1,    2,    63,   64,
                                      65, 1023, 1024, 1025, 131072};

// Deterministic random bits: splitmix64 of a counter.
uint64_t mix(uint64_t i);

}  // namespace nimble::testing
