#include "nimble/file/row_keys.h"

namespace nimble {
namespace {

std::string path_name(const Field& schema, const std::vector<int>& path) {
  std::string name;
  const Field* at = &schema;
  for (const int step : path) {
    at = &at->children[static_cast<size_t>(step)];
    name += (name.empty() ? "" : ".") + at->name;
  }
  return name;
}

}  // namespace

Result<std::unique_ptr<const RowKeys>> RowKeys::create(
    const FileReader& file, const std::vector<KeyColumnRef>& columns) {
  std::vector<std::string> names;
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumnRef& c : columns) {
    specs.push_back({{static_cast<int>(names.size())}, c.order});
    names.push_back(path_name(file.footer().schema, c.path));
  }
  const std::shared_ptr<const FileReader> borrowed(&file,
                                                   [](const FileReader*) {});
  NIMBLE_ASSIGN_OR_RETURN(auto rows, RowReader::create(borrowed, names));
  NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder,
                          KeyEncoder::create(rows->schema(), specs));
  return std::unique_ptr<const RowKeys>(
      new RowKeys(std::move(rows), std::move(encoder)));
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

}  // namespace nimble
