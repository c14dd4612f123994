#include "nimble/column/column_keep.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

uint64_t rows_in(std::span<const RowRange> ranges) {
  uint64_t rows = 0;
  for (const RowRange& r : ranges) rows += r.end - r.begin;
  return rows;
}

// Moves bytes to a lower address in a buffer, in small steps. On many
// processors memmove() of a large block by a short distance copies byte by
// byte.
void move_down(uint8_t* to, const uint8_t* from, uint64_t size) {
  constexpr uint64_t kStep = 2048;
  for (; size > kStep; size -= kStep, to += kStep, from += kStep) {
    std::memmove(to, from, kStep);
  }
  std::memmove(to, from, size);
}

// REQUIRES: the bitmap has `length` bits.
void keep_bits(uint64_t from, std::span<const RowRange> kept, uint64_t length,
               AlignedBuffer* bits) {
  AlignedBuffer moved((length - from) / 8 + 1);
  uint64_t at = 0;
  for (const RowRange& r : kept) {
    copy_bits(bits->data(), from + r.begin, r.end - r.begin, moved.data(), at);
    at += r.end - r.begin;
  }
  copy_bits(moved.data(), 0, at, bits->data(), from);
  bits->resize((from + at) / 8 + 1);
}

// Moves n offsets from `from` down to `to`, and subtracts `by` from each.
template <class End>
NIMBLE_ALWAYS_INLINE void move_ends_down(const End* from, uint64_t n, End by,
                                         End* to) {
  constexpr uint64_t kStep = 16;
  for (; n >= kStep; n -= kStep, from += kStep, to += kStep) {
    End some[kStep];  // read before any of them may be overwritten
    std::memcpy(some, from, sizeof some);
    for (End& end : some) end -= by;
    std::memcpy(to, some, sizeof some);
  }
  for (uint64_t i = 0; i < n; ++i) to[i] = from[i] - by;
}

NIMBLE_CLONES void move_ends32(const uint32_t* from, uint64_t n, uint32_t by,
                               uint32_t* to) {
  move_ends_down(from, n, by, to);
}
NIMBLE_CLONES void move_ends64(const uint64_t* from, uint64_t n, uint64_t by,
                               uint64_t* to) {
  move_ends_down(from, n, by, to);
}

void keep_bytes(uint64_t from, std::span<const RowRange> kept,
                BytesSink* bytes) {
  uint64_t at = from;
  uint64_t end = from == 0 ? 0 : bytes->end_of(from - 1);
  for (const RowRange& r : kept) {
    if (r.end == r.begin) continue;
    const uint64_t first = from + r.begin;
    const uint64_t begin = bytes->begin_of(first);
    const uint64_t size = bytes->end_of(from + r.end - 1) - begin;
    if (size > 0 && end != begin) {
      move_down(bytes->data.data() + end, bytes->data.data() + begin, size);
    }
    const uint64_t n = r.end - r.begin;
    const uint64_t by = begin - end;
    if (at != first) {
      if (bytes->wide) {
        auto* const ends = bytes->offsets.as<uint64_t>() + 1;
        move_ends64(ends + first, n, by, ends + at);
      } else {
        auto* const ends = bytes->offsets.as<uint32_t>() + 1;
        move_ends32(ends + first, n, static_cast<uint32_t>(by), ends + at);
      }
    }
    at += n;
    end += size;
  }
  bytes->data.resize(end);
  bytes->count = at;
  bytes->offsets.resize((at + 1) * (bytes->wide ? 8 : 4));
}

