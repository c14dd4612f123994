#include "nimble/serve/snapshot/row_text.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {

Status read_text(const ServedTable& table, RowAddress row,
                 std::span<const uint32_t> columns, uint64_t max_bytes,
                 RowText* out) {
  constexpr size_t kAhead = 16;
  out->clear();
  NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, table.file(row.file));
  NIMBLE_ASSIGN_OR_RETURN(const RowLocation at,
                          RowLocation::find(opened->reader(), row.row));
  out->values.resize(columns.size());
  std::string& bytes = out->bytes;
  // Not initialized, because most rows have fewer columns.
  static_assert(std::is_trivially_destructible_v<FlatPlace>);
  alignas(FlatPlace) std::byte memory[kAhead * sizeof(FlatPlace)];
  auto* const places = reinterpret_cast<FlatPlace*>(memory);
  for (size_t i = 0; i < columns.size(); i += kAhead) {
    const size_t end = std::min(columns.size(), i + kAhead);
    for (size_t k = i; k < end; ++k) {
      const ServedColumn& column = opened->column(columns[k]);
      FlatPlace& place = *std::construct_at(places + (k - i));
      if (!column.flat) continue;
      NIMBLE_RETURN_IF_ERROR(FlatPlace::find(at, *column.flat, &place));
      place.prefetch_decoders();
    }
    for (size_t k = i; k < end; ++k) {
      if (places[k - i].values.decoder != nullptr) places[k - i].prefetch();
    }
    for (size_t k = i; k < end; ++k) {
      const ServedColumn& column = opened->column(columns[k]);
      const size_t begin = bytes.size();
      bool is_null = true;
      if (column.flat) {
        FlatValue value;
        NIMBLE_RETURN_IF_ERROR(value.read(*column.flat, places[k - i]));
        is_null = value.is_null();
        if (!is_null) {
          NIMBLE_RETURN_IF_ERROR(
              check_reply_bytes(out->reply_bytes() + value.size(), max_bytes));
          append_text(*column.field, {value.data(), value.size()}, &bytes);
        }
      } else if (!column.top) {
        const ServedConstant* constant = column.constant;
        is_null = constant == nullptr || !constant->value;
        if (!is_null) {
          append_text(table.schema().children[columns[k]],
                      as_bytes(*constant->value), &bytes);
        }
      } else {
        NIMBLE_RETURN_IF_ERROR(
            check_reply_bytes(out->reply_bytes(), max_bytes));
        const FileRange one{row.file, {row.row, row.row + 1}};
        NIMBLE_ASSIGN_OR_RETURN(
            const TableRows rows,
            TableRows::create(table, {&one, 1}, columns.subspan(k, 1)));
        Column read_row = rows.make_output();
        NIMBLE_RETURN_IF_ERROR(rows.append({&one, 1}, false, &read_row));
        const Column& value = read_row.children[0];
        is_null = is_null_row(value, 0);
        if (!is_null) append_text(value, 0, &bytes);
      }
      out->values[k] = {begin, bytes.size() - begin, is_null};
    }
  }
  return check_reply_bytes(out->reply_bytes(), max_bytes);
}

}  // namespace nimble
