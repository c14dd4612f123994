#include "nimble/scan/nearest/allowed_rows.h"

#include <algorithm>
#include <bit>

namespace nimble {
namespace {

// Number of windows that are tested together.
constexpr size_t kWindows = 16;

uint64_t bit_of(uint64_t row) { return uint64_t{1} << (row % 64); }

}  // namespace

Result<AllowedRows> AllowedRows::of(const ScanPart& part,
                                    const RowBitmap* deleted) {
  AllowedRows out;
  const uint64_t file_rows = part.output->file().num_rows();
  const bool has_deleted = deleted != nullptr && !deleted->empty();
  if (!part.selects() && !has_deleted) {
    std::vector<RowRange> ranges = merge_ranges(part.ranges);
    if (ranges.size() <= 1) {
      if (!ranges.empty()) out.range_ = ranges[0];
      out.size_ = out.range_.size();
      return out;
    }
  }
  out.bits_.assign(file_rows / 64 + 1, 0);
  if (part.selects()) {
    NIMBLE_RETURN_IF_ERROR(out.add_passing(part));
  } else {
    for (const RowRange& r : part.ranges) out.add(r);
  }
  if (has_deleted) {
    std::vector<uint64_t> rows;
    deleted->append_rows(&rows);
    for (const uint64_t row : rows) {
      if (row < file_rows) out.remove(row);
    }
  }
  if (out.size_ == 0) out.bits_.clear();
  return out;
}

Status AllowedRows::add_passing(const ScanPart& part) {
  RowFilter::Windows windows(part.output->file(), part.ranges);
  std::vector<FilterWindow> batch;
  for (bool more = true; more;) {
    FilterWindow window;
    NIMBLE_ASSIGN_OR_RETURN(more, windows.next(&window));
    if (more) batch.push_back(std::move(window));
    if (batch.empty() || (more && batch.size() < kWindows)) continue;
    std::vector<Selection> selections;
    NIMBLE_RETURN_IF_ERROR(select_rows(part, batch, &selections));
    batch.clear();
    for (const Selection& s : selections) {
      for (const PassingRows& passing : s.windows) {
        const std::span<const uint32_t> rows = passing.rows();
        size_ += rows.size();
        for (const uint32_t i : rows) {
          const uint64_t row = passing.first_row + i;
          bits_[row / 64] |= bit_of(row);
        }
      }
    }
  }
  return Status::ok();
}

void AllowedRows::add(RowRange range) {
  size_ += range.size();
  for (uint64_t row = range.begin; row < range.end;) {
    const uint64_t end = std::min(range.end, (row / 64 + 1) * 64);
    const uint64_t count = end - row;
    const uint64_t ones =
        count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    bits_[row / 64] |= ones << (row % 64);
    row = end;
  }
}

void AllowedRows::remove(uint64_t row) {
  size_ -= (bits_[row / 64] & bit_of(row)) != 0;
  bits_[row / 64] &= ~bit_of(row);
}

std::vector<RowRange> AllowedRows::ranges() const {
  std::vector<RowRange> out;
  if (is_range()) {
    if (size_ > 0) out.push_back(range_);
    return out;
  }
  for (size_t i = 0; i < bits_.size(); ++i) {
    for (uint64_t word = bits_[i]; word != 0;) {
      const auto first = static_cast<uint32_t>(std::countr_zero(word));
      const auto count = static_cast<uint32_t>(std::countr_one(word >> first));
      const uint64_t row = i * 64 + first;
      if (!out.empty() && out.back().end == row) {
        out.back().end += count;
      } else {
        out.push_back({row, row + count});
      }
      word = first + count == 64 ? 0 : word & ~uint64_t{0} << (first + count);
    }
  }
  return out;
}

}  // namespace nimble
