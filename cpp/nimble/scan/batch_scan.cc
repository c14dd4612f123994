#include "nimble/scan/batch_scan.h"

#include <algorithm>

#include "nimble/stripe/vector_reader.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// Windows that one task filters: few rows of each pass, mostly, and a batch
// costs its consumer more than a window costs us.
constexpr uint32_t kWindowsPerTask = 2;
// The part of the rows that a filter is expected to let pass.
constexpr double kPassing = 0.1;

// Of ranges that have rows.
uint64_t first_row(std::span<const RowRange> ranges) {
  return std::find_if(ranges.begin(), ranges.end(),
                      [](const RowRange& r) { return !r.empty(); })
      ->begin;
}

// What a source outside of C++ gives is read by its own thread only.
uint32_t threads_for(const OpenFile& file, uint32_t threads) {
  return file.file().mapped() != nullptr ? threads : 1;
}

}  // namespace

std::vector<RowRange> take_front(std::vector<RowRange>* ranges, size_t* at,
                                 uint64_t rows) {
  const auto first = ranges->begin() + static_cast<ptrdiff_t>(*at);
  auto it = first;
  for (; it != ranges->end() && it->size() <= rows; ++it) rows -= it->size();
  std::vector<RowRange> out(first, it);
  *at += out.size();
  if (it != ranges->end() && rows > 0) {
    out.push_back({it->begin, it->begin + rows});
    it->begin += rows;
  }
  return out;
}

bool has_vectors(const RowReader& reader) {
  for (size_t i = 0; i < reader.schema().children.size(); ++i) {
    if (!reader.is_nested(i) && is_vector(reader.file(), reader.node(i))) {
      return true;
    }
  }
  return false;
}

uint64_t rows_in_stripe(const OpenFile& file, uint64_t row, uint64_t rows) {
  const auto group = file.groups().get(file.group_of(row));
  if (!group) return rows;  // reading says what is wrong
  const StripeView& s = (*group)->view().stripe_of(row);
  return std::min(rows, s.first_row + s.rows - row);
}

Status read_batches(const RowReader& reader,
                    const std::vector<RowRange>& ranges, uint32_t threads,
                    Batches* out) {
  Status status;
  {
    Column column = reader.make_output();
    // One range inside one stripe may be handed out where it lies.
    column.set_wants_views(ranges.size() == 1 &&
                           reader.is_in_one_stripe(ranges[0]));
    status = reader.read_ranges(ranges, threads, &column);
    if (status) {
      ArrowArray array{};
      status = std::move(column).export_array(&array);
      if (status) out->arrays.push_back(array);
    }
  }
  if (status) return status;
  if (status.code() != StatusCode::kTooLarge) return status;
  const uint64_t rows = count_rows(ranges);
  if (rows <= 1) return status;
  std::vector<RowRange> rest = ranges;
  size_t at = 0;
  const std::vector<RowRange> front = take_front(&rest, &at, rows / 2);
  rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(at));
  NIMBLE_RETURN_IF_ERROR(read_batches(reader, front, threads, out));
  return read_batches(reader, rest, threads, out);
}

BatchScan::BatchScan(std::shared_ptr<const RowReader> reader,
                     std::shared_ptr<const RowFilter> filter,
                     std::vector<RowRange> ranges, uint64_t batch_rows,
                     uint32_t threads)
    : reader_(std::move(reader)),
      filter_(std::move(filter)),
      ranges_(std::move(ranges)),
      batch_rows_(std::max<uint64_t>(1, batch_rows)),
      threads_(threads) {}

void BatchScan::begin() {
  const uint64_t rows = count_rows(ranges_);
  uint32_t threads = threads_for(reader_->file(), threads_);
  if (threads > 1 && rows > 0) {
    const uint64_t row = first_row(ranges_);
    const double nanos = filter_ ? filter_->test_nanos(row) +
                                       kPassing * reader_->decode_nanos(row)
                                 : reader_->decode_nanos(row);
    threads = threads_worth(nanos * static_cast<double>(rows), threads);
  }
  const uint64_t step =
      filter_ ? uint64_t{kWindowsPerTask} * kSegmentValues : batch_rows_;
  const uint64_t tasks = div_ceil(rows, step);
  const auto ahead = static_cast<uint32_t>(std::min<uint64_t>(threads, tasks));
  column_threads_ = ahead > 1 ? 1 : threads;
  has_vectors_ = has_vectors(*reader_);
  if (filter_) {
    windows_ = std::make_unique<RowFilter::Windows>(filter_->file(),
                                                    std::move(ranges_));
  }
  tasks_ = std::make_unique<BatchQueue>(
      [this] { return filter_ ? claim_windows() : claim_ranges(); }, ahead);
}

Status BatchScan::next(ArrowArray* out) {
  if (tasks_ == nullptr) begin();
  return tasks_->next(out);
}

BatchScan::Task BatchScan::claim_ranges() {
  uint64_t rows = batch_rows_;
  while (at_ < ranges_.size() && ranges_[at_].empty()) ++at_;
  if (has_vectors_ && at_ < ranges_.size()) {
    rows = rows_in_stripe(reader_->file(), ranges_[at_].begin, rows);
  }
  std::vector<RowRange> part = take_front(&ranges_, &at_, rows);
  if (part.empty()) return {};
  return [this, part = std::move(part)] {
    Batches out;
    out.status = read_batches(*reader_, part, column_threads_, &out);
    return out;
  };
}

