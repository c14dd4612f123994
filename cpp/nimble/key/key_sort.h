// Sorting of encoded keys.
#pragma once

#include "nimble/key/key_buffer.h"

namespace nimble {

// Fills *order with the rows of `keys` in key order. Stable: equal keys remain
// in row order.
// REQUIRES: Row is uint32_t (fewer than 2^32 keys) or uint64_t.
template <class Row>
void sort_keys(const KeyBuffer& keys, std::vector<Row>* order);

extern template void sort_keys(const KeyBuffer&, std::vector<uint32_t>*);
extern template void sort_keys(const KeyBuffer&, std::vector<uint64_t>*);

bool is_sorted(const KeyBuffer& keys);

// Compares key i of `a` with key j of `b`, for merging sorted runs.
inline int compare_keys(const KeyBuffer& a, size_t i, const KeyBuffer& b,
                        size_t j) {
  return compare_bytes(a.key(i), b.key(j));
}

}  // namespace nimble
