#include "nimble/scan/selection.h"

#include <algorithm>

#include "nimble/column/column_keep.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

std::vector<RowRange> ranges_of(std::span<const FilterWindow> windows) {
  std::vector<RowRange> out;
  for (const FilterWindow& w : windows) {
    for (const RowRange& r : w.ranges) {
      if (!out.empty() && out.back().end == r.begin) {
        out.back().end = r.end;
      } else {
        out.push_back(r);
      }
    }
  }
  return out;
}

// Whether reading the ranges one by one costs more than reading single rows.
bool are_single_rows(std::span<const RowRange> ranges) {
  return ranges.size() > 1 && count_rows(ranges) < 2 * ranges.size();
}

std::vector<uint64_t> rows_of(std::span<const RowRange> ranges) {
  std::vector<uint64_t> out;
  out.reserve(count_rows(ranges));
  for (const RowRange& r : ranges) {
    for (uint64_t row = r.begin; row < r.end; ++row) out.push_back(row);
  }
  return out;
}

// Appends rows [begin, end) of the concatenated rows of all windows. Windows in
// which most rows pass are decoded block by block. The rows of the other
// windows are read together.
Status read_passing(const RowReader& reader,
                    std::span<const PassingRows> windows, uint64_t begin,
                    uint64_t end, uint32_t threads, Column* out) {
  reader.reserve_rows(end - begin, out);
  const bool is_flat = reader.has_flat_columns() && !reader.has_vectors();
  std::vector<uint64_t> scattered;
  const auto take_scattered = [&] {
    if (scattered.empty()) return Status::ok();
    Status status = reader.take_ascending(scattered, threads, out);
    scattered.clear();
    return status;
  };
  for (const PassingRows& window : windows) {
    if (end == 0) break;
    const uint64_t size = window.rows().size();
    const uint64_t first = std::min(begin, size), last = std::min(end, size);
    begin -= first;
    end -= last;
    if (first == last) continue;
    const auto rows = window.rows().subspan(first, last - first);
    if (is_flat && window.is_dense()) {
      NIMBLE_RETURN_IF_ERROR(take_scattered());
      NIMBLE_RETURN_IF_ERROR(
          reader.take_of_segment(window.first_row, rows, threads, out));
      continue;
    }
    for (const uint32_t row : rows) scattered.push_back(window.first_row + row);
  }
  return take_scattered();
}

// Selects with the part's RowFilter.
Status filter_windows(const RowFilter& filter,
                      std::span<const FilterWindow> windows, Selection* out) {
  out->windows.resize(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(filter.select(windows[i], &out->windows[i]));
    out->count += out->windows[i].rows().size();
  }
  return Status::ok();
}

// Reads the input columns of the rows that passed the RowFilter, or of all
// rows if the part does not have one.
Result<std::shared_ptr<const Column>> read_inputs(
    const ScanPart& part, std::span<const FilterWindow> windows,
    const Selection& filtered) {
  const RowReader& reader = *part.inputs;
  Column out = reader.make_output();
  if (part.filter != nullptr) {
    NIMBLE_RETURN_IF_ERROR(
        read_passing(reader, filtered.windows, 0, filtered.count, 1, &out));
  } else {
    const std::vector<RowRange> ranges = ranges_of(windows);
    if (are_single_rows(ranges)) {
      NIMBLE_RETURN_IF_ERROR(reader.take_ascending(rows_of(ranges), 1, &out));
    } else {
      out.set_wants_views(ranges.size() == 1 &&
                          reader.is_in_one_stripe(ranges[0]));
      NIMBLE_RETURN_IF_ERROR(reader.read_ranges(ranges, 1, &out));
    }
  }
  NIMBLE_RETURN_IF_ERROR(fits_offsets(out));
  return std::make_shared<const Column>(std::move(out));
}

// Keeps only some candidates of each window. `places` has their positions among
// the candidates of all windows, ascending.
class Narrower {
 public:
  explicit Narrower(std::span<const uint32_t> places) : places_(places) {}

