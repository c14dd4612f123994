#include "nimble/memory/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "nimble/base/bytes.h"
#include "nimble/memory/chunk_memory.h"
#include "nimble/memory/memory_watch.h"

// Blocks of one size are cut from chunks. A chunk is idle if none of its blocks
// is in use. It can then be cut into blocks of another size that uses chunks as
// large. Under a sanitizer all buffers use malloc, so that the sanitizer
// detects writes past the end.
namespace nimble {
namespace {

constexpr size_t kAlignment = 64;

// clang has a feature test for this, GCC a macro.
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

// There are eight sizes between powers of two, so a block wastes at most an
// eighth.
size_t block_size(size_t size) {
  const int shift = static_cast<int>(std::bit_width(size - 1)) - 4;
  return round_up(size, size_t{1} << shift);
}

// Chooses the smallest chunk of 1 to 8 huge pages that wastes at most a
// sixteenth, or else the chunk that wastes least. A large block has its own
// chunk.
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
  uint32_t used = 0;     // number of blocks
  uint64_t idle_at = 0;  // if idle: when it became idle (a counter)
  std::vector<uint8_t*> free;
};

// A chunk remains one list element and is spliced from list to list, so that
// freeing a buffer, which destructors do, allocates no memory.
using Chunks = std::list<Chunk>;

// Chunks without used blocks, ordered by the time they became idle. The newest
// are kept unchanged, older ones are purgeable, and the oldest are unmapped if
// too much is purgeable.
class IdleChunks {
 public:
  // Moves the newest chunk of this size to the end of *to. Returns false if
  // there is no such chunk.
  bool take(size_t size, Chunks* to) {
    OfSize& same = by_size_[size];
    const bool is_kept = !same.kept.empty();
    Chunks& from = is_kept ? same.kept : same.purgeable;
    if (from.empty()) return false;
    (is_kept ? kept_bytes_ : purgeable_bytes_) -= size;
    to->splice(to->end(), from, std::prev(from.end()));
    return true;
  }

  // Moves a chunk here.
  // REQUIRES: take() was called with its size before.
  void add(Chunks* from, Chunks::iterator chunk) {
    chunk->idle_at = ++now_;
    kept_bytes_ += chunk->size;
    Chunks& to = by_size_.find(chunk->size)->second.kept;
    to.splice(to.end(), *from, chunk);
  }

  // Moves the chunks that must be unmapped to *out.
  void evict(Chunks* out) {
    while (kept_bytes_ > kMaxIdleBytes) {
      OfSize& same = oldest(&OfSize::kept);
      const Chunk& chunk = same.kept.front();
      const bool purgeable = make_purgeable(chunk.base, chunk.size);
      kept_bytes_ -= chunk.size;
      if (purgeable) purgeable_bytes_ += chunk.size;
      Chunks& to = purgeable ? same.purgeable : *out;
      to.splice(to.end(), same.kept, same.kept.begin());
    }
    while (purgeable_bytes_ > max_purgeable_bytes()) {
      Chunks& from = oldest(&OfSize::purgeable).purgeable;
      purgeable_bytes_ -= from.front().size;
      out->splice(out->end(), from, from.begin());
    }
  }

  size_t kept_bytes() const { return kept_bytes_; }

 private:
  // Oldest first. All purgeable chunks are older than all kept chunks.
  struct OfSize {
    Chunks kept, purgeable;
  };

  // The size whose list begins with the oldest chunk of all kept, or of all
  // purgeable, chunks.
  OfSize& oldest(Chunks OfSize::* which) {
    OfSize* oldest = nullptr;
    for (auto& [size, same] : by_size_) {
      if ((same.*which).empty()) continue;
      if (oldest == nullptr ||
          (same.*which).front().idle_at < (oldest->*which).front().idle_at) {
        oldest = &same;
      }
    }
    return *oldest;
  }

  uint64_t now_ = 0;
  size_t kept_bytes_ = 0, purgeable_bytes_ = 0;
  std::map<size_t, OfSize> by_size_;
};

class BufferPool {
 public:
  void* allocate(size_t size) {
    const size_t block = block_size(size);
    const std::lock_guard lock(mutex_);
    Chunks& room = rooms_[block];
    if (room.empty() && !add_chunk(block, &room)) return nullptr;
    Chunk& chunk = room.back();
    ++chunk.used;
    uint8_t* const p = chunk.free.back();
    chunk.free.pop_back();
    if (chunk.free.empty()) {
      full_.splice(full_.end(), room, std::prev(room.end()));
    }
    return p;
  }

  void free(void* p, size_t size) {
    const std::lock_guard lock(mutex_);
    auto* const block = static_cast<uint8_t*>(p);
    const Chunks::iterator chunk =
        std::prev(by_base_.upper_bound(block))->second;
    Chunks& room = rooms_.find(block_size(size))->second;
    if (chunk->free.empty()) room.splice(room.end(), full_, chunk);
    chunk->free.push_back(block);
    if (--chunk->used > 0) return;
    idle_.add(&room, chunk);
    Chunks evicted;
    idle_.evict(&evicted);
    for (const Chunk& c : evicted) {
      by_base_.erase(c.base);
      unmap_chunk(c.base, c.size);
    }
  }

  size_t idle() {
    const std::lock_guard lock(mutex_);
    return idle_.kept_bytes();
  }

  // fork() must not happen while another thread holds the lock: that thread
  // does not exist in the child.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // Adds an idle or a new chunk, cut into blocks of this size. Returns false if
  // memory is exhausted.
  bool add_chunk(size_t block, Chunks* room) {
    const size_t size = chunk_size(block);
    if (!idle_.take(size, room)) {
      if (!watch_.may_take(size)) return false;
      uint8_t* const base = map_chunk(size);
      if (base == nullptr) return false;
      Chunk& made = room->emplace_back();
      made.base = base;
      made.size = size;
      made.free.reserve(size / kPooledBytes);  // enough for any block size
      by_base_[base] = std::prev(room->end());
    }
    Chunk& chunk = room->back();
    chunk.free.clear();
    for (size_t at = size / block * block; at > 0; at -= block) {
      chunk.free.push_back(chunk.base + at - block);
    }
    return true;
  }

  std::mutex mutex_;
  std::map<uint8_t*, Chunks::iterator> by_base_;
  // Chunks with used and with free blocks, by block size, the newest at the
  // end.
  std::map<size_t, Chunks> rooms_;
  Chunks full_;
  IdleChunks idle_;
  MemoryWatch watch_{available_bytes};
};

// Never destroyed: another library may hold buffers until the process ends.
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
  // Rounded first, because free_buffer() depends on the size that is passed
  // back.
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
