#include "nimble/threads/fork_mutex.h"

#include <atomic>
#include <thread>
#include <vector>

#include "nimble/threads/read_ahead.h"
#include "testing/check.h"
#include "testing/in_child.h"

namespace nimble {
namespace {

using nimble::testing::in_child;
using nimble::testing::kForks;

TEST(ForkMutex, IsFreeInAChildThoughAnotherThreadHeldIt) {
  if (!kForks) return;
  int renewed = 0, held = 0;
  ForkMutex mutex([&](bool was_held) {
    ++renewed;
    held += was_held;
  });
  std::atomic<int> step{0};
  std::thread holder([&] {
    mutex.lock();
    step = 1;
    while (step < 2) std::this_thread::yield();
    mutex.unlock();
  });
  while (step < 1) std::this_thread::yield();
  const uint32_t forks = fork_count();
  const int answer = in_child([&] {
    mutex.lock();
    mutex.unlock();
    return renewed + 10 * held + 100 * (fork_count() == forks + 1);
  });
  step = 2;
  holder.join();
  CHECK_EQ(answer, 111);
  CHECK_EQ(in_child([&] { return renewed + 10 * held; }), 1);
  CHECK_EQ(renewed, 0);
  CHECK_EQ(fork_count(), forks);
}

TEST(ForkMutex, DestroyedOnesAreForgotten) {
  if (!kForks) return;
  int renewed = 0;
  const auto count = [&](bool) { ++renewed; };
  ForkMutex first(count);
  {
    ForkMutex second(count);
    auto third = std::make_unique<ForkMutex>(count);
    ForkMutex fourth(count);
    third.reset();
    CHECK_EQ(in_child([&] { return renewed; }), 3);
  }
  CHECK_EQ(in_child([&] { return renewed; }), 1);
}

TEST(ForkMutex, ReadAheadOfTheParentEndsInAChild) {
  if (!kForks) return;
  auto ahead = std::make_unique<ReadAhead<int>>(
      [n = 0]() mutable -> ReadAhead<int>::Task {
        return [i = n++] { return i; };
      },
      2);
  CHECK(!ahead->is_lost());
  CHECK_EQ(*ahead->next(), 0);
  CHECK_EQ(in_child([&] {
             const bool lost = ahead->is_lost();
             ahead.reset();
             return lost ? 7 : 8;
           }),
           7);
  CHECK(!ahead->is_lost());
  CHECK_EQ(*ahead->next(), 1);
}

}  // namespace
}  // namespace nimble
