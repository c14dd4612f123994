#include "nimble/threads/parallel.h"

#include "testing/check.h"
#include "threads/no_threads.h"

namespace nimble {
namespace {

TEST(Parallel, EveryTaskOnce) {
  for (const size_t n : {0, 1, 2, 7, 1000}) {
    for (const uint32_t threads : {0, 1, 2, 8, 2000}) {
      if (threads == 2000 && n > 7) continue;
      std::vector<std::atomic<int>> runs(n);
      parallel_for(n, threads, [&](size_t i) { ++runs[i]; });
      int wrong = 0;
      for (const auto& r : runs) wrong += r != 1;
      CHECK_EQ(wrong, 0);
    }
  }
}

TEST(Parallel, TasksOverlap) {
  // Two tasks that wait for each other end only if both run at once.
  std::atomic<int> arrived{0};
  parallel_for(2, 2, [&](size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  CHECK_EQ(arrived.load(), 2);
}

TEST(Parallel, WhatATaskThrowsIsThrown) {
  for (const uint32_t threads : {1, 2, 8}) {
    bool caught = false;
    try {
      parallel_for(100, threads, [](size_t i) {
        if (i % 10 == 3) throw std::bad_alloc();
      });
    } catch (const std::bad_alloc&) {
      caught = true;
    }
    CHECK(caught);
  }
}

// Helpers may start after all work is done and the task no longer exists.
TEST(Parallel, LateHelpersFindNothing) {
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::atomic<int>> runs(3);
    parallel_for(runs.size(), 3, [&](size_t k) { ++runs[k]; });
    CHECK_EQ(runs[0] + runs[1] + runs[2], 3);
  }
}

TEST(Threads, FewNanosAreWorthNoThread) {
  CHECK_EQ(threads_worth(0, 8), 1u);
  CHECK_EQ(threads_worth(5e4, 8), 1u);
  CHECK_EQ(threads_worth(3.5e6, 8), 3u);
  CHECK_EQ(threads_worth(1e12, 8), 8u);
  CHECK_EQ(threads_worth(1e12, 1), 1u);
}

TEST(Parallel, OneThreadIsTheCaller) {
  const auto self = std::this_thread::get_id();
  std::vector<size_t> order;
  parallel_for(5, 1, [&](size_t i) {
    CHECK(std::this_thread::get_id() == self);
    order.push_back(i);
  });
  CHECK(order == std::vector<size_t>({0, 1, 2, 3, 4}));
}

// Regression: the process ended if a thread could not be started.
TEST(Parallel, ThreadsThatCannotStartAreFewerThreads) {
  const nimble::testing::NoThreads none;
  std::vector<std::atomic<int>> runs(100);
  parallel_for(runs.size(), 4, [&](size_t i) { ++runs[i]; });
  int wrong = 0;
  for (const auto& r : runs) wrong += r != 1;
  CHECK_EQ(wrong, 0);
}

}  // namespace
}  // namespace nimble
