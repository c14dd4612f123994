#include "nimble/encoding/core/predicate.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bytes.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {
namespace {

// Sets of up to this many members are compared member by member with vector
// code. Larger sets are searched.
constexpr size_t kFewMembers = 8;
constexpr uint32_t kMostValues = kBlockValues;

// One byte per value: 1 if it passes. Read in groups of 64.
struct Passed {
  alignas(64) uint8_t bytes[kMostValues + 64];
};

// Packs eight bytes of 0 or 1 into eight bits.
NIMBLE_ALWAYS_INLINE uint64_t eight_bits(const uint8_t* bytes) {
  return (load<uint64_t>(bytes) * 0x0102040810204080ull) >> 56;
}

// Clears the bytes after the last value: otherwise they would change the bits
// of the last values.
void narrow_selection(Passed& passed, uint32_t n, bool negated,
                      uint64_t* selection) {
  std::memset(passed.bytes + n, 0, 64 - n % 64);
  const uint64_t flip = negated ? ~uint64_t{0} : 0;
  for (uint32_t i = 0; i < n; i += 64) {
    uint64_t word = 0;
    for (uint32_t k = 0; k < 8; ++k) {
      word |= eight_bits(passed.bytes + i + 8 * k) << (8 * k);
    }
    selection[i / 64] &= word ^ flip;
  }
}

template <class U>
NIMBLE_ALWAYS_INLINE void span_of(const uint8_t* __restrict values, uint32_t n,
                                  U low, U span, uint8_t* __restrict out) {
  for (uint32_t i = 0; i < n; ++i) {
    const U v = load<U>(values + i * sizeof(U));
    out[i] = static_cast<U>(v - low) <= span ? 1 : 0;
  }
}

NIMBLE_CLONES void span_kernel(const uint8_t* __restrict values, uint32_t width,
                               uint32_t n, uint64_t low, uint64_t span,
                               uint8_t* __restrict out) {
  switch (width) {
    case 1:
      return span_of(values, n, static_cast<uint8_t>(low),
                     static_cast<uint8_t>(span), out);
    case 2:
      return span_of(values, n, static_cast<uint16_t>(low),
                     static_cast<uint16_t>(span), out);
    case 4:
      return span_of(values, n, static_cast<uint32_t>(low),
                     static_cast<uint32_t>(span), out);
    default:
      return span_of(values, n, low, span, out);
  }
}

template <class U>
NIMBLE_ALWAYS_INLINE void equal_of(const uint8_t* __restrict values, uint32_t n,
                                   U wanted, uint8_t* __restrict out) {
  for (uint32_t i = 0; i < n; ++i) {
    const bool same = load<U>(values + i * sizeof(U)) == wanted;
    out[i] = static_cast<uint8_t>(out[i] | (same ? 1 : 0));
  }
}

NIMBLE_CLONES void equal_kernel(const uint8_t* __restrict values,
                                uint32_t width, uint32_t n, uint64_t wanted,
                                uint8_t* __restrict out) {
  switch (width) {
    case 1:
      return equal_of(values, n, static_cast<uint8_t>(wanted), out);
    case 2:
      return equal_of(values, n, static_cast<uint16_t>(wanted), out);
    case 4:
      return equal_of(values, n, static_cast<uint32_t>(wanted), out);
    default:
      return equal_of(values, n, wanted, out);
  }
}

template <class F>
NIMBLE_ALWAYS_INLINE void float_range_of(const uint8_t* __restrict values,
                                         uint32_t n, F low, F high,
                                         uint8_t* __restrict out) {
  for (uint32_t i = 0; i < n; ++i) {
    const F v = load<F>(values + i * sizeof(F));
    // Both are false for NaN. `&` instead of `&&` avoids a branch.
    out[i] = static_cast<uint8_t>((v >= low ? 1 : 0) & (v <= high ? 1 : 0));
  }
}

NIMBLE_CLONES void float_kernel(const uint8_t* __restrict values,
                                uint32_t width, uint32_t n, double low,
                                double high, uint8_t* __restrict out) {
  if (width == 8) return float_range_of(values, n, low, high, out);
  float_range_of(values, n, static_cast<float>(low), static_cast<float>(high),
                 out);
}

template <class Code>
void table_of(const std::vector<uint8_t>& table, const uint8_t* codes,
              uint32_t n, uint8_t* out) {
  const size_t size = table.size();
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t code = load<Code>(codes + i * sizeof(Code));
    out[i] = code < size ? table[code] : 0;
  }
}

