// RowSlices, SliceSize: cut rows into slices, so that the size of a reply is
// checked before all rows are decoded.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "nimble/serve/snapshot/served_table.h"

namespace nimble {

// The number of rows to decode before the size of a reply is checked again.
//
// If all columns have a fixed width, a slice has about kBytes. Otherwise the
// size of a row is only known once it is decoded. The first slice then has few
// rows. Each later slice has about kBytes by the mean row size of the slice
// before it, but at most kVariableRows. A refused reply costs at most one slice
// more than the limit.
class SliceSize {
 public:
  static constexpr uint64_t kBytes = uint64_t{1} << 20;
  static constexpr uint64_t kFixedRows = 1024;
  static constexpr uint64_t kFirstRows = 16;
  static constexpr uint64_t kVariableRows = 256;

  SliceSize(const Field& schema, std::span<const uint32_t> columns) {
    uint64_t row = 1;
    for (const uint32_t c : columns) {
      const std::optional<uint64_t> width = width_of(schema.children[c]);
      is_fixed_ &= width.has_value();
      row += width.value_or(0);
    }
    if (is_fixed_) rows_ = std::clamp<uint64_t>(kBytes / row, 1, kFixedRows);
  }
  uint64_t rows() const { return rows_; }
  // Adjusts the next slice to a slice of `rows` rows with `bytes`.
  void add(uint64_t rows, uint64_t bytes) {
    if (is_fixed_ || rows == 0) return;
    const uint64_t mean = std::max<uint64_t>(1, bytes / rows);
    rows_ = std::clamp<uint64_t>(kBytes / mean, 1, kVariableRows);
  }

 private:
  // Bytes of a value; nullopt if values have different sizes. Counts at most
  // kBytes.
  static std::optional<uint64_t> width_of(const Field& field) {
    switch (field.layout) {
      case Layout::kNull:
      case Layout::kBool:
        return 1;
      case Layout::kFixed:
        return field.width;
      case Layout::kStruct:
      case Layout::kFixedList: {
        uint64_t sum = 1;
        for (const Field& child : field.children) {
          const std::optional<uint64_t> width = width_of(child);
          if (!width) return std::nullopt;
          sum = std::min(kBytes, sum + *width);
        }
        if (field.layout == Layout::kStruct || field.list_size < 0) return sum;
        return std::min(kBytes, sum * static_cast<uint64_t>(field.list_size));
      }
      default:
        return std::nullopt;
    }
  }

  bool is_fixed_ = true;
  uint64_t rows_ = kFirstRows;
};

// Returns the slices in the order of a read. Borrows the rows.
class RowSlices {
 public:
  RowSlices(std::span<const FileRange> rows, bool reverse)
      : rows_(rows), reverse_(reverse) {}
  bool is_done() const { return at_ == rows_.size(); }
  // Returns at most `most` rows.
  std::vector<FileRange> next(uint64_t most) {
    std::vector<FileRange> out;
    while (most > 0 && at_ < rows_.size()) {
      const auto [file, range] = rows_[at_];
      const uint64_t n = std::min(most, range.size() - taken_);
      const uint64_t begin =
          reverse_ ? range.end - taken_ - n : range.begin + taken_;
      out.push_back({file, {begin, begin + n}});
      most -= n;
      taken_ += n;
      if (taken_ == range.size()) {
        ++at_;
        taken_ = 0;
      }
    }
    return out;
  }

 private:
  const std::span<const FileRange> rows_;
  const bool reverse_;
  size_t at_ = 0;
  uint64_t taken_ = 0;  // rows of the range at_
};

}  // namespace nimble
