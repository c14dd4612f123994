#include "nimble/asof/asof_search.h"

#include <algorithm>

#include "nimble/key/key_sort.h"

namespace nimble {
namespace {

bool begins_with(ByteSpan key, ByteSpan prefix) {
  return prefix.size() <= key.size() &&
         compare_bytes(key.first(prefix.size()), prefix) == 0;
}

// Whether a key is before `bound` and is not a prefix of it. All keys that
// begin with this key are then before the bound.
bool is_before(ByteSpan key, ByteSpan bound) {
  return compare_bytes(key, bound) < 0 && !begins_with(bound, key);
}

ByteSpan bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

KeyBuffer some_keys(const KeyBuffer& keys, std::span<const uint64_t> numbers) {
  KeyBuffer out(keys.fixed_width());
  for (const uint64_t number : numbers) out.push_back(keys.key(number));
  return out;
}

}  // namespace

AsofSearch::AsofSearch(const KeyEncoder& encoder, const KeyBuffer& keys,
                       std::vector<uint8_t> exclusive, const KeyBuffer* limits,
                       bool backward)
    : keys_(keys),
      limits_(limits),
      num_columns_(encoder.columns().size()),
      backward_(backward),
      descending_(encoder.columns().back().order.descending),
      exclusive_(std::move(exclusive)),
      matches_(keys.size()) {
  group_sizes_.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    group_sizes_.push_back(group_size(encoder, keys.key(i)));
  }
  sort_keys(keys, &order_);
}

bool AsofSearch::may_improve(uint64_t key, const AsofBounds& bounds) const {
  const Match& match = matches_[key];
  const ByteSpan best = bytes_of(match.on);
  if (!bounds.first_on.empty()) {
    const ByteSpan wanted = on(key);
    const bool is_outside = is_nearest_last()
                                ? compare_bytes(bounds.first_on, wanted) > 0
                                : compare_bytes(bounds.last_on, wanted) < 0;
    if (is_outside) return false;
    if (match.file >= 0) {
      return is_nearest_last() ? compare_bytes(bounds.last_on, best) > 0
                               : compare_bytes(bounds.first_on, best) < 0;
    }
  }
  if (match.file < 0 || bounds.lower.empty()) return true;
  // If the bound has the key's group, it also has a value of `on`.
  const ByteSpan end = is_nearest_last() ? bounds.upper : bounds.lower;
  if (!begins_with(end, group(key))) return true;
  const ByteSpan end_on = end.subspan(group_sizes_[key] - 1);
  if (begins_with(end_on, best)) return false;
  return (compare_bytes(end_on, best) > 0) == is_nearest_last();
}

std::vector<uint64_t> AsofSearch::wanted(const AsofBounds& bounds) const {
  auto first = order_.begin(), last = order_.end();
  if (!bounds.lower.empty()) {
    // The rows of a file that match a key are between the beginning of the
    // key's group and the key, or between the key and the end of its group.
    const bool to_key = is_nearest_last();
    first = std::partition_point(first, last, [&](uint64_t key) {
      return is_before(to_key ? keys_.key(key) : group(key), bounds.lower);
    });
    last = std::partition_point(first, last, [&](uint64_t key) {
      return compare_bytes(to_key ? group(key) : keys_.key(key),
                           bounds.upper) <= 0;
    });
  }
  std::vector<uint64_t> out;
  for (auto key = first; key != last; ++key) {
    if (may_improve(*key, bounds)) out.push_back(*key);
  }
  return out;
}

Status AsofSearch::search(int64_t number, const AsofFile& file,
                          const std::optional<std::vector<int>>& known,
                          std::span<const uint64_t> keys, bool is_only) {
  const AsofFinder finder(file, num_columns_, backward_, known);
  const KeyBuffer some = some_keys(keys_, keys);
  KeyBuffer groups, limits;
  std::vector<uint8_t> exclusive;
  exclusive.reserve(keys.size());
  for (const uint64_t key : keys) {
    groups.push_back(group(key));
    exclusive.push_back(exclusive_[key]);
  }
  if (limits_ != nullptr) limits = some_keys(*limits_, keys);
  std::vector<uint64_t> rows;
  std::vector<std::string> on;
  NIMBLE_RETURN_IF_ERROR(finder.find(
      {&some, &groups, exclusive, limits_ != nullptr ? &limits : nullptr},
      &rows, is_only ? nullptr : &on));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (rows[i] == kNoRow) continue;
    if (is_only) {
      matches_[keys[i]] = {number, rows[i], {}};
    } else {
      offer(keys[i], number, rows[i], bytes_of(on[i]));
    }
  }
  return Status::ok();
}

void AsofSearch::offer(uint64_t key, int64_t file, uint64_t row, ByteSpan on) {
  Match& match = matches_[key];
  if (match.file >= 0) {
    const int sign = compare_bytes(on, bytes_of(match.on));
    if (is_nearest_last() ? sign <= 0 : sign >= 0) return;
  }
  match = {file, row,
           std::string(reinterpret_cast<const char*>(on.data()), on.size())};
}

}  // namespace nimble
