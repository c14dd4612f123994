// Copies a column's rows to `out`, in a form that only this process can read.
#pragma once

#include "nimble/base/byte_reader.h"
#include "nimble/column/column.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

void store_column(const Column& column, ByteBuffer* out);

// Replaces the rows of `column` by stored rows.
// REQUIRES: the stored column had the same field and width.
void load_column(ByteReader* in, Column* column);

}  // namespace nimble
