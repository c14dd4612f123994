#include "nimble/column/column.h"

#include <algorithm>
#include <cstring>

#include "nimble/base/hash.h"
#include "nimble/column/value_key.h"

namespace nimble {

bool DictionaryValues::is_value(const ArrayView& dictionary, int64_t i,
                                int64_t place) const {
  const Field& f = values.field();
  const auto at = static_cast<uint64_t>(place);
  const bool valid = !f.has_validity() || dictionary.is_valid(i);
  if (valid != values.is_valid(at)) return false;
  if (f.layout == Layout::kFixed) {
    return !valid ||
           std::memcmp(dictionary.values() + static_cast<uint64_t>(i) * f.width,
                       values.value_data() + at * f.width, f.width) == 0;
  }
  if (f.layout == Layout::kBytes) {
    const uint64_t begin = values.bytes.begin_of(at);
    const ByteSpan bytes(values.bytes.data.data() + begin,
                         values.bytes.end_of(at) - begin);
    return !valid || dictionary.bytes_at(i) == as_string(bytes);
  }
  return false;
}

int64_t DictionaryValues::first_place(ByteSpan key, int64_t place) {
  if (slots_.size() <= 2 * distinct_.size()) {
    slots_.assign(std::max<size_t>(64, 4 * distinct_.size()), 0);
    for (size_t i = 0; i < distinct_.size(); ++i) {
      size_t at = distinct_[i].hash % slots_.size();
      while (slots_[at] != 0) at = (at + 1) % slots_.size();
      slots_[at] = i + 1;
    }
  }
  const uint64_t hash = key_hash64(key);
  size_t at = hash % slots_.size();
  for (; slots_[at] != 0; at = (at + 1) % slots_.size()) {
    const size_t i = slots_[at] - 1;
    const Distinct& d = distinct_[i];
    if (d.hash != hash) continue;
    const uint64_t begin = i == 0 ? 0 : distinct_[i - 1].key_end;
    const ByteSpan entry_key(keys_.data() + begin, d.key_end - begin);
    if (as_string(entry_key) == as_string(key)) return d.place;
  }
  keys_.insert(keys_.end(), key.begin(), key.end());
  distinct_.push_back({hash, keys_.size(), place});
  slots_[at] = distinct_.size();
  return place;
}

Result<const std::vector<int64_t>*> DictionaryValues::map(
    const ArrayView& dictionary, const std::string& path) {
  const bool first = values.length() == 0;
  const auto length = static_cast<size_t>(dictionary.length());
  // The dictionary usually begins with the same values as the previous one.
  // Comparing them is much faster than searching for each value.
  size_t kept = 0;
  while (kept < std::min(places_.size(), length) &&
         is_value(dictionary, static_cast<int64_t>(kept), places_[kept])) {
    ++kept;
  }
  places_.resize(kept);
  same_ = std::min(same_, kept);
  const std::string values_path = path + ".dictionary";
  std::string key;
  int64_t new_rows = 0;  // new rows before row i, not appended yet
  for (size_t i = kept; i < length; ++i) {
    const auto row = static_cast<int64_t>(i);
    key.clear();
    append_value_key(dictionary, row, &key);
    ++num_searched_;
    const auto next = static_cast<int64_t>(first_equal_.size());
    const int64_t place = first_place(as_bytes(key), next);
    if (place == next || first) {
      first_equal_.push_back(place);
      ++new_rows;
    } else if (new_rows > 0) {
      NIMBLE_RETURN_IF_ERROR(
          values.append(dictionary, row - new_rows, new_rows, values_path));
      new_rows = 0;
    }
    same_ += same_ == i && i < first_equal_.size() && first_equal_[i] == place;
    places_.push_back(place);
  }
  NIMBLE_RETURN_IF_ERROR(values.append(dictionary,
                                       static_cast<int64_t>(length) - new_rows,
                                       new_rows, values_path));
  if (same_ < length) return &places_;
  // The dictionary is a prefix of the file's values, so codes are unchanged.
  while (unchanged_.size() < length) {
    unchanged_.push_back(static_cast<int64_t>(unchanged_.size()));
  }
  unchanged_.resize(length);
  return &unchanged_;
}

}  // namespace nimble
