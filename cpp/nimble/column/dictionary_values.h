// DictionaryValues: the values that the codes of one dictionary column stand
// for, one list over the whole file. The writer maps each batch's dictionary
// into it: values keep their first-seen place, so codes written earlier stay
// right while it grows, and one batch's dictionary comes back as it was.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nimble/column/column.h"

namespace nimble {

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
