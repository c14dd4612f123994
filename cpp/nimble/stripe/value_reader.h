// Reads one value of one row of a mapped file, without a Column. Used for
// searches in key columns and for a single get().
//
//   RowLocation    the row's group and stripe
//   StreamValue    a value's position in one stream, ready to decode; a caller
//                  may prefetch several before decoding them
//   FlatPlace      the positions of a flat column's value and validity
//   FlatValue      null, or the bytes of the value
//   ListValue      null, or the values of a list's items
//
// A location keeps its group in memory.
// REQUIRES: the file is mapped.
#pragma once

#include <optional>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/memory/scratch.h"
#include "nimble/open/open_file.h"

namespace nimble {

// Receives the bytes of one text or binary value.
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

// The position of one value of a stream. Valid as long as its RowLocation.
struct StreamValue {
  const Decoder* decoder = nullptr;  // null: not found yet
  SegmentBody body;
  uint32_t row = 0;  // relative to the segment

  // Prefetches the decoder itself, which prefetch() then accesses.
  void prefetch_decoder() const;
  // Prefetches the bytes of the value.
  void prefetch() const { decoder->prefetch(body, row); }
  Status read(const Output& out) const {
    return decoder->gather(body, &row, 1, out);
  }
  // Reads a value of at most 8 bytes, see Decoder::value().
  Status read(uint64_t* out) const { return decoder->value(body, row, out); }
};

class RowLocation {
 public:
  RowLocation() = default;
  // REQUIRES: row < num_rows(). May block on a read of the group.
  static Result<RowLocation> find(const OpenFile& file, uint64_t row);

  // Moves to another row of the file. Returns false and does nothing if the row
  // is in another stripe, or if this location is empty.
  bool move_to(uint64_t row);
  // Whether the stripe has values of this stream.
  bool has_values(uint32_t stream) const {
    return stream != kNoStream && stripe_->values[stream] > 0;
  }
  Status find_value(uint32_t stream, StreamValue* out) const {
    return find_value(stream, row_, out);
  }
  // Finds value `row` of the stripe's stream.
  Status find_value(uint32_t stream, uint64_t row, StreamValue* out) const {
    const StripeView& stripe = *stripe_;
    if (row >= stripe.values[stream]) [[unlikely]] {
      return no_value(stream);
    }
    const auto index = static_cast<uint32_t>(row / kSegmentValues);
    const uint32_t segment = stripe.first_segment[stream] + index;
    out->decoder = group_->made_decoder(stripe.segment_base + segment);
    if (out->decoder == nullptr) [[unlikely]] {
      NIMBLE_RETURN_IF_ERROR(make_decoder(stream, index, &out->decoder));
    }
    out->body = {map_ + stripe.segment_offsets[segment],
                 stripe.segment_sizes[segment], true, touches_};
    out->row = static_cast<uint32_t>(row % kSegmentValues);
    return Status::ok();
  }
  // The bytes of the segment with value `row` of the stripe's stream, if they
  // were not accessed yet; else empty.
  ByteSpan new_segment(uint32_t stream, uint64_t row) const {
    const StripeView& stripe = *stripe_;
    if (row >= stripe.values[stream]) return {};
    const uint32_t segment = stripe.first_segment[stream] +
                             static_cast<uint32_t>(row / kSegmentValues);
    if (group_->made_decoder(stripe.segment_base + segment) != nullptr) {
      return {};
    }
    return {map_ + stripe.segment_offsets[segment],
            stripe.segment_sizes[segment]};
  }
  // Decodes values [begin, end) of the stripe's stream. They may be in several
  // segments.
  Status decode(uint32_t stream, uint64_t begin, uint64_t end,
                Output out) const;
  // The row, relative to the stripe.
  uint64_t row() const { return row_; }
  // Converts a file row of the same stripe to a row of the stripe.
  uint64_t of_stripe(uint64_t row) const { return row - stripe_->first_row; }
  // Number of values of a stream in the stripe.
  uint64_t num_values(uint32_t stream) const { return stripe_->values[stream]; }

 private:
  Status no_value(uint32_t stream) const;
  Status make_decoder(uint32_t stream, uint32_t index,
                      const Decoder** out) const;

  const OpenFile* file_ = nullptr;
  const uint8_t* map_ = nullptr;
  TouchCounter* touches_ = nullptr;
  GroupHandle group_;
  const StripeView* stripe_ = nullptr;
  uint64_t row_ = 0;  // relative to the stripe
};

// A column whose values are in a single stream. They are strings, or have at
// most 32 bytes each.
struct FlatColumn {
  Layout layout = Layout::kFixed;
  uint32_t width = 0;
  uint32_t validity = kNoStream;
  uint32_t values = kNoStream;

  // Returns nullopt for other kinds of columns. Dictionary codes count as
  // values.
  static std::optional<FlatColumn> of(const StreamPlan& plan, uint32_t node);
};

// The positions of a flat column's value and validity. If validity.decoder is
// null, the stripe has no null rows.
struct FlatPlace {
  StreamValue values;
  StreamValue validity;

  static Status find(const RowLocation& at, const FlatColumn& column,
                     FlatPlace* out);
  void prefetch_decoders() const {
    values.prefetch_decoder();
    if (validity.decoder != nullptr) validity.prefetch_decoder();
  }
  void prefetch() const {
    values.prefetch();
    if (validity.decoder != nullptr) validity.prefetch();
  }
};

// Not thread-safe.
class FlatValue {
 public:
  Status read(const FlatColumn& column, const FlatPlace& place);
  // Decodes the column's value at row `at`. `values` is the value's position in
  // the stream of values.
  Status read(const RowLocation& at, const FlatColumn& column,
              const StreamValue& values);

  bool is_null() const { return data_ == nullptr; }
  // A bool is one byte, 0 or 1. Valid as long as this FlatValue.
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

// A column of lists with flat items. Lists may have a fixed size.
struct ListColumn {
  uint32_t validity = kNoStream;
  uint32_t ends = kNoStream;  // kNoStream: all lists have `size` items
  uint64_t size = 0;
  FlatColumn items;

  // Returns nullopt for other kinds of columns.
  static std::optional<ListColumn> of(const StreamPlan& plan, uint32_t node);
};

// One list, read in three steps: find(), find_items(), read(). A caller can run
// each step for several columns before the next step. Not thread-safe.
class ListValue {
 public:
  // Finds the positions of the row's validity and ends.
  Status find(const RowLocation& at, const ListColumn& column);
  void prefetch_decoders() const;
  void prefetch() const;
  // Reads the validity and ends, and prefetches the first items.
  Status find_items(const RowLocation& at, const ListColumn& column);
  Status read(const RowLocation& at, const ListColumn& column);

  bool is_null() const { return is_null_; }
  uint64_t size() const { return end_ - begin_; }
  bool is_item_null(uint64_t i) const {
    return validity_.size() > 0 && !get_bit(validity_.data(), i);
  }
  // A bool is one byte, 0 or 1. Valid until the next call.
  ByteSpan item(const ListColumn& column, uint64_t i);

 private:
  StreamValue valid_, before_, last_, first_item_;
  bool is_null_ = false;
  uint64_t begin_ = 0, end_ = 0;  // range of items in the stripe
  AlignedBuffer values_;
  AlignedBuffer validity_;  // empty: no item is null
  BytesSink bytes_;
  uint8_t bit_ = 0;
};

}  // namespace nimble
