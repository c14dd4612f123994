// nimble_micro --list               names, a line each
// nimble_micro --time [PREFIX...]   best nanoseconds an element
// nimble_micro --count NAME CALLS   calls one kernel CALLS times, for callgrind
//
// Counting: callgrind --toggle-collect=nimble_micro_measured sees the calls
// only, not the making of data. bench/micro/__main__.py does it for all.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels.h"

extern "C" {
// Has a name that callgrind finds, whatever the compiler inlines.
void nimble_micro_measured(const std::function<void()>* run, uint64_t calls);
__attribute__((noinline, visibility("default"))) void nimble_micro_measured(
    const std::function<void()>* run, uint64_t calls) {
  for (uint64_t i = 0; i < calls; ++i) (*run)();
}
}

namespace nimble::micro {

void fail(const std::string& what) {
  std::fprintf(stderr, "nimble_micro: %s\n", what.c_str());
  std::exit(1);
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 15;
constexpr double kRoundSeconds = 0.004;

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  for (const auto& group : {key_kernels(), packing_kernels(), column_kernels(),
                            hash_kernels(), memory_kernels()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

double seconds_of(const Ready& ready, uint64_t calls) {
  const auto begin = Clock::now();
  nimble_micro_measured(&ready.run, calls);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best of several rounds: the machine's noise only ever adds.
double best_nanoseconds(const Ready& ready) {
  uint64_t calls = 1;
  while (seconds_of(ready, calls) < kRoundSeconds && calls < (1u << 24)) {
    calls *= 2;
  }
  double best = seconds_of(ready, calls);
  for (int i = 0; i < kRounds; ++i) {
    best = std::min(best, seconds_of(ready, calls));
  }
  return best * 1e9 / double(calls) / double(ready.elements);
}

bool chosen(const Kernel& kernel, int count, char** prefixes) {
  if (count == 0) return true;
  return std::any_of(prefixes, prefixes + count, [&](const char* prefix) {
    return kernel.name.starts_with(prefix);
  });
}

void list() {
  for (const Kernel& k : all_kernels()) {
    std::printf("%s %s %s\n", k.name.c_str(), k.element.c_str(),
                k.counted ? "counted" : "timed");
  }
}

void time_all(int count, char** prefixes) {
  for (const Kernel& kernel : all_kernels()) {
    if (!chosen(kernel, count, prefixes)) continue;
    const double ns = best_nanoseconds(kernel.prepare());
    std::printf("%s %.6g\n", kernel.name.c_str(), ns);
    std::fflush(stdout);
  }
}

// Prints the number of elements that callgrind's count is to be divided by.
void count_one(std::string_view name, uint64_t calls) {
  for (const Kernel& kernel : all_kernels()) {
    if (kernel.name != name) continue;
    const Ready ready = kernel.prepare();
    ready.run();  // verifies checksums, grows buffers: not counted
    nimble_micro_measured(&ready.run, calls);
    std::printf("%llu\n",
                static_cast<unsigned long long>(ready.elements * calls));
    return;
  }
  fail("no kernel " + std::string(name));
}

}  // namespace
}  // namespace nimble::micro

int main(int argc, char** argv) {
  using namespace nimble::micro;
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "--list" && argc == 2) {
    list();
  } else if (what == "--time") {
    time_all(argc - 2, argv + 2);
  } else if (what == "--count" && argc == 4) {
    count_one(argv[2], std::strtoull(argv[3], nullptr, 10));
  } else {
    fail("usage: --list | --time [PREFIX...] | --count NAME CALLS");
  }
  return 0;
}
