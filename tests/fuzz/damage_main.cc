// nimble_damage COUNT [FIRST]: damaged files FIRST, FIRST + 1, ... through
// open, scan and lookup; ./dev fuzz files COUNT. Exit status 1 where a row was
// wrong, a file took more than a second or memory was lost.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fuzz/damage.h"
#include "fuzz/seeds.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

// Bytes in use, where that can be asked.
int64_t used_memory() {
#ifdef __GLIBC__
  return static_cast<int64_t>(::mallinfo2().uordblks);
#else
  return 0;
#endif
}

constexpr size_t kLargest = 4096;
constexpr uint64_t kStep = 100'000;  // files between reports
constexpr unsigned kHung = 120;      // seconds for so many

// What a leak of a few bytes a thousand files would have grown to.
constexpr int64_t kLost = 1 << 20;

}  // namespace

int main(int argc, char** argv) {
  const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const nimble::fuzz::DamagedFiles files(nimble::fuzz::file_seeds(), kLargest);
  nimble::fuzz::DamageCounts counts;
  int failures = 0;
  int64_t memory = 0;
  for (uint64_t i = 0; i < count && failures < 20; ++i) {
    if (i % kStep == 0) ::alarm(kHung);  // a hang ends the program
    const std::string wrong = files.check(first + i, &counts);
    if (!wrong.empty()) {
      std::printf("file %llu: wrong %s\n",
                  static_cast<unsigned long long>(first + i), wrong.c_str());
      ++failures;
    }
    if (i + 1 == kStep) memory = used_memory();
    if ((i + 1) % (10 * kStep) != 0 && i + 1 != count) continue;
    std::printf(
        "%llu files: %llu refused, %llu with errors, %llu read right; "
        "slowest %.4f s\n",
        static_cast<unsigned long long>(counts.files),
        static_cast<unsigned long long>(counts.refused),
        static_cast<unsigned long long>(counts.errors),
        static_cast<unsigned long long>(counts.read), counts.slowest);
    std::fflush(stdout);
  }
  const int64_t grown = used_memory() - memory;
  if (count > kStep) {
    std::printf("memory grew by %lld bytes after the first %llu files\n",
                static_cast<long long>(grown),
                static_cast<unsigned long long>(kStep));
  }
  const bool lost = count > kStep && grown > kLost;
  return failures > 0 || counts.slowest > 1 || lost ? 1 : 0;
}
