#include "nimble/memory/memory_watch.h"

#include "testing/check.h"

namespace nimble {
namespace {

constexpr size_t kStep = MemoryWatch::kStep;
constexpr size_t kReserve = MemoryWatch::kReserve;

size_t there = 0;  // memory that the machine has left
int looks = 0;
size_t look() {
  ++looks;
  return there;
}

TEST(MemoryWatch, LooksOnceAStepOfSmallOnes) {
  there = size_t{1} << 40;
  looks = 0;
  MemoryWatch watch(look);
  for (int i = 0; i < 1024; ++i) CHECK(watch.may_take(kStep / 256));
  CHECK_EQ(looks, 4);
}

TEST(MemoryWatch, LooksBeforeEachLargeOne) {
  there = 4 * kStep;
  looks = 0;
  MemoryWatch watch(look);
  CHECK(watch.may_take(kStep));
  CHECK(watch.may_take(kStep));
  CHECK_EQ(looks, 2);
  CHECK(!watch.may_take(there));
  CHECK(!watch.may_take(there - kReserve + 1));
  CHECK(watch.may_take(there - kReserve));
  CHECK(!watch.may_take(SIZE_MAX));
}

// Allocated memory is gone: small allocations never exceed the total.
TEST(MemoryWatch, LeavesTheReserve) {
  constexpr size_t kPiece = size_t{2} << 20;
  for (const size_t all : {size_t{0}, kReserve, kReserve + 5 * kPiece,
                           kReserve + kStep, kReserve + 3 * kStep + kPiece}) {
    there = all;
    MemoryWatch watch(look);
    while (watch.may_take(kPiece)) {
      REQUIRE(there >= kPiece);
      there -= kPiece;
    }
    CHECK_EQ(there, all < kReserve ? all : kReserve);
    there = kReserve + kPiece;  // memory was freed
    CHECK(watch.may_take(kPiece));
  }
}

}  // namespace
}  // namespace nimble
