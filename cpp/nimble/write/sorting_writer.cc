#include "nimble/write/sorting_writer.h"

#include <algorithm>

#include "nimble/io/spilled_file.h"
#include "nimble/key/key_sort.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {
namespace {

// Rows of a run that are in memory at a time while merging: what the budget
// has room for, but not so few that blocks are decoded again and again.
constexpr uint64_t kMinMergeRows = 1024;
constexpr uint64_t kMaxMergeRows = 16384;
// A run's stripes are held twice while they are encoded. Runs are read once,
// from begin to end: larger ones would gain nothing.
constexpr uint64_t kRunStripeRows = 16384;

// A column as an Arrow array, and back as a view: what KeyEncoder reads.
class ExportedRows {
 public:
  ~ExportedRows() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  Status take(Column&& column, const Field& schema) {
    if (array_.release != nullptr) array_.release(&array_);
    array_ = ArrowArray{};
    NIMBLE_RETURN_IF_ERROR(std::move(column).export_array(&array_));
    NIMBLE_ASSIGN_OR_RETURN(view_, ArrayView::open(schema, array_, ""));
    return Status::ok();
  }
  const ArrayView& view() const { return view_; }

 private:
  ArrowArray array_{};
  ArrayView view_;
};

// One sorted run, a window of rows at a time.
class Run {
 public:
  static Result<std::unique_ptr<Run>> open(
      std::shared_ptr<const SpillFile> file, const KeyEncoder& encoder,
      uint64_t window_rows) {
    // Not cached: kept blocks would count as memory that the budget does not
    // know of, and are read once anyway.
    ReaderOptions options;
    options.cache_bytes = 0;
    NIMBLE_ASSIGN_OR_RETURN(
        std::shared_ptr<const FileReader> reader,
        FileReader::open(spill_source(std::move(file)), options));
    auto run = std::make_unique<Run>();
    NIMBLE_ASSIGN_OR_RETURN(run->rows_,
                            RowReader::create_all(std::move(reader)));
    run->encoder_ = &encoder;
    run->window_rows_ = window_rows;
    NIMBLE_RETURN_IF_ERROR(run->load());
    return run;
  }

  bool done() const { return at_ == keys_.size(); }
  ByteSpan key() const { return keys_.key(at_); }
  const ArrayView& view() const { return window_.view(); }
  const KeyBuffer& keys() const { return keys_; }
  size_t position() const { return at_; }
  size_t size() const { return keys_.size(); }
  // Moves past n rows of the window.
  Status advance(size_t n) {
    at_ += n;
    return at_ == keys_.size() ? load() : Status::ok();
  }

 private:
  Status load() {
    keys_.clear();
    at_ = 0;
    const uint64_t end =
        std::min(rows_->file().num_rows(), next_row_ + window_rows_);
    if (next_row_ == end) return Status::ok();
    Column out = rows_->make_output();
    const RowRange range{next_row_, end};
    NIMBLE_RETURN_IF_ERROR(rows_->read_ranges({&range, 1}, 1, &out));
    NIMBLE_RETURN_IF_ERROR(window_.take(std::move(out), rows_->schema()));
    next_row_ = end;
    return encoder_->encode(window_.view(), 0, window_.view().length(), &keys_);
  }

  std::shared_ptr<const RowReader> rows_;
  const KeyEncoder* encoder_ = nullptr;
  ExportedRows window_;
  KeyBuffer keys_;
  size_t at_ = 0;
  uint64_t next_row_ = 0;
  uint64_t window_rows_ = 0;
};

}  // namespace

SortingWriter::SortingWriter(std::unique_ptr<FileWriter> writer)
    : writer_(std::move(writer)), rows_(writer_->schema(), /*wide=*/true) {
  attach_dictionaries(&rows_, &writer_->dictionaries());
}

Status SortingWriter::take_rows(const ArrayView& root) {
  // In steps, so that one large batch does not exceed the budget.
  constexpr int64_t kStep = 65536;
  for (int64_t at = 0; at < root.length(); at += kStep) {
    const int64_t n = std::min(kStep, root.length() - at);
    NIMBLE_RETURN_IF_ERROR(writer_->encoder()->encode(root, at, n, &keys_));
    NIMBLE_RETURN_IF_ERROR(rows_.append(root, at, n, ""));
    // Buffers grow by doubling: what they hold may be half of what they take.
    if (used_bytes() >= writer_->options().sort_memory_bytes / 2) {
      NIMBLE_RETURN_IF_ERROR(spill());
    }
  }
  return Status::ok();
}

