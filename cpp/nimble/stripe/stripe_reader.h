// StripeReader: decodes rows of one stripe into columns. Positions are relative
// to the stripe. For top-level columns, they count rows from the stripe's first
// row. Below a list, they count items from its first item.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/column/column.h"
#include "nimble/open/fetched_bodies.h"
#include "nimble/open/group_cache.h"
#include "nimble/open/open_file.h"

namespace nimble {

class StripeReader {
 public:
  // All arguments must outlive the reader.
  StripeReader(const OpenFile& file, const StreamPlan& plan,
               const LoadedGroup& group, const StripeView& stripe,
               FetchedBodies* fetched)
      : file_(file),
        plan_(plan),
        group_(group),
        stripe_(stripe),
        fetched_(fetched) {}

  // Appends rows [begin, end) of a node to `out`, a column of its field.
  Status read_range(uint32_t node, uint64_t begin, uint64_t end,
                    Column* out) const;
  // Appends the rows of several ranges.
  // REQUIRES: has_flat_values(node); the ranges are ascending, disjoint and not
  // empty.
  Status read_ranges(uint32_t node, std::span<const RowRange> ranges,
                     Column* out) const;
  // Whether the file is mapped and the node has fixed-width values.
  bool has_flat_values(uint32_t node) const;
  // Appends rows of one segment of a mapped file: `rows` are strictly ascending
  // and counted from the first row of the segment.
  // REQUIRES: has_flat_values(node), or the values are strings.
  Status read_segment_rows(uint32_t node, uint32_t segment,
                           std::span<const uint32_t> rows, Column* out) const;
  // Appends strictly ascending rows.
  Status read_rows(uint32_t node, const uint64_t* rows, uint64_t count,
                   Column* out) const;
  // For a file that is not mapped: requests the bytes that read_range() or
  // read_rows() will need, so that one round reads them. These are the bytes of
  // the node's own streams and of structs below it. Items of lists are fetched
  // later, when their positions are known.
  Status want_range(uint32_t node, uint64_t begin, uint64_t end) const;
  Status want_rows(uint32_t node, const uint64_t* rows, uint64_t count) const;

  // For a mapped file: prefetches the memory that read_rows() will need for
  // these ascending rows, or for the first of them if there are many.
  void prefetch_rows(uint32_t node, const uint64_t* rows, uint64_t count) const;

  // Estimated time to decode a row of the node and its children, from the
  // encodings of the stripe's first segments.
  double decode_nanos(uint32_t node) const;

  // Clears the bits of rows whose value fails the test. Bit i of `selection`
  // is row segment * kSegmentValues + i. A null slot is tested by its content:
  // call filter_valid() first, which clears the bits of rows whose own value is
  // null.
  // REQUIRES: `selection` has a bit for each row of a segment, and no bit is
  // set past the stripe's rows.
  Status filter_values(uint32_t node, uint32_t segment, const Predicate& test,
                       uint64_t* selection) const;
  Status filter_valid(uint32_t node, uint32_t segment,
                      uint64_t* selection) const;

  // Decodes integers of rows [begin, end), which are in one segment, to `out`.
  // Values of null rows are undefined. Sets `type` to the type of the decoded
  // integers, which may have fewer bytes than the column's.
  // REQUIRES: `out` has AlignedBuffer::kSlack more bytes.
  Status read_integers(uint32_t node, uint64_t begin, uint64_t end,
                       uint8_t* out, ValueType* type) const;
  uint64_t num_rows() const { return stripe_.rows; }

  // Sets rows of `out`, from `at` on, to null if the struct `parent` above them
  // is null.
  Status mask_with_parent(uint32_t parent, const uint64_t* rows, uint64_t begin,
                          uint64_t count, uint64_t at, Column* out) const;

