// DataPage: a decompressed page of a column, ready for reads of some rows.
// Immutable and thread-safe; caches share it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/memory/aligned_buffer.h"
#include "nimble/parquet/column_plan.h"
#include "nimble/parquet/level_runs.h"
#include "nimble/parquet/metadata.h"
#include "nimble/parquet/page_values.h"

namespace nimble::parquet {

// Decompresses codecs that the core does not have: exactly `size` bytes to
// `out`.
using Decompress =
    std::function<Status(Codec codec, ByteSpan in, uint8_t* out, size_t size)>;

// The levels of rows that were read from a leaf: what nested columns are
// assembled from.
struct LeafLevels {
  std::vector<uint8_t> definition;
  std::vector<uint8_t> repetition;
};

class DataPage {
 public:
  // Decompresses and opens a page. `bytes` begin with its header. `expected` is
  // its number of rows. Fails with kUnsupported for what is left to another
  // reader.
  static Result<std::shared_ptr<const DataPage>> open(
      ByteSpan bytes, const LeafPlan& leaf, Codec codec, uint64_t expected,
      std::shared_ptr<const PageValues> dictionary,
      const Decompress& decompress);

  // Appends rows of the page, which are ascending, to a column of the leaf's
  // type. Levels are appended if `levels` is not null.
  Status read(std::span<const uint32_t> rows, const LeafPlan& leaf, Column* out,
              LeafLevels* levels) const;

  uint64_t memory_bytes() const {
    return sizeof(*this) + body_.capacity() + values_.memory_bytes() +
           definition_.memory_bytes() + row_starts_.capacity() * 4 +
           repetition_.memory_bytes();
  }

 private:
  friend struct PageOpener;

  AlignedBuffer body_;
  LevelRuns definition_;  // counts max_definition; empty if that is 0
  LevelRuns repetition_;
  std::vector<uint32_t> row_starts_;  // repeated leaves: first entry of rows
  PageValues values_;
};

// The values of a dictionary page, with their memory.
struct Dictionary {
  AlignedBuffer body;
  PageValues values;

  uint64_t memory_bytes() const {
    return sizeof(*this) + body.capacity() + values.memory_bytes();
  }
  static Result<std::shared_ptr<const Dictionary>> open(
      ByteSpan bytes, const LeafPlan& leaf, Codec codec,
      const Decompress& decompress);
};

}  // namespace nimble::parquet
