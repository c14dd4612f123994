#include "nimble/io/range_cache.h"

#include <atomic>
#include <thread>

#include "testing/check.h"
#include "testing/in_child.h"

namespace nimble {
namespace {

// `size` bytes whose values depend on their offset in the file.
RangeCache::Bytes stretch(uint64_t offset, size_t size) {
  auto out = std::make_shared<std::vector<uint8_t>>(size);
  for (size_t i = 0; i < size; ++i)
    (*out)[i] = static_cast<uint8_t>(offset + i);
  return out;
}

// Whether [offset, offset + size) is cached, with correct bytes.
bool holds(RangeCache* cache, uint64_t offset, uint64_t size) {
  uint64_t begin = 0;
  const RangeCache::Bytes bytes = cache->find(offset, size, &begin);
  if (bytes == nullptr) return false;
  CHECK(begin <= offset);
  CHECK(offset + size <= begin + bytes->size());
  for (uint64_t i = 0; i < size; ++i) {
    if ((*bytes)[offset - begin + i] != static_cast<uint8_t>(offset + i)) {
      return false;
    }
  }
  return true;
}

TEST(RangeCache, CoversPartsOfAStretch) {
  CacheBudget budget(1000);
  RangeCache cache(&budget);
  cache.put(100, stretch(100, 50));
  CHECK(holds(&cache, 100, 50));
  CHECK(holds(&cache, 149, 1));
  CHECK(holds(&cache, 150, 0));
  CHECK(!holds(&cache, 149, 2));
  CHECK(!holds(&cache, 99, 2));
  CHECK(!holds(&cache, 0, 1));
  CHECK(!holds(&cache, 120, UINT64_MAX));
  // Adjacent ranges are not joined.
  cache.put(150, stretch(150, 50));
  CHECK(!holds(&cache, 140, 20));
}

TEST(RangeCache, FindsTheStretchThatCoversAmongThoseThatOverlap) {
  CacheBudget budget(1000);
  RangeCache cache(&budget);
  cache.put(100, stretch(100, 100));
  cache.put(120, stretch(120, 10));  // inside another: nothing new
  CHECK_EQ(cache.used(), 100);
  CHECK(holds(&cache, 150, 50));
  cache.put(150, stretch(150, 100));  // overlaps
  CHECK_EQ(cache.used(), 200);
  CHECK(holds(&cache, 100, 100));
  CHECK(holds(&cache, 150, 100));
  CHECK(!holds(&cache, 149, 100));
  cache.put(100, stretch(100, 150));  // covers both
  CHECK_EQ(cache.used(), 150);
  CHECK(holds(&cache, 100, 150));
  cache.put(50, stretch(50, 300));
  CHECK_EQ(cache.used(), 300);
  CHECK(holds(&cache, 249, 101));
}

TEST(RangeCache, LeastRecentlyUsedGoesFirst) {
  CacheBudget budget(300);
  RangeCache cache(&budget);
  for (const uint64_t at : {0, 1000, 2000}) cache.put(at, stretch(at, 100));
  CHECK_EQ(cache.used(), 300);
  CHECK(holds(&cache, 0, 100));  // used again: 1000 is the oldest now
  cache.put(3000, stretch(3000, 100));
  CHECK_EQ(cache.used(), 300);
  CHECK(holds(&cache, 0, 100));
  CHECK(!holds(&cache, 1000, 100));
  CHECK(holds(&cache, 2000, 100));
  CHECK(holds(&cache, 3000, 100));
  cache.put(4000, stretch(4000, 250));
  CHECK_EQ(cache.used(), 250);
  CHECK(!holds(&cache, 3000, 1));
}

TEST(RangeCache, LargerThanTheCacheIsNotKept) {
  CacheBudget budget(100);
  RangeCache cache(&budget);
  cache.put(0, stretch(0, 60));
  cache.put(500, stretch(500, 101));
  CHECK(!holds(&cache, 500, 1));
  CHECK(holds(&cache, 0, 60));
  CacheBudget nothing(0);
  RangeCache none(&nothing);
  none.put(0, stretch(0, 1));
  CHECK(!holds(&none, 0, 1));
}

TEST(RangeCache, LongerStretchReplacesShorter) {
  CacheBudget budget(1000);
  RangeCache cache(&budget);
  cache.put(10, stretch(10, 20));
  cache.put(10, stretch(10, 90));
  CHECK_EQ(cache.used(), 90);
  cache.put(10, stretch(10, 5));
  CHECK_EQ(cache.used(), 90);
  CHECK(holds(&cache, 10, 90));
}

TEST(RangeCache, EvictedBytesLiveWhileUsed) {
  CacheBudget budget(100);
  RangeCache cache(&budget);
  cache.put(0, stretch(0, 100));
  uint64_t begin = 0;
  const RangeCache::Bytes held = cache.find(0, 100, &begin);
  cache.put(1000, stretch(1000, 100));
  CHECK(!holds(&cache, 0, 1));
  CHECK_EQ((*held)[99], 99);
}

TEST(RangeCache, ManyThreads) {
  CacheBudget budget(2000);
  RangeCache cache(&budget);
  std::atomic<int> wrong{0};
  std::vector<std::thread> pool;
  for (uint64_t t = 0; t < 4; ++t) {
    pool.emplace_back([&cache, &wrong, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const uint64_t at = (i * 7 + t * 13) % 50 * 100;
        uint64_t begin = 0;
        const auto bytes = cache.find(at + 10, 50, &begin);
        if (bytes == nullptr) {
          cache.put(at, stretch(at, 100));
        } else if ((*bytes)[at + 10 - begin] != static_cast<uint8_t>(at + 10)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : pool) t.join();
  CHECK_EQ(wrong.load(), 0);
  budget.shrink();
  CHECK(cache.used() <= 2000);
}

// Regression: the cache shares of threads that do not exist in a child counted
// there forever.
TEST(RangeCache, SharesOfTheParentDoNotCountInAChild) {
  if (!nimble::testing::kForks) return;
  CacheBudget budget(1000);
  RangeCache cache(&budget);
  {
    const RangeCache::Share of_parent(&cache), another(&cache);
    CHECK_EQ(another.bytes(), 250);
    CHECK_EQ(nimble::testing::in_child([&] {
               const RangeCache::Share own(&cache);
               return own.bytes() == 500 ? 7 : 8;
             }),
             7);
    CHECK_EQ(another.bytes(), 250);
  }
  CHECK_EQ(RangeCache::Share(&cache).bytes(), 500);
}

}  // namespace
}  // namespace nimble
