// Random columns of every key type with difficult values, and the expected
// order of their keys, computed from the values.
#pragma once

#include <cmath>
#include <limits>
#include <random>

#include "key/arrow_rows.h"
#include "nimble/key/key_scalar.h"

namespace nimble::testing {

inline const std::vector<std::string>& key_formats() {
  static const std::vector<std::string> all = {
      "b",      "c",          "C",   "s",   "S",   "i",        "I",
      "l",      "L",          "e",   "f",   "g",   "d:9,2,32", "d:18,2,64",
      "d:38,2", "d:76,2,256", "tdD", "tdm", "tts", "ttn",      "tsu:UTC",
      "tDn",    "u",          "U",   "vu",  "z",   "Z",        "vz",
      "w:5",    "w:16",       "w:1"};
  return all;
}

inline bool is_bytes_format(const Field& f) {
  return f.layout == Layout::kBytes || f.logical == Logical::kFixedBinary;
}

template <class U>
std::string float_cell(std::mt19937_64* rng) {
  constexpr int kFraction = sizeof(U) == 2 ? 10 : sizeof(U) == 4 ? 23 : 52;
  const U inf = static_cast<U>(((U{1} << (sizeof(U) * 8 - 1 - kFraction)) - 1)
                               << kFraction);
  const U sign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  const U one = static_cast<U>((inf >> 1) & inf);
  const U all[] = {0,
                   sign,
                   1,
                   static_cast<U>(sign | 1),
                   inf,
                   static_cast<U>(inf | sign),
                   static_cast<U>(inf | 1),
                   static_cast<U>(~U{0}),
                   one,
                   static_cast<U>(one | sign),
                   static_cast<U>(inf - 1)};
  const uint64_t r = (*rng)();
  return raw(r % 3 == 0 ? static_cast<U>((*rng)())
                        : all[r / 3 % std::size(all)]);
}

inline std::string random_cell(const Field& f, std::mt19937_64* rng) {
  const uint64_t r = (*rng)();
  if (f.logical == Logical::kBool) return raw(static_cast<uint8_t>(r % 2));
  if (f.logical == Logical::kFloat) {
    return f.width == 2   ? float_cell<uint16_t>(rng)
           : f.width == 4 ? float_cell<uint32_t>(rng)
                          : float_cell<uint64_t>(rng);
  }
  const uint8_t bytes[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, 'a'};
  const bool sized = f.layout == Layout::kBytes;
  // Usually short, sometimes longer than the kernels' eight-byte steps.
  std::string s(sized ? (r % 5 == 0 ? r / 5 % 40 : r / 5 % 4) : f.width, '\0');
  const bool extreme = r % 3 == 0;
  for (char& c : s) {
    c = static_cast<char>(sized || extreme ? bytes[(*rng)() % 8] : (*rng)());
  }
  if (!sized && !is_bytes_format(f) && r % 5 == 0) {
    s = raw_wide(static_cast<int64_t>(r / 5 % 5) - 2, 32).substr(0, f.width);
  }
  return s;
}

inline Cells random_cells(const std::string& format, size_t n, int null_percent,
                          std::mt19937_64* rng) {
  Field f;
  f.format = format;
  REQUIRE(f.resolve("cells").is_ok());
  Cells out;
  for (size_t i = 0; i < n; ++i) {
    if (static_cast<int>((*rng)() % 100) < null_percent) {
      out.emplace_back();
    } else if (!out.empty() && (*rng)() % 4 == 0) {
      out.push_back(out[(*rng)() % out.size()]);
    } else {
      out.emplace_back(random_cell(f, rng));
    }
  }
  return out;
}

inline double to_double(const std::string& cell) {
  const auto* p = reinterpret_cast<const uint8_t*>(cell.data());
  if (cell.size() == 2) return half_to_double(load<uint16_t>(p));
  if (cell.size() == 4) return static_cast<double>(load<float>(p));
  return load<double>(p);
}

// Ascending, without nulls.
inline int compare_values(const Field& f, const std::string& a,
                          const std::string& b) {
  if (f.logical == Logical::kFloat) {
    const double x = to_double(a), y = to_double(b);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) - std::isnan(y);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (is_bytes_format(f) || f.logical == Logical::kBool) {
    const int c = a.compare(b);
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  const bool neg_a = f.is_signed && a.back() < 0,
             neg_b = f.is_signed && b.back() < 0;
  if (neg_a != neg_b) return neg_a ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    const auto x = static_cast<uint8_t>(a[i]), y = static_cast<uint8_t>(b[i]);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

inline int compare_cells(const Field& f, SortOrder order, const Cell& a,
                         const Cell& b) {
  if (!a || !b) {
    if (!a && !b) return 0;
    return (!a) == order.nulls_first ? -1 : 1;
  }
  const int c = compare_values(f, *a, *b);
  return order.descending ? -c : c;
}

// The decoded value: keys do not distinguish both zeros, nor NaNs.
inline std::string canonical(const Field& f, const std::string& cell) {
  if (f.logical != Logical::kFloat) return cell;
  const double v = to_double(cell);
  if (std::isnan(v)) {
    return f.width == 2   ? raw(uint16_t{0x7e00})
           : f.width == 4 ? raw(uint32_t{0x7fc00000})
                          : raw(uint64_t{0x7ff8000000000000});
  }
  return v == 0 ? std::string(f.width, '\0') : cell;
}

}  // namespace nimble::testing
