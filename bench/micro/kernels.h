// A registry of kernels: small pieces of the core's work, each on data of its
// own, that are timed and whose instructions are counted (main.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nimble::micro {

// What one call of `run` does; the figures are divided by `elements`.
struct Ready {
  uint64_t elements = 0;
  std::function<void()> run;
};

struct Kernel {
  std::string name;
  std::string element;  // what one element is: "key", "value", "byte"
  std::function<Ready()> prepare;  // makes data; not measured
  // False for what measures the machine and not instructions: caches, memory.
  bool counted = true;
};

std::vector<Kernel> key_kernels();
std::vector<Kernel> packing_kernels();
std::vector<Kernel> column_kernels();
std::vector<Kernel> hash_kernels();
std::vector<Kernel> memory_kernels();

// SplitMix64: the same numbers on every machine.
inline uint64_t mix(uint64_t i) {
  i += 0x9e3779b97f4a7c15;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
  i = (i ^ (i >> 27)) * 0x94d049bb133111eb;
  return i ^ (i >> 31);
}

// What is computed goes here, so that no compiler leaves it out.
inline volatile uint64_t sink = 0;

// Ends the process with a message: a kernel that fails measures nothing.
[[noreturn]] void fail(const std::string& what);

}  // namespace nimble::micro
