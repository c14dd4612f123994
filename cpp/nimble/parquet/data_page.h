// DataPage: a decompressed page of a column, from which single rows can be
// read. Immutable and thread-safe, so that caches can share it.
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

// Decompresses codecs that the core does not support. Writes exactly `size`
// bytes to `out`.
using Decompress =
    std::function<Status(Codec codec, ByteSpan in, uint8_t* out, size_t size)>;

// The levels of rows that were read from a leaf. Nested columns are assembled
// from them.
struct LeafLevels {
  std::vector<uint8_t> definition;
  std::vector<uint8_t> repetition;
};

class DataPage {
 public:
  // Decompresses and opens a page. `bytes` begin with its header. `expected` is
  // the expected number of rows. Fails with kUnsupported if another reader must
  // read the page.
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
  // counts values that equal max_definition; empty if that is 0
  LevelRuns definition_;
  LevelRuns repetition_;
  // repeated leaves: the first entry of each row
  std::vector<uint32_t> row_starts_;
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
