#include "nimble/stripe/file_rows.h"

#include <numeric>

#include "nimble/column/column_keep.h"

namespace nimble {
namespace {

Status check(std::span<const RowReader* const> readers,
             const FileRows& wanted) {
  if (wanted.files.size() != wanted.rows.size()) {
    return Status::invalid_argument(
        "rows of files: expected one file for each row");
  }
  for (size_t i = 0; i < wanted.rows.size(); ++i) {
    const auto file = static_cast<uint64_t>(wanted.files[i]);
    if (file >= readers.size()) {
      return Status::invalid_argument(
          "rows of files: no file " + std::to_string(wanted.files[i]) +
          " among " + std::to_string(readers.size()) + " files");
    }
    const OpenFile& f = readers[file]->file();
    if (wanted.rows[i] < f.num_rows()) continue;
    return Status::invalid_argument(
        f.file().name() + ": row " + std::to_string(wanted.rows[i]) +
        " is outside a file of " + std::to_string(f.num_rows()) + " rows");
  }
  return Status::ok();
}

}  // namespace

bool have_same_types(const Field& a, const Field& b) {
  if (a.format != b.format || a.nullable() != b.nullable() ||
      a.children.size() != b.children.size()) {
    return false;
  }
  for (size_t i = 0; i < a.children.size(); ++i) {
    if (!have_same_types(a.children[i], b.children[i])) return false;
  }
  return true;
}

bool have_one_form(std::span<const RowReader* const> readers) {
  for (const RowReader* reader : readers) {
    if (has_dictionary(reader->schema()) ||
        !have_same_types(reader->schema(), readers.front()->schema())) {
      return false;
    }
  }
  return true;
}

Status take_file_rows(std::span<const RowReader* const> readers,
                      const FileRows& wanted, uint32_t threads, Column* out) {
  NIMBLE_RETURN_IF_ERROR(check(readers, wanted));
  const size_t n = wanted.rows.size();
  if (n == 0) return Status::ok();
  // Groups the rows by file.
  std::vector<uint64_t> ends(readers.size() + 1), by_file(n);
  for (const int64_t file : wanted.files) ++ends[static_cast<size_t>(file) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<uint64_t> next(ends.begin(), ends.end() - 1);
  for (size_t i = 0; i < n; ++i) {
    by_file[next[static_cast<size_t>(wanted.files[i])]++] = i;
  }
  Column read = readers.front()->make_output();
  std::vector<uint64_t> places(n), rows;
  bool in_place = true;
  for (size_t f = 0; f < readers.size(); ++f) {
    const auto positions =
        std::span(by_file).subspan(ends[f], ends[f + 1] - ends[f]);
    if (positions.empty()) continue;
    rows.clear();
    for (const uint64_t i : positions) rows.push_back(wanted.rows[i]);
    PlacedRows placed = place_rows(rows);
    const uint64_t first = read.length();
    for (size_t k = 0; k < positions.size(); ++k) {
      places[positions[k]] =
          first + (placed.places.empty() ? k : placed.places[k]);
      in_place &= places[positions[k]] == positions[k];
    }
    placed.places.clear();
    NIMBLE_RETURN_IF_ERROR(readers[f]->take_placed(placed, {}, threads, &read));
  }
  if (in_place && read.length() == n && out->length() == 0) {
    *out = std::move(read);
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(fits_offsets(read));
  for (size_t c = 0; c < out->children.size(); ++c) {
    out->children[c].append_rows(read.children[c], places.data(), n);
  }
  out->add_rows(n);
  return Status::ok();
}

}  // namespace nimble
