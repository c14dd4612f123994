#include "encoding/sample.h"

#include <cstring>

#include "nimble/base/bitmap.h"
#include "nimble/base/bytes.h"

namespace nimble::testing {

uint64_t mix(uint64_t i) {
  i += 0x9e3779b97f4a7c15;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
  i = (i ^ (i >> 27)) * 0x94d049bb133111eb;
  return i ^ (i >> 31);
}

Sample fixed_sample(ValueType type, uint32_t size,
                    const std::function<void(uint32_t, uint8_t*)>& make) {
  Sample s;
  s.type = type;
  s.size = size;
  s.data.resize(uint64_t{size} * type.width);
  for (uint32_t i = 0; i < size; ++i) {
    make(i, s.data.data() + uint64_t{i} * type.width);
  }
  return s;
}

Sample int_sample(ValueType type, uint32_t size,
                  const std::function<uint64_t(uint32_t)>& make) {
  return fixed_sample(type, size, [&](uint32_t i, uint8_t* to) {
    const uint64_t v = make(i);
    std::memcpy(to, &v, type.width);
  });
}

Sample double_sample(uint32_t size,
                     const std::function<double(uint32_t)>& make) {
  return fixed_sample(ValueType::floating(8), size,
                      [&](uint32_t i, uint8_t* to) { store(to, make(i)); });
}

Sample float_sample(uint32_t size, const std::function<float(uint32_t)>& make) {
  return fixed_sample(ValueType::floating(4), size,
                      [&](uint32_t i, uint8_t* to) { store(to, make(i)); });
}

Sample bool_sample(uint32_t size, const std::function<bool(uint32_t)>& make) {
  Sample s;
  s.type = ValueType::boolean();
  s.size = size;
  s.data.resize(size / 8 + 1);
  for (uint32_t i = 0; i < size; ++i) put_bit(s.data.data(), i, make(i));
  return s;
}

Sample bytes_sample(uint32_t size,
                    const std::function<std::string(uint32_t)>& make) {
  Sample s;
  s.type = ValueType::bytes();
  s.size = size;
  for (uint32_t i = 0; i < size; ++i) s.strings.push_back(make(i));
  for (const std::string& t : s.strings) {
    s.slices.push_back({as_bytes(t).data(), t.size()});
  }
  return s;
}

}  // namespace nimble::testing
