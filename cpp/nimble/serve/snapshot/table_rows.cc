#include "nimble/serve/snapshot/table_rows.h"

#include <algorithm>
#include <numeric>

#include "nimble/serve/snapshot/convert_column.h"
#include "nimble/stripe/file_rows.h"

namespace nimble {

Result<TableRows> TableRows::create(const ServedTable& table,
                                    std::span<const FileRange> rows,
                                    std::span<const uint32_t> columns) {
  TableRows out(table, columns);
  for (const FileRange& r : rows) {
    if (out.numbers_.empty() || out.numbers_.back() != r.file) {
      out.numbers_.push_back(r.file);
    }
  }
  std::sort(out.numbers_.begin(), out.numbers_.end());
  out.numbers_.erase(std::unique(out.numbers_.begin(), out.numbers_.end()),
                     out.numbers_.end());
  bool is_same = !out.numbers_.empty();
  for (const uint32_t number : out.numbers_) {
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, table.file(number));
    std::vector<OutputColumn> outputs;
    outputs.reserve(columns.size());
    for (const uint32_t c : columns) {
      const ServedColumn& column = opened->column(c);
      is_same &= column.is_same;
      NIMBLE_RETURN_IF_ERROR(opened->check_column(c));
      if (column.top) {
        outputs.push_back(
            {{static_cast<int>(*column.top)}, table.schema().children[c].name});
      }
    }
    NIMBLE_ASSIGN_OR_RETURN(auto reader,
                            RowReader::create(opened->owner(), outputs));
    out.pointers_.push_back(reader.get());
    out.readers_.push_back(std::move(reader));
  }
  if (is_same && (out.pointers_.size() == 1 || have_one_form(out.pointers_))) {
    return out;
  }
  auto form = std::make_unique<Field>();
  form->format = "+s";
  form->flags = 0;
  for (const uint32_t c : columns) {
    form->children.push_back(plain_field(table.schema().children[c]));
  }
  NIMBLE_RETURN_IF_ERROR(form->resolve(""));
  out.form_ = std::move(form);
  return out;
}

size_t TableRows::place_of(uint32_t file) const {
  return static_cast<size_t>(
      std::lower_bound(numbers_.begin(), numbers_.end(), file) -
      numbers_.begin());
}

Status TableRows::append(std::span<const FileRange> rows, bool reverse,
                         Column* out) const {
  uint64_t total = 0;
  for (const FileRange& r : rows) total += r.rows.size();
  // Ranges of a few rows are read as single rows.
  if (form_ == nullptr && !reverse && total / 8 >= rows.size()) {
    return append_long(rows, out);
  }
  if (form_ == nullptr && pointers_.size() > 1) {
    std::vector<int64_t> files;
    std::vector<uint64_t> places;
    for (const FileRange& r : rows) {
      files.insert(files.end(), r.rows.size(),
                   static_cast<int64_t>(place_of(r.file)));
      for (uint64_t i = 0; i < r.rows.size(); ++i) {
        places.push_back(reverse ? r.rows.end - 1 - i : r.rows.begin + i);
      }
    }
    return take_file_rows(pointers_, {files, places}, 1, out);
  }
  if (form_ == nullptr) {
    std::vector<uint64_t> places;
    places.reserve(total);
    for (const FileRange& r : rows) {
      for (uint64_t i = 0; i < r.rows.size(); ++i) {
        places.push_back(reverse ? r.rows.end - 1 - i : r.rows.begin + i);
      }
    }
    return pointers_[0]->take(places, 1, out);
  }
  std::vector<RowAddress> single;
  single.reserve(total);
  for (const FileRange& r : rows) {
    for (uint64_t i = 0; i < r.rows.size(); ++i) {
      single.push_back(
          {r.file, reverse ? r.rows.end - 1 - i : r.rows.begin + i});
    }
  }
  return append_converted_rows(single, out);
}

Status TableRows::append_long(std::span<const FileRange> rows,
                              Column* out) const {
  // Reads ascending ranges of one file together.
  std::vector<RowRange> ranges;
  for (size_t i = 0; i < rows.size();) {
    const uint32_t file = rows[i].file;
    ranges.clear();
    do {
      ranges.push_back(rows[i++].rows);
    } while (i < rows.size() && rows[i].file == file &&
             ranges.back().end <= rows[i].rows.begin);
    NIMBLE_RETURN_IF_ERROR(
        pointers_[place_of(file)]->read_ranges(ranges, 1, out));
  }
  return Status::ok();
}

Status TableRows::append_converted_rows(std::span<const RowAddress> rows,
                                        Column* out) const {
  // Reads the rows of each file together, then puts them in the wanted order.
  std::vector<uint64_t> order(rows.size()), places(rows.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return rows[a].file < rows[b].file;
  });
  Column together(*form_, false);
  for (size_t begin = 0; begin < order.size();) {
    const uint32_t number = rows[order[begin]].file;
    size_t end = begin;
    std::vector<uint64_t> wanted;
    for (; end < order.size() && rows[order[end]].file == number; ++end) {
      wanted.push_back(rows[order[end]].row);
      places[order[end]] = end;
    }
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, table_->file(number));
    const RowReader& reader = *pointers_[place_of(number)];
    Column part = reader.make_output();
    NIMBLE_RETURN_IF_ERROR(reader.take(wanted, 1, &part));
    for (size_t i = 0, at = 0; i < columns_.size(); ++i) {
      const ServedColumn& column = opened->column(columns_[i]);
      Column& to = together.children[i];
      if (column.top) {
        NIMBLE_RETURN_IF_ERROR(append_converted(part.children[at++], &to));
      } else {
        const auto* value = column.constant;
        append_constant(value == nullptr ? nullptr
                        : value->value   ? &*value->value
                                         : nullptr,
                        wanted.size(), &to);
      }
    }
    together.add_rows(wanted.size());
    begin = end;
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    out->children[i].append_rows(together.children[i], places.data(),
                                 places.size());
  }
  out->add_rows(rows.size());
  return Status::ok();
}

}  // namespace nimble
