// Helpers shared by the decoders: a leaf's part of the body, and loops over the
// blocks that contain given rows.
#pragma once

#include <algorithm>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Part: the bytes of a leaf in its segment's body. They are contiguous, or in
// pieces between the pieces of other parts (side_by_side.h). Offsets are
// relative to the part. Immutable after read(). Head of a contiguous part:
//
//   varint   position in the body, a multiple of 8
//   varint   size
//
// Head of a part in pieces:
//
//   varint   1
//   varint   number of pieces, 2 to 128, and for each piece:
//     varint   its distance from the end of the previous piece, in 8-byte words
//     varint   its size
class Part {
 public:
  static constexpr uint64_t kInPieces = 1;  // replaces a position
  static constexpr uint64_t kMaxPieces = kSegmentValues / kBlockValues;

  Part() = default;
  static Result<Part> read(ByteReader* head, const DecodeContext& context);

  uint64_t size() const { return size_; }
  bool is_whole() const { return pieces_ == nullptr; }
  // Offset in the body of the part's end.
  uint64_t end() const { return is_whole() ? begin_ + size_ : pieces_->end; }
  // Offset in the body of the part's byte `offset`.
  uint64_t place(uint64_t offset) const {
    if (is_whole()) [[likely]]
      return begin_ + offset;
    return offset + piece_at(offset).shift;
  }
  // Number of bytes from part offset `offset` on that are contiguous in the
  // body.
  uint64_t together(uint64_t offset) const {
    if (is_whole()) [[likely]]
      return size_ - offset;
    return (&piece_at(offset))[1].from - offset;
  }
  // Appends the body ranges of the part's bytes [begin, end).
  // REQUIRES: begin < end <= size().
  void append(uint64_t begin, uint64_t end, std::vector<ByteRange>* out) const;
  // Fails if a block crosses two pieces. start_of(i) is the offset of block i,
  // and start_of(num_blocks) is the end of the last block.
  template <class F>
  Status check_blocks(uint64_t num_blocks, F&& start_of) const {
    for (uint64_t i = 0; !is_whole() && i < num_blocks; ++i) {
      const uint64_t start = start_of(i);
      if (start_of(i + 1) - start > together(start)) return torn(start);
    }
    return Status::ok();
  }
  // The error for a block that begins at `start` and crosses two pieces.
  Status torn(uint64_t start) const;
  size_t memory_bytes() const {
    return is_whole()
               ? 0
               : sizeof(Pieces) + pieces_->all.capacity() * sizeof(Piece);
  }

 private:
  struct Piece {
    uint64_t from;   // first byte, relative to the part
    uint64_t shift;  // body offset minus part offset, modulo 2^64
  };
  struct Pieces {
    uint64_t count = 0;
    uint64_t per_byte = 0;   // pieces per byte, times 2^32
    uint64_t end = 0;        // offset in the body
    std::vector<Piece> all;  // with a sentinel that starts at size_
  };

  Status read_pieces(ByteReader* head, uint64_t body_size);
  // Guesses the piece from the offset, because pieces have similar sizes, then
  // corrects the guess.
  const Piece& piece_at(uint64_t offset) const {
    const Pieces& pieces = *pieces_;
    const Piece* p =
        &pieces.all[std::min(offset * pieces.per_byte >> 32, pieces.count - 1)];
    while (p->from > offset) --p;
    while (p[1].from <= offset && p[1].from < size_) ++p;
    return *p;
  }

  uint64_t begin_ = 0;
  std::unique_ptr<Pieces> pieces_;  // null if the part is whole
  uint64_t size_ = 0;
};

inline uint32_t num_blocks_of(uint32_t num_values) {
  return static_cast<uint32_t>(div_ceil(num_values, kBlockValues));
}
// Number of rows in block `block` of a stream of num_values.
inline uint32_t block_rows(uint32_t block, uint32_t num_values) {
  return std::min(kBlockValues, num_values - block * kBlockValues);
}