Status SortingWriter::spill() {
  std::vector<uint64_t> order;
  sort_keys(keys_, &order);
  NIMBLE_ASSIGN_OR_RETURN(
      std::shared_ptr<SpillFile> file,
      SpillFile::create(writer_->options().spill_directory));
  WriterOptions options;
  options.effort = Effort::kFast;
  options.statistics = false;
  options.stripe_rows = kRunStripeRows;
  options.threads = writer_->options().threads;
  NIMBLE_ASSIGN_OR_RETURN(
      std::unique_ptr<FileWriter> run,
      FileWriter::create(writer_->schema(), options, spill_target(file)));
  // The run's codes are those of the file's dictionaries so far.
  run->share_dictionaries(writer_->dictionaries());
  NIMBLE_RETURN_IF_ERROR(
      run->append_rows(rows_, order.data(), order.size(), nullptr));
  runs_.push_back(std::move(file));
  NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const WriteSummary done,
                          run->finish());
  spilled_bytes_ += used_bytes();
  spilled_rows_ += rows_.length();
  rows_.clear();
  keys_.clear();
  return Status::ok();
}

uint64_t SortingWriter::used_bytes() const {
  return rows_.data_bytes() + keys_.num_bytes() + keys_.size() * 16;
}

// Half of the budget for the windows of all runs; a window is held twice, as
// decoded and as an array.
uint64_t SortingWriter::merge_rows() const {
  const uint64_t row_bytes = div_ceil(spilled_bytes_, spilled_rows_);
  const uint64_t rows =
      writer_->options().sort_memory_bytes / 4 / (row_bytes * runs_.size());
  return std::clamp(rows, kMinMergeRows, kMaxMergeRows);
}

Status SortingWriter::merge_runs() {
  const KeyEncoder& encoder = *writer_->encoder();
  writer_->set_codes_mapped();
  // What was sorted is on disk: its memory is free for the merge.
  rows_ = Column(writer_->schema(), /*wide=*/true);
  keys_ = KeyBuffer();
  std::vector<std::unique_ptr<Run>> runs;
  for (const std::shared_ptr<const SpillFile>& file : runs_) {
    NIMBLE_ASSIGN_OR_RETURN(std::unique_ptr<Run> run,
                            Run::open(file, encoder, merge_rows()));
    runs.push_back(std::move(run));
  }
  // A heap of runs, the smallest key on top; of equal keys the earlier run's
  // rows came first.
  const auto after = [&](size_t a, size_t b) {
    const int c = compare_bytes(runs[a]->key(), runs[b]->key());
    return c != 0 ? c > 0 : a > b;
  };
  std::vector<size_t> heap;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->done()) heap.push_back(i);
  }
  std::make_heap(heap.begin(), heap.end(), after);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const size_t i = heap.back();
    heap.pop_back();
    Run& run = *runs[i];
    // All rows of this run that come before every other run's.
    size_t end = run.position() + 1;
    if (heap.empty()) {
      end = run.size();
    } else {
      const ByteSpan next = runs[heap.front()]->key();
      const bool ties = i < heap.front();
      while (end < run.size()) {
        const int c = compare_bytes(run.keys().key(end), next);
        if (c > 0 || (c == 0 && !ties)) break;
        ++end;
      }
    }
    const auto n = static_cast<int64_t>(end - run.position());
    NIMBLE_RETURN_IF_ERROR(writer_->append_range(
        run.view(), static_cast<int64_t>(run.position()), n, &run.keys()));
    NIMBLE_RETURN_IF_ERROR(run.advance(static_cast<size_t>(n)));
    if (run.done()) continue;
    heap.push_back(i);
    std::push_heap(heap.begin(), heap.end(), after);
  }
  return Status::ok();
}

Status SortingWriter::finish_file(WriteSummary* summary) {
  if (runs_.empty()) {
    std::vector<uint64_t> order;
    sort_keys(keys_, &order);
    NIMBLE_RETURN_IF_ERROR(
        writer_->append_rows(rows_, order.data(), order.size(), &keys_));
  } else {
    if (rows_.length() > 0) NIMBLE_RETURN_IF_ERROR(spill());
    NIMBLE_RETURN_IF_ERROR(merge_runs());
  }
  NIMBLE_ASSIGN_OR_RETURN(*summary, writer_->finish());
  return Status::ok();
}

}  // namespace nimble
