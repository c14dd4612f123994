// Column: growable rows of one schema node and its children, in Arrow's layout.
// The writer collects a stripe in it, the reader decodes into it, and it is
// exported to Arrow without a copy. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/memory/aligned_buffer.h"
#include "nimble/types/array_view.h"
#include "nimble/types/field.h"

namespace nimble {

class DictionaryValues;

class Column {
 public:
  // `wide` makes string and list offsets 64-bit for any Arrow type, because the
  // writer's stripes may be larger than one Arrow array. Borrows `field`.
  Column(const Field& field, bool wide);
  Column(Column&&) = default;
  Column& operator=(Column&&) = default;

  const Field& field() const { return *field_; }
  uint64_t length() const { return length_; }
  uint64_t null_count() const { return null_count_; }
  // Bytes allocated, children included.
  uint64_t memory_bytes() const;
  // Bytes of the rows' data. Rows without bytes, such as nulls of type null,
  // count as a bit each, because stripes limit their number too.
  uint64_t data_bytes() const;
  // Whether rows take no bytes, apart from those of children and validity.
  bool is_without_bytes() const;

  // ---- writer side (column_append.cc, column_gather.cc)
  // Appends rows [begin, begin + count) of an Arrow array. Null slots of
  // fixed-width values repeat the previous value, so that they cost encodings
  // nothing. Fails if the array is invalid. `path` names the column in errors.
  Status append(const ArrayView& view, int64_t begin, int64_t count,
                const std::string& path);
  // Appends rows of another column of the same field, in any order.
  void append_rows(const Column& from, const uint64_t* rows, uint64_t count);
  void clear();

  // ---- reader side: building blocks that decoders fill
  // Creates the validity bitmap, if it does not exist, with all rows so far
  // valid.
  void ensure_validity();
  // Adds space for n values to the fixed-width buffer and returns its address,
  // which is valid until the next growth.
  uint8_t* extend_values(uint64_t n);
  uint8_t* extend_bits(uint64_t n);  // kBool: write at bit length()
  void add_rows(uint64_t n) { length_ += n; }
  void add_nulls(uint64_t n) { null_count_ += n; }
  // Whether set_external_values() may be used: only if this column receives a
  // single range of rows.
  bool wants_views() const { return wants_views_; }
  void set_wants_views(bool yes) {
    wants_views_ = yes;
    for (Column& c : children) c.set_wants_views(yes);
  }
  // Uses a buffer outside this column as the values of all rows. `owner` keeps
  // the buffer alive.
  void set_external_values(const uint8_t* data,
                           std::shared_ptr<const void> owner);

  AlignedBuffer validity;  // empty if no row is null
  AlignedBuffer values;    // kFixed, codes, kBool bitmap, union type ids
  BytesSink bytes;         // kBytes
  // kList: length() + 1 Arrow offsets. kRunEnd: run ends, relative to row 0 of
  // this column. Dense unions: the child's row.
  std::vector<int64_t> ends;
  std::vector<Column> children;
  // kDictionary: shared by all batches of the file.
  std::shared_ptr<const DictionaryValues> dictionary;

  bool is_valid(uint64_t row) const {
    return validity.size() == 0 || get_bit(validity.data(), row);
  }
  const uint8_t* value_data() const {
    return external_ != nullptr ? external_ : values.data();
  }

  // ---- to Arrow (column_export.cc)
  // Moves the buffers into `out`. This column must not be used afterwards.
  Status export_array(ArrowArray* out) &&;
  // Shares the buffers: `out` keeps the column alive.
  static Status share_array(const std::shared_ptr<const Column>& column,
                            ArrowArray* out);
  // Lends the buffers: `out` is valid as long as this column exists and does
  // not change. Byte strings have this column's offsets, so they are 64-bit in
  // `wide` columns whatever the field's format says (see stripe_key_encoder.h).
  Status lend_array(ArrowArray* out) const;

  // Writers only: maps codes to the file's dictionary; null in readers.
  DictionaryValues* mapper = nullptr;

 private:
  friend class ColumnExporter;

  Status append_dictionary(const ArrayView& view, int64_t begin, int64_t count,
                           const std::string& path);
  Status append_union(const ArrayView& view, int64_t begin, int64_t count,
                      const std::string& path);
  Status append_runs(const ArrayView& view, int64_t begin, int64_t count,
                     const std::string& path);
  Status append_lists(const ArrayView& view, int64_t begin, int64_t count,
                      const std::string& path);
  void append_validity(const ArrayView& view, int64_t begin, int64_t count);
  Status append_strings(const ArrayView& view, int64_t begin, int64_t count,
                        const std::string& path);
  // Appends strings without nulls by a single copy of their bytes.
  void append_string_run(const ArrayView& view, int64_t begin, int64_t count,
                         uint64_t first);
  void append_fixed(const ArrayView& view, int64_t begin, int64_t count);
  void gather_nested(const Column& from, const uint64_t* rows, uint64_t count);

  const Field* field_;
  bool wide_;
  bool wants_views_ = false;
  // kRunEnd: value key of the last run; not set if append_rows() made it.
  std::optional<std::string> last_run_;
  uint64_t length_ = 0;
  uint64_t null_count_ = 0;
  const uint8_t* external_ = nullptr;
  std::shared_ptr<const void> external_owner_;
};

// The values of one dictionary column, as one list for the whole file. The
// writer maps each batch's dictionary into it. Values keep the position of
// their first occurrence, so codes written earlier remain valid while the list
// grows, and a file of one batch returns that batch's dictionary unchanged. Not
// thread-safe.
class DictionaryValues {
 public:
  explicit DictionaryValues(const Field& value_field)
      : values(value_field, /*wide=*/true) {}

  // Returns the position here of each value of `dictionary`. Appends new
  // values. The pointer is valid until the next call.
  Result<const std::vector<int64_t>*> map(const ArrayView& dictionary,
                                          const std::string& path);

  Column values;
  // Number of values looked up, over all calls.
  uint64_t num_searched() const { return num_searched_; }

 private:
  // Whether value `i` of `dictionary` is the value at `place`. Also returns
  // false if values of the type cannot be compared cheaply.
  bool is_value(const ArrayView& dictionary, int64_t i, int64_t place) const;

  // Returns the first position of the value with this key, or inserts it at
  // `place`.
  int64_t first_place(ByteSpan key, int64_t place);

  // A distinct value. Equal values have equal keys in keys_.
  struct Distinct {
    uint64_t hash;
    uint64_t key_end;  // in keys_; begins at the previous entry's end
    int64_t place;     // its first position
  };
  std::vector<Distinct> distinct_;
  std::vector<uint8_t> keys_;
  // Open addressing: index into distinct_ plus 1, or 0 if empty. At most half
  // full.
  std::vector<uint64_t> slots_;
  // For each position, the first position with an equal value. They may differ
  // because the first dictionary is kept with its repeats.
  std::vector<int64_t> first_equal_;
  std::vector<int64_t> places_;     // of the last dictionary's values
  size_t same_ = 0;                 // leading values equal to the file's
  std::vector<int64_t> unchanged_;  // 0, 1, 2, ...
  uint64_t num_searched_ = 0;
};

}  // namespace nimble
