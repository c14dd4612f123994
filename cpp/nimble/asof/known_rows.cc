#include "nimble/asof/known_rows.h"

#include <algorithm>

#include "nimble/key/key_sort.h"

namespace nimble {
namespace {

constexpr uint64_t kBlockPlaces = 4096;
// Number of blocks for which one common least value is kept as well.
constexpr uint64_t kGroupBlocks = 64;

Result<std::unique_ptr<const RowKeys>> values_of(
    const AsofFile& file, const std::vector<int>& known) {
  // Sorted with nulls last, so that a null is above every limit.
  return RowKeys::create(*file.file, {{known, SortOrder{}}});
}

}  // namespace

bool KnownRows::Least::is_within(ByteSpan limit) const {
  const ByteSpan least{reinterpret_cast<const uint8_t*>(value.data()),
                       value.size()};
  return !least.empty() && compare_bytes(least, limit) <= 0;
}

void KnownRows::Least::extend(ByteSpan other) {
  ++num_blocks;
  if (other.empty() || is_within(other)) return;
  value.assign(reinterpret_cast<const char*>(other.data()), other.size());
}

Result<KnownRows> KnownRows::open(const AsofFile& file,
                                  const std::vector<int>& known) {
  KnownRows out(file);
  NIMBLE_ASSIGN_OR_RETURN(out.values_, values_of(file, known));
  return out;
}

Status KnownRows::read(std::span<const PlaceRange> places) {
  block_read_ = kNoRow;
  rows_.clear();
  NIMBLE_RETURN_IF_ERROR(file_.index->rows_at(places, &rows_));
  return values_->read(rows_, &keys_);
}

uint64_t KnownRows::steps_to_match(size_t first, uint64_t n, bool from_end,
                                   ByteSpan limit) const {
  for (uint64_t step = 0; step < n; ++step) {
    const size_t i = first + (from_end ? n - 1 - step : step);
    if (compare_bytes(keys_.key(i), limit) <= 0 &&
        !file_.is_deleted(rows_[i])) {
      return step;
    }
  }
  return n;
}

PlaceRange KnownRows::block(uint64_t number) const {
  const uint64_t begin = number * kBlockPlaces;
  return {begin, std::min(begin + kBlockPlaces, file_.file->num_rows())};
}

Status KnownRows::read_block(uint64_t number) {
  if (block_read_ == number) return Status::ok();
  const PlaceRange places = block(number);
  NIMBLE_RETURN_IF_ERROR(read({&places, 1}));
  block_read_ = number;
  return Status::ok();
}

Result<bool> KnownRows::may_match(uint64_t number, ByteSpan limit) {
  const auto at = blocks_.find(number);
  if (at != blocks_.end()) return at->second.is_within(limit);
  NIMBLE_RETURN_IF_ERROR(read_block(number));
  ByteSpan least;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const ByteSpan value = keys_.key(i);
    const bool is_less = least.empty() || compare_bytes(value, least) < 0;
    if (is_less && !file_.is_deleted(rows_[i])) least = value;
  }
  Least& added = blocks_[number];
  added.extend(least);
  groups_[number / kGroupBlocks].extend(least);
  return added.is_within(limit);
}

Result<uint64_t> KnownRows::nearest(PlaceRange places, bool from_end,
                                    ByteSpan limit) {
  while (!places.empty()) {
    const uint64_t place = from_end ? places.end - 1 : places.begin;
    const uint64_t number = place / kBlockPlaces;
    const uint64_t group = number / kGroupBlocks;
    const PlaceRange whole{block(group * kGroupBlocks).begin,
                           block((group + 1) * kGroupBlocks - 1).end};
    PlaceRange part = block(number);
    bool is_possible = true;
    const auto all = groups_.find(group);
    if (all != groups_.end() && all->second.num_blocks == kGroupBlocks &&
        !all->second.is_within(limit)) {
      part = whole;
      is_possible = false;
    } else {
      NIMBLE_ASSIGN_OR_RETURN(is_possible, may_match(number, limit));
    }
    if (is_possible) {
      NIMBLE_RETURN_IF_ERROR(read_block(number));
      const uint64_t first = std::max(part.begin, places.begin);
      const uint64_t n = std::min(part.end, places.end) - first;
      const uint64_t step =
          steps_to_match(first - part.begin, n, from_end, limit);
      if (step < n) return from_end ? first + n - 1 - step : first + step;
    }
    if (from_end) {
      places.end = std::max(places.begin, part.begin);
    } else {
      places.begin = std::min(places.end, part.end);
    }
  }
  return kNoRow;
}

Result<TiedRows> TiedRows::open(const AsofFile& file,
                                const std::optional<std::vector<int>>& known,
                                bool takes_last) {
  TiedRows out(file, takes_last);
  if (known) {
    NIMBLE_ASSIGN_OR_RETURN(out.values_, values_of(file, *known));
  }
  return out;
}

Status TiedRows::read(PlaceRange places) {
  if (!places.empty() && places_.begin == places.begin &&
      places_.end == places.end) {
    return Status::ok();
  }
  places_ = {};
  std::vector<uint64_t> rows;
  NIMBLE_RETURN_IF_ERROR(file_.index->rows_at({&places, 1}, &rows));
  std::erase_if(rows, [&](uint64_t row) { return file_.is_deleted(row); });
  best_.clear();
  const auto offer = [&](uint64_t row, uint64_t best) {
    return best == kNoRow || (row > best) == takes_last_ ? row : best;
  };
  if (values_ == nullptr) {
    uint64_t best = kNoRow;
    for (const uint64_t row : rows) best = offer(row, best);
    best_.push_back(best);
  } else {
    NIMBLE_RETURN_IF_ERROR(values_->read(rows, &keys_));
    sort_keys(keys_, &order_);
    uint64_t best = kNoRow;
    for (const uint64_t i : order_) {
      best_.push_back(best = offer(rows[i], best));
    }
  }
  places_ = places;
  return Status::ok();
}

uint64_t TiedRows::row_within(ByteSpan limit) const {
  const auto end = std::partition_point(
      order_.begin(), order_.end(),
      [&](uint64_t i) { return compare_bytes(keys_.key(i), limit) <= 0; });
  return end == order_.begin()
             ? kNoRow
             : best_[static_cast<size_t>(end - order_.begin()) - 1];
}

}  // namespace nimble
