#include "nimble/encoding/dictionaries/coded_values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {
namespace {

// Strings of at most these lengths are copied with a fixed number of bytes.
constexpr uint64_t kShortString = 16;
constexpr uint64_t kLineString = 64;
static_assert(kLineString <= AlignedBuffer::kSlack);
// Up to this many bytes per value are reserved without looking at the lengths.
constexpr uint64_t kGenerousLength = 64;
// Assumed length of strings that are not decoded.
constexpr size_t kGuessedLength = 32;

// Returns how many floats from the first one on are each greater by 1 than the
// one before, bit for bit, and stores the first one.
uint32_t leading_steps(const uint8_t* values, uint32_t n, float* first) {
  if (n > 0) *first = load<float>(values);
  uint32_t i = 0;
  while (i < n && load<uint32_t>(values + uint64_t{i} * 4) ==
                      std::bit_cast<uint32_t>(static_cast<float>(i) + *first)) {
    ++i;
  }
  return i;
}

}  // namespace

// All values, decoded.
struct CodedValues::Decoded {
  AlignedBuffer fixed;
  BytesSink bytes;
  uint64_t shortest = UINT64_MAX;  // string length in bytes
  uint64_t longest = 0;
  // If values are floats, the first `counted` of them are first, first + 1, and
  // so on. Then they are computed, which is faster than loading them.
  uint32_t counted = 0;
  float first = 0;
};

CodedValues::~CodedValues() { delete decoded_.load(); }

size_t CodedValues::decoded_bytes() const {
  const ValueType& type = values_.type();
  const size_t width = type.kind == ValueKind::kBytes
                           ? kGuessedLength + sizeof(int64_t)
                           : type.width;
  return sizeof(Decoded) + values_.size() * width;
}

Status CodedValues::decode_into(const SegmentBody& body, Decoded* out) const {
  const uint32_t n = values_.size();
  Output to;
  if (values_.type().kind != ValueKind::kBytes) {
    const uint64_t bytes = uint64_t{n} * values_.type().width;
    if (bytes > max_bytes_) return too_large(bytes);
    out->fixed.resize(bytes);
    to.data = out->fixed.data();
    NIMBLE_RETURN_IF_ERROR(values_.decode(body, 0, n, to));
    if (values_.type().kind == ValueKind::kFloat && bytes == uint64_t{n} * 4) {
      out->counted = leading_steps(out->fixed.data(), n, &out->first);
    }
    return Status::ok();
  }
  to.bytes = &out->bytes;
  for (uint32_t i = 0; i < n; i += kBlockValues) {
    NIMBLE_RETURN_IF_ERROR(
        values_.decode(body, i, std::min(n, i + kBlockValues), to));
    if (out->bytes.data.size() > max_bytes_) {
      return too_large(out->bytes.data.size());
    }
  }
  return Status::ok();
}

Status CodedValues::too_large(uint64_t bytes) const {
  return Status::corrupt("values of " + std::to_string(bytes) +
                         " bytes or more; at most " +
                         std::to_string(max_bytes_) + " are possible");
}

Status CodedValues::load(const SegmentBody& body, const Decoded** out) const {
  *out = decoded_.load(std::memory_order_acquire);
  if (*out != nullptr) return Status::ok();
  auto decoded = std::make_unique<Decoded>();
  decoded->bytes.wide = true;
  decoded->bytes.data.reserve(1);  // short strings are read 16 bytes at a time
  NIMBLE_RETURN_IF_ERROR(told(decode_into(body, decoded.get())));
  for (uint64_t i = 0; i < decoded->bytes.count; ++i) {
    const uint64_t length =
        decoded->bytes.end_of(i) - decoded->bytes.begin_of(i);
    decoded->shortest = std::min(decoded->shortest, length);
    decoded->longest = std::max(decoded->longest, length);
  }
  if (decoded_.compare_exchange_strong(*out, decoded.get(),
                                       std::memory_order_acq_rel)) {
    *out = decoded.release();
  }
  return Status::ok();
}

Status CodedValues::decode_all(const SegmentBody& body) const {
  const Decoded* all = nullptr;
  return load(body, &all);
}

Status CodedValues::prepare(const SegmentBody& body, uint32_t rows,
                            const Output& out) const {
  const Decoded* all = nullptr;
  NIMBLE_RETURN_IF_ERROR(load(body, &all));
  if (all->bytes.count == 0) return Status::ok();
  // Reserves an estimate of the total, so that the buffer rarely grows.
  const uint64_t mean = all->bytes.data.size() / all->bytes.count + 1;
  out.bytes->data.reserve(out.bytes->data.size() +
                          rows * std::min(mean, kGenerousLength));
  return Status::ok();
}

// -------------------------------------------------------------------- look up

