// Reads one value of one row of a mapped file, without a Column: what a search
// in key columns and a single get() need.
//
//   RowLocation    the row's group and stripe
//   StreamValue    its place in one stream, ready to decode; between finding
//                  it and decoding it a caller prefetches other ones
//   FlatPlace      the places of a flat column's value and of its validity
//   FlatValue      null, or the bytes of the value
//   ListValue      null, or the values of a list's items
//
// A location keeps its group in memory.
#pragma once

#include <optional>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/memory/scratch.h"
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
  // Of up to 8 bytes, as Decoder::value() has them.
  Status read(uint64_t* out) const { return decoder->value(body, row, out); }
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
  Status find_value(uint32_t stream, StreamValue* out) const {
    return find_value(stream, row_, out);
  }
  // Value `row` of the stripe's stream.
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
  // Values [begin, end) of the stripe's stream, of whatever segments.
  Status decode(uint32_t stream, uint64_t begin, uint64_t end,
                Output out) const;
  // Of the stripe.
  uint64_t row() const { return row_; }
  // The same of another row of the file that is in the stripe.
  uint64_t of_stripe(uint64_t row) const { return row - stripe_->first_row; }
  // How many values of a stream there are.
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

// Where a value of a flat column stands. Without a decoder for the validity no
// row of the stripe is null.
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

class FlatValue {
 public:
  Status read(const FlatColumn& column, const FlatPlace& place);
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

// A column of lists, of one size or not, whose items are flat.
struct ListColumn {
  uint32_t validity = kNoStream;
  uint32_t ends = kNoStream;  // none: all lists have `size` items
  uint64_t size = 0;
  FlatColumn items;

  // None where the column is of another kind.
  static std::optional<ListColumn> of(const StreamPlan& plan, uint32_t node);
};

// One list, read in steps, so that each may be done for other columns before
// the next: find(), find_items(), read().
class ListValue {
 public:
  // Where the row's validity and its ends stand.
  Status find(const RowLocation& at, const ListColumn& column);
  void prefetch_decoders() const;
  void prefetch() const;
  // Reads these, and asks for the bytes of the first items.
  Status find_items(const RowLocation& at, const ListColumn& column);
  Status read(const RowLocation& at, const ListColumn& column);

  bool is_null() const { return is_null_; }
  uint64_t size() const { return end_ - begin_; }
  bool is_item_null(uint64_t i) const {
    return validity_.size() > 0 && !get_bit(validity_.data(), i);
  }
  // A bool is one byte, 0 or 1. Good until the next call.
  ByteSpan item(const ListColumn& column, uint64_t i);

 private:
  StreamValue valid_, before_, last_, first_item_;
  bool is_null_ = false;
  uint64_t begin_ = 0, end_ = 0;  // items of the stripe
  AlignedBuffer values_;
  AlignedBuffer validity_;  // empty: no item is null
  BytesSink bytes_;
  uint8_t bit_ = 0;
};

}  // namespace nimble
