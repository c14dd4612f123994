#include "nimble/file/row_keys.h"

#include "nimble/file/file_reader.h"
#include "nimble/file/row_reader.h"

namespace nimble {
namespace {

class RowKeys final : public KeySource {
 public:
  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  Status read_keys(uint64_t begin, uint64_t end,
                   KeyBuffer* out) const override {
    if (begin > end || end > rows_->file().num_rows()) {
      return Status::corrupt(rows_->file().file().name() +
                             ": keys of rows that the file does not have");
    }
    const RowRange range{begin, end};
    Column column = rows_->make_output();
    NIMBLE_RETURN_IF_ERROR(rows_->read_ranges({&range, 1}, 1, &column));
    ArrowArray array{};
    NIMBLE_RETURN_IF_ERROR(std::move(column).export_array(&array));
    auto view = ArrayView::open(rows_->schema(), array, "");
    Status status = view ? encoder_.encode(*view, 0, view->length(), out)
                         : std::move(view).error();
    array.release(&array);
    return status;
  }

 private:
  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;  // of the rows' schema
};

}  // namespace

Result<std::shared_ptr<const KeySource>> open_row_keys(
    const FileReader& file) {
  if (file.encoder() == nullptr ||
      !can_read_keys(file.footer().schema, *file.encoder())) {
    return Status::corrupt(file.file().name() +
                           ": sampled keys of columns that are not found");
  }
  std::vector<std::string> names;
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumn& column : file.encoder()->columns()) {
    names.push_back(column.name);
    specs.push_back({{static_cast<int>(specs.size())}, column.order});
  }
  // The source is kept by the file: it must not keep the file.
  const std::shared_ptr<const FileReader> borrowed(&file,
                                                   [](const FileReader*) {});
  NIMBLE_ASSIGN_OR_RETURN(auto rows, RowReader::create(borrowed, names));
  NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder,
                          KeyEncoder::create(rows->schema(), specs));
  return std::shared_ptr<const KeySource>(
      std::make_shared<RowKeys>(std::move(rows), std::move(encoder)));
}

bool can_read_keys(const Field& schema, const KeyEncoder& encoder) {
  for (const KeyColumn& column : encoder.columns()) {
    const auto path = find_path(schema, column.name);
    if (!path || *path != column.path) return false;
  }
  return true;
}

}  // namespace nimble