namespace {

// Calls f with `codes` as a pointer to their type.
template <class F>
decltype(auto) with_codes(const uint8_t* codes, uint32_t width, F&& f) {
  if (width == 1) return f(codes);
  if (width == 2) return f(reinterpret_cast<const uint16_t*>(codes));
  return f(reinterpret_cast<const uint32_t*>(codes));
}

// Calls f(i) for i = 0 .. n - 1. A loop of three instructions takes one or two
// cycles per step, depending on its alignment. Unrolling the loop four times
// avoids the difference.
template <class F>
NIMBLE_ALWAYS_INLINE void by_fours(uint64_t n, F&& f) {
  uint64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    f(i);
    f(i + 1);
    f(i + 2);
    f(i + 3);
  }
  for (; i < n; ++i) f(i);
}

// The pointers are not __restrict: compilers would then combine adjacent
// values, which is slower.
template <class Code, class T>
void look_up_fixed(const Code* codes, uint32_t n, const uint8_t* values,
                   uint8_t* to) {
  by_fours(n, [&](uint64_t i) {
    store(to + i * sizeof(T), load<T>(values + uint64_t{codes[i]} * sizeof(T)));
  });
}

// Looks up floats. The first `counted` of them are first, first + 1, and so on.
NIMBLE_CLONES void look_up_counted(const uint8_t* codes, uint32_t n,
                                   float first, uint32_t counted,
                                   const uint8_t* values, uint8_t* to) {
  constexpr uint32_t kChunk = 64;
  uint32_t at = 0;
  for (; at + kChunk <= n; at += kChunk) {
    const uint8_t* const c = codes + at;
    uint8_t most = 0;
    for (uint32_t i = 0; i < kChunk; ++i) most = std::max(most, c[i]);
    float out[kChunk];
    if (most < counted) {
      for (uint32_t i = 0; i < kChunk; ++i) {
        out[i] = static_cast<float>(c[i]) + first;
      }
    } else {
      for (uint32_t i = 0; i < kChunk; ++i) {
        std::memcpy(&out[i], values + uint64_t{c[i]} * 4, 4);
      }
    }
    std::memcpy(to + uint64_t{at} * 4, out, sizeof out);
  }
  for (; at < n; ++at) {
    std::memcpy(to + uint64_t{at} * 4, values + uint64_t{codes[at]} * 4, 4);
  }
}

struct Words2 {
  uint64_t words[2];
};

template <class Code>
void look_up_fixed(const Code* codes, uint32_t n, uint32_t width,
                   const uint8_t* from, uint8_t* to) {
  switch (width) {
    case 1:
      return look_up_fixed<Code, uint8_t>(codes, n, from, to);
    case 2:
      return look_up_fixed<Code, uint16_t>(codes, n, from, to);
    case 4:
      return look_up_fixed<Code, uint32_t>(codes, n, from, to);
    case 8:
      return look_up_fixed<Code, uint64_t>(codes, n, from, to);
    case 16:
      return look_up_fixed<Code, Words2>(codes, n, from, to);
    default:
      for (uint32_t i = 0; i < n; ++i) {
        std::memcpy(to + uint64_t{i} * width, from + uint64_t{codes[i]} * width,
                    width);
      }
  }
}

// Appends the strings of n codes at offset `at` of `to` and stores their ends
// in `ends`. Returns the end of the last string. Copies `Copied` bytes per
// string, which the slack of both buffers allows. If `Copied` is 0, copies the
// exact size.
template <uint64_t Copied, class Code, class End>
NIMBLE_ALWAYS_INLINE uint64_t copy_each(const Code* codes, uint32_t n,
                                        const BytesSink& strings, uint8_t* to,
                                        uint64_t at, End* ends) {
  const uint64_t* starts = strings.offsets.as<uint64_t>();
  const uint8_t* from = strings.data.data();
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t begin = starts[codes[i]];
    const uint64_t size = starts[codes[i] + uint64_t{1}] - begin;
    std::memcpy(to + at, from + begin, Copied > 0 ? Copied : size);
    at += size;
    ends[i] = static_cast<End>(at);
  }
  return at;
}
// Like copy_each(), for strings that all have `length` bytes, at most `Copied`.
template <uint64_t Copied, class Code, class End>
NIMBLE_ALWAYS_INLINE uint64_t copy_equal(const Code* codes, uint32_t n,
                                         const BytesSink& strings,
                                         uint64_t length, uint8_t* to,
                                         uint64_t at, End* ends) {
  const uint8_t* from = strings.data.data();
  by_fours(n, [&](uint64_t i) {
    std::memcpy(to + at + i * length, from + codes[i] * length, Copied);
  });
  auto end = static_cast<End>(at);
  for (uint32_t i = 0; i < n; ++i) {
    end += static_cast<End>(length);
    ends[i] = end;
  }
  return at + n * length;
}

// Calls f with the number of bytes to copy for strings of up to `longest`
// bytes.
template <class F>
uint64_t with_copied(uint64_t longest, F&& f) {
  if (longest <= 1) return f.template operator()<1>();
  if (longest <= 2) return f.template operator()<2>();
  if (longest <= 4) return f.template operator()<4>();
  if (longest <= 8) return f.template operator()<8>();
  if (longest <= kShortString) return f.template operator()<kShortString>();
  if (longest <= 2 * kShortString) {
    return f.template operator()<2 * kShortString>();
  }
  return f.template operator()<kLineString>();
}

