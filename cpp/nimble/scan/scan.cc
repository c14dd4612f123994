#include "nimble/scan/scan.h"

#include <algorithm>
#include <utility>

#include "nimble/stripe/file_rows.h"
#include "nimble/threads/threads.h"

namespace nimble {
namespace {

// Windows are read in slices of this many rows. Usually few rows pass, and a
// batch costs its consumer more than a window costs the scan.
constexpr uint64_t kFilteredRows = 2 * uint64_t{kSegmentValues};
// Number of rows for one call of a test. With fewer rows, the call costs more
// than the test.
constexpr uint64_t kTestedRows = kSegmentValues;
// The share of rows that is expected to pass a filter.
constexpr double kPassing = 0.1;
// Approximate time of a test of one row.
constexpr double kTestNanos = 10;
// Handing a task to another thread takes microseconds. That is worthwhile for
// tasks of about this length.
constexpr double kTaskNanos = 1e6;
// Up to these sizes, a file that is not mapped is small. Its reads take at
// least kFetchNanos.
constexpr uint64_t kSmallRows = uint64_t{1} << 18;
constexpr uint64_t kSmallBytes = uint64_t{16} << 20;
constexpr double kFetchNanos = 1e6;

bool is_mapped(const RowReader& reader) {
  return reader.file().file().mapped() != nullptr;
}

double nanos_of_row(const ScanPart& part) {
  const uint64_t row = part.ranges.front().begin;
  double nanos = part.output->decode_nanos(row);
  if (!part.selects()) return nanos;
  nanos *= kPassing;
  if (part.filter != nullptr) nanos += part.filter->test_nanos(row);
  if (part.inputs != nullptr) {
    const double each = part.inputs->decode_nanos(row) + kTestNanos;
    nanos += part.filter != nullptr ? kPassing * each : each;
  }
  return nanos;
}

// Reads rows without a filter and appends them as one batch. If they are too
// large for one batch, appends several.
Status read_batches(const RowReader& reader,
                    const std::vector<RowRange>& ranges, uint32_t threads,
                    std::vector<ArrowArray>* out) {
  Status status;
  {
    Column column = reader.make_output();
    // A range inside one stripe may refer to the mapped file.
    column.set_wants_views(ranges.size() == 1 &&
                           reader.is_in_one_stripe(ranges[0]));
    status = reader.read_ranges(ranges, threads, &column);
    ArrowArray array{};
    if (status) status = std::move(column).export_array(&array);
    if (status) out->push_back(array);
  }
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

}  // namespace

Scan::Batches::Batches(Batches&& o) noexcept
    : status(std::move(o.status)), arrays(std::move(o.arrays)), rows(o.rows) {
  o.arrays.clear();
}
Scan::Batches& Scan::Batches::operator=(Batches&& o) noexcept {
  std::swap(status, o.status);
  std::swap(arrays, o.arrays);
  std::swap(rows, o.rows);
  return *this;
}
Scan::Batches::~Batches() {
  for (ArrowArray& a : arrays) {
    if (a.release != nullptr) a.release(&a);
  }
}

uint64_t Scan::Part::slice_rows(uint64_t batch_rows) const {
  if (filter != nullptr) return kFilteredRows;
  return inputs != nullptr ? kTestedRows : batch_rows;
}

Result<std::unique_ptr<Scan>> Scan::create(std::vector<ScanPart> parts,
                                           const ScanOptions& options) {
  if (parts.empty())
    return Status::invalid_argument("a scan needs at least one file");
  std::vector<std::shared_ptr<Part>> made;
  for (ScanPart& part : parts) {
    if (!made.empty() && !have_same_types(part.output->schema(),
                                          made.front()->output->schema())) {
      return Status::invalid_argument(
          part.output->file().file().name() +
          ": the columns have other types than those of the first file");
    }
    NIMBLE_ASSIGN_OR_RETURN(SelectionReader reader,
                            SelectionReader::create(part));
    std::erase_if(part.ranges, [](const RowRange& r) { return r.empty(); });
    auto item = std::make_shared<Part>(std::move(part), std::move(reader));
    item->rows = count_rows(item->ranges);
    made.push_back(std::move(item));
  }
  return std::unique_ptr<Scan>(new Scan(std::move(made), options));
}

Scan::Scan(std::vector<std::shared_ptr<Part>> parts, const ScanOptions& options)
    : options_(options),
      schema_(parts.front()->output->schema()),
      parts_(std::move(parts)) {}

bool Scan::is_read_alone(const Part& part) const {
  if (options_.threads == 1 || is_mapped(*part.output)) return false;
  return part.rows > kSmallRows ||
         part.output->file().file().size() > kSmallBytes;
}

void Scan::begin_group() {
  group_end_ = part_ + 1;
  const bool is_alone = is_read_alone(*parts_[part_]);
  while (!is_alone && group_end_ < parts_.size() &&
         !is_read_alone(*parts_[group_end_])) {
    ++group_end_;
  }
  double nanos = 0;
  uint64_t slices = 0;
  bool any_remote = false;
  for (size_t i = part_; i < group_end_; ++i) {
    Part& part = *parts_[i];
    if (part.rows == 0) continue;
    slices += div_ceil(part.rows, part.slice_rows(options_.batch_rows));
    if (options_.threads == 1 || is_alone) continue;
    if (is_mapped(*part.output)) {
      part.row_nanos = nanos_of_row(part);
    } else {
      part.row_nanos = kFetchNanos / static_cast<double>(part.rows);
      any_remote = true;
    }
    nanos += part.row_nanos * static_cast<double>(part.rows);
  }
  const uint32_t threads =
      is_alone ? 1 : threads_worth(nanos, options_.threads);
  const auto ahead = static_cast<uint32_t>(std::min<uint64_t>(threads, slices));
  column_threads_ = ahead > 1 ? 1 : threads;
  for (size_t i = part_; any_remote && ahead > 1 && i < group_end_; ++i) {
    parts_[i]->is_whole = !is_mapped(*parts_[i]->output);
  }
  task_nanos_ = ahead > 1 ? std::min(kTaskNanos, nanos / (8 * ahead)) : 0;
  tasks_ = std::make_unique<Tasks>([this] { return claim(); }, ahead);
}

Result<bool> Scan::advance() {
  while (!ended_) {
    if (tasks_ == nullptr) {
      if (part_ == parts_.size()) break;
      begin_group();
    }
    if (tasks_->is_lost()) {
      ended_ = true;
      return Status::invalid_argument(
          "a scan that was begun before fork() cannot continue in the child "
          "process: begin it again");
    }
    if (std::optional<Batches> result = tasks_->next()) {
      ready_ = std::move(*result);
      next_ready_ = 0;
      return true;
    }
    tasks_.reset();
  }
  ended_ = true;
  return false;
}

Status Scan::next(ArrowArray* out) {
  *out = ArrowArray{};
  while (next_ready_ == ready_.arrays.size()) {
    if (!ready_.status) {
      ended_ = true;
      return std::exchange(ready_.status, Status::ok());
    }
    NIMBLE_ASSIGN_OR_RETURN(const bool more, advance());
    if (!more) return Status::ok();
  }
  ArrowArray& array = ready_.arrays[next_ready_++];
  *out = array;
  array.release = nullptr;
  return Status::ok();
}

Result<uint64_t> Scan::count() {
  counts_ = true;
  uint64_t rows = 0;
  while (true) {
    NIMBLE_ASSIGN_OR_RETURN(const bool more, advance());
    if (!more) return rows;
    if (!ready_.status) return std::move(ready_.status);
    rows += ready_.rows;
  }
}

Result<Scan::Slice> Scan::next_slice() {
  Slice slice;
  for (; part_ < group_end_; ++part_) {
    if (parts_[part_] == nullptr) continue;
    Part& part = *parts_[part_];
    slice.part = parts_[part_];
    uint64_t rows = part.slice_rows(options_.batch_rows);
    if (part.selects()) {
      if (!windows_) {
        windows_.emplace(part.output->file(), std::move(part.ranges));
      }
      while (slice.rows < rows) {
        FilterWindow window;
        NIMBLE_ASSIGN_OR_RETURN(const bool more, windows_->next(&window));
        if (!more) break;
        slice.rows += window.rows();
        slice.windows.push_back(std::move(window));
      }
    } else if (range_ < part.ranges.size()) {
      // A batch of vectors from two stripes would need a large copy.
      if (part.output->has_vectors()) {
        rows = part.output->rows_in_stripe(part.ranges[range_].begin, rows);
      }
      slice.ranges = take_front(&part.ranges, &range_, rows);
      slice.rows = count_rows(slice.ranges);
    }
    if (slice.rows > 0) return slice;
    parts_[part_].reset();  // its file may be closed
    windows_.reset();
    range_ = 0;
  }
  return slice;
}

Scan::Tasks::Task Scan::claim() {
  std::vector<Slice> slices;
  Status failure;
  double nanos = 0;
  while (slices.empty() || nanos < task_nanos_ ||
         (part_ < group_end_ && slices.back().part->is_whole &&
          slices.back().part == parts_[part_])) {
    Result<Slice> slice = next_slice();
    if (!slice) failure = std::move(slice).error();
    if (!slice || slice->rows == 0) break;
    nanos += static_cast<double>(slice->rows) * slice->part->row_nanos;
    slices.push_back(std::move(*slice));
  }
  if (!failure) part_ = group_end_;
  if (slices.empty() && failure) return {};
  return [this, slices = std::move(slices),
          failure = std::make_shared<Status>(std::move(failure))] {
    Batches out;
    for (const Slice& slice : slices) {
      out.status = read(slice, &out);
      const bool is_enough = !counts_ && out.rows >= options_.limit;
      if (!out.status || is_enough) return out;
    }
    out.status = std::move(*failure);
    return out;
  };
}

Status Scan::read(const Slice& slice, Batches* out) const {
  const Part& part = *slice.part;
  if (!part.selects()) {
    out->rows += slice.rows;
    return counts_ ? Status::ok()
                   : read_batches(*part.output, slice.ranges, column_threads_,
                                  &out->arrays);
  }
  if (counts_) {
    NIMBLE_ASSIGN_OR_RETURN(const uint64_t rows,
                            count_passing(part, slice.windows));
    out->rows += rows;
    return Status::ok();
  }
  std::vector<Selection> selections;
  NIMBLE_RETURN_IF_ERROR(select_rows(part, slice.windows, &selections));
  for (const Selection& selection : selections) {
    for (uint64_t at = 0; at < selection.count && out->rows < options_.limit;) {
      const uint64_t rows = std::min({options_.batch_rows, selection.count - at,
                                      options_.limit - out->rows});
      NIMBLE_RETURN_IF_ERROR(part.selected.read(selection, at, at + rows,
                                                column_threads_, &out->arrays));
      at += rows;
      out->rows += rows;
    }
  }
  return Status::ok();
}

}  // namespace nimble
