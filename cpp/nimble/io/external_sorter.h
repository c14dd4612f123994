// ExternalSorter: sorts any number of entries within a memory budget. Entries
// above the budget are sorted and spilled as runs. finish() merges the runs, in
// several passes if there are too many for one.
//
//   ( batch() grows, added() )* finish
//
// On disk a run consists of blocks of some KiB, or of one entry if the entry is
// larger. A merge holds a window of whole blocks of each run. The budget limits
// bytes, and only entries of about its size exceed it.
//
// A Batch holds entries in memory:
//   size() empty() clear() memory_bytes()  - with memory for growth, sort
//   fresh()                                - an empty one of the same kind
//   sort()                                 - stable
// and, once sorted, with places in the order:
//   compare(i, other, j)                   - sign of one entry against another
//   append(other, begin, end)              - keeps their order; then sort again
//   store(begin, end, ByteBuffer*)         - bytes for load(ByteSpan), which
//                                            appends them to a sorted batch
// The order of equal entries is the order in which they were added.
//
// Sorting may take long: `poll` is called between blocks and rounds. An error
// that it returns ends the sort.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nimble/io/spill_file.h"

namespace nimble {

template <class Batch>
class ExternalSorter {
 public:
  using Consumer = std::function<Status(const Batch& sorted)>;

  // Runs are written to `directory` (SpillFile).
  // REQUIRES: `batch` is empty.
  ExternalSorter(uint64_t memory_bytes, std::string directory, Batch batch,
                 std::function<Status()> poll = {})
      : memory_bytes_(memory_bytes),
        block_bytes_(std::clamp(memory_bytes / 256, kMinBlock, kMaxBlock)),
        directory_(std::move(directory)),
        poll_(std::move(poll)),
        batch_(std::move(batch)) {}

  // Add entries here, and call added() after every few entries.
  Batch& batch() { return batch_; }
  Status added() {
    return batch_.memory_bytes() < memory_bytes_ ? Status::ok() : spill();
  }
  // Number of entries written to runs, in all passes.
  uint64_t num_spilled() const { return num_spilled_; }

  // Passes all entries to `consume` in order, one batch at a time.
  Status finish(const Consumer& consume) {
    if (runs_.empty()) {
      batch_.sort();
      NIMBLE_RETURN_IF_ERROR(poll());
      return consume(batch_);
    }
    if (!batch_.empty()) NIMBLE_RETURN_IF_ERROR(spill());
    batch_ = batch_.fresh();  // frees its memory for the merge
    while (runs_.size() > most_runs()) {
      NIMBLE_RETURN_IF_ERROR(
          merge_last(std::min(most_runs(), runs_.size() - most_runs() + 1)));
    }
    return merge(runs_, consume);
  }

 private:
  static constexpr uint64_t kMinBlock = uint64_t{4} << 10;
  static constexpr uint64_t kMaxBlock = uint64_t{256} << 10;
  static constexpr size_t kMostRuns = 512;

  // Part of a spill file, which several runs share.
  struct Run {
    std::shared_ptr<SpillFile> file;
    uint64_t at = 0;
    uint64_t end = 0;
    size_t level = 0;  // number of merges that made the run
  };
  struct Window {
    Run run;  // the unread part
    Batch batch;
    size_t at = 0;
    bool more() const { return run.at < run.end; }
    bool done() const { return at == batch.size(); }
  };

  Status poll() const { return poll_ ? poll_() : Status::ok(); }

  // Maximum number of runs that can be merged at a time.
  size_t most_runs() const {
    const uint64_t fit = memory_bytes_ / 4 / std::max<uint64_t>(1, largest_);
    return std::clamp<uint64_t>(fit, 2, kMostRuns);
  }

  Status spill() {
    batch_.sort();
    NIMBLE_ASSIGN_OR_RETURN(Run run, begin_run(0));
    NIMBLE_RETURN_IF_ERROR(write_blocks(batch_, run.file.get()));
    end_run(std::move(run));
    batch_.clear();
    for (size_t n; (n = runs_of_last_level()) >= most_runs();) {
      batch_ = batch_.fresh();
      NIMBLE_RETURN_IF_ERROR(merge_last(n));
    }
    return Status::ok();
  }

  size_t runs_of_last_level() const {
    const auto other = std::find_if(
        runs_.rbegin(), runs_.rend(),
        [&](const Run& r) { return r.level != runs_.back().level; });
    return static_cast<size_t>(other - runs_.rbegin());
  }

  // Runs of one level share a file, until they are merged.
  Result<Run> begin_run(size_t level) {
    if (files_.size() <= level) files_.resize(level + 1);
    std::shared_ptr<SpillFile>& file = files_[level];
    if (file == nullptr) {
      NIMBLE_ASSIGN_OR_RETURN(file, SpillFile::create(directory_));
    }
    return Run{file, file->size(), 0, level};
  }
  void end_run(Run run) {
    run.end = run.file->size();
    runs_.push_back(std::move(run));
  }

