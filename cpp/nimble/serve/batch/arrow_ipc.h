// IpcWriter: writes columns as an Arrow IPC stream, which every Arrow library
// can read. Not thread-safe.
#pragma once

#include <span>
#include <string>

#include "nimble/base/result.h"
#include "nimble/column/column.h"

namespace nimble {

class IpcWriter {
 public:
  // Appends to *out.
  explicit IpcWriter(std::string* out) : out_(out) {}

  // Writes the schema. Call it once, first. `root` is a struct whose children
  // are the columns. Views become large binary and large text. Fails with
  // kUnsupported for dictionaries, unions, runs and views of lists.
  Status write_schema(const Field& root);
  // Writes `rows` rows as one batch.
  // REQUIRES: the columns have the types of the schema.
  Status write_batch(std::span<const Column* const> columns, uint64_t rows);
  void end();

 private:
  std::string* out_;
};

}  // namespace nimble