// Calls f(block, from, to) -> Status for every block that overlaps rows [begin,
// end). `from` and `to` are relative to the block.
template <class F>
Status for_blocks(uint32_t begin, uint32_t end, F&& f) {
  while (begin < end) {
    const uint32_t block = begin / kBlockValues;
    const uint32_t first = block * kBlockValues;
    const uint32_t to = std::min(end - first, kBlockValues);
    NIMBLE_RETURN_IF_ERROR(f(block, begin - first, to));
    begin = first + to;
  }
  return Status::ok();
}

inline constexpr uint32_t kBlockShift = 10;
static_assert(1u << kBlockShift == kBlockValues);

// Calls f(block, first, n) -> Status for every run rows[first, first + n)
// within one block of 2^shift rows.
template <class F>
Status for_row_groups(const uint32_t* rows, size_t count, F&& f,
                      uint32_t shift = kBlockShift) {
  for (size_t i = 0; i < count;) {
    const uint32_t block = rows[i] >> shift;
    size_t j = i + 1;
    while (j < count && rows[j] >> shift == block) ++j;
    NIMBLE_RETURN_IF_ERROR(f(block, i, j - i));
    i = j;
  }
  return Status::ok();
}

// Rows are prefetched this many positions ahead. That is enough to overlap
// their cache misses. A core could not have many more in flight.
inline constexpr size_t kRowsAhead = 16;
// If rows are closer than this on average, they share cache lines and pages,
// and the hardware prefetcher is sufficient.
inline constexpr uint32_t kRowsApart = 64;

// Like for_row_groups(), but calls prefetch(row) ahead of f if the rows are far
// apart and the body is stable.
template <class P, class F>
Status for_row_groups_ahead(const SegmentBody& body, const uint32_t* rows,
                            size_t count, P&& prefetch, F&& f,
                            uint32_t shift = kBlockShift) {
  const bool far = body.stable && count > 1 &&
                   rows[count - 1] - rows[0] > count * kRowsApart;
  if (!far) return for_row_groups(rows, count, f, shift);
  size_t asked = 0;
  return for_row_groups(
      rows, count,
      [&](uint32_t block, size_t first, size_t n) -> Status {
        const size_t end = std::min(count, first + n + kRowsAhead);
        for (; asked < end; ++asked) prefetch(rows[asked]);
        return f(block, first, n);
      },
      shift);
}

// Up to this many rows of a block are extracted one by one. With more, the
// block is decoded: unpacking it costs about as much as nine single values.
inline constexpr size_t kExtractRows = 8;

// Copies value rows[i] - first of the decoded `values` to position i of `out`.
inline void pick_values(const uint8_t* values, uint32_t width,
                        const uint32_t* rows, size_t n, uint32_t first,
                        uint8_t* out) {
  const auto pick = [&]<class T>(T) {
    for (size_t i = 0; i < n; ++i) {
      store(out + i * sizeof(T),
            load<T>(values + (rows[i] - first) * sizeof(T)));
    }
  };
  switch (width) {
    case 1:
      return pick(uint8_t{});
    case 2:
      return pick(uint16_t{});
    case 4:
      return pick(uint32_t{});
    case 8:
      return pick(uint64_t{});
    default:
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(out + i * width, values + uint64_t{rows[i] - first} * width,
                    width);
      }
  }
}

// Calls f(first, n) -> Status for chunks of up to kBlockValues of `count`
// items.
template <class F>
Status for_chunks(size_t count, F&& f) {
  for (size_t i = 0; i < count; i += kBlockValues) {
    NIMBLE_RETURN_IF_ERROR(
        f(i, static_cast<uint32_t>(std::min<size_t>(count - i, kBlockValues))));
  }
  return Status::ok();
}

// Room for one block of values of up to 8 bytes, on the stack. Decoders that
// transform a child's values decode the child into it.
class Scratch {
 public:
  // Bytes after the values that may be read and written.
  static constexpr uint64_t kSlack = AlignedBuffer::kSlack;

  Output output() {
    Output out;
    out.data = bytes_;
    return out;
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_);
  }

 private:
  alignas(64) uint8_t bytes_[kBlockValues * 8 + kSlack];
};

}  // namespace nimble
