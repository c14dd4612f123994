// Types shared by the searches for nearest rows: the parts, and the nearest
// rows found so far.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "nimble/index/vector/vector_elements.h"
#include "nimble/scan/nearest/allowed_rows.h"
#include "nimble/scan/nearest/nearest_options.h"

namespace nimble {

// A part with everything that the search needs from it.
struct SearchPart {
  const NearestPart* given;
  VectorType type;
  AllowedRows allowed;

  bool has_lists() const {
    return given->index != nullptr && given->index->root().num_lists > 0;
  }
  const VectorIndex& index() const { return *given->index; }
  // Fraction of the indexed rows that are allowed.
  double density() const {
    const uint64_t n = index().root().num_rows;
    return n == 0 ? 1
                  : std::min(1.0, static_cast<double>(allowed.size()) /
                                      static_cast<double>(n));
  }
};

struct NearRow {
  double distance;
  uint32_t part;
  uint64_t row;

  bool operator<(const NearRow& o) const {
    if (distance != o.distance) return distance < o.distance;
    return part != o.part ? part < o.part : row < o.row;
  }
  bool operator==(const NearRow& o) const {
    return part == o.part && row == o.row;
  }
};

// The nearest rows so far: a heap, the farthest first.
class NearestRows {
 public:
  explicit NearestRows(size_t most) : most_(most) {}

  // The distance of the farthest row. Rows beyond it are not added.
  double limit() const {
    return rows_.size() < most_ ? std::numeric_limits<double>::infinity()
                                : rows_.front().distance;
  }
  void add(const NearRow& row) {
    if (rows_.size() == most_) {
      if (!(row < rows_.front())) return;
      std::pop_heap(rows_.begin(), rows_.end());
      rows_.back() = row;
    } else {
      rows_.push_back(row);
    }
    std::push_heap(rows_.begin(), rows_.end());
  }
  void add_all(const NearestRows& other) {
    for (const NearRow& row : other.rows_) add(row);
  }
  // Returns the rows sorted and without repetitions. The heap is empty
  // afterwards.
  std::vector<NearRow> take_sorted() {
    std::sort_heap(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    return std::move(rows_);
  }

 private:
  size_t most_;
  std::vector<NearRow> rows_;
};

}  // namespace nimble
