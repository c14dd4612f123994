#include "testing/check.h"

#include <cstdint>
#include <vector>

namespace nimble::testing {
namespace {

// Runs `body` and subtracts its failures: the harness tests itself.
template <class Body>
int failures_of(Body body) {
  const int before = failures;
  body();
  return std::exchange(failures, before) - before;
}

TEST(Check, EqualComparesIntegersByValue) {
  CHECK_EQ(std::vector<int>(3).size(), 3);
  CHECK(!equal(std::uint64_t{0} - 1, -1));
}

TEST(Check, FailuresAreCounted) {
  std::fputs("(two failures on purpose follow)\n", stderr);
  CHECK_EQ(failures_of([] { CHECK(1 == 2); }), 1);
  CHECK_EQ(failures_of([] { CHECK_EQ(std::vector{1}, std::vector{2}); }), 1);
}

TEST(Check, RequireEndsTheTest) {
  std::fputs("(one failure on purpose follows)\n", stderr);
  CHECK_EQ(failures_of([] {
             try {
               REQUIRE(false);
               CHECK(false);
             } catch (const Abandoned&) {
             }
           }),
           1);
}

TEST(Check, ShowPrintsBytesAndContainers) {
  CHECK_EQ(show(std::uint8_t{65}), std::string("65"));
  CHECK_EQ(show(std::vector{1, 2}), std::string("[2: 1 2]"));
}

}  // namespace
}  // namespace nimble::testing
