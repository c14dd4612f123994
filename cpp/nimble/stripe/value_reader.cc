#include "nimble/stripe/value_reader.h"

namespace nimble {

void StreamValue::prefetch_decoder() const {
  constexpr size_t kDecoderBytes = 256;  // what most decoders take
  const auto* p = reinterpret_cast<const uint8_t*>(decoder);
  for (size_t at = 0; at < kDecoderBytes; at += 64) __builtin_prefetch(p + at);
}

Result<RowLocation> RowLocation::find(const OpenFile& file, uint64_t row) {
  RowLocation out;
  out.file_ = &file;
  NIMBLE_ASSIGN_OR_RETURN(out.group_, file.groups().get(file.group_of(row)));
  out.stripe_ = &out.group_->view().stripe_of(row);
  out.row_ = row - out.stripe_->first_row;
  return out;
}

bool RowLocation::move_to(uint64_t row) {
  if (stripe_ == nullptr || row - stripe_->first_row >= stripe_->rows) {
    return false;
  }
  row_ = row - stripe_->first_row;
  return true;
}

Status RowLocation::find_value(uint32_t stream, StreamValue* out) const {
  if (row_ >= stripe_->values[stream]) {
    return Status::corrupt("stream " + std::to_string(stream) + " has only " +
                           std::to_string(stripe_->values[stream]) + " values");
  }
  const auto index = static_cast<uint32_t>(row_ / kSegmentValues);
  NIMBLE_ASSIGN_OR_RETURN(out->decoder,
                          group_->decoder(*stripe_, stream, index,
                                          file_->plan().streams()[stream]));
  const uint32_t segment = stripe_->first_segment[stream] + index;
  out->body = {file_->file().mapped() + stripe_->segment_offsets[segment],
               stripe_->segment_sizes[segment], true, &file_->stats()->touches};
  out->row = static_cast<uint32_t>(row_ % kSegmentValues);
  return Status::ok();
}

std::optional<FlatColumn> FlatColumn::of(const StreamPlan& plan,
                                         uint32_t node) {
  const SchemaNode& n = plan.node(node);
  const Field& f = *n.field;
  const bool is_fixed =
      f.layout == Layout::kFixed || f.layout == Layout::kDictionary;
  if (n.values == kNoStream || (is_fixed && f.width > FlatValue::kMaxWidth) ||
      (!is_fixed && f.layout != Layout::kBool && f.layout != Layout::kBytes)) {
    return std::nullopt;
  }
  return FlatColumn{f.layout, f.width, n.validity, n.values};
}

Status FlatValue::read(const RowLocation& at, const FlatColumn& column,
                       const StreamValue& values) {
  Output to;
  to.data = fixed_;
  data_ = nullptr;
  if (at.has_values(column.validity)) {
    StreamValue validity;
    NIMBLE_RETURN_IF_ERROR(at.find_value(column.validity, &validity));
    NIMBLE_RETURN_IF_ERROR(validity.read(to));
    if ((fixed_[0] & 1) == 0) return Status::ok();
  }
  if (column.layout == Layout::kBytes) {
    ThreadScratch<ValueBytes, FlatValue>& bytes = bytes_.emplace();
    NIMBLE_RETURN_IF_ERROR(values.read(bytes->output()));
    size_ = bytes->size();
    data_ = size_ > 0 ? bytes->data() : fixed_;  // never null
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(values.read(to));
  if (column.layout == Layout::kBool) fixed_[0] &= 1;
  data_ = fixed_;
  size_ = column.layout == Layout::kBool ? 1 : column.width;
  return Status::ok();
}

}  // namespace nimble
