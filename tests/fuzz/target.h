// Fuzz targets: functions that take any bytes and must neither crash, hang,
// leak nor allocate out of proportion. One program runs them under libFuzzer
// (fuzzer.cc), nimble_tests replays what is known (replay_test.cc).
//
//   FUZZ_TARGET(footer) { (void)FileFooter::parse(input, 4096); }
#pragma once

#include <string_view>
#include <vector>

#include "nimble/base/bytes.h"

namespace nimble::fuzz {

struct Target {
  const char* name;
  void (*run)(ByteSpan input);
  bool takes_files;  // inputs are whole files
};

inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

inline const Target* find_target(std::string_view name) {
  for (const Target& t : targets()) {
    if (name == t.name) return &t;
  }
  return nullptr;
}

struct Registration {
  Registration(const char* name, void (*run)(ByteSpan), bool takes_files) {
    targets().push_back({name, run, takes_files});
  }
};

// What must hold whatever the input. Not assert(): in force in every build.
void check_failed(const char* what, const char* file, int line);
#define FUZZ_CHECK(...)                                               \
  do {                                                                \
    if (!(__VA_ARGS__))                                               \
      ::nimble::fuzz::check_failed(#__VA_ARGS__, __FILE__, __LINE__); \
  } while (false)

}  // namespace nimble::fuzz

#define NIMBLE_FUZZ_TARGET(id, takes_files)                                   \
  static void fuzz_##id(::nimble::ByteSpan input);                            \
  static const ::nimble::fuzz::Registration registration_##id(#id, fuzz_##id, \
                                                              takes_files);   \
  static void fuzz_##id([[maybe_unused]] ::nimble::ByteSpan input)
#define FUZZ_TARGET(id) NIMBLE_FUZZ_TARGET(id, false)
#define FUZZ_FILE_TARGET(id) NIMBLE_FUZZ_TARGET(id, true)