void table_kernel(const Predicate& test, const uint8_t* values, uint32_t n,
                  uint8_t* out) {
  switch (test.type.width) {
    case 1:
      return table_of<uint8_t>(test.table, values, n, out);
    case 2:
      return table_of<uint16_t>(test.table, values, n, out);
    case 4:
      return table_of<uint32_t>(test.table, values, n, out);
    default:
      return table_of<uint64_t>(test.table, values, n, out);
  }
}

bool int_passes(const Predicate& test, uint64_t v) {
  const bool is_signed = test.type.is_signed;
  if (int_less(is_signed, v, test.ints.low) ||
      int_less(is_signed, test.ints.high, v)) {
    return false;
  }
  if (test.shape == Predicate::Shape::kRange) return true;
  return std::binary_search(
      test.ints.set.begin(), test.ints.set.end(), v,
      [=](uint64_t a, uint64_t b) { return int_less(is_signed, a, b); });
}

bool wide_passes(const Predicate& test, const WideInt& v) {
  if (test.shape == Predicate::Shape::kRange) {
    return compare_wide(test.wides.low, v) <= 0 &&
           compare_wide(v, test.wides.high) <= 0;
  }
  return std::binary_search(test.wides.set.begin(), test.wides.set.end(), v,
                            [](const WideInt& a, const WideInt& b) {
                              return compare_wide(a, b) < 0;
                            });
}

// Like passes(), but ignores `negated`.
// REQUIRES: test.shape is not kNothing.
bool passes_plainly(const Predicate& test, const uint8_t* value) {
  const ValueType& type = test.type;
  switch (type.kind) {
    case ValueKind::kBool:
      return int_passes(test, value[0] & 1);
    case ValueKind::kInt:
      if (test.shape == Predicate::Shape::kTable) {
        uint8_t out = 0;
        table_kernel(test, value, 1, &out);
        return out != 0;
      }
      return int_passes(test, load_int(type, value, 0));
    case ValueKind::kFloat: {
      const double v = type.width == 8
                           ? load<double>(value)
                           : static_cast<double>(load<float>(value));
      if (test.shape == Predicate::Shape::kRange) {
        return v >= test.floats.low && v <= test.floats.high;
      }
      const std::vector<double>& set = test.floats.set;
      const auto at = std::lower_bound(set.begin(), set.end(), v);
      return at != set.end() && *at == v;
    }
    case ValueKind::kFixed:
      if (is_wide_int(type)) {
        return wide_passes(test, load_wide(value, type.width));
      }
      return test.bytes.contains(
          {reinterpret_cast<const char*>(value), type.width});
    case ValueKind::kBytes:
      break;
  }
  return false;
}

// Tests the selected rows one by one.
template <class F>
void test_selected(uint32_t n, uint64_t* selection, F&& passes_at) {
  for (uint32_t w = 0; w * 64 < n; ++w) {
    for (uint64_t left = selection[w]; left != 0; left &= left - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      if (!passes_at(w * 64 + bit)) selection[w] &= ~(uint64_t{1} << bit);
    }
  }
}

void apply_bools(const Predicate& test, const uint8_t* bits, uint32_t n,
                 uint64_t* selection) {
  const uint8_t values[2] = {0, 1};
  const bool pass[2] = {passes(test, &values[0]), passes(test, &values[1])};
  for (uint32_t i = 0; i < n; i += 64) {
    uint64_t word = 0;
    std::memcpy(&word, bits + i / 8, std::min<size_t>(8, (n - i + 7) / 8));
    selection[i / 64] &= (pass[1] ? word : 0) | (pass[0] ? ~word : 0);
  }
}

void apply_few_members(const Predicate& test, const uint8_t* values, uint32_t n,
                       uint64_t* selection) {
  Passed passed;
  std::memset(passed.bytes, 0, n);
  for (const uint64_t wanted : test.ints.set) {
    equal_kernel(values, test.type.width, n, wanted, passed.bytes);
  }
  narrow_selection(passed, n, test.negated, selection);
}

void clear_unless(bool keep, uint32_t n, uint64_t* selection) {
  if (!keep) std::memset(selection, 0, (n + 63) / 64 * 8);
}

}  // namespace

