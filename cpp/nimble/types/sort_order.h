// Direction and null placement of one key column.
#pragma once

namespace nimble {

struct SortOrder {
  bool descending = false;
  // Where nulls go in the final order, whatever the direction.
  bool nulls_first = false;

  bool operator==(const SortOrder&) const = default;
};

}  // namespace nimble
