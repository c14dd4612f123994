// Converts values to text and back, for replies and keys.
// docs/reference/serving.md describes the text.
#pragma once

#include <string>
#include <string_view>

#include "nimble/column/column.h"
#include "nimble/types/field.h"

namespace nimble {

// Appends the text of a value that is not null. `value` has the format of
// FlatValue: little-endian, one byte for a bool, the bytes of a text.
// REQUIRES: the layout is kFixed, kBool or kBytes.
void append_text(const Field& field, ByteSpan value, std::string* out);

// Appends the text of a row of any column. Lists, structs and maps are JSON.
// REQUIRES: the row is not null.
void append_text(const Column& column, uint64_t row, std::string* out);

// The value of a row, in the format of FlatValue. `*bit` holds the value of a
// bool.
// REQUIRES: the layout is kFixed, kBool or kBytes; the row is not null.
ByteSpan flat_value(const Column& column, uint64_t row, uint8_t* bit);

// Whether the row is null, also in runs and unions.
bool is_null_row(const Column& column, uint64_t row);

enum class TextFit : uint8_t {
  kExact,    // the text is a value of the column
  kOutside,  // a value that the column cannot have: 300 for an int8
  kInvalid,  // not a text of this type
};
// Converts text to a stored value, the reverse of append_text(). Integers must
// have exactly the form that append_text() writes.
// REQUIRES: as for append_text().
TextFit parse_text(const Field& field, std::string_view text, std::string* out);

}  // namespace nimble