BatchScan::Task BatchScan::claim_windows() {
  std::vector<FilterWindow> windows;
  Status failed;
  while (windows.size() < kWindowsPerTask) {
    FilterWindow window;
    auto more = windows_->next(&window);
    if (!more) failed = std::move(more).error();
    if (!more || !*more) break;
    windows.push_back(std::move(window));
  }
  if (!failed) {
    auto shared = std::make_shared<Status>(std::move(failed));
    return [shared] {
      Batches out;
      out.status = std::move(*shared);
      return out;
    };
  }
  if (windows.empty()) return {};
  return [this, windows = std::move(windows)] {
    Batches out;
    std::vector<PassingRows> passing(windows.size());
    uint64_t left = 0;
    for (size_t i = 0; i < windows.size(); ++i) {
      out.status = filter_->select(windows[i], &passing[i]);
      if (!out.status) return out;
      left += passing[i].rows().size();
    }
    for (Place at; left > 0 && out.status;) {
      const uint64_t count = std::min(batch_rows_, left);
      out.status = read_passing(passing, count, &at, &out);
      left -= count;
    }
    return out;
  };
}

Status BatchScan::read_passing(std::span<const PassingRows> windows,
                               uint64_t count, Place* at, Batches* out) const {
  const Place start = *at;
  Status status;
  {
    Column column = reader_->make_output();
    NIMBLE_RETURN_IF_ERROR(append_passing(windows, count, at, &column));
    ArrowArray array{};
    status = std::move(column).export_array(&array);
    if (status) out->arrays.push_back(array);
  }
  if (count <= 1 || status.code() != StatusCode::kTooLarge) return status;
  *at = start;
  NIMBLE_RETURN_IF_ERROR(read_passing(windows, count / 2, at, out));
  return read_passing(windows, count - count / 2, at, out);
}

Status BatchScan::append_passing(std::span<const PassingRows> windows,
                                 uint64_t count, Place* at, Column* out) const {
  reader_->reserve_rows(count, out);
  const bool is_flat = reader_->has_flat_columns() && !has_vectors_;
  std::vector<uint64_t> scattered;  // rows that are taken together
  const auto take_scattered = [&] {
    if (scattered.empty()) return Status::ok();
    Status status = reader_->take_ascending(scattered, column_threads_, out);
    scattered.clear();
    return status;
  };
  while (count > 0) {
    const PassingRows& window = windows[at->window];
    const size_t n = std::min<uint64_t>(count, window.rows().size() - at->row);
    const std::span<const uint32_t> rows = window.rows().subspan(at->row, n);
    at->row += n;
    count -= n;
    if (at->row == window.rows().size()) *at = {at->window + 1, 0};
    if (is_flat && window.is_dense()) {
      NIMBLE_RETURN_IF_ERROR(take_scattered());
      NIMBLE_RETURN_IF_ERROR(reader_->take_of_segment(window.first_row, rows,
                                                      column_threads_, out));
      continue;
    }
    for (const uint32_t row : rows) scattered.push_back(window.first_row + row);
  }
  return take_scattered();
}

namespace {

// f(window, slot) -> Status for every window, slots being in order.
template <class Slot, class F>
Status for_windows(const RowFilter& filter, std::vector<RowRange> ranges,
                   uint32_t threads, std::vector<Slot>* slots, F&& f) {
  RowFilter::Windows cut(filter.file(), std::move(ranges));
  std::vector<FilterWindow> windows;
  while (true) {
    FilterWindow window;
    NIMBLE_ASSIGN_OR_RETURN(const bool more, cut.next(&window));
    if (!more) break;
    windows.push_back(std::move(window));
  }
  slots->resize(windows.size());
  std::vector<Status> status(windows.size());
  threads = threads_for(filter.file(), threads);
  if (threads > 1 && !windows.empty()) {
    uint64_t rows = 0;
    for (const FilterWindow& w : windows) rows += w.rows();
    threads = threads_worth(
        filter.test_nanos(windows[0].first_row) * static_cast<double>(rows),
        threads);
  }
  parallel_for(windows.size(), threads,
               [&](size_t i) { status[i] = f(windows[i], &(*slots)[i]); });
  for (Status& s : status) NIMBLE_RETURN_IF_ERROR(std::move(s));
  return Status::ok();
}

}  // namespace

Result<uint64_t> count_rows_that_pass(const RowFilter& filter,
                                      std::vector<RowRange> ranges,
                                      uint32_t threads) {
  std::vector<uint64_t> counts;
  NIMBLE_RETURN_IF_ERROR(for_windows(
      filter, std::move(ranges), threads, &counts,
      [&](const FilterWindow& w, uint64_t* n) { return filter.count(w, n); }));
  uint64_t sum = 0;
  for (const uint64_t n : counts) sum += n;
  return sum;
}

Result<std::vector<uint64_t>> rows_that_pass(const RowFilter& filter,
                                             std::vector<RowRange> ranges,
                                             uint32_t threads) {
  std::vector<PassingRows> windows;
  NIMBLE_RETURN_IF_ERROR(
      for_windows(filter, std::move(ranges), threads, &windows,
                  [&](const FilterWindow& w, PassingRows* passing) {
                    return filter.select(w, passing);
                  }));
  size_t count = 0;
  for (const PassingRows& window : windows) count += window.rows().size();
  std::vector<uint64_t> out;
  out.reserve(count);
  for (const PassingRows& window : windows) {
    for (const uint32_t row : window.rows()) {
      out.push_back(window.first_row + row);
    }
  }
  return out;
}

}  // namespace nimble
