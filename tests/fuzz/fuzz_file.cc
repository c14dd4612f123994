#include "fuzz/fuzz_file.h"

#include "nimble/base/hash.h"
#include "nimble/column/value_key.h"

namespace nimble::fuzz {

std::optional<ArrowRows> ArrowRows::make(const RowReader& rows,
                                         Column&& column) {
  ArrowRows out;
  if (!std::move(column).export_array(&out.array_)) return std::nullopt;
  // Sound to walk: what this does not refuse is handed on to Arrow.
  auto view = ArrayView::open(rows.schema(), out.array_, "");
  FUZZ_CHECK(view.has_value());
  out.view_ = *std::move(view);
  return out;
}

uint64_t ArrowRows::digest() const {
  std::string text;
  for (int64_t row = 0; row < view_.length(); ++row) {
    append_value_key(view_, row, &text);
  }
  return key_hash64(as_bytes(text));
}

}  // namespace nimble::fuzz
