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
  uint64_t idle_at = 0;  // while idle: the greater, the later it became so
  std::vector<uint8_t*> free;
};

// A chunk stays one element of a list and moves from list to list, so that
// giving a buffer back, which destructors do, takes no memory.
using Chunks = std::list<Chunk>;

// Chunks without a block in use, by when they became so. The newest are kept
// as they are, older ones are purgeable, and above what may be purgeable
// the oldest are given back.
class IdleChunks {
 public:
  // Moves the newest of this size to the end of *to; false where there is none.
  bool take(size_t size, Chunks* to) {
    OfSize& same = by_size_[size];
    const bool is_kept = !same.kept.empty();
    Chunks& from = is_kept ? same.kept : same.purgeable;
    if (from.empty()) return false;
    (is_kept ? kept_bytes_ : purgeable_bytes_) -= size;
    to->splice(to->end(), from, std::prev(from.end()));
    return true;
  }

  // Moves a chunk here, of a size that take() has been asked for.
  void add(Chunks* from, Chunks::iterator chunk) {
    chunk->idle_at = ++now_;
    kept_bytes_ += chunk->size;
    Chunks& to = by_size_.find(chunk->size)->second.kept;
    to.splice(to.end(), *from, chunk);
  }

  // Moves those that are to be given back to *out.
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
  // Oldest first; every purgeable one is older than every kept one.
  struct OfSize {
    Chunks kept, purgeable;
  };

  // Where the oldest of all kept, or of all purgeable, stands first.
  OfSize& oldest(Chunks OfSize::* which) {
    OfSize* found = nullptr;
    for (auto& [size, same] : by_size_) {
      if ((same.*which).empty()) continue;
      if (found == nullptr ||
          (same.*which).front().idle_at < (found->*which).front().idle_at) {
        found = &same;
      }
    }
    return *found;
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

  // A child of fork() must not find the pool locked by a thread it lacks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // Adds an idle or a new chunk, cut in such blocks; false where memory is out.
  bool add_chunk(size_t block, Chunks* room) {
    const size_t size = chunk_size(block);
    if (!idle_.take(size, room)) {
      if (!watch_.may_take(size)) return false;
      uint8_t* const base = map_chunk(size);
      if (base == nullptr) return false;
      Chunk& made = room->emplace_back();
      made.base = base;
      made.size = size;
      made.free.reserve(size / kPooledBytes);  // the most blocks, however cut
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
  // Chunks with used and free blocks, by block size, the latest at the end.
  std::map<size_t, Chunks> rooms_;
  Chunks full_;
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