bool ByteBounds::contains(std::string_view v) const {
  if (!set.empty()) {
    return std::binary_search(
        set.begin(), set.end(), v, [](const auto& a, const auto& b) {
          return std::string_view(a) < std::string_view(b);
        });
  }
  if (low) {
    const int order = v.compare(*low);
    if (order < 0 || (order == 0 && !low_inclusive)) return false;
  }
  if (high) {
    const int order = v.compare(*high);
    if (order > 0 || (order == 0 && !high_inclusive)) return false;
  }
  return true;
}

WideInt load_wide(const uint8_t* value, uint32_t width) {
  WideInt out{};
  for (uint32_t w = 0; w < width / 8; ++w)
    out[w] = load<uint64_t>(value + 8 * w);
  if (width == 16) {
    out[2] = out[3] = static_cast<uint64_t>(static_cast<int64_t>(out[1]) >> 63);
  }
  return out;
}

int compare_wide(const WideInt& a, const WideInt& b) {
  if (a[3] != b[3]) {
    return static_cast<int64_t>(a[3]) < static_cast<int64_t>(b[3]) ? -1 : 1;
  }
  for (int w = 2; w >= 0; --w) {
    const auto at = static_cast<size_t>(w);
    if (a[at] != b[at]) return a[at] < b[at] ? -1 : 1;
  }
  return 0;
}

bool passes(const Predicate& test, const uint8_t* value) {
  const bool plain =
      test.shape != Predicate::Shape::kNothing && passes_plainly(test, value);
  return plain != test.negated;
}

bool passes(const Predicate& test, std::string_view value) {
  bool plain = false;
  if (test.shape == Predicate::Shape::kContains) {
    plain = value.find(test.bytes.part) != std::string_view::npos;
  } else if (test.shape != Predicate::Shape::kNothing) {
    plain = test.bytes.contains(value);
  }
  return plain != test.negated;
}

void apply_span(const uint8_t* values, uint32_t width, uint32_t n, uint64_t low,
                uint64_t span, bool negated, uint64_t* selection) {
  Passed passed;
  span_kernel(values, width, n, low, span, passed.bytes);
  narrow_selection(passed, n, negated, selection);
}

void apply_predicate(const Predicate& test, const uint8_t* values, uint32_t n,
                     uint64_t* selection) {
  using Shape = Predicate::Shape;
  if (test.shape == Shape::kNothing) {
    return clear_unless(test.negated, n, selection);
  }
  const ValueType& type = test.type;
  if (type.kind == ValueKind::kBool) {
    return apply_bools(test, values, n, selection);
  }
  Passed passed;
  if (type.kind == ValueKind::kInt && test.shape == Shape::kRange) {
    return apply_span(values, type.width, n, test.ints.low,
                      test.ints.high - test.ints.low, test.negated, selection);
  }
  if (type.kind == ValueKind::kInt && test.shape == Shape::kTable) {
    table_kernel(test, values, n, passed.bytes);
    return narrow_selection(passed, n, test.negated, selection);
  }
  if (type.kind == ValueKind::kInt && test.ints.set.size() <= kFewMembers) {
    return apply_few_members(test, values, n, selection);
  }
  if (type.kind == ValueKind::kFloat && test.shape == Shape::kRange) {
    float_kernel(values, type.width, n, test.floats.low, test.floats.high,
                 passed.bytes);
    return narrow_selection(passed, n, test.negated, selection);
  }
  test_selected(n, selection, [&](uint32_t i) {
    return passes(test, values + uint64_t{i} * type.width);
  });
}

