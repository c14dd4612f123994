// Small pieces that the decoders share: the place of a leaf's part of the
// body, and walks over the blocks that rows lie in.
#pragma once

#include <algorithm>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// The bytes that a leaf has of its segment's body: from one place on, or in
// pieces between those of other parts (side_by_side.h). Offsets are relative to
// the part. Head:
//
//   varint   place in the body, a multiple of 8       varint   1
//   varint   size                                 or  varint   pieces, 2 to 128
//                                                     of each piece:
//                                                     varint   8-byte words
//                                                     that
//                                                              it lies behind
//                                                              the one before
//                                                     varint   size
class Part {
 public:
  static constexpr uint64_t kInPieces = 1;  // instead of a place
  static constexpr uint64_t kMaxPieces = kSegmentValues / kBlockValues;

  Part() = default;
  static Result<Part> read(ByteReader* head, const DecodeContext& context);

  uint64_t size() const { return size_; }
  bool is_whole() const { return pieces_ == nullptr; }
  // Where it ends in the body.
  uint64_t end() const { return is_whole() ? begin_ + size_ : pieces_->end; }
  // Where byte `offset` lies in the body.
  uint64_t place(uint64_t offset) const {
    if (is_whole()) [[likely]]
      return begin_ + offset;
    return offset + piece_at(offset).shift;
  }
  // How many bytes from there on lie one after the other.
  uint64_t together(uint64_t offset) const {
    if (is_whole()) [[likely]]
      return size_ - offset;
    return (&piece_at(offset))[1].from - offset;
  }
  // Appends the places of bytes [begin, end), begin < end <= size().
  void append(uint64_t begin, uint64_t end, std::vector<ByteRange>* out) const;
  // Blocks must not go from one piece to another: start_of(i) is where block i
  // begins, that of num_blocks where the last one ends.
  template <class F>
  Status check_blocks(uint64_t num_blocks, F&& start_of) const {
    for (uint64_t i = 0; !is_whole() && i < num_blocks; ++i) {
      const uint64_t start = start_of(i);
      if (start_of(i + 1) - start > together(start)) return torn(start);
    }
    return Status::ok();
  }
  // A block that begins there does so.
  Status torn(uint64_t start) const;
  size_t memory_bytes() const {
    return is_whole()
               ? 0
               : sizeof(Pieces) + pieces_->all.capacity() * sizeof(Piece);
  }

 private:
  struct Piece {
    uint64_t from;   // its first byte in the part
    uint64_t shift;  // what to add to be in the body, modulo 2^64
  };
  struct Pieces {
    uint64_t count = 0;
    uint64_t per_byte = 0;   // how many, 2^32 times
    uint64_t end = 0;        // in the body
    std::vector<Piece> all;  // and one more, from the part's size on
  };

  Status read_pieces(ByteReader* head, uint64_t body_size);
  // Pieces are about equally long.
  const Piece& piece_at(uint64_t offset) const {
    const Pieces& pieces = *pieces_;
    const Piece* p =
        &pieces.all[std::min(offset * pieces.per_byte >> 32, pieces.count - 1)];
    while (p->from > offset) --p;
    while (p[1].from <= offset && p[1].from < size_) ++p;
    return *p;
  }

  uint64_t begin_ = 0;
  std::unique_ptr<Pieces> pieces_;  // null: it is whole
  uint64_t size_ = 0;
};

inline uint32_t num_blocks_of(uint32_t num_values) {
  return static_cast<uint32_t>(div_ceil(num_values, kBlockValues));
}
// Rows of block `block` of a stream of num_values.
inline uint32_t block_rows(uint32_t block, uint32_t num_values) {
  return std::min(kBlockValues, num_values - block * kBlockValues);
}

// Calls f(block, from, to) -> Status for every block that rows [begin, end)
// touch; from and to are rows inside the block.
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

// Calls f(block, first, n) -> Status for every run of rows[first, first + n)
// that lies in one block of 2^shift rows.
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

// Rows that many places ahead of the one being taken are on their way from
// memory: enough to overlap their cache misses, not more than a core can have
// in flight.
inline constexpr size_t kRowsAhead = 16;
// Closer than this on average, rows share cache lines and pages: the processor
// finds out by itself.
inline constexpr uint32_t kRowsApart = 64;

// for_row_groups() with prefetch(row) for rows that lie ahead. Of rows[0,
// count) where the bytes of different rows are far from each other.
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

// Up to this many rows of a block are taken one by one, more by decoding it:
// one unpacked block costs about as much as nine single values.
inline constexpr size_t kExtractRows = 8;

// Value rows[i] - first of the decoded `values` to place i of `out`.
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

// Calls f(first, n) -> Status for every up to kBlockValues of `count` things.
template <class F>
Status for_chunks(size_t count, F&& f) {
  for (size_t i = 0; i < count; i += kBlockValues) {
    NIMBLE_RETURN_IF_ERROR(
        f(i, static_cast<uint32_t>(std::min<size_t>(count - i, kBlockValues))));
  }
  return Status::ok();
}

// A block of values of up to 8 bytes, on the stack: where decoders that
// transform what a child gives let it decode to.
class Scratch {
 public:
  // Bytes behind the values that may be read and written.
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
