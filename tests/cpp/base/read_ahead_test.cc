#include "nimble/base/read_ahead.h"

#include <atomic>
#include <stdexcept>

#include "base/no_threads.h"
#include "testing/check.h"

namespace nimble {
namespace {

ReadAhead<int>::Task square_of(int i) {
  return [i] { return i * i; };
}

TEST(ReadAhead, KeepsTheOrderOfTasks) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    int next = 0;
    ReadAhead<int> ahead(
        [&]() -> ReadAhead<int>::Task {
          if (next == 500) return {};
          return square_of(next++);
        },
        threads);
    for (int i = 0; i < 500; ++i) {
      const auto got = ahead.next();
      CHECK(got.has_value());
      CHECK_EQ(got.value_or(-1), i * i);
    }
    CHECK(!ahead.next().has_value());
    CHECK(!ahead.next().has_value());
  }
}

TEST(ReadAhead, RunsOnlySoFarAhead) {
  std::atomic<int> claimed{0};
  {
    ReadAhead<int> ahead(
        [&]() -> ReadAhead<int>::Task { return square_of(claimed++); }, 2);
    CHECK_EQ(ahead.next().value_or(-1), 0);
    CHECK_EQ(ahead.next().value_or(-1), 1);
  }
  // Two were taken, at most three waited and two more had been begun.
  CHECK(claimed.load() <= 7);
  CHECK(claimed.load() >= 2);
}

TEST(ReadAhead, NothingRunsBeforeItIsAskedFor) {
  int claimed = 0;
  {
    ReadAhead<int> ahead(
        [&]() -> ReadAhead<int>::Task { return square_of(claimed++); }, 3);
  }
  CHECK_EQ(claimed, 0);
}

TEST(ReadAhead, HandsOnWhatTasksThrow) {
  for (const uint32_t threads : {1u, 3u}) {
    int next = 0;
    ReadAhead<int> ahead(
        [&]() -> ReadAhead<int>::Task {
          const int i = next++;
          if (i == 3) return {};
          return [i]() -> int {
            if (i == 1) throw std::runtime_error("second");
            return i;
          };
        },
        threads);
    CHECK_EQ(ahead.next().value_or(-1), 0);
    bool thrown = false;
    try {
      (void)ahead.next();
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(ahead.next().value_or(-1), 2);
    CHECK(!ahead.next().has_value());
  }
}

TEST(ReadAhead, WithoutThreadsTasksAreDoneWhenAskedFor) {
  const nimble::testing::NoThreads none;
  int next = 0;
  ReadAhead<int> ahead(
      [&]() -> ReadAhead<int>::Task {
        if (next == 5) return {};
        return square_of(next++);
      },
      3);
  for (int i = 0; i < 5; ++i) CHECK_EQ(ahead.next().value_or(-1), i * i);
  CHECK(!ahead.next().has_value());
}

}  // namespace
}  // namespace nimble
