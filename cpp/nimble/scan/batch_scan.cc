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

// Up to `rows` rows from the front of ranges[*at ...], which are cut off.
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

// Rows of the stripe from this one on.
uint64_t rows_left(const OpenFile& f, uint64_t row) {
  const auto group = f.groups().get(f.group_of(row));
  if (!group) return UINT64_MAX;  // reading says what is wrong
  const StripeView& s = (*group)->view().stripe_of(row);
  return s.first_row + s.rows - row;
}

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

Batches::Batches(Batches&& o) noexcept
    : status(std::move(o.status)), arrays(std::move(o.arrays)) {
  o.arrays.clear();
}
Batches& Batches::operator=(Batches&& o) noexcept {
  std::swap(status, o.status);
  std::swap(arrays, o.arrays);
  return *this;
}
Batches::~Batches() {
  for (ArrowArray& a : arrays) {
    if (a.release != nullptr) a.release(&a);
  }
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
  for (size_t i = 0; i < reader_->schema().children.size(); ++i) {
    has_vectors_ =
        has_vectors_ || (!reader_->is_nested(i) &&
                         is_vector(reader_->file(), reader_->node(i)));
  }
  if (filter_) {
    windows_ = std::make_unique<RowFilter::Windows>(filter_->file(),
                                                    std::move(ranges_));
  }
  tasks_ = std::make_unique<ReadAhead<Batches>>(
      [this] { return filter_ ? claim_windows() : claim_ranges(); }, ahead);
}

Status BatchScan::next(ArrowArray* out) {
  *out = ArrowArray{};
  if (tasks_ == nullptr) begin();
  while (next_ready_ == ready_.arrays.size()) {
    if (ended_) return Status::ok();
    if (tasks_->is_lost()) {
      return Status::invalid_argument(
          "a scan with threads that began before fork() ends with it in the "
          "child: begin it anew");
    }
    std::optional<Batches> made = tasks_->next();
    ended_ = !made.has_value();
    if (ended_) return Status::ok();
    ready_ = std::move(*made);
    next_ready_ = 0;
    if (!ready_.status) {
      ended_ = true;
      next_ready_ = ready_.arrays.size();
      return std::move(ready_.status);
    }
  }
  ArrowArray& array = ready_.arrays[next_ready_++];
  *out = array;
  array.release = nullptr;
  return Status::ok();
}

BatchScan::Task BatchScan::claim_ranges() {
  uint64_t rows = batch_rows_;
  while (at_ < ranges_.size() && ranges_[at_].empty()) ++at_;
  if (has_vectors_ && at_ < ranges_.size()) {
    // A batch of two stripes is a copy, of vectors a large one.
    rows = std::min(rows, rows_left(reader_->file(), ranges_[at_].begin));
  }
  std::vector<RowRange> part = take_front(&ranges_, &at_, rows);
  if (part.empty()) return {};
  return [this, part = std::move(part)] {
    Batches out;
    out.status = read_ranges(part, &out);
    return out;
  };
}

Status BatchScan::read_ranges(const std::vector<RowRange>& part,
                              Batches* out) const {
  Status status;
  {
    Column column = reader_->make_output();
    // One range inside one stripe may be handed out where it lies.
    column.set_wants_views(part.size() == 1 &&
                           reader_->is_in_one_stripe(part[0]));
    status = reader_->read_ranges(part, column_threads_, &column);
    if (status) {
      ArrowArray array{};
      status = std::move(column).export_array(&array);
      if (status) out->arrays.push_back(array);
    }
  }
  if (status) return status;
  const uint64_t rows = count_rows(part);
  if (rows <= 1 || status.code() != StatusCode::kTooLarge) return status;
  std::vector<RowRange> rest = part;
  size_t at = 0;
  const std::vector<RowRange> front = take_front(&rest, &at, rows / 2);
  rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(at));
  NIMBLE_RETURN_IF_ERROR(read_ranges(front, out));
  return read_ranges(rest, out);
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
    std::vector<uint64_t> rows;
    for (const FilterWindow& w : windows) {
      out.status = filter_->select(w, &rows);
      if (!out.status) return out;
    }
    for (size_t i = 0; i < rows.size() && out.status; i += batch_rows_) {
      const size_t n = std::min<size_t>(batch_rows_, rows.size() - i);
      out.status = read_rows(std::span(rows).subspan(i, n), &out);
    }
    return out;
  };
}

Status BatchScan::read_rows(std::span<const uint64_t> rows,
                            Batches* out) const {
  Column column = reader_->make_output();
  NIMBLE_RETURN_IF_ERROR(reader_->take(rows, column_threads_, &column));
  ArrowArray array{};
  Status status = std::move(column).export_array(&array);
  if (status) {
    out->arrays.push_back(array);
    return status;
  }
  if (rows.size() <= 1 || status.code() != StatusCode::kTooLarge) return status;
  NIMBLE_RETURN_IF_ERROR(read_rows(rows.first(rows.size() / 2), out));
  return read_rows(rows.subspan(rows.size() / 2), out);
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
  std::vector<std::vector<uint64_t>> parts;
  NIMBLE_RETURN_IF_ERROR(
      for_windows(filter, std::move(ranges), threads, &parts,
                  [&](const FilterWindow& w, std::vector<uint64_t>* rows) {
                    return filter.select(w, rows);
                  }));
  std::vector<uint64_t> out;
  for (const std::vector<uint64_t>& part : parts) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace nimble
