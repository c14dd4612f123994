// Columns of a file as columns of the table: widened numbers, dictionaries as
// their values, and columns that the file does not have.
#pragma once

#include <string>

#include "nimble/column/column.h"

namespace nimble {

// The field without dictionary encoding at any depth. Not resolved.
Field plain_field(const Field& field);
// Appends all rows of a column of a file. Members of structs are found by their
// field ids, and members that the file does not have are null. Fails if the
// types differ too much.
// REQUIRES: out->field() has no dictionaries; see plain_field().
Status append_converted(const Column& from, Column* out);
// Appends rows with one value, as FlatValue has it; null: a null.
void append_constant(const std::string* value, uint64_t rows, Column* out);

}  // namespace nimble
