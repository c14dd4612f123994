// The machine itself: what scans and lookups are measured against.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels.h"

namespace nimble::micro {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kStreamBytes = 256 << 20;
constexpr uint64_t kLoads = 1 << 16;

// A random cycle through all cache lines: every load waits for the one before.
Ready chase(size_t bytes) {
  const size_t lines = bytes / kLine;
  std::vector<uint32_t> order(lines);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = lines - 1; i > 0; --i) {
    std::swap(order[i], order[mix(i) % (i + 1)]);
  }
  auto next = std::make_shared<std::vector<uint32_t>>(bytes / sizeof(uint32_t));
  constexpr size_t kStep = kLine / sizeof(uint32_t);
  for (size_t i = 0; i < lines; ++i) {
    (*next)[order[i] * kStep] =
        static_cast<uint32_t>(order[(i + 1) % lines] * kStep);
  }
  auto at = std::make_shared<uint32_t>(0);
  return {kLoads, [next, at] {
            uint32_t i = *at;
            const uint32_t* p = next->data();
            for (uint64_t n = 0; n < kLoads; ++n) i = p[i];
            *at = i;
            sink = i;
          }};
}

Ready copy() {
  auto from = std::make_shared<std::vector<uint8_t>>(kStreamBytes, uint8_t{1});
  auto to = std::make_shared<std::vector<uint8_t>>(kStreamBytes, uint8_t{2});
  return {kStreamBytes, [from, to] {
            std::memcpy(to->data(), from->data(), kStreamBytes);
            sink = (*to)[1];
          }};
}

Ready read() {
  auto from = std::make_shared<std::vector<uint64_t>>(kStreamBytes / 8, 1);
  return {kStreamBytes, [from] {
            sink = std::accumulate(from->begin(), from->end(), uint64_t{0});
          }};
}

}  // namespace

std::vector<Kernel> memory_kernels() {
  std::vector<Kernel> out = {
      {"memory.copy", "byte", copy, false},
      {"memory.read", "byte", read, false},
  };
  const std::pair<const char*, size_t> sizes[] = {{"16K", 16 << 10},
                                                  {"256K", 256 << 10},
                                                  {"1M", 1 << 20},
                                                  {"16M", 16 << 20},
                                                  {"256M", 256 << 20}};
  for (const auto& [name, bytes] : sizes) {
    const size_t size = bytes;
    out.push_back({std::string("memory.load_") + name, "load",
                   [size] { return chase(size); }, false});
  }
  return out;
}

}  // namespace nimble::micro
