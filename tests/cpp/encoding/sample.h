// Sample: values to encode, computed from their index.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nimble/encoding/core/encoding.h"

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
// make writes value i to its second argument (type.width zero bytes).
Sample fixed_sample(ValueType type, uint32_t size,
                    const std::function<void(uint32_t, uint8_t*)>& make);
Sample double_sample(uint32_t size,
                     const std::function<double(uint32_t)>& make);
Sample float_sample(uint32_t size, const std::function<float(uint32_t)>& make);
Sample bool_sample(uint32_t size, const std::function<bool(uint32_t)>& make);
Sample bytes_sample(uint32_t size,
                    const std::function<std::string(uint32_t)>& make);

// Sizes around the ends of blocks and segments.
inline constexpr uint32_t kSizes[] = {0,  1,    2,    63,   64,
                                      65, 1023, 1024, 1025, 131072};

// Deterministic random bits: splitmix64 of a counter.
uint64_t mix(uint64_t i);

}  // namespace nimble::testing
