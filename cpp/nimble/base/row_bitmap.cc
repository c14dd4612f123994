#include "nimble/base/row_bitmap.h"

#include <algorithm>
#include <bit>

namespace nimble {

RowBitmap::RowBitmap(std::span<const uint64_t> rows) {
  std::vector<uint64_t> sorted;
  if (std::adjacent_find(rows.begin(), rows.end(),
                         std::greater_equal<uint64_t>()) != rows.end()) {
    sorted.assign(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    rows = sorted;
  }
  if (rows.empty()) return;
  size_ = rows.size();
  last_ = rows.back();
  for (size_t at = 0; at < rows.size();) {
    const uint64_t high = rows[at] >> 16;
    size_t end = at;
    while (end < rows.size() && rows[end] >> 16 == high) ++end;
    Container c{high, 0, static_cast<uint32_t>(end - at)};
    if (c.is_list()) {
      c.begin = lists_.size();
      for (; at < end; ++at) lists_.push_back(static_cast<uint16_t>(rows[at]));
    } else {
      c.begin = words_.size();
      words_.resize(words_.size() + kWords);
      for (; at < end; ++at) {
        const uint64_t low = rows[at] & 0xffff;
        words_[c.begin + low / 64] |= uint64_t{1} << (low % 64);
      }
    }
    containers_.push_back(c);
  }
}

void RowBitmap::set_bits(const Container& c, std::span<uint64_t> words) const {
  if (c.is_list()) {
    for (const uint16_t low : list_of(c)) {
      words[low / 64] |= uint64_t{1} << (low % 64);
    }
  } else {
    for (size_t i = 0; i < kWords; ++i) words[i] |= words_[c.begin + i];
  }
}

void RowBitmap::append_list(uint64_t high, std::span<const uint16_t> rows) {
  containers_.push_back(
      {high, lists_.size(), static_cast<uint32_t>(rows.size())});
  lists_.insert(lists_.end(), rows.begin(), rows.end());
}

void RowBitmap::append(const RowBitmap& set, const Container& c) {
  if (c.is_list()) {
    append_list(c.high, set.list_of(c));
    return;
  }
  containers_.push_back({c.high, words_.size(), c.count});
  words_.resize(words_.size() + kWords);
  set.set_bits(c, std::span(words_).last(kWords));
}

void RowBitmap::append_both(const RowBitmap& one, const Container& a,
                            const RowBitmap& other, const Container& b) {
  if (a.is_list() && b.is_list()) {
    uint16_t both[2 * kMostListed];
    const auto first = one.list_of(a), second = other.list_of(b);
    const uint16_t* const end = std::set_union(
        first.begin(), first.end(), second.begin(), second.end(), both);
    const auto count = static_cast<size_t>(end - both);
    if (count <= kMostListed) {
      append_list(a.high, {both, count});
      return;
    }
  }
  Container c{a.high, words_.size(), 0};
  words_.resize(words_.size() + kWords);
  const auto words = std::span(words_).last(kWords);
  one.set_bits(a, words);
  other.set_bits(b, words);
  for (const uint64_t word : words) {
    c.count += static_cast<uint32_t>(std::popcount(word));
  }
  containers_.push_back(c);
}

RowBitmap RowBitmap::with(const RowBitmap& other) const {
  RowBitmap out;
  out.lists_.reserve(lists_.size() + other.lists_.size());
  auto a = containers_.begin();
  auto b = other.containers_.begin();
  while (a != containers_.end() || b != other.containers_.end()) {
    const bool only_b = a == containers_.end();
    if (only_b || (b != other.containers_.end() && b->high < a->high)) {
      out.append(other, *b++);
    } else if (b == other.containers_.end() || a->high < b->high) {
      out.append(*this, *a++);
    } else {
      out.append_both(*this, *a++, other, *b++);
    }
  }
  for (const Container& c : out.containers_) out.size_ += c.count;
  out.last_ = std::max(last_, other.last_);
  return out;
}

uint64_t RowBitmap::memory_bytes() const {
  return containers_.capacity() * sizeof(Container) + lists_.capacity() * 2 +
         words_.capacity() * 8;
}

const RowBitmap::Container* RowBitmap::find(uint64_t high) const {
  const auto it = std::lower_bound(
      containers_.begin(), containers_.end(), high,
      [](const Container& c, uint64_t wanted) { return c.high < wanted; });
  return it == containers_.end() || it->high != high ? nullptr : &*it;
}

bool RowBitmap::contains(const Container& c, uint16_t low) const {
  if (!c.is_list()) {
    return ((words_[c.begin + low / 64] >> (low % 64)) & 1) != 0;
  }
  const auto begin = lists_.begin() + static_cast<ptrdiff_t>(c.begin);
  return std::binary_search(begin, begin + static_cast<ptrdiff_t>(c.count),
                            low);
}

template <class F>
bool RowBitmap::each_from(const Container& c, uint64_t first,
                          const F& f) const {
  const uint64_t base = c.high << 16;
  const uint64_t low = first > base ? first - base : 0;
  if (low > 0xffff) return true;
  if (c.is_list()) {
    const auto begin = lists_.begin() + static_cast<ptrdiff_t>(c.begin);
    const auto end = begin + static_cast<ptrdiff_t>(c.count);
    for (auto it = std::lower_bound(begin, end, low); it != end; ++it) {
      if (!f(base + *it)) return false;
    }
    return true;
  }
  for (uint64_t word = low / 64; word < kWords; ++word) {
    uint64_t bits = words_[c.begin + word];
    if (word == low / 64) bits &= ~uint64_t{0} << (low % 64);
    for (; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<uint64_t>(std::countr_zero(bits));
      if (!f(base + word * 64 + bit)) return false;
    }
  }
  return true;
}

void RowBitmap::append_absent(RowRange range,
                              std::vector<RowRange>* out) const {
  if (range.empty()) return;
  auto it = std::lower_bound(
      containers_.begin(), containers_.end(), range.begin >> 16,
      [](const Container& c, uint64_t wanted) { return c.high < wanted; });
  // the set has no rows between `at` and the next row visited
  uint64_t at = range.begin;
  for (; it != containers_.end(); ++it) {
    const bool goes_on = each_from(*it, range.begin, [&](uint64_t row) {
      if (row >= range.end) return false;
      if (row > at) out->push_back({at, row});
      at = row + 1;
      return true;
    });
    if (!goes_on) break;
  }
  if (at < range.end) out->push_back({at, range.end});
}

void RowBitmap::append_rows(std::vector<uint64_t>* out) const {
  for (const Container& c : containers_) {
    each_from(c, 0, [out](uint64_t row) {
      out->push_back(row);
      return true;
    });
  }
}

}  // namespace nimble
