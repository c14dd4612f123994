// KeyFilter: a condition on the key columns of rows, which a server evaluates
// before it reads other columns. It has SQL's semantics: a row passes if the
// condition is true, and a test of a null is not true. Thread-safe.
//
// Clients send it as words, each node before its children:
//
//   AND n node...   OR n node...
//   NULL column     VALID column
//   TEST column op negated n value...
//
// `op` is ==, <, <=, >, >=, in, prefix or contains, `negated` 0 or 1. Values
// are texts as in keys (value_text.h). `in` has any number of values, other
// tests have one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nimble/encoding/core/predicate.h"
#include "nimble/serve/snapshot/served_table.h"

namespace nimble {

class KeyFilter {
 public:
  // Reads a condition on the cluster key. Fails with kInvalidArgument if the
  // words are not a condition, or if it tests another column.
  static Result<KeyFilter> parse(const ServedTable& table,
                                 std::span<const std::string_view> words);

  // Columns of the table that passing_rows() needs.
  const std::vector<uint32_t>& columns() const { return columns_; }
  // Appends the passing rows, in order, until *out has `most` rows. Returns the
  // number of rows that were tested. Decodes only the key columns.
  Result<uint64_t> append_passing(const ServedTable& table,
                                  std::span<const FileRange> rows, bool reverse,
                                  uint64_t most,
                                  std::vector<FileRange>* out) const;

 private:
  enum class Kind : uint8_t { kAnd, kOr, kNull, kValid, kTest };
  struct Node {
    Kind kind = Kind::kAnd;
    std::vector<Node> children;
    size_t column = 0;  // in columns_
    Predicate test;
  };
  class Parser;

  static bool passes(const Node& node, std::span<const Column* const> columns,
                     uint64_t row);

  Node root_;
  std::vector<uint32_t> columns_;
};

}  // namespace nimble