  void keep_rows(PassingRows* window) {
    const size_t count = window->rows().size();
    uint32_t* const rows = window->resize(count);
    size_t kept = 0;
    for (; in_next(count); ++at_) rows[kept++] = rows[places_[at_] - first_];
    first_ += count;
    window->resize(kept);
  }
  void keep_ranges(const FilterWindow& from, PassingRows* window) {
    window->first_row = from.first_row;
    const size_t begin = at_;
    while (in_next(from.rows())) ++at_;
    uint32_t* out = window->resize(at_ - begin);
    size_t at = begin;
    for (const RowRange& r : from.ranges) {
      const uint64_t shift = r.begin - from.first_row - first_;
      for (; at < at_ && places_[at] - first_ < r.size(); ++at) {
        *out++ = static_cast<uint32_t>(places_[at] + shift);
      }
      first_ += r.size();
    }
  }

 private:
  bool in_next(uint64_t rows) const {
    return at_ < places_.size() && places_[at_] - first_ < rows;
  }

  std::span<const uint32_t> places_;
  size_t at_ = 0;
  uint64_t first_ = 0;  // the place of the next window's first candidate
};

// Filters the windows and tests the remaining rows. Bit i of `mask` is for row
// i of the input columns.
Status test_windows(const ScanPart& part, std::span<const FilterWindow> windows,
                    Selection* out, std::vector<uint64_t>* mask) {
  if (part.filter != nullptr) {
    NIMBLE_RETURN_IF_ERROR(filter_windows(*part.filter, windows, out));
    if (out->count == 0) return Status::ok();
  }
  NIMBLE_ASSIGN_OR_RETURN(out->inputs, read_inputs(part, windows, *out));
  mask->resize(out->inputs->length() / 64 + 1);
  return part.test(out->inputs, *mask);
}

// Removes the rows that did not pass the test.
void apply_mask(const ScanPart& part, std::span<const FilterWindow> windows,
                const std::vector<uint64_t>& mask, Selection* out) {
  const auto words = static_cast<uint32_t>(mask.size());
  std::vector<uint32_t> places(count_selected(mask.data(), words));
  selected_rows(mask.data(), words, 0, places.data());
  Narrower narrower(places);
  out->windows.resize(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    if (part.filter != nullptr) {
      narrower.keep_rows(&out->windows[i]);
    } else {
      narrower.keep_ranges(windows[i], &out->windows[i]);
    }
  }
  out->count = places.size();
  out->places.assign(places.begin(), places.end());
}

// Splits windows into two halves with about the same number of rows.
// REQUIRES: the windows have at least two rows in total.
std::pair<std::vector<FilterWindow>, std::vector<FilterWindow>> halves(
    std::span<const FilterWindow> windows) {
  std::pair<std::vector<FilterWindow>, std::vector<FilterWindow>> out;
  uint64_t left = 0;
  for (const FilterWindow& w : windows) left += w.rows();
  left /= 2;
  for (const FilterWindow& w : windows) {
    FilterWindow front = w, back = w;
    size_t at = 0;
    front.ranges = take_front(&back.ranges, &at, left);
    back.ranges.erase(back.ranges.begin(),
                      back.ranges.begin() + static_cast<ptrdiff_t>(at));
    left -= front.rows();
    if (!front.ranges.empty()) out.first.push_back(std::move(front));
    if (!back.ranges.empty()) out.second.push_back(std::move(back));
  }
  return out;
}

// Calls read(windows). If the input columns are too large for one Arrow array,
// calls it for both halves of the windows instead.
template <class Read>
Status in_parts(std::span<const FilterWindow> windows, const Read& read) {
  Status status = read(windows);
  if (status.code() != StatusCode::kTooLarge) return status;
  uint64_t rows = 0;
  for (const FilterWindow& w : windows) rows += w.rows();
  if (rows <= 1) return status;
  const auto [front, back] = halves(windows);
  NIMBLE_RETURN_IF_ERROR(in_parts(std::span(front), read));
  return in_parts(std::span(back), read);
}

}  // namespace

