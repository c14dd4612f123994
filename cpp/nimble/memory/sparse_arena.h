// SparseArena: large buffers that are only partly written, freed together. An
// ordinary allocator returns memory that was written before, so that all of it
// takes physical memory. Here only written pages do, and all are unmapped at
// the end. Because fresh pages cost faults, the first 256 KiB come from the
// allocator. Not thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/memory/chunk_memory.h"

namespace nimble {

class SparseArena {
 public:
  SparseArena() = default;
  ~SparseArena() {
    for (const Piece& p : pieces_) unmap_chunk(p.begin, p.size);
  }
  SparseArena(const SparseArena&) = delete;
  SparseArena& operator=(const SparseArena&) = delete;

  // Returns at least `size` bytes, not zeroed, valid as long as the arena.
  // Throws std::bad_alloc.
  uint8_t* allocate(uint64_t size) {
    const uint64_t room = round_up(size, kAlignment);
    if (plain_used_ + room <= kPlain) {
      plain_used_ += room;
      // Unlike std::make_unique(), this does not zero the memory.
      plain_.push_back(std::unique_ptr<uint8_t[]>(new uint8_t[room]));
      return plain_.back().get();
    }
    if (pieces_.empty() || room > pieces_.back().size - used_) grow(room);
    uint8_t* const out = pieces_.back().begin + used_;
    used_ += room;
    return out;
  }

 private:
  struct Piece {
    uint8_t* begin;
    uint64_t size;
  };
  static constexpr uint64_t kAlignment = 64;
  static constexpr uint64_t kPlain = uint64_t{256} << 10;
  static constexpr uint64_t kFirstPiece = uint64_t{4} << 20;
  static constexpr uint64_t kLargestPiece = uint64_t{64} << 20;

  void grow(uint64_t room) {
    const uint64_t next =
        pieces_.empty() ? kFirstPiece
                        : std::min(pieces_.back().size * 4, kLargestPiece);
    const uint64_t size = std::max(next, round_up(room, uint64_t{4096}));
    pieces_.reserve(pieces_.size() + 1);
    uint8_t* const p = map_sparse(size);
    if (p == nullptr) throw std::bad_alloc();
    pieces_.push_back({p, size});
    used_ = 0;
  }

  std::vector<std::unique_ptr<uint8_t[]>> plain_;
  uint64_t plain_used_ = 0;
  std::vector<Piece> pieces_;
  uint64_t used_ = 0;  // in the last piece
};

}  // namespace nimble
