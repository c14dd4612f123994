#include "nimble/write/sorting_writer.h"

#include <algorithm>

namespace nimble {
namespace {

constexpr uint64_t kFirstStep = 64;
constexpr uint64_t kMostStep = 65536;
// A smaller budget is treated like this one, because smaller steps are not
// worthwhile.
constexpr uint64_t kLeastBudget = uint64_t{1} << 20;

}  // namespace

WriterOptions sorting_options(WriterOptions options) {
  options.stripe_bytes =
      std::min(options.stripe_bytes,
               std::max(options.sort_memory_bytes, kLeastBudget) / 8);
  return options;
}

SortingWriter::SortingWriter(std::unique_ptr<FileWriter> writer)
    : writer_(std::move(writer)),
      sorter_(writer_->options().sort_memory_bytes,
              writer_->options().spill_directory,
              SortedRows(writer_->schema(), writer_->can_restore_rows()),
              writer_->options().poll),
      step_(kFirstStep) {}

Status SortingWriter::take_rows(const ArrayView& root) {
  SortedRows& batch = sorter_.batch();
  // Attaches the dictionaries again, because a batch loses them when it is
  // spilled.
  attach_dictionaries(batch.rows(), &writer_->dictionaries());
  const std::function<Status()>& poll = writer_->options().poll;
  for (int64_t at = 0; at < root.length();) {
    if (poll) NIMBLE_RETURN_IF_ERROR(poll());
    const int64_t n = std::min(step_, root.length() - at);
    const uint64_t before = batch.memory_bytes();
    NIMBLE_RETURN_IF_ERROR(
        writer_->encoder()->encode(root, at, n, batch.keys()));
    if (!batch.only_keys()) {
      NIMBLE_RETURN_IF_ERROR(batch.rows()->append(root, at, n, ""));
    }
    at += n;
    // Long rows are added in smaller steps, so that a step does not exceed the
    // budget.
    const uint64_t row_bytes =
        (batch.memory_bytes() - before) / static_cast<uint64_t>(n) + 1;
    const uint64_t budget =
        std::max(writer_->options().sort_memory_bytes, kLeastBudget);
    const uint64_t fit = budget / 8 / row_bytes;
    const uint64_t most = std::min(kMostStep, 4 * static_cast<uint64_t>(step_));
    step_ = static_cast<int64_t>(std::clamp<uint64_t>(fit, 1, most));
    batch.reserve_keys(writer_->options().sort_memory_bytes);
    NIMBLE_RETURN_IF_ERROR(sorter_.added());
    attach_dictionaries(batch.rows(), &writer_->dictionaries());
  }
  return Status::ok();
}

Status SortingWriter::finish_file(WriteSummary* summary) {
  NIMBLE_RETURN_IF_ERROR(sorter_.finish([&](const SortedRows& sorted) {
    const uint64_t* const order = sorted.order().data();
    return sorted.only_keys()
               ? writer_->append_keys(sorted.keys(), order, sorted.size())
               : writer_->append_rows(sorted.rows(), order, sorted.size(),
                                      &sorted.keys());
  }));
  NIMBLE_ASSIGN_OR_RETURN(*summary, writer_->finish());
  return Status::ok();
}

}  // namespace nimble
