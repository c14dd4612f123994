#include "nimble/io/slot_cache.h"

#include <atomic>
#include <thread>

#include "nimble/io/memory_file.h"
#include "nimble/memory/memory_counter.h"
#include "testing/check.h"
#include "testing/in_child.h"

namespace nimble {
namespace {

using nimble::testing::in_child;
using nimble::testing::kForks;

std::atomic<int> alive{0};

struct Thing {
  Thing(size_t n, uint64_t bytes, const CacheBudget::Part* part)
      : number(n), memory(part->counter()) {
    memory.add(bytes);
    ++alive;
  }
  ~Thing() {
    number = SIZE_MAX;  // later accesses fail
    --alive;
  }
  size_t number;
  mutable MemoryCounter memory;
};
using Things = SlotCache<Thing>;

const MemoryFile& any_file() {
  static const MemoryFile file({}, nullptr);
  return file;
}

// Returns the thing, and loads it if it is not cached.
SlotHandle<Thing> load(const Things& things, size_t i, uint64_t bytes = 10) {
  SlotHandle<Thing> out = things.find(i);
  if (!out) {
    const ReadLock lock(things.mutex(), any_file());
    out = things.find(i);
    if (!out)
      out = things.publish(i, std::make_unique<Thing>(i, bytes, &things));
  }
  things.budget().shrink();
  return out;
}

TEST(SlotCache, KeepsWhatFitsAndDropsTheOldest) {
  {
    CacheBudget budget(35);
    const Things things(10, &budget);
    for (size_t i = 0; i < 5; ++i) CHECK_EQ(load(things, i)->number, i);
    // The last one was in use while memory was freed for it.
    CHECK_EQ(budget.used(), 30);
    for (size_t i = 0; i < 5; ++i) {
      CHECK_EQ(bool(things.find(i)), i >= 2);
    }
    CHECK_EQ(alive.load(), 3);
  }
  CHECK_EQ(alive.load(), 0);
}

TEST(SlotCache, DropsNothingThatIsUsed) {
  CacheBudget budget(25);
  const Things things(10, &budget);
  SlotHandle<Thing> first = load(things, 0), again = load(things, 0);
  for (size_t i = 1; i < 8; ++i) load(things, i);
  CHECK_EQ(first->number, 0);
  CHECK_EQ(again->number, 0);
  CHECK_EQ(budget.used(), 20);
  first = {};
  budget.shrink();
  CHECK(bool(things.find(0)));
  again = SlotHandle<Thing>();
  load(things, 9);
  load(things, 8);
  CHECK(!things.find(0));
}

TEST(SlotCache, GrowthCounts) {
  CacheBudget budget(100);
  const Things things(10, &budget);
  const SlotHandle<Thing> first = load(things, 0);
  for (size_t i = 1; i < 6; ++i) load(things, i);
  first->memory.add(70);
  CHECK_EQ(budget.used(), 130);
  budget.shrink();
  CHECK_EQ(budget.used(), 100);
  CHECK_EQ(first->number, 0);
}

// Regression: each load iterated over all loaded things.
TEST(SlotCache, RoomIsMadeInOneStepHoweverManyAreLoaded) {
  for (const size_t kept : {100, 4000}) {
    CacheBudget budget(kept * 10);
    const Things things(2 * kept, &budget);
    for (size_t i = 0; i < kept; ++i) load(things, i);
    CHECK_EQ(budget.evictions(), 0);
    for (size_t i = kept; i < 2 * kept; ++i) load(things, i);
    CHECK_EQ(budget.evictions(), kept);
  }
}

TEST(SlotCache, ThePartThatKeepsMostGivesWay) {
  CacheBudget budget(100);
  const Things many(20, &budget), few(20, &budget);
  for (size_t i = 0; i < 3; ++i) load(few, i);
  for (size_t i = 0; i < 20; ++i) load(many, i);
  CHECK_EQ(few.used(), 30);
  CHECK_EQ(many.used(), 70);
  // Resident memory leaves half of the capacity to the parts.
  budget.add_resident(20);
  budget.shrink();
  CHECK_EQ(few.used() + many.used(), 80);
  CHECK_EQ(budget.used(), 100);
  budget.add_resident(1000);
  budget.shrink();
  CHECK_EQ(few.used() + many.used(), 50);
}

TEST(SlotCache, ManyThreads) {
  CacheBudget budget(200);
  const Things things(64, &budget);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint64_t x = t + 1;
      SlotHandle<Thing> held;
      for (int i = 0; i < 20'000; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const size_t number = (x >> 33) % 64;
        SlotHandle<Thing> got = load(things, number);
        wrong += got->number != number;
        if (i % 7 == 0) held = std::move(got);
        wrong += held && held->number > 64;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
  budget.shrink();
  CHECK(budget.used() <= 200);
}

TEST(SlotCache, IsUsableInAChildThoughItWasBeingChanged) {
  if (!kForks) return;
  CacheBudget budget(35);
  const Things things(10, &budget);
  for (size_t i = 0; i < 3; ++i) load(things, i);
  std::atomic<int> step{0};
  std::thread holder([&] {
    const ReadLock lock(things.mutex(), any_file());
    step = 1;
    while (step < 2) std::this_thread::yield();
  });
  while (step < 1) std::this_thread::yield();
  CHECK_EQ(in_child([&] {
             for (size_t i = 0; i < 10; ++i) {
               if (load(things, i)->number != i) return 8;
             }
             return budget.used() == 30 ? 7 : 9;
           }),
           7);
  step = 2;
  holder.join();
}

}  // namespace
}  // namespace nimble
