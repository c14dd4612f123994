// Reads one value of one row of a mapped file, without a Column: what a search
// in key columns and a single get() need.
//
//   RowLocation    the row's group and stripe
//   StreamValue    its place in one stream, ready to decode; between finding
//                  it and decoding it a caller prefetches other ones
//   FlatValue      null, or the bytes of the value
//
// A location keeps its group in memory.
#pragma once

#include <optional>

#include "nimble/base/scratch.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/open/open_file.h"

namespace nimble {

// Where the bytes of one text or binary value are decoded to.
class ValueBytes {
 public:
  Output output() {
    sink_.wide = true;
    return {nullptr, 0, &sink_};
  }
  const uint8_t* data() const { return sink_.data.data(); }
  size_t size() const { return sink_.data.size(); }
  void clear() {
    sink_.data.clear();
    sink_.count = 0;
  }

 private:
  BytesSink sink_;
};

// One value of a stream.
struct StreamValue {
  const Decoder* decoder = nullptr;  // null: none has been found
  SegmentBody body;
  uint32_t row = 0;  // of the segment

  // The decoder has to be there before prefetch() can look at it.
  void prefetch_decoder() const;
  // Asks for the bytes of the value.
  void prefetch() const { decoder->prefetch(body, row); }
  Status read(const Output& out) const {
    return decoder->gather(body, &row, 1, out);
  }
};

class RowLocation {
 public:
  RowLocation() = default;
  // Of a row < num_rows().
  static Result<RowLocation> find(const OpenFile& file, uint64_t row);

  // Moves to another row of the file; false where it is in another stripe, or
  // there is no location yet.
  bool move_to(uint64_t row);
  // Has the stripe values of this stream?
  bool has_values(uint32_t stream) const {
    return stream != kNoStream && stripe_->values[stream] > 0;
  }
  Status find_value(uint32_t stream, StreamValue* out) const;

 private:
  const OpenFile* file_ = nullptr;
  GroupHandle group_;
  const StripeView* stripe_ = nullptr;
  uint64_t row_ = 0;  // of the stripe
};

// A column whose values stand in one stream, at most 32 bytes each or strings.
struct FlatColumn {
  Layout layout = Layout::kFixed;
  uint32_t width = 0;
  uint32_t validity = kNoStream;
  uint32_t values = kNoStream;

  // None where the column is of another kind. The codes of a dictionary are
  // values like others.
  static std::optional<FlatColumn> of(const StreamPlan& plan, uint32_t node);
};

class FlatValue {
 public:
  // Decodes the column's value at `at`; `values` is its place in the stream of
  // values.
  Status read(const RowLocation& at, const FlatColumn& column,
              const StreamValue& values);

  bool is_null() const { return data_ == nullptr; }
  // A bool is one byte, 0 or 1. Good while this value lives.
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kMaxWidth = 32;
  friend struct FlatColumn;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  alignas(64) uint8_t fixed_[kMaxWidth + AlignedBuffer::kSlack];
  std::optional<ThreadScratch<ValueBytes, FlatValue>> bytes_;
};

}  // namespace nimble