  Status write_blocks(const Batch& sorted, SpillFile* file) {
    const size_t n = sorted.size();
    const size_t usual = static_cast<size_t>(
        n * block_bytes_ / std::max<uint64_t>(1, sorted.memory_bytes()));
    for (size_t at = 0; at < n;) {
      NIMBLE_RETURN_IF_ERROR(poll());
      size_t count = std::min(std::max<size_t>(usual, 1), n - at);
      for (;; count /= 2) {  // these entries may be larger than average
        block_.clear();
        block_.extend(sizeof(uint64_t));
        sorted.store(at, at + count, &block_);
        if (count == 1 || block_.size() <= 2 * block_bytes_) break;
      }
      store<uint64_t>(block_.data(), block_.size() - sizeof(uint64_t));
      NIMBLE_RETURN_IF_ERROR(file->append(block_.span()));
      largest_ = std::max<uint64_t>(largest_, block_.size());
      at += count;
    }
    num_spilled_ += n;
    return Status::ok();
  }

  // Merges the last n runs into one. Only adjacent runs are merged, so that
  // equal entries keep their order.
  Status merge_last(size_t n) {
    const size_t first = runs_.size() - n;
    const size_t level = runs_[first].level;
    for (size_t l = 0; l <= level; ++l) files_[l].reset();
    NIMBLE_ASSIGN_OR_RETURN(Run run, begin_run(level + 1));
    NIMBLE_RETURN_IF_ERROR(
        merge(std::span(runs_).subspan(first), [&](const Batch& sorted) {
          return write_blocks(sorted, run.file.get());
        }));
    runs_.resize(first);
    end_run(std::move(run));
    return Status::ok();
  }

  Status load(Window* w, uint64_t bytes) {
    w->batch.clear();
    w->at = 0;
    while (w->more() && (w->batch.empty() || w->batch.memory_bytes() < bytes)) {
      uint64_t size = 0;
      NIMBLE_RETURN_IF_ERROR(w->run.file->read_at(
          w->run.at, reinterpret_cast<uint8_t*>(&size), sizeof size));
      block_.resize(size);
      NIMBLE_RETURN_IF_ERROR(
          w->run.file->read_at(w->run.at + sizeof size, block_.data(), size));
      w->batch.load(block_.span());
      w->run.at += sizeof size + size;
    }
    return Status::ok();
  }

  // The end of the entries of `w` that are not greater than the last entry of
  // `bound`. Equal entries count only if `w` is an earlier run than `bound`.
  static size_t end_within(const Window& w, const Window& bound) {
    const int most = &w <= &bound ? 0 : -1;
    size_t begin = w.at, end = w.batch.size();
    while (begin < end) {
      const size_t mid = begin + (end - begin) / 2;
      const int c = w.batch.compare(mid, bound.batch, bound.batch.size() - 1);
      if (c <= most) {
        begin = mid + 1;
      } else {
        end = mid;
      }
    }
    return begin;
  }

  // Entries after the last entry of an incomplete window may be preceded by
  // entries that are not read yet. Each round therefore takes entries up to the
  // smallest of these bounds from all windows, and sorts them.
  Status merge(std::span<const Run> runs, const Consumer& consume) {
    const uint64_t window_bytes = memory_bytes_ / 4 / runs.size();
    std::vector<Window> windows;
    for (const Run& run : runs) {
      windows.push_back({run, batch_.fresh()});
      NIMBLE_RETURN_IF_ERROR(load(&windows.back(), window_bytes));
    }
    Batch merged = batch_.fresh();
    for (;;) {
      NIMBLE_RETURN_IF_ERROR(poll());
      const Window* bound = nullptr;
      for (const Window& w : windows) {
        if (w.more() && (bound == nullptr ||
                         w.batch.compare(w.batch.size() - 1, bound->batch,
                                         bound->batch.size() - 1) < 0)) {
          bound = &w;
        }
      }
      merged.clear();
      for (Window& w : windows) {
        const size_t end =
            bound == nullptr ? w.batch.size() : end_within(w, *bound);
        merged.append(w.batch, w.at, end);
        w.at = end;
      }
      if (merged.empty()) return Status::ok();
      merged.sort();
      NIMBLE_RETURN_IF_ERROR(consume(merged));
      for (Window& w : windows) {
        if (w.done() && w.more())
          NIMBLE_RETURN_IF_ERROR(load(&w, window_bytes));
      }
    }
  }

  const uint64_t memory_bytes_;
  const uint64_t block_bytes_;
  const std::string directory_;
  const std::function<Status()> poll_;
  Batch batch_;
  std::vector<Run> runs_;
  std::vector<std::shared_ptr<SpillFile>> files_;  // of each level
  ByteBuffer block_;
  uint64_t largest_ = 0;  // size of the largest block so far
  uint64_t num_spilled_ = 0;
};

}  // namespace nimble
