#include "nimble/encoding/dictionaries/distinct_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "nimble/base/hash.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {
namespace {

// Integers in a range of this size use a table instead of hashing.
constexpr uint64_t kTableRange = 65536;
constexpr uint32_t kNone = UINT32_MAX;
constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

// Maps a fixed-width value of up to 8 bytes to a number with the same order:
// integers and floats by value, other types by bytes.
uint64_t in_order(const Values& values, uint32_t row) {
  const ValueType& type = values.type;
  if (is_int(type)) {
    return load_int(type, values.data, row) ^ uint64_t { type.is_signed } << 63;
  }
  uint64_t bytes = 0;
  std::memcpy(&bytes, values.data + uint64_t{row} * type.width, type.width);
  if (type.kind == ValueKind::kFloat) {
    // The values then are easier to compress, and often to compute.
    const uint64_t sign = uint64_t{1} << (8 * type.width - 1);
    return (bytes & sign) != 0 ? ~bytes & (2 * sign - 1) : bytes | sign;
  }
  return __builtin_bswap64(bytes);
}

}  // namespace

ByteSpan value_bytes(const Values& values, uint32_t row) {
  if (values.type.kind == ValueKind::kBytes) {
    const ByteSlice& s = values.slices[row];
    return {s.data, static_cast<size_t>(s.size)};
  }
  return {values.data + uint64_t{row} * values.type.width, values.type.width};
}

bool same_bytes(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool DistinctValues::collect(const Values& values,
                             const DistinctLimits& limits) {
  type_ = values.type;
  is_by_frequency_ = false;
  rows_.clear();
  codes_.resize(values.size);
  const bool done = is_int(values.type) ? add_small_ints(values, limits)
                                        : add_hashed(values, limits);
  if (!done) return false;
  std::vector<uint32_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0u);
  place(values, order);
  return true;
}

bool DistinctValues::add_small_ints(const Values& values,
                                    const DistinctLimits& limits) {
  if (values.size == 0) return true;
  const MinMax all = min_max(values.type, values.data, values.size);
  if (all.max - all.min >= kTableRange) return add_hashed(values, limits);
  const uint32_t max_values = static_cast<uint32_t>(std::min<uint64_t>(
      limits.max_values, limits.max_bytes / values.type.width));
  std::vector<uint32_t> code_of(all.max - all.min + 1, kNone);
  return with_int_type(values.type, [&](auto tag) {
    using T = decltype(tag);
    for (uint32_t i = 0; i < values.size; ++i) {
      const auto v =
          static_cast<uint64_t>(load<T>(values.data + i * sizeof(T)));
      uint32_t& code = code_of[v - all.min];
      if (code == kNone) {
        if (rows_.size() == max_values) return false;
        code = count();
        rows_.push_back(i);
      }
      codes_[i] = code;
    }
    return true;
  });
}

// Keys of 4 and 8 bytes are stored in the table itself.
template <class Key>
bool DistinctValues::add_words(const Values& values, uint32_t most) {
  struct Slot {
    Key key;
    uint32_t code;
  };
  const uint32_t bits = bit_width_of(uint64_t{most} * 2 + 1);
  const size_t mask = (size_t{1} << bits) - 1;
  std::vector<Slot> table(mask + 1, Slot{0, kNone});  // open addressing
  for (uint32_t i = 0; i < values.size; ++i) {
    const Key key = load<Key>(values.data + i * sizeof(Key));
    size_t slot = static_cast<size_t>(key * kHashFactor >> (64 - bits));
    while (table[slot].code != kNone && table[slot].key != key) {
      slot = (slot + 1) & mask;
    }
    if (table[slot].code == kNone) {
      if (rows_.size() == most) return false;
      table[slot] = {key, count()};
      rows_.push_back(i);
    }
    codes_[i] = table[slot].code;
  }
  return true;
}

bool DistinctValues::add_hashed(const Values& values,
                                const DistinctLimits& limits) {
  uint32_t most = std::min(limits.max_values, values.size);
  const uint32_t width = values.type.width;
  if (width == 4 || width == 8) {
    most = static_cast<uint32_t>(
        std::min<uint64_t>(most, limits.max_bytes / width));
    return width == 4 ? add_words<uint32_t>(values, most)
                      : add_words<uint64_t>(values, most);
  }
  const uint64_t mask = std::bit_ceil(uint64_t{most} * 2 + 2) - 1;
  std::vector<uint32_t> table(mask + 1, kNone);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < values.size; ++i) {
    const ByteSpan value = value_bytes(values, i);
    uint64_t slot = checksum64(value) & mask;
    while (table[slot] != kNone &&
           !same_bytes(value, value_bytes(values, rows_[table[slot]]))) {
      slot = (slot + 1) & mask;
    }
    if (table[slot] == kNone) {
      bytes += value.size();
      if (rows_.size() == most || bytes > limits.max_bytes) return false;
      table[slot] = count();
      rows_.push_back(i);
    }
    codes_[i] = table[slot];
  }
  return true;
}