template <class Code>
void look_up_strings(const Code* codes, uint32_t n, const BytesSink& strings,
                     uint64_t shortest, uint64_t longest, BytesSink* sink) {
  const uint64_t first = sink->add_values(n);
  const uint64_t* starts = strings.offsets.as<uint64_t>();
  const uint64_t at = sink->data.size();
  // Reserves for the longest string if that is short, else for the actual
  // lengths.
  uint64_t room = uint64_t{n} * longest;
  if (longest > kGenerousLength) {
    room = 0;
    for (uint32_t i = 0; i < n; ++i) {
      room += starts[codes[i] + uint64_t{1}] - starts[codes[i]];
    }
  }
  sink->data.reserve(at + room);
  uint8_t* const to = sink->data.data();
  const auto copy = [&](auto* ends) {
    if (longest > kLineString) {
      return copy_each<0>(codes, n, strings, to, at, ends);
    }
    return with_copied(longest, [&]<uint64_t Copied>() {
      return shortest == longest
                 ? copy_equal<Copied>(codes, n, strings, longest, to, at, ends)
                 : copy_each<Copied>(codes, n, strings, to, at, ends);
    });
  };
  sink->data.resize(sink->wide
                        ? copy(sink->offsets.as<uint64_t>() + first + 1)
                        : copy(sink->offsets.as<uint32_t>() + first + 1));
}

}  // namespace

Status CodedValues::look_up(const SegmentBody& body, const uint8_t* codes,
                            uint32_t width, uint32_t n, const Output& out,
                            uint8_t* to) const {
  const Decoded* all = nullptr;
  NIMBLE_RETURN_IF_ERROR(load(body, &all));
  with_codes(codes, width, [&](const auto* c) {
    if (values_.type().kind == ValueKind::kBytes) {
      look_up_strings(c, n, all->bytes, all->shortest, all->longest, out.bytes);
    } else if (sizeof *c == 1 && all->counted > 1) {
      look_up_counted(codes, n, all->first, all->counted, all->fixed.data(),
                      to);
    } else {
      look_up_fixed(c, n, values_.type().width, all->fixed.data(), to);
    }
  });
  return Status::ok();
}

// Concurrent threads may overwrite each other's count. The only effect is that
// the values are decoded a little later.
bool CodedValues::are_few(uint64_t rows) const {
  if (are_decoded()) return false;
  // The cost of reading a single value, in values that could be decoded in the
  // same time.
  const uint64_t alone = values_.type().kind == ValueKind::kBytes ? 8 : 64;
  rows += taken_.load(std::memory_order_relaxed);
  taken_.store(rows, std::memory_order_relaxed);
  return rows * alone < size();
}

Status CodedValues::look_up_few(const SegmentBody& body, const uint8_t* codes,
                                uint32_t width, uint32_t n, const Output& out,
                                uint8_t* to) const {
  const ValueType& type = values_.type();
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t code = with_codes(
        codes, width, [&](const auto* c) -> uint32_t { return c[i]; });
    uint8_t value[kMaxNestedWidth + AlignedBuffer::kSlack];
    Output one;
    one.data = value;
    one.bytes = out.bytes;
    NIMBLE_RETURN_IF_ERROR(told(values_.gather(body, &code, 1, one)));
    if (type.kind == ValueKind::kBytes) continue;
    std::memcpy(to + uint64_t{i} * type.width, value, type.width);
  }
  return Status::ok();
}

Status CodedValues::value(const SegmentBody& body, uint32_t code,
                          uint64_t* out) const {
  if (are_few(1)) return told(values_.value(body, code, out));
  const Decoded* all = nullptr;
  NIMBLE_RETURN_IF_ERROR(load(body, &all));
  // The load may read the buffer's slack after the last value.
  *out = nimble::load<uint64_t>(all->fixed.data() +
                                uint64_t{code} * values_.type().width);
  return Status::ok();
}

// --------------------------------------------------------------------- filter

Status CodedValues::test_of_codes(const SegmentBody& body,
                                  const Predicate& test, const ValueType& codes,
                                  uint32_t count, Predicate* out) const {
  const Decoded* all = nullptr;
  NIMBLE_RETURN_IF_ERROR(load(body, &all));
  const ValueType& type = values_.type();
  out->type = codes;  // the table includes test.negated
  out->table.resize(count);
  const uint64_t* starts = all->bytes.offsets.as<uint64_t>();
  const auto* bytes = reinterpret_cast<const char*>(all->bytes.data.data());
  uint32_t first = count, end = 0, passed = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const bool pass =
        type.kind == ValueKind::kBytes
            ? passes(test, std::string_view(bytes + starts[i],
                                            starts[i + 1] - starts[i]))
            : passes(test, all->fixed.data() + uint64_t{i} * type.width);
    out->table[i] = pass ? 1 : 0;
    if (!pass) continue;
    first = std::min(first, i);
    end = i + 1;
    ++passed;
  }
  if (passed == 0) return Status::ok();
  out->ints.low = first;
  out->ints.high = end - 1;
  const bool is_range = end - first == passed;
  out->shape = is_range ? Predicate::Shape::kRange : Predicate::Shape::kTable;
  return Status::ok();
}

}  // namespace nimble
