#include <chrono>
#include <exception>
#include <string_view>

#include "testing/check.h"

namespace nimble::testing {
namespace {

bool is_wanted(const std::string& full_name, const Case& test, int argc,
               char** argv) {
  if (argc < 2) return true;
  for (int i = 1; i < argc; ++i) {
    if (full_name == argv[i] || std::string_view(test.suite) == argv[i]) {
      return true;
    }
  }
  return false;
}

bool passes(const std::string& full_name, const Case& test) {
  const int before = failures;
  try {
    test.run();
  } catch (const Abandoned&) {
    // REQUIRE has already reported it.
  } catch (const std::exception& error) {
    fail(full_name.c_str(), 0,
         std::string("unexpected exception: ") + error.what());
  }
  return failures == before;
}

}  // namespace

int run_tests(int argc, char** argv) {
  const bool list = argc == 2 && std::string_view(argv[1]) == "--list";
  int num_run = 0;
  int num_failed = 0;
  for (const Case& test : cases()) {
    const std::string name = std::string(test.suite) + "." + test.name;
    if (list) {
      std::puts(name.c_str());
      continue;
    }
    if (!is_wanted(name, test, argc, argv)) continue;
    const auto begin = std::chrono::steady_clock::now();
    const bool passed = passes(name, test);
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    ++num_run;
    num_failed += passed ? 0 : 1;
    std::printf("%s %s", passed ? "ok  " : "FAIL", name.c_str());
    // Slow tests are listed, so that they remain exceptions.
    if (took.count() >= 1) std::printf(" (%.1f s)", took.count());
    std::printf("\n");
    std::fflush(stdout);
  }
  if (list) return 0;
  std::printf("%d run, %d failed\n", num_run, num_failed);
  // A name that matches no test is an error of the caller.
  return num_failed > 0 || (argc > 1 && num_run == 0);
}

}  // namespace nimble::testing

int main(int argc, char** argv) {
  return nimble::testing::run_tests(argc, argv);
}
