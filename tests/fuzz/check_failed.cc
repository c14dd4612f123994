#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

namespace nimble::fuzz {

void check_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: FUZZ_CHECK(%s)\n", file, line, what);
  std::abort();
}

}  // namespace nimble::fuzz
