#include "nimble/memory/buffer_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "nimble/memory/aligned_buffer.h"
#include "nimble/memory/chunk_memory.h"
#include "testing/check.h"

namespace {

thread_local uint64_t allocations = 0;  // of operator new, by this thread

}  // namespace

// Replaces operator new in the whole test program.
void* operator new(size_t size) {
  ++allocations;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace nimble {
namespace {

TEST(BufferPool, GivesWhatWasAskedForAligned) {
  for (const size_t wanted :
       {size_t{1}, size_t{100}, kPooledBytes - 64, kPooledBytes - 63,
        kPooledBytes - 1, kPooledBytes, kPooledBytes + 1, size_t{524352},
        size_t{1} << 20, (size_t{1} << 20) + 64, size_t{5} << 20,
        (size_t{33} << 20) + 1}) {
    size_t size = wanted;
    auto* p = static_cast<uint8_t*>(allocate_buffer(&size));
    CHECK(p != nullptr);
    CHECK(size >= wanted);
    CHECK(size <= wanted + wanted / 8 + 64);
    CHECK_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0);
    std::memset(p, 1, size);
    free_buffer(p, size);
  }
}

TEST(BufferPool, RefusesTheImpossible) {
  size_t size = SIZE_MAX - 64;
  CHECK(allocate_buffer(&size) == nullptr);
}

TEST(BufferPool, BuffersInUseDoNotOverlap) {
  struct Block {
    uint8_t* p;
    size_t size;
    uint8_t mark;
  };
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < 2000; ++i) {
    if (i % 3 == 2) {
      const size_t at = i * 7919 % blocks.size();
      for (const size_t k : {size_t{0}, blocks[at].size - 1}) {
        CHECK_EQ(blocks[at].p[k], blocks[at].mark);
      }
      free_buffer(blocks[at].p, blocks[at].size);
      blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(at));
      continue;
    }
    size_t size = kPooledBytes + i * 104729 % 3000000;
    auto* p = static_cast<uint8_t*>(allocate_buffer(&size));
    const auto mark = static_cast<uint8_t>(i);
    p[0] = p[size - 1] = mark;
    blocks.push_back({p, size, mark});
    if (blocks.size() > 60) {
      free_buffer(blocks[0].p, blocks[0].size);
      blocks.erase(blocks.begin());
    }
  }
  for (const Block& b : blocks) {
    CHECK_EQ(b.p[0], b.mark);
    CHECK_EQ(b.p[b.size - 1], b.mark);
    free_buffer(b.p, b.size);
  }
  CHECK(idle_buffer_bytes() <= kMaxIdleBytes);
}

// Frees far more than the pool keeps: memory becomes purgeable or is unmapped,
// and is used again for buffers of other sizes.
TEST(BufferPool, DroppedMemoryServesOtherSizes) {
  for (const size_t size : {size_t{300000}, size_t{900000}, size_t{6} << 20}) {
    std::vector<AlignedBuffer> made;
    for (size_t total = 0; total < 2 * kMaxIdleBytes; total += size) {
      made.emplace_back(size);
      const auto mark = static_cast<uint8_t>(made.size());
      made.back().data()[0] = made.back().data()[size - 1] = mark;
    }
    for (size_t i = 0; i < made.size(); ++i) {
      CHECK_EQ(made[i].data()[0], static_cast<uint8_t>(i + 1));
      CHECK_EQ(made[i].data()[size - 1], static_cast<uint8_t>(i + 1));
    }
    made.clear();
    CHECK(idle_buffer_bytes() <= kMaxIdleBytes);
  }
}

// Destructors free buffers, so freeing must not allocate.
TEST(BufferPool, GivingBackTakesNoMemory) {
  for (const size_t wanted : {size_t{70000}, size_t{300000}, size_t{6} << 20}) {
    std::vector<std::pair<void*, size_t>> made;
    for (size_t total = 0; total < 2 * kMaxIdleBytes; total += wanted) {
      size_t size = wanted;
      void* const p = allocate_buffer(&size);
      made.emplace_back(p, size);
    }
    // Some buffers remain in use, so that chunks have free and used blocks.
    const uint64_t before = allocations;
    for (size_t i = 0; i < made.size(); ++i) {
      if (i % 3 == 0) free_buffer(made[i].first, made[i].second);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (i % 3 != 0) free_buffer(made[i].first, made[i].second);
    }
    CHECK_EQ(allocations - before, 0);
  }
}

TEST(BufferPool, PurgeableMemoryCanBeWrittenAgain) {
  uint8_t* const chunk = map_chunk(kHugePage);
  CHECK(chunk != nullptr);
  std::memset(chunk, 1, kHugePage);
  if (make_purgeable(chunk, kHugePage)) CHECK(max_purgeable_bytes() > 0);
  std::memset(chunk, 2, kHugePage);
  CHECK_EQ(chunk[0], 2);
  CHECK_EQ(chunk[kHugePage - 1], 2);
  unmap_chunk(chunk, kHugePage);
}

TEST(BufferPool, ThreadsFreeWhatOthersAllocate) {
  std::vector<AlignedBuffer> made(64);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&made, t] {
      for (size_t i = t; i < made.size(); i += 4) {
        made[i].resize(100000 + i);
        made[i].data()[i] = static_cast<uint8_t>(i);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < made.size(); ++i) CHECK_EQ(made[i].data()[i], i);
  threads.clear();
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&made, t] {
      for (size_t i = t; i < made.size(); i += 4) {
        made[(i + 1) % made.size()] = AlignedBuffer();
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace nimble