 private:
  struct Segment {
    const Decoder* decoder;
    SegmentBody body;
  };
  Result<const Decoder*> decoder(uint32_t stream, uint32_t index) const;
  // Loads a segment for decoding rows [begin, end).
  Result<Segment> segment(uint32_t stream, uint32_t index, uint32_t begin,
                          uint32_t end) const;
  Result<Segment> selected_segment(uint32_t stream, uint32_t index,
                                   const uint64_t* selection) const;
  Status filter_stream(uint32_t stream, uint32_t segment, const Predicate& test,
                       uint64_t* selection) const;
  // Adds the position of a damaged segment to its error.
  static Status at_segment(Status status, const SegmentRef& segment);
  // For a file that is not mapped: requests the data that segments of a stream
  // share, unless it has been read.
  void want_shared(uint32_t stream, const Decoder& decoder) const;
  SegmentRef segment_ref(uint32_t stream, uint32_t index) const {
    return stripe_.segment(stripe_.first_segment[stream] + index);
  }

  // Fails if the stream has fewer rows than `end`. Called before memory is
  // allocated for them (stripe_reader_bounds.cc).
  Status check_rows(uint32_t stream, uint64_t end) const;
  Status check_node(uint32_t node, const uint64_t* rows, uint64_t begin,
                    uint64_t count) const;
  Status check_items(uint32_t child, uint64_t end) const;
  Status check_uncounted(uint32_t node, uint64_t end) const;
  Status check_wide(uint32_t stream, uint64_t first, uint64_t last) const;
  // Whether the stripe stores values of the node or of its descendants.
  bool has_values(uint32_t node) const;
  // The runs that contain rows `first` to `last`.
  Result<RowRange> runs_of(uint32_t stream, uint64_t first,
                           uint64_t last) const;
  Result<uint64_t> find_run(uint32_t stream, uint64_t row) const;

  Status want_stream(uint32_t stream, uint64_t begin, uint64_t end) const;
  void prefetch_stream(uint32_t stream, const uint64_t* rows,
                       uint64_t count) const;

  // Streams: these functions append values to the column.
  Status decode_values(uint32_t stream, uint64_t begin, uint64_t end,
                       const Output& out) const;
  Status decode_values(uint32_t stream, std::span<const RowRange> ranges,
                       const Output& out) const;
  Status gather_values(uint32_t stream, const uint64_t* rows, uint64_t count,
                       const Output& out) const;
  Status gather_segment(uint32_t stream, uint32_t index,
                        std::span<const uint32_t> rows,
                        const Output& out) const;
  // Appends `count` rows. read(stream, to) -> Status writes the values, or the
  // validity, of all rows.
  template <class Read>
  Status append_flat(uint32_t node, uint64_t count, Column* out,
                     const Read& read) const;
  Status read_validity(uint32_t node, const uint64_t* rows, uint64_t begin,
                       uint64_t count, Column* out) const;
  Status read_leaf(uint32_t node, const uint64_t* rows, uint64_t begin,
                   uint64_t count, Column* out) const;
  bool try_view(uint32_t stream, uint64_t begin, uint64_t end, Column* out,
                Status* status) const;
  // End offsets as 64-bit integers.
  Result<AlignedBuffer> ends_of(uint32_t stream, uint64_t begin,
                                uint64_t end) const;

  // Layouts: these functions append rows. If `rows` is null, the rows are
  // [begin, begin + count).
  Status read(uint32_t node, const uint64_t* rows, uint64_t begin,
              uint64_t count, Column* out) const;
  struct ItemRows;
  Status read_items(uint32_t child, const ItemRows& items, Column* out) const;
  Status read_lists(uint32_t node, const uint64_t* rows, uint64_t begin,
                    uint64_t count, Column* out) const;
  Status read_fixed_lists(uint32_t node, const uint64_t* rows, uint64_t begin,
                          uint64_t count, Column* out) const;
  Status read_runs(uint32_t node, const uint64_t* rows, uint64_t begin,
                   uint64_t count, Column* out) const;
  Status read_union(uint32_t node, const uint64_t* rows, uint64_t begin,
                    uint64_t count, Column* out) const;
  Status check_codes(uint32_t node, uint64_t first, Column* out) const;

  const OpenFile& file_;
  const StreamPlan& plan_;
  const LoadedGroup& group_;
  const StripeView& stripe_;
  FetchedBodies* fetched_;
};

// The values of a dictionary column (a node of file.plan()), read on first use.
Result<OpenFile::Dictionary> dictionary_of(const OpenFile& file, uint32_t node);

}  // namespace nimble
