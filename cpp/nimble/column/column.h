// Column: growable rows of one schema node and its children, laid out as
// Arrow lays them out. The writer collects a stripe in it, the reader decodes
// into it, and it is handed to Arrow without a copy.
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
  // `wide` makes string and list offsets 64-bit whatever the Arrow type: the
  // writer's stripes may be larger than one Arrow array may be.
  Column(const Field& field, bool wide);
  Column(Column&&) = default;
  Column& operator=(Column&&) = default;

  const Field& field() const { return *field_; }
  uint64_t length() const { return length_; }
  uint64_t null_count() const { return null_count_; }
  // Bytes held, children included.
  uint64_t memory_bytes() const;
  // Bytes of the rows themselves.
  uint64_t data_bytes() const;

  // ---- writer side (column_append.cc, column_gather.cc)
  // Rows [begin, begin + count) of an Arrow array. Null slots of fixed-width
  // values repeat the value before them, so that they cost encodings nothing.
  Status append(const ArrayView& view, int64_t begin, int64_t count,
                const std::string& path);
  // Rows of another column of the same field, in any order.
  void append_rows(const Column& from, const uint64_t* rows, uint64_t count);
  void clear();

  // ---- reader side: building blocks that decoders fill
  // Makes the validity bitmap exist, with all rows so far valid.
  void ensure_validity();
  // Space for n more values in the fixed-width buffer; their address.
  uint8_t* extend_values(uint64_t n);
  uint8_t* extend_bits(uint64_t n);  // kBool: grows; write at bit length()
  void add_rows(uint64_t n) { length_ += n; }
  void add_nulls(uint64_t n) { null_count_ += n; }
  // May values lie elsewhere? Only if this column gets one range of rows.
  bool wants_views() const { return wants_views_; }
  void set_wants_views(bool yes) {
    wants_views_ = yes;
    for (Column& c : children) c.set_wants_views(yes);
  }
  // A buffer that lives elsewhere stands in for the values of all rows.
  void set_external_values(const uint8_t* data,
                           std::shared_ptr<const void> owner);

  AlignedBuffer validity;  // empty while there is no null
  AlignedBuffer values;    // kFixed, codes, kBool bitmap, union type ids
  BytesSink bytes;         // kBytes
  // kList: length() + 1 ends in Arrow's form; kRunEnd: run ends (relative to
  // row 0 of this column); dense unions: the row of the child.
  std::vector<int64_t> ends;
  std::vector<Column> children;
  // kDictionary: shared by every batch of the file.
  std::shared_ptr<const DictionaryValues> dictionary;

  bool is_valid(uint64_t row) const {
    return validity.size() == 0 || get_bit(validity.data(), row);
  }
  const uint8_t* value_data() const {
    return external_ != nullptr ? external_ : values.data();
  }

  // ---- to Arrow (column_export.cc)
  // Moves the buffers out; this column must not be used afterwards.
  Status export_array(ArrowArray* out) &&;
  // The buffers on loan: `out` is good while this column is and does not
  // change. Byte strings have the offsets that this column has, 64-bit in
  // `wide` ones whatever the field's format says (see
  // stripe_key_encoder.h).
  Status lend_array(ArrowArray* out) const;

  // Where a writer maps codes into the file's dictionary; null for readers.
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
  // A run of strings without nulls: one copy of its bytes.
  void append_string_run(const ArrayView& view, int64_t begin, int64_t count,
                         uint64_t first);
  void append_fixed(const ArrayView& view, int64_t begin, int64_t count);
  void gather_nested(const Column& from, const uint64_t* rows, uint64_t count);

  const Field* field_;
  bool wide_;
  bool wants_views_ = false;
  // kRunEnd: value key of the last run; none where append_rows() made it.
  std::optional<std::string> last_run_;
  uint64_t length_ = 0;
  uint64_t null_count_ = 0;
  const uint8_t* external_ = nullptr;
  std::shared_ptr<const void> external_owner_;
};

// The values that the codes of one dictionary column stand for, one list over
// the whole file. The writer maps each batch's dictionary into it: values keep
// their first-seen place, so codes written earlier stay right while it grows,
// and one batch's dictionary comes back as it was.
class DictionaryValues {
 public:
  explicit DictionaryValues(const Field& value_field)
      : values(value_field, /*wide=*/true) {}

  // The place here of every value of `dictionary`, added where it is new.
  // The pointer is good until the next call.
  Result<const std::vector<int64_t>*> map(const ArrayView& dictionary,
                                          const std::string& path);

  Column values;
  // How many values were searched for, over all calls.
  uint64_t num_searched() const { return num_searched_; }

 private:
  // Is value `i` of `dictionary` the one at `place`? False also where a type's
  // values are not compared cheaply.
  bool is_value(const ArrayView& dictionary, int64_t i, int64_t place) const;

  // The first place of the value with this key, which is `place` if it is new.
  int64_t first_place(ByteSpan key, int64_t place);

  // A byte string that equal values share, of each different value.
  struct Distinct {
    uint64_t hash;
    uint64_t key_end;  // in keys_; where the one before ends, it begins
    int64_t place;     // the first one
  };
  std::vector<Distinct> distinct_;
  std::vector<uint8_t> keys_;
  // Open addressing: 1 + an index of distinct_, or 0. At most half are taken.
  std::vector<uint64_t> slots_;
  // For each place the first one with an equal value: the first dictionary is
  // kept as it is, repeats included.
  std::vector<int64_t> first_equal_;
  std::vector<int64_t> places_;  // of the last dictionary's values
  size_t same_ = 0;  // so many values of it begin as the file's values do
  std::vector<int64_t> unchanged_;  // 0, 1, 2, ...
  uint64_t num_searched_ = 0;
};

}  // namespace nimble
