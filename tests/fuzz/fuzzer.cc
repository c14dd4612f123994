// The libFuzzer program. NIMBLEPY_FUZZ_TARGET names the target;
// `--seeds DIRECTORY` writes its seeds there instead (./dev fuzz).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz/mutation.h"
#include "fuzz/seeds.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max);

namespace nimble::fuzz {
namespace {

const Target* target = nullptr;

void write_seeds(const char* directory) {
  int i = 0;
  for (const std::vector<uint8_t>& seed : seeds_of(*target)) {
    const std::string path =
        std::string(directory) + "/seed-" + std::to_string(i++);
    if (FILE* f = std::fopen(path.c_str(), "wb")) {
      (void)std::fwrite(seed.data(), 1, seed.size(), f);
      (void)std::fclose(f);
    }
  }
}

}  // namespace
}  // namespace nimble::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace nimble::fuzz;
  const char* name = std::getenv("NIMBLEPY_FUZZ_TARGET");
  if (name != nullptr) target = find_target(name);
  if (target == nullptr) {
    std::fprintf(stderr, "NIMBLEPY_FUZZ_TARGET must be one of:\n");
    for (const Target& t : targets()) std::fprintf(stderr, "%s\n", t.name);
    std::exit(2);
  }
  if (*argc == 3 && std::strcmp((*argv)[1], "--seeds") == 0) {
    write_seeds((*argv)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nimble::fuzz::target->run({data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned int seed) {
  using namespace nimble::fuzz;
  Rng rng(seed);
  if (size == 0 || rng() % 8 == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  std::vector<uint8_t> input(data, data + size);
  if (target->takes_files && rng() % 16 == 0) {
    input = with_other_footer(input, &rng);
  } else {
    mutate(
        find_checksums(*target, input), &rng,
        [](uint8_t* p, size_t n) { return LLVMFuzzerMutate(p, n, n); }, &input);
  }
  if (input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