namespace {

// Sets bit i if `bytes` has `first` at i and `last` at i + distance.
NIMBLE_CLONES void mark_ends(const uint8_t* __restrict bytes, uint8_t first,
                             uint8_t last, uint64_t distance,
                             uint8_t* __restrict marks) {
  for (uint32_t i = 0; i < kMostValues; ++i) {
    const bool both = (bytes[i] == first) & (bytes[i + distance] == last);
    marks[i] = both ? 1 : 0;
  }
}

// Calls f(place) for the places in `text` where `part` begins, ascending. f
// returns the smallest next place that it wants. Compares the first and the
// last byte of `part` at many places at once. The other bytes are compared only
// where both match.
template <class F>
void for_places(std::string_view text, std::string_view part, F&& f) {
  if (text.size() < part.size()) return;
  const uint64_t end = text.size() - part.size() + 1;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const uint64_t distance = part.size() - 1;
  Passed marks;
  uint64_t next = 0;
  for (uint64_t begin = 0; begin < end; begin += kMostValues) {
    const uint64_t n = std::min<uint64_t>(kMostValues, end - begin);
    if (n == kMostValues) {
      mark_ends(bytes + begin, static_cast<uint8_t>(part.front()),
                static_cast<uint8_t>(part.back()), distance, marks.bytes);
    } else {
      std::memset(marks.bytes, 1, n);
    }
    std::memset(marks.bytes + n, 0, 8);
    for (uint64_t i = 0; i < n; i += 8) {
      uint64_t left = load<uint64_t>(marks.bytes + i);
      for (; left != 0; left &= left - 1) {
        const uint64_t at =
            begin + i + static_cast<uint64_t>(std::countr_zero(left)) / 8;
        if (at >= next &&
            std::memcmp(bytes + at, part.data(), part.size()) == 0) {
          next = f(at);
        }
      }
    }
  }
}

// Searches the concatenation of all strings, because starting a search takes
// longer than scanning a typical string.
void apply_contains(const Predicate& test, const BytesSink& values, uint32_t n,
                    uint64_t* selection) {
  const std::string& part = test.bytes.part;
  uint64_t passed[kMostValues / 64] = {};
  const uint64_t begin = values.begin_of(0), end = values.end_of(n - 1);
  const auto* data = reinterpret_cast<const char*>(values.data.data());
  uint32_t row = 0;
  for_places({data + begin, end - begin}, part, [&](uint64_t place) {
    while (values.end_of(row) - begin <= place) ++row;
    if (place + part.size() > values.end_of(row) - begin) return place + 1;
    passed[row / 64] |= uint64_t{1} << (row % 64);
    return values.end_of(row) - begin;
  });
  for (uint32_t i = 0; i < n; i += 64) {
    selection[i / 64] &= test.negated ? ~passed[i / 64] : passed[i / 64];
  }
}

}  // namespace

void apply_predicate(const Predicate& test, const BytesSink& values, uint32_t n,
                     uint64_t* selection) {
  if (test.shape == Predicate::Shape::kNothing) {
    return clear_unless(test.negated, n, selection);
  }
  if (test.shape == Predicate::Shape::kContains && n > 0 &&
      !test.bytes.part.empty()) {
    return apply_contains(test, values, n, selection);
  }
  const auto* data = reinterpret_cast<const char*>(values.data.data());
  test_selected(n, selection, [&](uint32_t i) {
    const uint64_t begin = values.begin_of(i);
    return passes(test,
                  std::string_view(data + begin, values.end_of(i) - begin));
  });
}

namespace {

// For each byte: the positions of its bits that are 1.
struct OnesOfByte {
  uint8_t at[256][8] = {};
  constexpr OnesOfByte() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t n = 0;
      for (uint8_t bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) at[byte][n++] = bit;
      }
    }
  }
};
constexpr OnesOfByte kOnes;

}  // namespace

NIMBLE_CLONES uint32_t selected_rows(const uint64_t* selection, uint32_t n,
                                     uint32_t first, uint32_t* rows) {
  // With at least this many ones in a word, eight rows are written per byte.
  constexpr int kMany = 12;
  uint32_t* out = rows;
  uint32_t left = count_selected(selection, n);
  for (uint32_t w = 0; w < n; ++w, first += 64) {
    uint64_t word = selection[w];
    const auto ones = static_cast<uint32_t>(std::popcount(word));
    left -= ones;
    // Eight rows are written even if fewer are selected. Later rows overwrite
    // the excess.
    if (ones < kMany || left < 8) {
      for (; word != 0; word &= word - 1) {
        *out++ = first + static_cast<uint32_t>(std::countr_zero(word));
      }
      continue;
    }
    for (uint32_t at = first; word != 0; word >>= 8, at += 8) {
      const uint8_t byte = static_cast<uint8_t>(word);
      for (uint32_t k = 0; k < 8; ++k) out[k] = at + kOnes.at[byte][k];
      out += std::popcount(byte);
    }
  }
  return static_cast<uint32_t>(out - rows);
}

NIMBLE_CLONES uint32_t count_selected(const uint64_t* selection, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t w = 0; w < n; ++w) {
    sum += static_cast<uint32_t>(std::popcount(selection[w]));
  }
  return sum;
}

}  // namespace nimble
