// Values as encoders receive them and decoders return them.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "nimble/memory/aligned_buffer.h"
#include "nimble/types/value_type.h"

namespace nimble {

// ---------------------------------------------------------------- values in

// A borrowed byte string.
struct ByteSlice {
  const uint8_t* data;
  uint64_t size;
};

// Values to encode, borrowed.
// REQUIRES: size <= kSegmentValues.
struct Values {
  ValueType type;
  uint32_t size = 0;
  // Fixed widths: size * width bytes. kBool: a bitmap from bit 0.
  const uint8_t* data = nullptr;
  // kBytes: one slice per value. Slices of null slots are empty.
  const ByteSlice* slices = nullptr;
  // kBytes: every empty slice is a null slot and may decode to any string.
  bool empty_is_null = false;
};

// --------------------------------------------------------------- values out

// Receives decoded byte strings in Arrow's layout: data bytes, and count + 1
// offsets that start with 0. set_end() completes each string. Not thread-safe.
struct BytesSink {
  AlignedBuffer data;
  AlignedBuffer offsets;  // int32_t or int64_t, see wide
  uint64_t count = 0;     // number of values so far
  bool wide = false;

  // Reserves offsets for n more values, so that they grow at most once.
  void reserve_values(uint64_t n) {
    offsets.reserve((count + n + 1) * (wide ? 8 : 4));
  }
  // Reserves data for `left` more strings. Assumes that they are about as long
  // as the `done` strings, which are the bytes after the first `before`. Does
  // nothing if `done` is too small to extrapolate from. Over-reserved memory is
  // kept as long as the data.
  void reserve_alike(uint64_t before, uint64_t done, uint64_t left) {
    constexpr uint64_t kTelling = 256;
    constexpr uint64_t kMost = uint64_t{64} << 20;
    if (done < kTelling) return;
    const uint64_t others = (data.size() - before) * left / done;
    if (data.size() + others <= data.capacity())
      return;  // growing would double it
    data.reserve(data.size() + std::min(others + others / 16, kMost));
  }
  // Makes room for n more values. Returns the index of the first.
  uint64_t add_values(uint64_t n) {
    const uint64_t first = count;
    const uint64_t width = wide ? 8 : 4;
    count += n;
    offsets.resize((count + 1) * width);
    if (first == 0) std::memset(offsets.data(), 0, width);
    return first;
  }
  // Sets the end offset of value `index`. In narrow mode, offsets above 2^31-1
  // wrap: callers check data.size() afterwards.
  void set_end(uint64_t index, uint64_t end) {
    if (wide) {
      offsets.as<int64_t>()[index + 1] = static_cast<int64_t>(end);
    } else {
      offsets.as<int32_t>()[index + 1] =
          static_cast<int32_t>(static_cast<uint32_t>(end));
    }
  }
  // Sets the ends of n values of `size` bytes each. The first begins at
  // `begin`.
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

// Destination of decoded values. Fixed widths: `data` has room for the values
// and AlignedBuffer::kSlack more bytes. kBool: bits [bit_offset, bit_offset +
// n) of the bitmap at `data` are written, other bits are unchanged. kBytes:
// `bytes`.
struct Output {
  uint8_t* data = nullptr;
  uint64_t bit_offset = 0;
  BytesSink* bytes = nullptr;
};

}  // namespace nimble
