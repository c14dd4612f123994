#include "nimble/scan/nearest/vector_rows.h"

#include <algorithm>

namespace nimble {
namespace {

// Number of encoded values that are decoded at a time.
constexpr uint64_t kDecodedValues = 8 * kBlockValues;
// Bytes of vectors that are read at a time.
constexpr uint64_t kReadBytes = uint64_t{4} << 20;
// Bytes at the beginning of a segment that are read ahead for its decoder.
constexpr uint64_t kSegmentHead = 8192;
// Bytes of a located vector that are prefetched. The processor itself fetches
// the remainder of a long vector.
constexpr uint64_t kPrefetchedBytes = 512;

}  // namespace

VectorRows::VectorRows(std::shared_ptr<const RowReader> reader,
                       const VectorType& type, bool may_have_nulls)
    : reader_(std::move(reader)),
      type_(type),
      is_mapped_(reader_->file().file().mapped() != nullptr),
      may_have_nulls_(may_have_nulls) {
  const StreamPlan& plan = reader_->file().plan();
  const SchemaNode& list = plan.node(reader_->node(0));
  const SchemaNode& items = plan.node(list.children[0]);
  validity_ = list.validity;
  item_validity_ = items.validity;
  values_ = items.values;
}

Status VectorRows::move_to(uint64_t row) {
  if (is_located_ && at_.move_to(row)) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(at_, RowLocation::find(reader_->file(), row));
  is_located_ = true;
  return Status::ok();
}

bool VectorRows::has_nulls() const {
  return at_.has_values(validity_) || at_.has_values(item_validity_);
}

Status VectorRows::find(uint64_t row, StreamValue* first,
                        uint64_t* count) const {
  const uint64_t n = type_.dimensions;
  const uint64_t stripe_row = at_.of_stripe(row);
  const uint64_t left = at_.num_values(values_) / n;
  if (stripe_row >= left) {
    return Status::corrupt("stream " + std::to_string(values_) + " has " +
                           std::to_string(at_.num_values(values_)) +
                           " numbers, too few for vector " +
                           std::to_string(stripe_row) + " of " +
                           std::to_string(n));
  }
  *count = std::min(*count, left - stripe_row);
  return at_.find_value(values_, stripe_row * n, first);
}

Result<const uint8_t*> VectorRows::in_place(const StreamValue& first,
                                            uint64_t* count) const {
  const uint64_t n = type_.dimensions;
  const uint64_t whole = (first.decoder->size() - first.row) / n;
  if (whole == 0) return nullptr;
  const uint64_t rows = std::min(*count, whole);
  const auto end = static_cast<uint32_t>(first.row + rows * n);
  NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const plain,
                          first.decoder->view(first.body, first.row, end));
  if (plain != nullptr) *count = rows;
  return plain;
}

Result<const uint8_t*> VectorRows::mapped(uint64_t row, uint64_t* count) {
  StreamValue first;
  NIMBLE_RETURN_IF_ERROR(find(row, &first, count));
  NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const plain, in_place(first, count));
  if (plain != nullptr) return plain;
  const uint64_t n = type_.dimensions;
  const uint64_t begin = at_.of_stripe(row) * n;
  *count = std::min(*count, std::max<uint64_t>(1, kDecodedValues / n));
  decoded_.resize(*count * type_.row_bytes());
  Output out;
  out.data = decoded_.data();
  NIMBLE_RETURN_IF_ERROR(at_.decode(values_, begin, begin + *count * n, out));
  return static_cast<const uint8_t*>(decoded_.data());
}

Status VectorRows::locate(uint64_t row, const uint8_t** values) {
  *values = nullptr;
  if (!is_mapped_) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(move_to(row));
  if (has_nulls()) return Status::ok();
  StreamValue first;
  uint64_t one = 1;
  NIMBLE_RETURN_IF_ERROR(find(row, &first, &one));
  NIMBLE_ASSIGN_OR_RETURN(*values, in_place(first, &one));
  if (*values != nullptr) {
    const uint64_t size = std::min(type_.row_bytes(), kPrefetchedBytes);
    for (uint64_t i = 0; i < size; i += 64) __builtin_prefetch(*values + i);
    return Status::ok();
  }
  first.prefetch();
  const uint32_t last = first.decoder->size() - 1 - first.row;
  first.row += std::min(type_.dimensions - 1, last);
  first.prefetch();
  return Status::ok();
}

const uint8_t* VectorRows::in_column(const Column& read, uint64_t i) const {
  const Column& vectors = read.children[0];
  const Column& items = vectors.children[0];
  if (!vectors.is_valid(i)) return nullptr;
  const uint64_t n = type_.dimensions;
  for (uint64_t j = i * n; items.null_count() > 0 && j < (i + 1) * n; ++j) {
    if (!items.is_valid(j)) return nullptr;
  }
  return items.value_data() + i * type_.row_bytes();
}

