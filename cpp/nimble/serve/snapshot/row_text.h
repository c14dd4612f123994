// RowText: values of one row as texts, for Redis' commands on hashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/served_table.h"

namespace nimble {

// The texts of selected columns of one row.
struct RowText {
  struct Value {
    size_t begin = 0;
    size_t size = 0;
    bool is_null = false;
  };
  std::string bytes;
  std::vector<Value> values;

  std::string_view text(size_t i) const {
    return std::string_view(bytes).substr(values[i].begin, values[i].size);
  }
  // Bytes in a reply, without the names of columns.
  uint64_t reply_bytes() const {
    return bytes.size() + kReplyValueBytes * values.size();
  }
  void clear() {
    bytes.clear();
    values.clear();
  }
};

// Replaces *out by the texts of the given columns of a row. Fails with
// kTooLarge if a reply with them would have more than `max_bytes`. May block.
Status read_text(const ServedTable& table, RowAddress row,
                 std::span<const uint32_t> columns, uint64_t max_bytes,
                 RowText* out);

}  // namespace nimble
