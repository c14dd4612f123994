// StripeReader: decodes rows of one stripe into columns. Positions are rows of
// the node inside the stripe: file rows minus the stripe's first for top-level
// columns, items for what is below a list.
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
  // Appends the rows of ascending ranges, disjoint and not empty. Of a node
  // that has_flat_values() alone.
  Status read_ranges(uint32_t node, std::span<const RowRange> ranges,
                     Column* out) const;
  // Are the values of a node of one width, in a mapped file?
  bool has_flat_values(uint32_t node) const;
  // Appends rows of one segment of a mapped file: `rows` are strictly ascending
  // and counted from the first row of the segment.
  // REQUIRES: has_flat_values(node), or the values are strings.
  Status read_segment_rows(uint32_t node, uint32_t segment,
                           std::span<const uint32_t> rows, Column* out) const;
  // Appends strictly ascending rows.
  Status read_rows(uint32_t node, const uint64_t* rows, uint64_t count,
                   Column* out) const;
  // Of a file that is not mapped: wants what read_range or read_rows will need
  // of the node's own streams and those of structs below it, for one round of
  // reads. What lies below lists is fetched when its place is known.
  Status want_range(uint32_t node, uint64_t begin, uint64_t end) const;
  Status want_rows(uint32_t node, const uint64_t* rows, uint64_t count) const;

  // Of a mapped file: asks the memory for what read_rows() will need of these
  // ascending rows, or for the first of it where they are many.
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
  // It has AlignedBuffer::kSlack more bytes. Null slots have any value. Sets
  // `type` to the type of the decoded integers, which may have fewer bytes.
  Status read_integers(uint32_t node, uint64_t begin, uint64_t end,
                       uint8_t* out, ValueType* type) const;
  uint64_t num_rows() const { return stripe_.rows; }

  // Makes the rows that were appended to `out` from `at` on null where the
  // struct `parent` above them is.
  Status mask_with_parent(uint32_t parent, const uint64_t* rows, uint64_t begin,
                          uint64_t count, uint64_t at, Column* out) const;

 private:
  struct Segment {
    const Decoder* decoder;
    SegmentBody body;
  };
  Result<const Decoder*> decoder(uint32_t stream, uint32_t index) const;
  // The segment ready to decode [begin, end) of it.
  Result<Segment> segment(uint32_t stream, uint32_t index, uint32_t begin,
                          uint32_t end) const;
  Result<Segment> selected_segment(uint32_t stream, uint32_t index,
                                   const uint64_t* selection) const;
  Status filter_stream(uint32_t stream, uint32_t segment, const Predicate& test,
                       uint64_t* selection) const;
  // Where in the file a damaged segment lies.
  static Status at_segment(Status status, const SegmentRef& segment);
  // For a file that is not mapped: requests the data that segments of a stream
  // share, unless it has been read.
  void want_shared(uint32_t stream, const Decoder& decoder) const;
  SegmentRef segment_ref(uint32_t stream, uint32_t index) const {
    return stripe_.segment(stripe_.first_segment[stream] + index);
  }

  // Are there such rows? Asked before memory is spent on them
  // (stripe_reader_bounds.cc).
  Status check_rows(uint32_t stream, uint64_t end) const;
  Status check_node(uint32_t node, const uint64_t* rows, uint64_t begin,
                    uint64_t count) const;
  Status check_items(uint32_t child, uint64_t end) const;
  Status check_uncounted(uint32_t node, uint64_t end) const;
  Status check_wide(uint32_t stream, uint64_t first, uint64_t last) const;
  // Has the stripe anything of the node but the number of its rows?
  bool has_values(uint32_t node) const;
  // The runs that rows `first` to `last` lie in, of all of few runs.
  Result<RowRange> runs_of(uint32_t stream, uint64_t first,
                           uint64_t last) const;
  Result<uint64_t> find_run(uint32_t stream, uint64_t row) const;

  Status want_stream(uint32_t stream, uint64_t begin, uint64_t end) const;
  void prefetch_stream(uint32_t stream, const uint64_t* rows,
                       uint64_t count) const;

  // Streams. `out` continues where the column ends.
  Status decode_values(uint32_t stream, uint64_t begin, uint64_t end,
                       const Output& out) const;
  Status decode_values(uint32_t stream, std::span<const RowRange> ranges,
                       const Output& out) const;
  Status gather_values(uint32_t stream, const uint64_t* rows, uint64_t count,
                       const Output& out) const;
  Status gather_segment(uint32_t stream, uint32_t index,
                        std::span<const uint32_t> rows,
                        const Output& out) const;
  // Appends `count` rows; read(stream, to) -> Status puts the values, or the
  // validity, of all of them.
  template <class Read>
  Status append_flat(uint32_t node, uint64_t count, Column* out,
                     const Read& read) const;
  Status read_validity(uint32_t node, const uint64_t* rows, uint64_t begin,
                       uint64_t count, Column* out) const;
  Status read_leaf(uint32_t node, const uint64_t* rows, uint64_t begin,
                   uint64_t count, Column* out) const;
  bool try_view(uint32_t stream, uint64_t begin, uint64_t end, Column* out,
                Status* status) const;
  // Of 64 bits each.
  Result<AlignedBuffer> ends_of(uint32_t stream, uint64_t begin,
                                uint64_t end) const;

  // Layouts. `rows` is null for the range [begin, begin + count).
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
