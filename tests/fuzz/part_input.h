// Surroundings of the parts that format_targets.cc takes by themselves.
#pragma once

#include "nimble/key/big_endian.h"
#include "nimble/key/key_encoder.h"
#include "nimble/key_chunk/key_source.h"
#include "nimble/types/field.h"

namespace nimble::fuzz {

// The schema that groups are of: struct<c0: int64 not null, c1: utf8>.
Field group_field();
// Encoders of keys of all kinds of columns, with all orders.
const std::vector<KeyEncoder>& key_encoders();

// A key source whose row r has the key r, as eight big-endian bytes.
class NumberedKeys final : public KeySource {
 public:
  Result<LowerBound> find(uint64_t begin, uint64_t end,
                          const KeySearch& search) const override {
    for (uint64_t row = begin; row < end; ++row) {
      NIMBLE_ASSIGN_OR_RETURN(const int sign, compare(row, search.target));
      if (sign >= 0) return LowerBound{row, sign == 0};
    }
    return LowerBound{end, false};
  }
  Result<int> compare(uint64_t row, ByteSpan target) const override {
    uint8_t key[8];
    store_be(key, row, 8);
    return compare_bytes(ByteSpan(key), target);
  }
  Status read_keys(uint64_t begin, uint64_t end,
                   KeyBuffer* out) const override {
    for (uint64_t row = begin; row < end; ++row) {
      uint8_t key[8];
      store_be(key, row, 8);
      out->push_back(ByteSpan(key));
    }
    return Status::ok();
  }
  void prefetch(uint64_t, uint64_t, const KeySearch&) const override {}
};

}  // namespace nimble::fuzz
