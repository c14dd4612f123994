// Bit packing: blocks of 1024 values, in L1.
#include "kernels.h"
#include "nimble/base/bit_packing.h"

namespace nimble::micro {
namespace {

struct Block {
  std::vector<uint64_t> values = std::vector<uint64_t>(kPackValues);
  std::vector<uint8_t> packed = std::vector<uint8_t>(kPackValues * 8);
  uint8_t* raw() { return reinterpret_cast<uint8_t*>(values.data()); }
};

template <class Run>
Kernel kernel(const std::string& name, Run run) {
  const auto prepare = [run] {
    auto block = std::make_shared<Block>();
    for (uint32_t i = 0; i < kPackValues * 8; ++i) {
      block->packed[i] = static_cast<uint8_t>(mix(i));
    }
    return Ready{kPackValues, [block, run] { run(block.get()); }};
  };
  return {name, "value", prepare};
}

Kernel unpack(uint32_t bits, uint32_t width) {
  const auto name =
      "unpack" + std::to_string(bits) + ".w" + std::to_string(width);
  if (bits == 32) {
    return kernel(name, [width](Block* b) {
      unpack32(width, b->packed.data(), 5, b->raw());
    });
  }
  return kernel(name, [width](Block* b) {
    unpack64(width, b->packed.data(), 5, b->raw());
  });
}

}  // namespace

std::vector<Kernel> packing_kernels() {
  return {
      unpack(32, 1),
      unpack(32, 12),
      unpack(32, 21),
      unpack(64, 12),
      unpack(64, 21),
      unpack(64, 37),
      kernel("pack32.w12",
             [](Block* b) { pack32(12, b->raw(), 0, b->packed.data()); }),
      kernel("pack64.w21",
             [](Block* b) { pack64(21, b->raw(), 0, b->packed.data()); }),
      kernel("extract64.w21",
             [](Block* b) {
               uint64_t sum = 0;
               for (uint32_t i = 0; i < kPackValues; ++i) {
                 sum += extract_packed<uint64_t>(21, b->packed.data(),
                                                 (i * 389) % kPackValues);
               }
               sink = sum;
             }),
  };
}

}  // namespace nimble::micro
