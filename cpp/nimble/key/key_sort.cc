#include "nimble/key/key_sort.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nimble {
namespace {

constexpr size_t kRadixMaxWidth = 16;
constexpr uint32_t kRadixBits = 32;
constexpr size_t kRadixMinRows = 256;  // below this, comparing is faster

template <class Row>
struct Item {
  uint64_t head;
  Row row;
};

// The byte positions at which keys of the same width differ.
std::vector<size_t> varying_bytes(const KeyBuffer& keys) {
  const size_t width = keys.fixed_width();
  uint8_t differs[kRadixMaxWidth] = {};
  const uint8_t* first = keys.data();
  for (size_t i = 1; i < keys.size(); ++i) {
    const uint8_t* key = first + i * width;
    for (size_t b = 0; b < width; ++b) {
      differs[b] = static_cast<uint8_t>(differs[b] | (key[b] ^ first[b]));
    }
  }
  std::vector<size_t> out;
  for (size_t b = 0; b < width; ++b) {
    if (differs[b] != 0) out.push_back(b);
  }
  return out;
}

// Radix sort from the least significant digit, one byte per pass. Every pass is
// stable.
template <class Row>
void radix_passes(std::vector<Item<Row>>* items, uint32_t low_bit,
                  uint32_t num_bits) {
  const size_t passes = div_ceil(num_bits, 8);
  std::vector<Item<Row>> other(items->size());
  size_t starts[kRadixBits / 8][256] = {};
  for (const Item<Row>& item : *items) {
    const uint64_t digits = item.head >> low_bit;
    for (size_t p = 0; p < passes; ++p) ++starts[p][(digits >> (8 * p)) & 0xff];
  }
  for (size_t p = 0; p < passes; ++p) {
    size_t sum = 0;
    for (size_t& start : starts[p]) sum += std::exchange(start, sum);
    const size_t shift = low_bit + 8 * p;
    for (const Item<Row>& item : *items) {
      other[starts[p][(item.head >> shift) & 0xff]++] = item;
    }
    items->swap(other);
  }
}

// Sorts by the upper 32 bits of the range with radix passes. Few items are
// equal in these bits. They are then adjacent, and `less` sorts them.
template <class Row, class Less>
void radix_sort(std::vector<Item<Row>>* items, uint32_t num_bits,
                const Less& less) {
  const uint32_t rest = num_bits > kRadixBits ? num_bits - kRadixBits : 0;
  radix_passes(items, rest, num_bits - rest);
  for (auto first = items->begin(); first != items->end();) {
    auto last = first + 1;
    while (last != items->end() && last->head >> rest == first->head >> rest) {
      ++last;
    }
    if (last - first > 1) std::sort(first, last, less);
    first = last;
  }
}

// Subtracts the smallest head from all heads. Returns the number of bits of the
// largest result.
template <class Row>
uint32_t narrow_heads(std::vector<Item<Row>>* items) {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const Item<Row>& item : *items) {
    low = std::min(low, item.head);
    high = std::max(high, item.head);
  }
  for (Item<Row>& item : *items) item.head -= low;
  return bit_width_of(high - low);
}

// Sorts keys whose differing bytes fit in one word.
template <class Row>
bool sort_by_word(const KeyBuffer& keys, std::vector<Item<Row>>* items) {
  const size_t width = keys.fixed_width();
  if (width == 0 || width > kRadixMaxWidth || keys.size() < kRadixMinRows) {
    return false;
  }
  const std::vector<size_t> bytes = varying_bytes(keys);
  if (bytes.size() > 8) return false;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint8_t* key = keys.data() + i * width;
    uint64_t word = 0;
    for (const size_t b : bytes) word = word << 8 | key[b];
    (*items)[i] = {word, static_cast<Row>(i)};
  }
  const uint32_t bits = narrow_heads(items);
  if (bits <= kRadixBits) {  // the passes are stable
    radix_passes(items, 0, bits);
    return true;
  }
  radix_sort(items, bits, [](const Item<Row>& a, const Item<Row>& b) {
    return a.head != b.head ? a.head < b.head : a.row < b.row;
  });
  return true;
}

