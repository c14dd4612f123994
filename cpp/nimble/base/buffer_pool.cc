#include "nimble/base/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "nimble/base/bytes.h"
#include "nimble/base/chunk_memory.h"
#include "nimble/base/memory_watch.h"

// Blocks of one size are cut from chunks; a chunk is idle when none of its
// blocks is in use, and is cut anew for whatever needs one of its size. Under a
// sanitizer every buffer is malloc's, so that it sees what is written past the
// end.
namespace nimble {
namespace {

constexpr size_t kAlignment = 64;

// clang says so by a feature, GCC by a macro
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NIMBLE_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(NIMBLE_SANITIZED)
constexpr bool kIsPooled = false;
#else
constexpr bool kIsPooled = true;
#endif

// Eight sizes between powers of two: a block wastes an eighth at most.
size_t block_size(size_t size) {
  const int shift = static_cast<int>(std::bit_width(size - 1)) - 4;
  return round_up(size, size_t{1} << shift);
}

// Blocks share huge pages, as few as waste a sixteenth of them at most. Large
// ones are alone.
size_t chunk_size(size_t block) {
  if (block > 2 * kHugePage) return round_up(block, size_t{65536});
  size_t best = kHugePage;
  for (size_t size = kHugePage; size <= 8 * kHugePage; size += kHugePage) {
    if (size % block * best < best % block * size || best < block) best = size;
    if (best >= block && best % block <= best / 16) break;
  }
  return best;
}

struct Chunk {
  uint8_t* base = nullptr;
  size_t size = 0;
  uint32_t used = 0;     // blocks
  uint64_t idle_at = 0;  // while idle: its place among the idle ones
  std::vector<uint8_t*> free;
};

// Chunks without a block in use, by when they became so. The newest are kept
// as they are, older ones are purgeable, and above what may be purgeable
// the oldest are given back.
class IdleChunks {
 public:
  // One of this size, the newest; null where there is none.
  Chunk* take(size_t size) {
    std::deque<Chunk*>& same = by_size_[size];
    if (same.empty()) return nullptr;
    Chunk* const chunk = same.back();
    same.pop_back();
    if (kept_.erase(chunk->idle_at) > 0) kept_bytes_ -= size;
    if (purgeable_.erase(chunk->idle_at) > 0) purgeable_bytes_ -= size;
    return chunk;
  }

  void add(Chunk* chunk) {
    chunk->idle_at = ++now_;
    kept_[now_] = chunk;
    kept_bytes_ += chunk->size;
    by_size_[chunk->size].push_back(chunk);
  }

  // The next one to give back, null where all may stay.
  Chunk* evict() {
    while (kept_bytes_ > kMaxIdleBytes) {
      Chunk* const oldest = take_oldest(&kept_, &kept_bytes_);
      if (!make_purgeable(oldest->base, oldest->size)) return forget(oldest);
      purgeable_[oldest->idle_at] = oldest;
      purgeable_bytes_ += oldest->size;
    }
    if (purgeable_bytes_ <= max_purgeable_bytes()) return nullptr;
    return forget(take_oldest(&purgeable_, &purgeable_bytes_));
  }

  size_t kept_bytes() const { return kept_bytes_; }

 private:
  using ByAge = std::map<uint64_t, Chunk*>;

  static Chunk* take_oldest(ByAge* from, size_t* bytes) {
    Chunk* const oldest = from->begin()->second;
    from->erase(from->begin());
    *bytes -= oldest->size;
    return oldest;
  }
  Chunk* forget(Chunk* chunk) {
    std::deque<Chunk*>& same = by_size_[chunk->size];
    same.erase(std::find(same.begin(), same.end(), chunk));
    return chunk;
  }

  uint64_t now_ = 0;
  ByAge kept_, purgeable_;  // every purgeable one is older than every kept one
  size_t kept_bytes_ = 0, purgeable_bytes_ = 0;
  std::map<size_t, std::deque<Chunk*>> by_size_;  // the newest at the end
};

class BufferPool {
 public:
  void* allocate(size_t size) {
    const size_t block = block_size(size);
    const std::lock_guard lock(mutex_);
    Chunk* const chunk = chunk_with_room(block);
    if (chunk == nullptr) return nullptr;
    ++chunk->used;
    uint8_t* const p = chunk->free.back();
    chunk->free.pop_back();
    if (chunk->free.empty()) rooms_[block].pop_back();
    return p;
  }

  void free(void* p, size_t size) {
    const std::lock_guard lock(mutex_);
    auto* const block = static_cast<uint8_t*>(p);
    Chunk* const chunk = &std::prev(chunks_.upper_bound(block))->second;
    std::vector<Chunk*>& room = rooms_[block_size(size)];
    if (chunk->free.empty()) room.push_back(chunk);
    chunk->free.push_back(block);
    if (--chunk->used > 0) return;
    std::erase(room, chunk);
    idle_.add(chunk);
    while (Chunk* const evicted = idle_.evict()) {
      unmap_chunk(evicted->base, evicted->size);
      chunks_.erase(evicted->base);
    }
  }

  size_t idle() {
    const std::lock_guard lock(mutex_);
    return idle_.kept_bytes();
  }

  // A child of fork() must not find the pool locked by a thread it lacks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  Chunk* chunk_with_room(size_t block) {
    std::vector<Chunk*>& room = rooms_[block];
    if (!room.empty()) return room.back();
    const size_t size = chunk_size(block);
    Chunk* chunk = idle_.take(size);
    if (chunk == nullptr) {
      if (!watch_.may_take(size)) return nullptr;
      uint8_t* const base = map_chunk(size);
      if (base == nullptr) return nullptr;
      chunk = &chunks_[base];
      chunk->base = base;
      chunk->size = size;
    }
    chunk->free.clear();
    for (size_t at = size / block * block; at > 0; at -= block) {
      chunk->free.push_back(chunk->base + at - block);
    }
    room.push_back(chunk);
    return chunk;
  }

  std::mutex mutex_;
  std::map<uint8_t*, Chunk> chunks_;  // by address
  // Chunks with used and free blocks, by block size, the latest at the end.
  std::map<size_t, std::vector<Chunk*>> rooms_;
  IdleChunks idle_;
  MemoryWatch watch_{available_bytes};
};

// Never destroyed: buffers may outlive everything in another library's hands.
BufferPool& pool() {
  static BufferPool* const it = [] {
    auto* const made = new BufferPool();
#if defined(__linux__)
    ::pthread_atfork([] { pool().lock(); }, [] { pool().unlock(); },
                     [] { pool().unlock(); });
#endif
    return made;
  }();
  return *it;
}

}  // namespace

void* allocate_buffer(size_t* size) {
  if (*size > SIZE_MAX / 2) return nullptr;
  // Rounded first: free_buffer() goes by the size that is given back.
  *size = round_up(*size, kAlignment);
  if (!kIsPooled || *size < kPooledBytes) {
    if (*size >= MemoryWatch::kStep && *size > available_bytes())
      return nullptr;
    return std::aligned_alloc(kAlignment, *size);
  }
  *size = block_size(*size);
  return pool().allocate(*size);
}

void free_buffer(void* p, size_t size) {
  if (!kIsPooled || size < kPooledBytes || p == nullptr) {
    std::free(p);
    return;
  }
  pool().free(p, size);
}

size_t idle_buffer_bytes() { return pool().idle(); }

}  // namespace nimble
