// Values on their way into an encoder and out of a decoder.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "nimble/memory/aligned_buffer.h"
#include "nimble/types/value_type.h"

namespace nimble {

// ---------------------------------------------------------------- values in

struct ByteSlice {
  const uint8_t* data;
  uint64_t size;
};

// Borrowed values to encode; size <= kSegmentValues.
struct Values {
  ValueType type;
  uint32_t size = 0;
  // Fixed widths: size * width bytes. kBool: a bitmap from bit 0.
  const uint8_t* data = nullptr;
  // kBytes: one slice a value. Slices of null slots are empty.
  const ByteSlice* slices = nullptr;
  // kBytes: every empty slice is a null slot and may come back as any string.
  bool empty_is_null = false;
};

// --------------------------------------------------------------- values out

// Receives decoded byte strings as Arrow lays them out: data bytes appended,
// and count + 1 offsets of which the first is 0. Write ends with set_end().
struct BytesSink {
  AlignedBuffer data;
  AlignedBuffer offsets;  // int32_t or int64_t, see wide
  uint64_t count = 0;     // values so far
  bool wide = false;

  // So that n more values, however many at a time, grow the offsets once.
  void reserve_values(uint64_t n) {
    offsets.reserve((count + n + 1) * (wide ? 8 : 4));
  }
  // Strings that are about as long as the `done` ones behind the first `before`
  // bytes: room for `left` of them at once, if so many tell something. What is
  // too much of it is kept as long as the data.
  void reserve_alike(uint64_t before, uint64_t done, uint64_t left) {
    constexpr uint64_t kTelling = 256;
    constexpr uint64_t kMost = uint64_t{64} << 20;
    if (done < kTelling) return;
    const uint64_t others = (data.size() - before) * left / done;
    if (data.size() + others <= data.capacity())
      return;  // more would double it
    data.reserve(data.size() + std::min(others + others / 16, kMost));
  }
  // Room for n more values; returns the index of the first.
  uint64_t add_values(uint64_t n) {
    const uint64_t first = count;
    const uint64_t width = wide ? 8 : 4;
    count += n;
    offsets.resize((count + 1) * width);
    if (first == 0) std::memset(offsets.data(), 0, width);
    return first;
  }
  // Ends past 2^31-1 wrap in narrow mode: callers check data.size() when done.
  void set_end(uint64_t index, uint64_t end) {
    if (wide) {
      offsets.as<int64_t>()[index + 1] = static_cast<int64_t>(end);
    } else {
      offsets.as<int32_t>()[index + 1] =
          static_cast<int32_t>(static_cast<uint32_t>(end));
    }
  }
  // The same for n values of one size, the first of which begins at `begin`.
  void set_ends(uint64_t index, uint64_t n, uint64_t begin, uint64_t size) {
    const auto put = [&](auto* ends) {
      using End = std::remove_reference_t<decltype(*ends)>;
      auto end = static_cast<End>(begin);
      for (uint64_t i = 1; i <= n; ++i) {
        end += static_cast<End>(size);
        ends[i] = end;
      }
    };
    if (wide) {
      put(offsets.as<uint64_t>() + index);
    } else {
      put(offsets.as<uint32_t>() + index);
    }
  }
  uint64_t begin_of(uint64_t index) const {
    return wide ? static_cast<uint64_t>(offsets.as<int64_t>()[index])
                : static_cast<uint32_t>(offsets.as<int32_t>()[index]);
  }
  uint64_t end_of(uint64_t index) const { return begin_of(index + 1); }
};

// Where decoded values go. Fixed widths: `data` has room for the values and
// AlignedBuffer::kSlack bytes more. kBool: bits [bit_offset, bit_offset + n)
// of the bitmap at `data` are set or cleared, other bits stay. kBytes: `bytes`.
struct Output {
  uint8_t* data = nullptr;
  uint64_t bit_offset = 0;
  BytesSink* bytes = nullptr;
};

}  // namespace nimble