void DistinctValues::sort(const Values& values) {
  std::vector<uint32_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0u);
  if (type_.kind != ValueKind::kBytes && type_.width <= 8) {
    // Copies values next to their codes, because there may be as many values as
    // rows and sorting would otherwise access them at random.
    struct Place {
      uint64_t value;  // sorts as an unsigned number
      uint32_t code;
    };
    std::vector<Place> places;
    for (const uint32_t code : order) {
      places.push_back({in_order(values, rows_[code]), code});
    }
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.value < b.value; });
    for (size_t i = 0; i < places.size(); ++i) order[i] = places[i].code;
  } else {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return as_string(value_bytes(values, rows_[a])) <
             as_string(value_bytes(values, rows_[b]));
    });
  }
  place(values, order);
}

// Puts the values in order and renumbers the codes. order[i] is the old code of
// the value at the new position i. Old codes number the values in order of
// first occurrence.
void DistinctValues::place(const Values& values,
                           const std::vector<uint32_t>& order) {
  std::vector<uint32_t> places(rows_.size());
  fixed_.clear();
  slices_.clear();
  for (uint32_t i = 0; i < order.size(); ++i) {
    places[order[i]] = i;
    const ByteSpan value = value_bytes(values, rows_[order[i]]);
    if (type_.kind == ValueKind::kBytes) {
      slices_.push_back({value.data(), value.size()});
    } else {
      fixed_.insert(fixed_.end(), value.begin(), value.end());
    }
  }
  for (uint32_t& code : codes_) code = places[code];
  narrow();
}

void DistinctValues::narrow() {
  const uint32_t width = code_width(count());
  narrow_codes_.resize(codes_.size() * width);
  narrow_ints32(codes_.data(), static_cast<uint32_t>(codes_.size()), width,
                narrow_codes_.data());
}

void DistinctValues::order_by_frequency() {
  is_by_frequency_ = true;
  std::vector<uint32_t> rows_with(count());
  for (const uint32_t code : codes_) ++rows_with[code];
  std::vector<uint32_t> order(count());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return rows_with[a] > rows_with[b];
  });
  const std::vector<uint8_t> fixed = std::exchange(fixed_, {});
  const std::vector<ByteSlice> slices = std::exchange(slices_, {});
  std::vector<uint32_t> place(count());
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    if (!slices.empty()) slices_.push_back(slices[order[i]]);
    const auto at = fixed.begin() + int64_t{order[i]} * type_.width;
    if (!fixed.empty()) fixed_.insert(fixed_.end(), at, at + type_.width);
  }
  for (uint32_t& code : codes_) code = place[code];
  narrow();
}

Values DistinctValues::distinct() const {
  Values v;
  v.type = type_;
  v.size = count();
  v.data = fixed_.data();
  v.slices = slices_.data();
  return v;
}

Values DistinctValues::codes() const {
  Values v;
  v.type = ValueType::unsigned_int(code_width(count()));
  v.size = static_cast<uint32_t>(codes_.size());
  v.data = narrow_codes_.data();
  return v;
}

Values DistinctValues::renumbered(const std::vector<uint32_t>& codes,
                                  uint32_t width,
                                  std::vector<uint8_t>* data) const {
  std::vector<uint32_t> of_rows(codes_.size());
  for (size_t i = 0; i < codes_.size(); ++i) of_rows[i] = codes[codes_[i]];
  Values v;
  v.type = ValueType::unsigned_int(width);
  v.size = static_cast<uint32_t>(of_rows.size());
  data->resize(of_rows.size() * width);
  narrow_ints32(of_rows.data(), v.size, width, data->data());
  v.data = data->data();
  return v;
}

uint32_t DistinctValues::first_met_from(uint32_t row) const {
  return static_cast<uint32_t>(
      rows_.end() - std::lower_bound(rows_.begin(), rows_.end(), row));
}

double code_entropy(const DistinctValues& distinct) {
  std::vector<uint32_t> rows_with(distinct.count());
  const Values codes = distinct.codes();
  for (uint32_t i = 0; i < codes.size; ++i) {
    ++rows_with[load_int(codes.type, codes.data, i)];
  }
  double bits = 0;
  for (const uint32_t n : rows_with) {
    if (n > 0) bits -= n * std::log2(static_cast<double>(n) / codes.size);
  }
  return bits;
}

}  // namespace nimble