// Replaces the end offsets of lists. Returns the ranges of items that remain,
// counted from the first item of list `from`.
std::vector<RowRange> keep_ends(uint64_t from, std::span<const RowRange> kept,
                                std::vector<int64_t>* ends) {
  const int64_t first = (*ends)[from];
  std::vector<RowRange> items;
  uint64_t at = from;
  for (const RowRange& r : kept) {
    const int64_t begin = (*ends)[from + r.begin];
    items.push_back({static_cast<uint64_t>(begin - first),
                     static_cast<uint64_t>((*ends)[from + r.end] - first)});
    const int64_t by = begin - (*ends)[at];  // the items of the range move
    for (uint64_t i = from + r.begin; i < from + r.end; ++i) {
      (*ends)[++at] = (*ends)[i + 1] - by;
    }
  }
  ends->resize(at + 1);
  return items;
}

// Sets the number of rows and of null rows.
void set_length(uint64_t rows, uint64_t nulls, Column* column) {
  AlignedBuffer validity = std::move(column->validity);
  AlignedBuffer values = std::move(column->values);
  BytesSink bytes = std::move(column->bytes);
  std::vector<int64_t> ends = std::move(column->ends);
  std::vector<Column> children = std::move(column->children);
  column->children.clear();
  column->clear();
  column->add_nulls(nulls);
  column->add_rows(rows);
  column->validity = std::move(validity);
  column->values = std::move(values);
  column->bytes = std::move(bytes);
  column->ends = std::move(ends);
  column->children = std::move(children);
}

}  // namespace

bool can_keep_rows(const Field& field) {
  if (field.layout == Layout::kRunEnd || field.layout == Layout::kUnion)
    return false;
  return std::all_of(field.children.begin(), field.children.end(),
                     [](const Field& child) { return can_keep_rows(child); });
}

Status fits_offsets(const Column& column) {
  const BytesSink& bytes = column.bytes;
  if (column.field().layout == Layout::kBytes && !bytes.wide &&
      bytes.data.size() > INT32_MAX) {
    return Status::too_large(
        std::to_string(bytes.data.size()) +
        " bytes of strings are more than a batch can have");
  }
  for (const Column& child : column.children) {
    NIMBLE_RETURN_IF_ERROR(fits_offsets(child));
  }
  return Status::ok();
}

void keep_rows(uint64_t from, std::span<const RowRange> kept, Column* column) {
  if (column->length() == from) return;  // items of lists that are all empty
  const Field& field = column->field();
  const uint64_t rows = from + rows_in(kept);
  uint64_t nulls = column->null_count();
  if (column->validity.size() > 0) {
    AlignedBuffer* const valid = &column->validity;
    const uint64_t before = column->length() - from;
    nulls -= before - count_bits(valid->data(), from, before);
    keep_bits(from, kept, column->length(), valid);
    nulls += rows - from - count_bits(valid->data(), from, rows - from);
  }
  switch (field.layout) {
    case Layout::kFixed:
    case Layout::kDictionary: {
      uint8_t* const values = column->values.data();
      uint8_t* to = values + from * field.width;
      for (const RowRange& r : kept) {
        const uint64_t size = (r.end - r.begin) * field.width;
        if (size == 0) continue;
        const uint8_t* const at = values + (from + r.begin) * field.width;
        if (at != to) move_down(to, at, size);
        to += size;
      }
      column->values.resize(rows * field.width);
      break;
    }
    case Layout::kBool:
      keep_bits(from, kept, column->length(), &column->values);
      break;
    case Layout::kBytes:
      keep_bytes(from, kept, &column->bytes);
      break;
    case Layout::kList: {
      const auto first = static_cast<uint64_t>(column->ends[from]);
      const auto items = keep_ends(from, kept, &column->ends);
      keep_rows(first, items, &column->children[0]);
      break;
    }
    case Layout::kFixedList: {
      const auto size = static_cast<uint64_t>(field.list_size);
      std::vector<RowRange> items;
      for (const RowRange& r : kept)
        items.push_back({r.begin * size, r.end * size});
      keep_rows(from * size, items, &column->children[0]);
      break;
    }
    case Layout::kStruct:
      for (Column& child : column->children) keep_rows(from, kept, &child);
      break;
    default:
      break;
  }
  set_length(rows, nulls, column);
}

}  // namespace nimble