// Packs the first bytes after a common prefix to a number with the same order.
// Each position takes only as many bits as it has different bytes. The text of
// a UUID, for example, takes 4 bits per digit and none per dash.
class HeadPacker {
 public:
  HeadPacker(const KeyBuffer& keys, size_t skip) : skip_(skip) {
    // A sample shows whether bytes have too many values for this to help.
    const size_t sample = std::min(keys.size(), kSampleKeys);
    for (size_t i = 0; i < sample; ++i) see(keys.key(i));
    if (choose_positions() <= 8) return;
    for (size_t i = sample; i < keys.size(); ++i) see(keys.key(i));
    if (choose_positions() <= 8) positions_ = 0;
  }

  uint64_t head(ByteSpan key) const {
    const ByteSpan rest = key.subspan(skip_);
    if (positions_ <= 8) return head_of(rest.data(), rest.size());
    uint64_t packed = 0;
    for (size_t p = 0; p < positions_; ++p) {
      const uint8_t byte = p < rest.size() ? rest[p] : 0;
      packed = packed << bits_[p] | ranks_[p][byte];
    }
    return packed;
  }

 private:
  static constexpr size_t kSampleKeys = 1024;
  static constexpr size_t kPositions = 20;

  // Keys that end before a position have a zero there, like those of head_of().
  void see(ByteSpan key) {
    const ByteSpan rest = key.subspan(skip_);
    const size_t n = std::min(rest.size(), kPositions);
    for (size_t p = 0; p < n; ++p) seen_[p][rest[p]] = 1;
    for (size_t p = n; p < kPositions; ++p) seen_[p][0] = 1;
  }
  // Sets the ranks of the bytes at as many positions as fit.
  size_t choose_positions() {
    uint32_t bits = 0;
    for (positions_ = 0; positions_ < kPositions; ++positions_) {
      uint32_t rank = 0;
      for (size_t b = 0; b < 256; ++b) {
        ranks_[positions_][b] = static_cast<uint8_t>(rank);
        rank += seen_[positions_][b];
      }
      bits_[positions_] = rank > 1 ? bit_width_of(rank - 1) : 0;
      bits += bits_[positions_];
      if (bits > 64) break;
    }
    return positions_;
  }

  size_t skip_;
  size_t positions_ = 0;  // at most 8: heads are the first 8 bytes
  uint8_t seen_[kPositions][256] = {};
  uint8_t ranks_[kPositions][256] = {};
  uint32_t bits_[kPositions] = {};
};

// Sorts any keys: by the first bytes after the common prefix, then by the
// remaining bytes.
template <class Row>
void sort_by_head(const KeyBuffer& keys, std::vector<Item<Row>>* items) {
  size_t shared = keys.key(0).size();
  for (size_t i = 1; i < keys.size() && shared > 0; ++i) {
    shared =
        std::min(shared, shared_prefix(keys.key(0).first(shared), keys.key(i)));
  }
  if (items->size() < kRadixMinRows) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const ByteSpan rest = keys.key(i).subspan(shared);
      (*items)[i] = {head_of(rest.data(), rest.size()), static_cast<Row>(i)};
    }
  } else {
    const HeadPacker packer(keys, shared);
    for (size_t i = 0; i < keys.size(); ++i) {
      (*items)[i] = {packer.head(keys.key(i)), static_cast<Row>(i)};
    }
  }
  const auto less = [&keys, shared](const Item<Row>& a, const Item<Row>& b) {
    if (a.head != b.head) return a.head < b.head;
    const int c = compare_bytes(keys.key(a.row).subspan(shared),
                                keys.key(b.row).subspan(shared));
    return c != 0 ? c < 0 : a.row < b.row;
  };
  if (items->size() < kRadixMinRows) {
    std::sort(items->begin(), items->end(), less);
  } else {
    radix_sort(items, narrow_heads(items), less);
  }
}

}  // namespace

bool is_sorted(const KeyBuffer& keys) {
  for (size_t i = 1; i < keys.size(); ++i) {
    if (compare_bytes(keys.key(i - 1), keys.key(i)) > 0) return false;
  }
  return true;
}

template <class Row>
void sort_keys(const KeyBuffer& keys, std::vector<Row>* order) {
  order->resize(keys.size());
  if (is_sorted(keys)) {  // cheap, and common
    std::iota(order->begin(), order->end(), Row{0});
    return;
  }
  std::vector<Item<Row>> items(keys.size());
  if (!sort_by_word(keys, &items)) sort_by_head(keys, &items);
  for (size_t i = 0; i < items.size(); ++i) (*order)[i] = items[i].row;
}

template void sort_keys(const KeyBuffer&, std::vector<uint32_t>*);
template void sort_keys(const KeyBuffer&, std::vector<uint64_t>*);

}  // namespace nimble
