#include "nimble/column/column.h"

#include "nimble/column/value_key.h"

namespace nimble {

Result<const std::vector<int64_t>*> DictionaryValues::map(
    const ArrayView& dictionary, const std::string& path) {
  map_.clear();
  std::string key;
  const bool first = values.length() == 0;
  // Does this dictionary begin as the values do? Then codes stay as they are.
  bool same = true;
  for (int64_t i = 0; i < dictionary.length(); ++i) {
    key.clear();
    append_value_key(dictionary, i, &key);
    const auto next = static_cast<int64_t>(first_equal_.size());
    const auto [it, added] = places_.try_emplace(key, next);
    if (added || first) {
      first_equal_.push_back(it->second);
      NIMBLE_RETURN_IF_ERROR(
          values.append(dictionary, i, 1, path + ".dictionary"));
    }
    same = same && static_cast<size_t>(i) < first_equal_.size() &&
           first_equal_[static_cast<size_t>(i)] == it->second;
    map_.push_back(it->second);
  }
  if (same) {
    for (size_t i = 0; i < map_.size(); ++i) map_[i] = static_cast<int64_t>(i);
  }
  return &map_;
}

}  // namespace nimble
