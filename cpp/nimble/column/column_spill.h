// A column's rows as bytes for this process to read again, as they lie in
// memory.
#pragma once

#include "nimble/base/byte_reader.h"
#include "nimble/column/column.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

void store_column(const Column& column, ByteBuffer* out);

// Replaces the rows of a column of the same field and width.
void load_column(ByteReader* in, Column* column);

}  // namespace nimble
