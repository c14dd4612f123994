// Direction and null placement of a key column.
#pragma once

namespace nimble {

struct SortOrder {
  bool descending = false;
  // Placement of nulls in the final order, independent of the direction.
  bool nulls_first = false;

  bool operator==(const SortOrder&) const = default;
};

}  // namespace nimble
