// Without clang: what is in the repository, the seeds that today's writers
// make, and a few mutations of each, through every target. With the sanitizers
// this is the short fuzzing run of CI.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/damage.h"
#include "fuzz/mutation.h"
#include "fuzz/seeds.h"
#include "testing/check.h"

namespace nimble::fuzz {
namespace {

namespace fs = std::filesystem;
using Input = std::vector<uint8_t>;

// What is in `directory` for a target, by name: inputs of fuzzing that together
// reach everything (corpus), and those that once failed (regressions).
std::vector<Input> inputs_in(const char* directory, const Target& target) {
  const fs::path path =
      fs::path(NIMBLE_SOURCE_DIR) / "tests/fuzz" / directory / target.name;
  std::vector<fs::path> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path, none)) {
    names.push_back(entry.path());
  }
  std::sort(names.begin(), names.end());
  std::vector<Input> out;
  for (const fs::path& name : names) {
    std::ifstream in(name, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in),
                     std::istreambuf_iterator<char>());
  }
  return out;
}

// So many mutations of every input; the number is in the environment where a
// longer run is wanted.
uint64_t num_mutations() {
  const char* text = std::getenv("NIMBLEPY_FUZZ_MUTATIONS");
  return text == nullptr ? 4 : std::strtoull(text, nullptr, 10);
}

void replay(const char* name) {
  const Target* target = find_target(name);
  REQUIRE(target != nullptr);
  std::vector<Input> inputs = seeds_of(*target);
  for (const char* directory : {"corpus", "regressions"}) {
    for (Input& i : inputs_in(directory, *target))
      inputs.push_back(std::move(i));
  }
  target->run({});
  Rng rng(7);
  for (const Input& input : inputs) {
    target->run(input);
    const std::vector<ChecksumEdge> edges = find_checksums(*target, input);
    for (uint64_t n = num_mutations(); n > 0; --n) {
      Input mutated = input;
      if (target->takes_files && n % 4 == 0) {
        mutated = with_other_footer(input, &rng);
      } else {
        mutate(edges, &rng, {}, &mutated);
      }
      target->run(mutated);
    }
  }
}

#define REPLAY_TEST(name) \
  TEST(FuzzReplay, name) { replay(#name); }
REPLAY_TEST(encoding)
REPLAY_TEST(open)
REPLAY_TEST(scan)
REPLAY_TEST(projection)
REPLAY_TEST(lookup)
REPLAY_TEST(index)
REPLAY_TEST(parquet)
REPLAY_TEST(filter)
REPLAY_TEST(verify)
REPLAY_TEST(postscript)
REPLAY_TEST(footer)
REPLAY_TEST(group)
REPLAY_TEST(bloom)
REPLAY_TEST(hash_partition)
REPLAY_TEST(key_chunk)
REPLAY_TEST(key_decode)
REPLAY_TEST(vector_index)

TEST(FuzzReplay, NoTargetIsForgotten) {
  size_t tests = 0;
  for (const testing::Case& c : testing::cases()) {
    if (std::string_view(c.suite) != "FuzzReplay") continue;
    tests += find_target(c.name) != nullptr;
  }
  CHECK_EQ(tests, targets().size());
}

// A mutation that is sealed is read past the checksums: this is what makes
// fuzzing worth the time.
TEST(FuzzMutation, ChecksumsAreFoundAndMadeRight) {
  const Target* target = find_target("scan");
  REQUIRE(target != nullptr);
  const Input& file = file_seeds().front();
  const std::vector<ChecksumEdge> edges = find_checksums(*target, file);
  CHECK(edges.size() >= 3);  // postscript, footer, group
  Input same = file;
  seal(edges, &same);
  CHECK(same == file);
  for (const ChecksumEdge& e : edges) same[e.stored] ^= 1;
  CHECK(same != file);
  seal(edges, &same);
  CHECK(same == file);
}

TEST(DamagedFiles, GiveErrorsOrRightRows) {
  const DamagedFiles files(file_seeds(), 4096);
  DamageCounts counts;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const std::string wrong = files.check(i, &counts);
    if (wrong.empty()) continue;
    testing::fail(__FILE__, __LINE__,
                  "file " + std::to_string(i) + ": wrong " + wrong);
  }
  // Some damage is seen when a file is opened, some when its rows are read,
  // some is in bytes that mean nothing.
  CHECK(counts.refused > 1000);
  CHECK(counts.errors > 1000);
  CHECK(counts.read > 100);
}

}  // namespace
}  // namespace nimble::fuzz
