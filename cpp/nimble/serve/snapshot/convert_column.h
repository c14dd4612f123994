// Converts columns of a file to columns of the table: widens numbers, replaces
// dictionary codes by values, and fills columns that the file does not have.
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
// Appends `rows` rows with the same value, in the format of FlatValue. If
// `value` is null, appends nulls.
void append_constant(const std::string* value, uint64_t rows, Column* out);

}  // namespace nimble
