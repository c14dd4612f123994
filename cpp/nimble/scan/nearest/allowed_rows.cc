#include "nimble/scan/nearest/allowed_rows.h"

#include <algorithm>

namespace nimble {
namespace {

// Number of windows that are tested together.
constexpr size_t kWindows = 16;

Result<std::vector<RowRange>> selected(const ScanPart& part) {
  std::vector<RowRange> out;
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
        for (const uint32_t i : passing.rows()) {
          const uint64_t row = passing.first_row + i;
          if (!out.empty() && out.back().end == row) {
            ++out.back().end;
          } else {
            out.push_back({row, row + 1});
          }
        }
      }
    }
  }
  return out;
}

}  // namespace

Result<AllowedRows> AllowedRows::of(const ScanPart& part,
                                    const RowBitmap* deleted) {
  std::vector<RowRange> ranges = part.ranges;
  if (part.selects()) {
    NIMBLE_ASSIGN_OR_RETURN(ranges, selected(part));
  }
  if (deleted != nullptr && !deleted->empty()) {
    std::vector<RowRange> left;
    for (const RowRange& r : ranges) deleted->append_absent(r, &left);
    ranges = std::move(left);
  }
  AllowedRows out;
  out.set_ranges(std::move(ranges), part.output->file().num_rows());
  return out;
}

void AllowedRows::set_ranges(std::vector<RowRange> ranges, uint64_t file_rows) {
  ranges_ = merge_ranges(std::move(ranges));
  size_ = count_rows(ranges_);
  if (ranges_.size() <= 1) return;
  bits_.assign(file_rows / 64 + 1, 0);
  for (const RowRange& r : ranges_) {
    for (uint64_t row = r.begin; row < r.end;) {
      const uint64_t end = std::min(r.end, (row / 64 + 1) * 64);
      const uint64_t count = end - row;
      const uint64_t ones =
          count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
      bits_[row / 64] |= ones << (row % 64);
      row = end;
    }
  }
}

}  // namespace nimble
