// Random Arrow arrays of any type: with rows before the offset and after the
// end, nulls over junk, children with their own offsets, and buffers of exactly
// the size that Arrow requires.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nimble/types/array_view.h"

namespace nimble::testing {

using Rng = std::mt19937_64;

// A resolved field. Children without a name are named "a", "b", ...
Field make_field(const std::string& format, std::vector<Field> children = {},
                 const std::string& name = "x");
Field make_dictionary(const std::string& codes, Field values);
// At least one field of every layout, flat and nested.
std::vector<Field> every_field();
// A struct of these columns, named "c0", "c1", ..., without nulls.
Field struct_of(std::vector<Field> columns);

class RandomArray {
 public:
  RandomArray(const Field& field, int64_t rows, Rng* rng);
  ~RandomArray();
  RandomArray(const RandomArray&) = delete;
  RandomArray& operator=(const RandomArray&) = delete;

  ArrayView view() const;

 private:
  struct Node;
  class Maker;
  const Field& field_;
  std::unique_ptr<Node> root_;
};

// A byte string per row, equal for equal values. It does not depend on offsets,
// capacities or the order of dictionaries.
std::vector<std::string> row_texts(const ArrayView& view);

}  // namespace nimble::testing
