#include "nimble/base/buffer_pool.h"

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sys/mman.h>
#endif

#include "nimble/base/bytes.h"

// Blocks of one size are cut from chunks; a chunk goes back to the system when
// none of its blocks is in use and enough is idle already. Under a sanitizer
// every buffer is malloc's, so that it sees what is written past the end.
namespace nimble {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
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

#if defined(__linux__)
// Begins at a huge page.
uint8_t* map_chunk(size_t size) {
  const size_t mapped = size + kHugePage;
  void* const p = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* const first = static_cast<uint8_t*>(p);
  const size_t before = round_up(reinterpret_cast<uintptr_t>(p), kHugePage) -
                        reinterpret_cast<uintptr_t>(p);
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + size, kHugePage - before);
  // Only a hint: without huge pages all works the same.
  (void)::madvise(first + before, size, MADV_HUGEPAGE);
  return first + before;
}
void unmap_chunk(uint8_t* p, size_t size) { ::munmap(p, size); }
#else
uint8_t* map_chunk(size_t size) {
  return static_cast<uint8_t*>(
      std::aligned_alloc(kAlignment, round_up(size, kAlignment)));
}
void unmap_chunk(uint8_t* p, size_t) { std::free(p); }
#endif

struct Chunk {
  size_t size = 0;
  uint32_t used = 0;  // blocks
  std::vector<uint8_t*> free;
};

class BufferPool {
 public:
  void* allocate(size_t size) {
    const size_t block = block_size(size);
    const std::lock_guard lock(mutex_);
    Chunk* chunk = chunk_with_room(block);
    if (chunk == nullptr) return nullptr;
    if (chunk->used++ == 0) idle_ -= chunk->size;
    uint8_t* p = chunk->free.back();
    chunk->free.pop_back();
    if (chunk->free.empty()) rooms_[block].pop_back();
    return p;
  }

  void free(void* p, size_t size) {
    const std::lock_guard lock(mutex_);
    auto* const block = static_cast<uint8_t*>(p);
    const auto at = std::prev(chunks_.upper_bound(block));
    Chunk& chunk = at->second;
    std::vector<uint8_t*>& room = rooms_[block_size(size)];
    if (chunk.free.empty()) room.push_back(at->first);
    chunk.free.push_back(block);
    if (--chunk.used > 0) return;
    if (idle_ + chunk.size <= kMaxIdleBytes) {
      idle_ += chunk.size;
      return;
    }
    std::erase(room, at->first);
    unmap_chunk(at->first, chunk.size);
    chunks_.erase(at);
  }

  size_t idle() {
    const std::lock_guard lock(mutex_);
    return idle_;
  }

  // A child of fork() must not find the pool locked by a thread it lacks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // Counted as idle while none of its blocks is used.
  Chunk* chunk_with_room(size_t block) {
    std::vector<uint8_t*>& room = rooms_[block];
    if (!room.empty()) return &chunks_.find(room.back())->second;
    const size_t size = chunk_size(block);
    uint8_t* const base = map_chunk(size);
    if (base == nullptr) return nullptr;
    Chunk& chunk = chunks_[base];
    chunk.size = size;
    idle_ += size;
    for (size_t at = size / block * block; at > 0; at -= block) {
      chunk.free.push_back(base + at - block);
    }
    room.push_back(base);
    return &chunk;
  }

  std::mutex mutex_;
  std::map<uint8_t*, Chunk> chunks_;  // by address
  // Chunks with a free block, by block size; the one used last is at the end.
  std::map<size_t, std::vector<uint8_t*>> rooms_;
  size_t idle_ = 0;
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