Status select_rows(const ScanPart& part, std::span<const FilterWindow> windows,
                   std::vector<Selection>* out) {
  return in_parts(windows, [&](std::span<const FilterWindow> some) {
    Selection selection;
    if (part.inputs == nullptr) {
      NIMBLE_RETURN_IF_ERROR(filter_windows(*part.filter, some, &selection));
    } else {
      std::vector<uint64_t> mask;
      NIMBLE_RETURN_IF_ERROR(test_windows(part, some, &selection, &mask));
      apply_mask(part, some, mask, &selection);
    }
    out->push_back(std::move(selection));
    return Status::ok();
  });
}

Result<uint64_t> count_passing(const ScanPart& part,
                               std::span<const FilterWindow> windows) {
  uint64_t count = 0;
  NIMBLE_RETURN_IF_ERROR(
      in_parts(windows, [&](std::span<const FilterWindow> some) {
        if (part.inputs == nullptr) {
          for (const FilterWindow& w : some) {
            NIMBLE_RETURN_IF_ERROR(part.filter->count(w, &count));
          }
          return Status::ok();
        }
        Selection selection;
        std::vector<uint64_t> mask;
        NIMBLE_RETURN_IF_ERROR(test_windows(part, some, &selection, &mask));
        count +=
            count_selected(mask.data(), static_cast<uint32_t>(mask.size()));
        return Status::ok();
      }));
  return count;
}

Result<SelectionReader> SelectionReader::create(const ScanPart& part) {
  SelectionReader out;
  out.output_ = out.rest_ = part.output;
  if (part.inputs == nullptr) return out;
  const size_t columns = part.output->schema().children.size();
  out.copied_from_.assign(columns, kNotRead);
  std::vector<OutputColumn> rest;
  for (size_t c = 0; c < columns; ++c) {
    const Layout layout = part.output->schema().children[c].layout;
    const bool is_flat = layout == Layout::kFixed || layout == Layout::kBool ||
                         layout == Layout::kBytes ||
                         layout == Layout::kDictionary;
    const size_t inputs = part.inputs->schema().children.size();
    for (size_t i = 0; i < inputs && is_flat; ++i) {
      if (part.inputs->node(i) == part.output->node(c) &&
          !part.inputs->is_nested(i) && !part.output->is_nested(c)) {
        out.copied_from_[c] = i;
      }
    }
    if (out.copied_from_[c] == kNotRead) rest.push_back(part.output->column(c));
  }
  if (rest.size() == columns) return out;
  NIMBLE_ASSIGN_OR_RETURN(out.rest_,
                          RowReader::create(part.output->file_owner(), rest));
  return out;
}

Status SelectionReader::fill(const Selection& selection, uint64_t begin,
                             uint64_t end, uint32_t threads,
                             Column* out) const {
  if (rest_ == output_) {
    return read_passing(*rest_, selection.windows, begin, end, threads, out);
  }
  Column rest = rest_->make_output();
  if (!rest.children.empty()) {
    NIMBLE_RETURN_IF_ERROR(
        read_passing(*rest_, selection.windows, begin, end, threads, &rest));
  }
  const uint64_t* const places = selection.places.data() + begin;
  for (size_t c = 0, r = 0; c < copied_from_.size(); ++c) {
    if (copied_from_[c] == kNotRead) {
      out->children[c] = std::move(rest.children[r++]);
    } else {
      const Column& from = selection.inputs->children[copied_from_[c]];
      out->children[c].append_rows(from, places, end - begin);
    }
  }
  out->add_rows(end - begin);
  return Status::ok();
}

Status SelectionReader::read(const Selection& selection, uint64_t begin,
                             uint64_t end, uint32_t threads,
                             std::vector<ArrowArray>* out) const {
  Status status;
  {
    Column column = output_->make_output();
    status = fill(selection, begin, end, threads, &column);
    ArrowArray array{};
    if (status) status = std::move(column).export_array(&array);
    if (status) out->push_back(array);
  }
  if (end - begin <= 1 || status.code() != StatusCode::kTooLarge) return status;
  const uint64_t middle = begin + (end - begin) / 2;
  NIMBLE_RETURN_IF_ERROR(read(selection, begin, middle, threads, out));
  return read(selection, middle, end, threads, out);
}

}  // namespace nimble
