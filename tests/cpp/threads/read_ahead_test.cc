#include "nimble/threads/read_ahead.h"

#include <atomic>
#include <stdexcept>

#include "testing/check.h"
#include "threads/no_threads.h"

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
  // Two results were taken, and at most four more tasks were claimed.
  CHECK(claimed.load() <= 6);
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

// Regression: a scan on a busy machine waited for threads that were not
// scheduled.
TEST(ReadAhead, TheTakerWorksWhileHelpersAreHeldUp) {
  const auto self = std::this_thread::get_id();
  std::atomic<int> by_taker{0};
  int next = 0;
  ReadAhead<int> ahead(
      [&]() -> ReadAhead<int>::Task {
        if (next == 20) return {};
        return [&, i = next++] {
          if (std::this_thread::get_id() == self) ++by_taker;
          while (by_taker == 0) std::this_thread::yield();
          return i;
        };
      },
      3);
  for (int i = 0; i < 20; ++i) CHECK_EQ(ahead.next().value_or(-1), i);
  CHECK(!ahead.next().has_value());
  CHECK(by_taker.load() > 0);
}

TEST(ReadAhead, ResultsThatNobodyTakesEndWithIt) {
  const auto kept = std::make_shared<int>(0);
  {
    ReadAhead<std::shared_ptr<int>> ahead(
        [&]() -> ReadAhead<std::shared_ptr<int>>::Task {
          return [&] { return kept; };
        },
        4);
    for (int i = 0; i < 5; ++i) (void)ahead.next();
  }
  CHECK_EQ(kept.use_count(), 1L);
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
