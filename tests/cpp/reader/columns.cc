#include "reader/columns.h"

namespace nimble::testing {

Exported::Exported(Column&& column) : field_(column.field()) {
  const Status status = std::move(column).export_array(&array_);
  if (!status) fail(__FILE__, __LINE__, std::string(status.message()));
  REQUIRE(status.is_ok());
  auto view = ArrayView::open(field_, array_, "exported");
  REQUIRE(view.has_value());
  view_ = *view;
}

Texts texts_of(Column&& column) {
  return row_texts(Exported(std::move(column)).view());
}

Bytes write_file(const ArrayView& root, const WriterOptions& options) {
  auto out = std::make_shared<std::vector<uint8_t>>();
  auto writer = FileWriter::create(root.field(), options,
                                   std::make_unique<MemoryTarget>(out));
  REQUIRE(writer.has_value());
  for (int64_t at = 0, step = 1; at < root.length();
       at += step, step = step * 2 % 89 + 1) {
    const Status status =
        (*writer)->append(root.slice(at, std::min(step, root.length() - at)));
    if (!status) fail(__FILE__, __LINE__, std::string(status.message()));
    REQUIRE(status.is_ok());
  }
  const auto done = (*writer)->finish();
  REQUIRE(done.has_value());
  CHECK_EQ(done->num_rows, root.length());
  CHECK_EQ(done->size_bytes, out->size());
  return out;
}

Texts read_texts(const Reader& file, std::vector<RowRange> ranges,
                 uint32_t threads) {
  const auto rows = RowReader::create_all(file);
  REQUIRE(rows.has_value());
  Column out = (*rows)->make_output();
  const Status status = (*rows)->read_ranges(ranges, threads, &out);
  if (!status) fail(__FILE__, __LINE__, std::string(status.message()));
  REQUIRE(status.is_ok());
  return texts_of(std::move(out));
}

Texts take_texts(const Reader& file, const std::vector<uint64_t>& wanted) {
  const auto rows = RowReader::create_all(file);
  REQUIRE(rows.has_value());
  Column out = (*rows)->make_output();
  const Status status = (*rows)->take(wanted, 2, &out);
  if (!status) fail(__FILE__, __LINE__, std::string(status.message()));
  REQUIRE(status.is_ok());
  return texts_of(std::move(out));
}

}  // namespace nimble::testing
