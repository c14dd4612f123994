#include "nimble/file/row_keys.h"

namespace nimble {
namespace {

// A leaf by its path of names where that leads to it, else the column that it
// is in. `path` becomes the way to it from there.
std::string path_name(const Field& schema, std::vector<int>* path) {
  std::string name;
  const Field* at = &schema;
  for (const int step : *path) {
    at = &at->children[static_cast<size_t>(step)];
    name += (name.empty() ? "" : ".") + at->name;
  }
  const auto found = find_path(schema, name);
  const auto top = static_cast<size_t>(path->front());
  const bool leads = found && *found == *path;
  path->erase(path->begin(), leads ? path->end() : path->begin() + 1);
  return leads ? name : schema.children[top].name;
}

// Decodes one value of a stream of a mapped file into `out`.
Status decode_value(const FileReader& file, const LoadedGroup& group,
                    const StripeView& stripe, uint32_t stream, uint64_t row,
                    const Output& out) {
  if (row >= stripe.values[stream]) {
    return Status::corrupt("stream " + std::to_string(stream) + " has only " +
                           std::to_string(stripe.values[stream]) + " values");
  }
  const auto index = static_cast<uint32_t>(row / kSegmentValues);
  NIMBLE_ASSIGN_OR_RETURN(
      const Decoder* decoder,
      group.decoder(stripe, stream, index, file.plan().streams()[stream]));
  const uint32_t segment = stripe.first_segment[stream] + index;
  const SegmentBody body{file.file().mapped() + stripe.segment_offsets[segment],
                         stripe.segment_sizes[segment], true,
                         &file.stats()->touches};
  const auto local = static_cast<uint32_t>(row % kSegmentValues);
  return decoder->gather(body, &local, 1, out);
}

// A little-endian integer of a column, if int64 holds it.
bool load_int(const Field& field, const uint8_t* value, int64_t* out) {
  uint64_t bits = 0;
  std::memcpy(&bits, value, field.width);
  const uint32_t unused = 64 - 8 * static_cast<uint32_t>(field.width);
  *out = static_cast<int64_t>(bits << unused) >> unused;
  if (field.is_signed) return true;
  *out = static_cast<int64_t>(bits);
  return *out >= 0;
}

}  // namespace

Result<std::unique_ptr<const RowKeys>> RowKeys::create(
    const FileReader& file, const std::vector<KeyColumnRef>& columns) {
  std::vector<std::string> names;
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumnRef& c : columns) {
    std::vector<int> path = c.path;
    std::string name = path_name(file.footer().schema, &path);
    path.insert(path.begin(), static_cast<int>(names.size()));
    specs.push_back({std::move(path), c.order});
    names.push_back(std::move(name));
  }
  const std::shared_ptr<const FileReader> borrowed(&file,
                                                   [](const FileReader*) {});
  NIMBLE_ASSIGN_OR_RETURN(auto rows, RowReader::create(borrowed, names));
  NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder,
                          KeyEncoder::create(rows->schema(), specs));
  const Field& first = rows->schema().children[0];
  const Logical logical = encoder.columns()[0].logical;
  std::unique_ptr<RowKeys> out(
      new RowKeys(std::move(rows), std::move(encoder)));
  out->direct_ =
      columns.size() == 1 && specs[0].path.size() == 1 &&
      !out->rows_->is_nested(0) && file.file().mapped() != nullptr &&
      file.plan().node(out->rows_->node(0)).values != kNoStream &&
      ((logical == Logical::kInt && first.layout == Layout::kFixed) ||
       (logical == Logical::kText && first.layout == Layout::kBytes));
  return std::unique_ptr<const RowKeys>(std::move(out));
}

Status RowKeys::read(std::span<const uint64_t> rows, KeyBuffer* out) const {
  // A step's columns are in memory as Arrow arrays, then as keys.
  constexpr size_t kStep = 65536;
  out->reset(encoder_.fixed_width());
  const GroupCache::Pin pin(rows_->file().groups());
  for (size_t at = 0; at < rows.size(); at += kStep) {
    Column column = rows_->make_output();
    NIMBLE_RETURN_IF_ERROR(rows_->take(
        rows.subspan(at, std::min(kStep, rows.size() - at)), 1, &column));
    ArrowArray array{};
    NIMBLE_RETURN_IF_ERROR(std::move(column).export_array(&array));
    auto view = ArrayView::open(rows_->schema(), array, "");
    Status status = view ? encoder_.encode(*view, 0, view->length(), out)
                         : std::move(view).error();
    array.release(&array);
    NIMBLE_RETURN_IF_ERROR(std::move(status));
  }
  return Status::ok();
}

Result<bool> RowKeys::is_key(uint64_t row, ByteSpan key) const {
  if (direct_) {
    uint8_t small[kSmallKey];
    NIMBLE_ASSIGN_OR_RETURN(const size_t size, direct_key(row, small));
    if (size > 0) return compare_bytes({small, size}, key) == 0;
  }
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(read({&row, 1}, &keys));
  return compare_bytes(keys.key(0), key) == 0;
}

Result<size_t> RowKeys::direct_key(uint64_t row, uint8_t* out) const {
  const FileReader& file = rows_->file();
  const GroupCache::Pin pin(file.groups());
  NIMBLE_ASSIGN_OR_RETURN(const LoadedGroup* group,
                          file.groups().get(file.group_of(row)));
  const StripeView& stripe = group->view().stripe_of(row);
  const SchemaNode& node = file.plan().node(rows_->node(0));
  const Field& field = rows_->schema().children[0];
  const uint64_t local = row - stripe.first_row;
  alignas(64) uint8_t value[32 + AlignedBuffer::kSlack];
  Output to;
  to.data = value;
  if (node.validity != kNoStream && stripe.values[node.validity] > 0) {
    NIMBLE_RETURN_IF_ERROR(
        decode_value(file, *group, stripe, node.validity, local, to));
    if ((value[0] & 1) == 0) return size_t{0};
  }
  if (field.layout == Layout::kFixed) {
    NIMBLE_RETURN_IF_ERROR(
        decode_value(file, *group, stripe, node.values, local, to));
    int64_t number = 0;
    const bool small = load_int(field, value, &number);
    return small ? encoder_.encode_int_key(number, out) : size_t{0};
  }
  thread_local BytesSink sink;
  sink.data.clear();
  sink.count = 0;
  sink.wide = true;
  to = Output{nullptr, 0, &sink};
  NIMBLE_RETURN_IF_ERROR(
      decode_value(file, *group, stripe, node.values, local, to));
  const ByteSpan text = sink.data.span();
  if (KeyEncoder::max_text_key(text.size()) > kSmallKey) return size_t{0};
  return encoder_.encode_text_key(as_string(text), out);
}

}  // namespace nimble
