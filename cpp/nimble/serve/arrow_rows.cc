#include "nimble/serve/arrow_rows.h"

#include <algorithm>

#include "nimble/serve/arrow_ipc.h"
#include "nimble/serve/convert_column.h"
#include "nimble/serve/row_slices.h"

namespace nimble {
namespace {

void drop_field_ids(Field* field) {
  std::erase_if(field->metadata,
                [](const auto& m) { return m.first == "PARQUET:field_id"; });
  for (Field& child : field->children) drop_field_ids(&child);
}

// Returns a struct with the columns to send. Dictionaries are sent as their
// values.
Result<std::unique_ptr<const Field>> form_of(const ServedTable& table,
                                             std::span<const uint32_t> columns,
                                             const std::string& probe,
                                             bool may_miss) {
  auto out = std::make_unique<Field>();
  out->format = "+s";
  out->flags = 0;
  if (!probe.empty()) {
    Field& field = out->children.emplace_back();
    field.name = probe;
    field.format = "l";
    field.flags = 0;
  }
  for (const uint32_t c : columns) {
    Field& field =
        out->children.emplace_back(plain_field(table.schema().children[c]));
    drop_field_ids(&field);
    if (may_miss) field.flags |= ARROW_FLAG_NULLABLE;
  }
  NIMBLE_RETURN_IF_ERROR(out->resolve(""));
  return std::unique_ptr<const Field>(std::move(out));
}

Status check_size(const std::string& out, size_t before, uint64_t most) {
  return check_reply_bytes(out.size() - before, most);
}

void add_positions(std::span<const int64_t> positions, Column* out) {
  uint8_t* to = out->extend_values(positions.size());
  std::memcpy(to, positions.data(), positions.size() * sizeof(int64_t));
  out->add_rows(positions.size());
}

}  // namespace

Status append_arrow_schema(const ServedTable& table,
                           std::span<const uint32_t> columns,
                           std::string* out) {
  NIMBLE_ASSIGN_OR_RETURN(const auto form, form_of(table, columns, "", false));
  IpcWriter writer(out);
  NIMBLE_RETURN_IF_ERROR(writer.write_schema(*form));
  writer.end();
  return Status::ok();
}

Status append_arrow_rows(const ServedTable& table, const ArrowRequest& request,
                         std::span<const FileRange> rows, bool reverse,
                         std::span<const int64_t> positions, std::string* out) {
  const size_t before = out->size();
  NIMBLE_ASSIGN_OR_RETURN(
      const auto form,
      form_of(table, request.columns, request.probe, request.may_miss));
  IpcWriter writer(out);
  NIMBLE_RETURN_IF_ERROR(writer.write_schema(*form));
  const size_t first = request.probe.empty() ? 0 : 1;
  RowSlices slices(rows, reverse);
  SliceSize size(table.schema(), request.columns);
  for (size_t done = 0; !slices.is_done();) {
    const size_t begin = out->size();
    const std::vector<FileRange> slice = slices.next(size.rows());
    NIMBLE_ASSIGN_OR_RETURN(RowColumns read,
                            table.read(slice, reverse, request.columns));
    const uint64_t n = read.columns.length();
    Column batch(*form, false);
    if (first == 1)
      add_positions(positions.subspan(done, n), &batch.children[0]);
    for (size_t i = 0; i < request.columns.size(); ++i) {
      Column& column = read.columns.children[i];
      if (has_dictionary(column.field())) {
        NIMBLE_RETURN_IF_ERROR(
            append_converted(column, &batch.children[first + i]));
      } else {
        batch.children[first + i] = std::move(column);
      }
    }
    batch.add_rows(n);
    NIMBLE_RETURN_IF_ERROR(writer.write_batch(batch));
    NIMBLE_RETURN_IF_ERROR(check_size(*out, before, request.max_bytes));
    size.add(n, out->size() - begin);
    done += n;
  }
  writer.end();
  return Status::ok();
}

Status append_arrow_places(const ServedTable& table,
                           const ArrowRequest& request,
                           std::span<const FileRange> rows,
                           std::span<const size_t> places, std::string* out) {
  const size_t before = out->size();
  NIMBLE_ASSIGN_OR_RETURN(const auto form,
                          form_of(table, request.columns, request.probe, true));
  IpcWriter writer(out);
  NIMBLE_RETURN_IF_ERROR(writer.write_schema(*form));
  const size_t first = request.probe.empty() ? 0 : 1;
  SliceSize size(table.schema(), request.columns);
  for (size_t begin = 0, count = 0; begin < places.size(); begin += count) {
    const size_t bytes = out->size();
    const size_t most = std::min(SliceSize::kFixedRows, places.size() - begin);
    std::vector<FileRange> wanted;
    for (count = 0; count < most && wanted.size() < size.rows(); ++count) {
      const size_t at = places[begin + count];
      if (at != SIZE_MAX) wanted.push_back(rows[at]);
    }
    const auto part = places.subspan(begin, count);
    Column batch(*form, false);
    if (first == 1) {
      std::vector<int64_t> numbers(part.size());
      for (size_t i = 0; i < part.size(); ++i) {
        numbers[i] = static_cast<int64_t>(begin + i);
      }
      add_positions(numbers, &batch.children[0]);
    }
    std::optional<RowColumns> read;
    if (!wanted.empty()) {
      NIMBLE_ASSIGN_OR_RETURN(read, table.read(wanted, false, request.columns));
    }
    for (size_t i = 0; i < request.columns.size(); ++i) {
      Column& to = batch.children[first + i];
      Column values(form->children[first + i], false);
      if (read) {
        NIMBLE_RETURN_IF_ERROR(
            append_converted(read->columns.children[i], &values));
      }
      // Alternates between runs of existing rows and runs of missing rows.
      std::vector<uint64_t> run;
      uint64_t next = 0;
      for (size_t k = 0; k < part.size();) {
        run.clear();
        for (; k < part.size() && part[k] != SIZE_MAX; ++k)
          run.push_back(next++);
        to.append_rows(values, run.data(), run.size());
        size_t missing = 0;
        for (; k < part.size() && part[k] == SIZE_MAX; ++k) ++missing;
        if (missing > 0) append_constant(nullptr, missing, &to);
      }
    }
    batch.add_rows(part.size());
    NIMBLE_RETURN_IF_ERROR(writer.write_batch(batch));
    NIMBLE_RETURN_IF_ERROR(check_size(*out, before, request.max_bytes));
    size.add(wanted.size(), out->size() - bytes);
  }
  writer.end();
  return Status::ok();
}

}  // namespace nimble