Status VectorRows::will_need(std::span<const uint64_t> rows) {
  if (!is_mapped_) return Status::ok();
  const ReadableFile& file = reader_->file().file();
  const uint8_t* const map = file.mapped();
  const auto start = [&](const uint8_t* data, uint64_t size) {
    file.will_need(static_cast<uint64_t>(data - map), size);
  };
  const uint64_t n = type_.dimensions;
  // The places of values are in the heads of segments.
  const uint8_t* last = nullptr;
  for (const uint64_t row : rows) {
    NIMBLE_RETURN_IF_ERROR(move_to(row));
    if (has_nulls()) continue;
    const ByteSpan segment = at_.new_segment(values_, at_.of_stripe(row) * n);
    if (segment.empty() || segment.data() == last) continue;
    last = segment.data();
    start(last, std::min<uint64_t>(segment.size(), kSegmentHead));
  }
  std::vector<ByteRange> ranges;
  for (const uint64_t row : rows) {
    NIMBLE_RETURN_IF_ERROR(move_to(row));
    if (has_nulls()) continue;
    StreamValue first;
    uint64_t one = 1;
    NIMBLE_RETURN_IF_ERROR(find(row, &first, &one));
    ranges.clear();
    const uint64_t end =
        std::min<uint64_t>(first.row + n, first.decoder->size());
    first.decoder->append_ranges(first.row, static_cast<uint32_t>(end),
                                 &ranges);
    for (const ByteRange& r : ranges) {
      if (r.begin < r.end && r.end <= first.body.size) {
        start(first.body.data + r.begin, r.end - r.begin);
      }
    }
  }
  return Status::ok();
}

Status VectorRows::prepare(std::span<const uint64_t> rows) {
  read_.reset();
  read_rows_.clear();
  if (rows.empty()) return Status::ok();
  if (is_mapped_) {
    // Mapped vectors need not be read, except in stripes with nulls.
    for (const uint64_t row : rows) {
      NIMBLE_RETURN_IF_ERROR(move_to(row));
      if (has_nulls()) read_rows_.push_back(row);
    }
  } else {
    read_rows_.assign(rows.begin(), rows.end());
  }
  if (read_rows_.empty()) return Status::ok();
  read_.emplace(reader_->make_output());
  return reader_->take_ascending(read_rows_, 1, &*read_);
}

Result<const uint8_t*> VectorRows::row(uint64_t row) {
  if (is_mapped_) {
    NIMBLE_RETURN_IF_ERROR(move_to(row));
    if (!has_nulls()) {
      uint64_t one = 1;
      return mapped(row, &one);
    }
  }
  const auto i = std::lower_bound(read_rows_.begin(), read_rows_.end(), row);
  if (i == read_rows_.end() || *i != row) {
    if (!needs_rows()) {
      return Status::corrupt("the stripe of row " + std::to_string(row) +
                             " has null vectors, but the vector index says "
                             "that no row is null");
    }
    return Status::invalid_argument("row " + std::to_string(row) +
                                    " was not passed to prepare()");
  }
  return in_column(*read_, static_cast<uint64_t>(i - read_rows_.begin()));
}

Status VectorRows::visit_read(std::span<const RowRange> ranges,
                              const Visit& visit) {
  const RowReader* const reader = reader_.get();
  if (!is_mapped_) NIMBLE_RETURN_IF_ERROR(fetch_rows({&reader, 1}, ranges));
  Column read = reader_->make_output();
  NIMBLE_RETURN_IF_ERROR(reader_->read_ranges(ranges, 1, &read));
  uint64_t i = 0;
  for (const RowRange& range : ranges) {
    for (uint64_t row = range.begin; row < range.end; ++row, ++i) {
      const uint8_t* const values = in_column(read, i);
      if (values != nullptr) visit(row, values, 1);
    }
  }
  return Status::ok();
}

Status VectorRows::visit(std::span<const RowRange> ranges, const Visit& visit) {
  const uint64_t most = std::max<uint64_t>(1, kReadBytes / type_.row_bytes());
  std::vector<RowRange> together;  // only if the file is not mapped
  uint64_t num_together = 0;
  for (const RowRange& range : ranges) {
    for (uint64_t row = range.begin; row < range.end;) {
      uint64_t count = std::min(most, range.end - row);
      if (!is_mapped_) {
        count = std::min(count, most - num_together);
        together.push_back({row, row + count});
        num_together += count;
        row += count;
        if (num_together < most) continue;
        NIMBLE_RETURN_IF_ERROR(visit_read(together, visit));
        together.clear();
        num_together = 0;
        continue;
      }
      NIMBLE_RETURN_IF_ERROR(move_to(row));
      if (has_nulls()) {
        count = reader_->rows_in_stripe(row, count);
        const RowRange part{row, row + count};
        NIMBLE_RETURN_IF_ERROR(visit_read({&part, 1}, visit));
      } else {
        NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const values,
                                mapped(row, &count));
        visit(row, values, count);
      }
      row += count;
    }
  }
  return together.empty() ? Status::ok() : visit_read(together, visit);
}

}  // namespace nimble
