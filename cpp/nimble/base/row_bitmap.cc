#include "nimble/base/row_bitmap.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bytes.h"

namespace nimble {

namespace {

// The first number of a 32-bit Roaring bitmap without containers of runs. With
// them, it is in the lower 16 bits.
constexpr uint32_t kNoRuns = 12346, kWithRuns = 12347;
// A Roaring bitmap with runs and fewer containers than this has no offsets.
constexpr size_t kFewestWithOffsets = 4;
// Bytes of a container that is a bitmap.
constexpr uint32_t kBitmapBytes = 8192;

template <class T>
void append_number(T number, std::vector<uint8_t>* out) {
  out->resize(out->size() + sizeof number);
  store(out->data() + out->size() - sizeof number, number);
}

template <class T>
void append_numbers(std::span<const T> numbers, std::vector<uint8_t>* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  out->insert(out->end(), bytes, bytes + numbers.size_bytes());
}

// Bytes of a container with this many rows and runs.
uint32_t plain_bytes(uint32_t rows) { return std::min(2 * rows, kBitmapBytes); }
uint32_t run_bytes(uint32_t runs) { return 2 + 4 * runs; }

}  // namespace

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

uint32_t RowBitmap::runs_in(const Container& c) const {
  uint32_t runs = 0;
  if (c.is_list()) {
    uint32_t next = 1u << 16;  // no row, because rows have 16 bits
    for (const uint16_t low : list_of(c)) {
      runs += low != next;
      next = low + 1u;
    }
    return runs;
  }
  uint64_t before = 0;  // the highest bit of the previous word
  for (const uint64_t word : std::span(words_).subspan(c.begin, kWords)) {
    runs += static_cast<uint32_t>(std::popcount(word & ~(word << 1 | before)));
    before = word >> 63;
  }
  return runs;
}

void RowBitmap::append_bytes(const Container& c, uint32_t runs,
                             std::vector<uint8_t>* out) const {
  if (run_bytes(runs) < plain_bytes(c.count)) {
    append_number(static_cast<uint16_t>(runs), out);
    uint64_t first = 0, last = 0;
    bool has_run = false;
    const auto append_run = [&] {
      append_number(static_cast<uint16_t>(first), out);
      append_number(static_cast<uint16_t>(last - first), out);
    };
    each_from(c, 0, [&](uint64_t row) {
      if (!has_run || row != last + 1) {
        if (has_run) append_run();
        first = row;
        has_run = true;
      }
      last = row;
      return true;
    });
    append_run();
  } else if (c.is_list()) {
    append_numbers(list_of(c), out);
  } else {
    append_numbers<uint64_t>(std::span(words_).subspan(c.begin, kWords), out);
  }
}

void RowBitmap::append_roaring(std::span<const Container> containers,
                               std::vector<uint8_t>* out) const {
  const size_t start = out->size();
  std::vector<uint32_t> runs;
  std::vector<uint8_t> is_run((containers.size() + 7) / 8);
  bool has_runs = false;
  for (size_t i = 0; i < containers.size(); ++i) {
    runs.push_back(runs_in(containers[i]));
    if (run_bytes(runs[i]) < plain_bytes(containers[i].count)) {
      is_run[i / 8] = static_cast<uint8_t>(is_run[i / 8] | 1u << i % 8);
      has_runs = true;
    }
  }
  const auto count = static_cast<uint32_t>(containers.size());
  if (has_runs) {
    append_number(kWithRuns | (count - 1) << 16, out);
    out->insert(out->end(), is_run.begin(), is_run.end());
  } else {
    append_number(kNoRuns, out);
    append_number(count, out);
  }
  for (const Container& c : containers) {
    append_number(static_cast<uint16_t>(c.high), out);
    append_number(static_cast<uint16_t>(c.count - 1), out);
  }
  if (!has_runs || count >= kFewestWithOffsets) {
    auto offset = static_cast<uint32_t>(out->size() - start + 4 * count);
    for (size_t i = 0; i < containers.size(); ++i) {
      append_number(offset, out);
      offset += std::min(run_bytes(runs[i]), plain_bytes(containers[i].count));
    }
  }
  for (size_t i = 0; i < containers.size(); ++i) {
    append_bytes(containers[i], runs[i], out);
  }
}

std::vector<uint8_t> RowBitmap::roaring() const {
  std::vector<uint8_t> out;
  const uint64_t bitmaps = empty() ? 0 : (last_ >> 32) + 1;
  append_number(bitmaps, &out);
  auto at = containers_.begin();
  for (uint64_t key = 0; key < bitmaps; ++key) {
    auto end = at;
    while (end != containers_.end() && end->high >> 16 == key) ++end;
    append_number(static_cast<uint32_t>(key), &out);
    append_roaring({at, end}, &out);
    at = end;
  }
  return out;
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
