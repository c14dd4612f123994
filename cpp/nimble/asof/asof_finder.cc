#include "nimble/asof/asof_finder.h"

#include <algorithm>

#include "nimble/asof/known_rows.h"
#include "nimble/cursor/row_keys.h"
#include "nimble/key/key_bounds.h"

namespace nimble {
namespace {

// Number of rows whose known column is tested together.
constexpr uint64_t kTestedRows = 65536;
// For each key, a window of rows is tested. The window grows by this factor
// until one of its rows is known. After the largest window, whole blocks are
// tested.
constexpr uint64_t kGrowth = 8;
constexpr uint64_t kMaxWindow = 64;
// Number of places of a sorted index whose rows are read together.
constexpr uint64_t kPlacesRead = 256;

// Returns the last `size` places of a range if `from_end`, otherwise the first.
PlaceRange window_of(PlaceRange places, bool from_end, uint64_t size) {
  size = std::min(size, places.size());
  return from_end ? PlaceRange{places.end - size, places.end}
                  : PlaceRange{places.begin, places.begin + size};
}

PlaceRange without_window(PlaceRange places, PlaceRange window, bool from_end) {
  return from_end ? PlaceRange{places.begin, window.begin}
                  : PlaceRange{window.end, places.end};
}

}  // namespace

size_t group_size(const KeyEncoder& encoder, ByteSpan key) {
  size_t size = 0;
  for (size_t i = 0; i + 1 < encoder.columns().size(); ++i) {
    size += encoder.columns()[i].size_in(key.subspan(size));
  }
  return size + 1;
}

// Finds places of live rows. Remembers a run of deleted rows, so that several
// searches that start in the run pass it only once.
class AsofFinder::LivePlaces {
 public:
  explicit LivePlaces(const AsofFinder& finder) : finder_(finder) {}

  // Returns the last live place of a range if `from_end`, otherwise the first.
  // Returns kNoRow if all rows are deleted.
  Result<uint64_t> nearest(PlaceRange places, bool from_end) {
    PlaceRange left = places;
    while (!left.empty()) {
      const uint64_t place = from_end ? left.end - 1 : left.begin;
      if (place >= deleted_.begin && place < deleted_.end) {
        left =
            from_end
                ? PlaceRange{left.begin, std::max(left.begin, deleted_.begin)}
                : PlaceRange{std::min(left.end, deleted_.end), left.end};
        continue;
      }
      NIMBLE_ASSIGN_OR_RETURN(const bool is_deleted, test(place));
      if (!is_deleted) break;
      left = without_window(left, {place, place + 1}, from_end);
    }
    remember(without_window(places, left, !from_end));
    if (left.empty()) return kNoRow;
    return from_end ? left.end - 1 : left.begin;
  }

 private:
  Result<bool> test(uint64_t place) {
    if (finder_.file_.deleted == nullptr) return false;
    if (finder_.file_.is_cluster) return finder_.file_.is_deleted(place);
    if (place < read_.begin || place >= read_.end) {
      const uint64_t begin = place - place % kPlacesRead;
      read_ = {begin,
               std::min(begin + kPlacesRead, finder_.file_.file->num_rows())};
      rows_.clear();
      NIMBLE_RETURN_IF_ERROR(finder_.rows_at({&read_, 1}, &rows_));
    }
    return finder_.file_.is_deleted(rows_[place - read_.begin]);
  }
  // Adds a run of deleted places, or replaces the remembered run.
  void remember(PlaceRange run) {
    if (run.empty()) return;
    if (run.begin > deleted_.end || run.end < deleted_.begin) {
      deleted_ = run;
      return;
    }
    deleted_ = {std::min(run.begin, deleted_.begin),
                std::max(run.end, deleted_.end)};
  }

  const AsofFinder& finder_;
  PlaceRange deleted_;
  PlaceRange read_;  // the places of rows_
  std::vector<uint64_t> rows_;
};

AsofFinder::AsofFinder(const AsofFile& file, size_t num_columns, bool backward,
                       std::optional<std::vector<int>> known)
    : file_(file),
      num_columns_(num_columns),
      backward_(backward),
      descending_((*file.columns)[num_columns - 1].order.descending),
      known_(std::move(known)) {}

bool AsofFinder::rows_ascend() const {
  return file_.is_cluster || file_.columns->size() == num_columns_;
}

Result<PlaceRange> AsofFinder::places_of_one(ByteSpan key, ByteSpan group,
                                             bool exclusive) const {
  KeyRange range;
  if (steps()) range = prefix_range(group);
  const bool after_key = is_nearest_last() != exclusive;
  ByteBuffer bound;
  bound.put_bytes(key);
  const bool has_bound = !after_key || successor(&bound);
  if (is_nearest_last()) {
    if (has_bound) range.upper = std::move(bound);
  } else {
    if (!has_bound) return PlaceRange{};
    range.lower = std::move(bound);
  }
  NIMBLE_ASSIGN_OR_RETURN(PlaceRange out,
                          file_.index->find_range(range, nullptr));
  out.end = std::max(out.begin, out.end);
  return out;
}

Status AsofFinder::all_places(const AsofKeys& keys,
                              std::vector<PlaceRange>* out) const {
  const size_t n = keys.keys->size();
  if (n == 1) {
    NIMBLE_ASSIGN_OR_RETURN(
        const PlaceRange places,
        places_of_one(keys.keys->key(0), keys.groups->key(0),
                      keys.exclusive[0] != 0));
    out->assign(1, places);
    return Status::ok();
  }
  // All candidates of a key are on one side of a boundary. The boundary is
  // before or after the rows that equal the key.
  KeyBuffer boundaries, ends;
  ByteBuffer after;
  const auto put_end = [&after](ByteSpan key, KeyBuffer* to) {
    after.clear();
    after.put_bytes(key);
    // The first byte of a key is a marker below FF, so a successor exists.
    if (!successor(&after))
      return Status::corrupt("the key of a row has no marker byte");
    to->push_back(after.span());
    return Status::ok();
  };
  for (size_t i = 0; i < n; ++i) {
    if (is_nearest_last() != (keys.exclusive[i] != 0)) {
      NIMBLE_RETURN_IF_ERROR(put_end(keys.keys->key(i), &boundaries));
    } else {
      boundaries.push_back(keys.keys->key(i));
    }
    if (!steps()) continue;
    if (is_nearest_last()) {
      ends.push_back(keys.groups->key(i));
    } else {
      NIMBLE_RETURN_IF_ERROR(put_end(keys.groups->key(i), &ends));
    }
  }
  std::vector<uint64_t> nearest, farthest;
  NIMBLE_RETURN_IF_ERROR(file_.index->lower_bounds(boundaries, &nearest));
  NIMBLE_RETURN_IF_ERROR(file_.index->lower_bounds(ends, &farthest));
  const uint64_t num_rows = file_.file->num_rows();
  out->resize(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t at = nearest[i];
    if (is_nearest_last()) {
      (*out)[i] = {
          steps() ? std::min(farthest[i], at) : at - std::min<uint64_t>(at, 1),
          at};
    } else {
      (*out)[i] = {
          at, steps() ? std::max(farthest[i], at) : std::min(at + 1, num_rows)};
    }
  }
  return Status::ok();
}

Status AsofFinder::rows_at(std::span<const PlaceRange> places,
                           std::vector<uint64_t>* out) const {
  return file_.index->rows_at(places, out);
}

Status AsofFinder::nearest(const std::vector<Candidates>& candidates,
                           bool from_end, const KeyBuffer* limits,
                           std::vector<uint64_t>* places) const {
  if (limits != nullptr) {
    return nearest_known(candidates, from_end, *limits, places);
  }
  LivePlaces live(*this);
  for (const Candidates& c : candidates) {
    NIMBLE_ASSIGN_OR_RETURN((*places)[c.key], live.nearest(c.places, from_end));
  }
  return Status::ok();
}

Status AsofFinder::nearest_known(std::vector<Candidates> candidates,
                                 bool from_end, const KeyBuffer& limits,
                                 std::vector<uint64_t>* places) const {
  NIMBLE_ASSIGN_OR_RETURN(KnownRows known, KnownRows::open(file_, *known_));
  LivePlaces live(*this);
  std::vector<PlaceRange> windows;
  std::vector<Candidates> left;
  for (uint64_t size = 1; !candidates.empty() && size <= kMaxWindow;
       size *= kGrowth) {
    left.clear();
    for (size_t at = 0; at < candidates.size();) {
      windows.clear();
      size_t end = at;
      for (uint64_t total = 0; end < candidates.size() && total < kTestedRows;
           ++end) {
        PlaceRange& c = candidates[end].places;
        NIMBLE_ASSIGN_OR_RETURN(const uint64_t first,
                                live.nearest(c, from_end));
        if (first == kNoRow) c.begin = c.end;
        if (!c.empty() && from_end) c.end = first + 1;
        if (!c.empty() && !from_end) c.begin = first;
        windows.push_back(window_of(c, from_end, size));
        total += windows.back().size();
      }
      NIMBLE_RETURN_IF_ERROR(known.read(windows));
      size_t first = 0;  // index of the window among the rows that were read
      for (size_t i = at; i < end; ++i) {
        const Candidates& c = candidates[i];
        const PlaceRange window = windows[i - at];
        const uint64_t n = window.size();
        const uint64_t step =
            known.steps_to_match(first, n, from_end, limits.key(c.key));
        first += n;
        if (step < n) {
          (*places)[c.key] =
              from_end ? window.end - 1 - step : window.begin + step;
          continue;
        }
        const PlaceRange rest = without_window(c.places, window, from_end);
        if (!rest.empty()) left.push_back({c.key, rest});
      }
      at = end;
    }
    candidates.swap(left);
  }
  for (const Candidates& c : candidates) {
    NIMBLE_ASSIGN_OR_RETURN(
        (*places)[c.key], known.nearest(c.places, from_end, limits.key(c.key)));
  }
  return Status::ok();
}

Status AsofFinder::settle_ties(std::span<const uint64_t> keys,
                               const KeyBuffer& equal, const KeyBuffer* limits,
                               std::vector<uint64_t>* rows) const {
  std::vector<PlaceRange> places;
  NIMBLE_RETURN_IF_ERROR(file_.index->find_places(equal, &places));
  std::vector<Candidates> ties;
  ties.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) ties.push_back({keys[i], places[i]});
  if (rows_ascend()) {
    NIMBLE_RETURN_IF_ERROR(nearest(ties, backward_, limits, rows));
    return to_rows(rows);
  }
  // Sorts ties by place, so that the rows of equal keys are read once.
  std::sort(ties.begin(), ties.end(),
            [](const Candidates& a, const Candidates& b) {
              return a.places.begin < b.places.begin;
            });
  NIMBLE_ASSIGN_OR_RETURN(TiedRows tied,
                          TiedRows::open(file_, known_, backward_));
  for (const Candidates& tie : ties) {
    NIMBLE_RETURN_IF_ERROR(tied.read(tie.places));
    (*rows)[tie.key] =
        limits == nullptr ? tied.row() : tied.row_within(limits->key(tie.key));
  }
  return Status::ok();
}

Status AsofFinder::to_rows(std::vector<uint64_t>* places) const {
  if (file_.is_cluster) return Status::ok();
  std::vector<PlaceRange> single;
  for (const uint64_t place : *places) {
    if (place != kNoRow) single.push_back({place, place + 1});
  }
  std::vector<uint64_t> rows;
  NIMBLE_RETURN_IF_ERROR(rows_at(single, &rows));
  size_t next = 0;
  for (uint64_t& place : *places) {
    if (place != kNoRow) place = rows[next++];
  }
  return Status::ok();
}

Status AsofFinder::find(const AsofKeys& keys, std::vector<uint64_t>* rows,
                        std::vector<std::string>* on) const {
  const size_t n = keys.keys->size();
  rows->assign(n, kNoRow);
  if (on != nullptr) on->assign(n, {});
  if (n == 0 || file_.file->num_rows() == 0) return Status::ok();
  std::vector<PlaceRange> places;
  NIMBLE_RETURN_IF_ERROR(all_places(keys, &places));
  std::vector<Candidates> candidates;
  candidates.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (!places[i].empty()) candidates.push_back({i, places[i]});
  }
  NIMBLE_RETURN_IF_ERROR(
      nearest(candidates, is_nearest_last(), keys.limits, rows));
  NIMBLE_RETURN_IF_ERROR(to_rows(rows));
  if (steps() && on == nullptr && takes_right_row()) return Status::ok();
  std::vector<uint64_t> numbers, found;
  for (size_t i = 0; i < n; ++i) {
    if ((*rows)[i] == kNoRow) continue;
    numbers.push_back(i);
    found.push_back((*rows)[i]);
  }
  NIMBLE_ASSIGN_OR_RETURN(const auto row_keys, open_row_keys());
  KeyBuffer all, equal;
  NIMBLE_RETURN_IF_ERROR(row_keys->read(found, &all));
  std::vector<uint64_t> matching;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const ByteSpan group = keys.groups->key(numbers[i]), key = all.key(i);
    if (key.size() <= group.size() ||
        compare_bytes(key.first(group.size()), group) != 0) {
      (*rows)[numbers[i]] = kNoRow;  // the nearest row is in another group
      continue;
    }
    if (on != nullptr) {
      const ByteSpan value = key.subspan(group.size() - 1);
      (*on)[numbers[i]].assign(value.begin(), value.end());
    }
    matching.push_back(numbers[i]);
    if (!takes_right_row()) equal.push_back(key);
  }
  if (takes_right_row() || matching.empty()) return Status::ok();
  return settle_ties(matching, equal, keys.limits, rows);
}

Result<std::unique_ptr<const RowKeys>> AsofFinder::open_row_keys() const {
  return RowKeys::create(*file_.file, {file_.columns->begin(),
                                       file_.columns->begin() +
                                           static_cast<int64_t>(num_columns_)});
}

Result<bool> AsofFinder::read_on(uint64_t row, ByteSpan group,
                                 std::string* on) const {
  std::unique_ptr<const RowKeys> opened;
  const RowKeys* row_keys = file_.row_keys;
  if (row_keys == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(opened, open_row_keys());
    row_keys = opened.get();
  }
  ByteBuffer key;
  NIMBLE_RETURN_IF_ERROR(row_keys->read_one(row, &key));
  if (key.size() <= group.size() ||
      compare_bytes(key.span().first(group.size()), group) != 0) {
    return false;
  }
  const ByteSpan value = key.span().subspan(group.size() - 1);
  if (on != nullptr) on->assign(value.begin(), value.end());
  return true;
}

Result<std::optional<uint64_t>> AsofFinder::find_one(ByteSpan key,
                                                     ByteSpan group,
                                                     bool exclusive,
                                                     std::string* on) const {
  if (file_.is_cluster && takes_right_row()) {
    NIMBLE_ASSIGN_OR_RETURN(const PlaceRange places,
                            places_of_one(key, group, exclusive));
    LivePlaces live(*this);
    NIMBLE_ASSIGN_OR_RETURN(const uint64_t row,
                            live.nearest(places, is_nearest_last()));
    if (row == kNoRow) return std::optional<uint64_t>();
    if (on == nullptr && steps()) return std::optional<uint64_t>(row);
    NIMBLE_ASSIGN_OR_RETURN(const bool is_match, read_on(row, group, on));
    return is_match ? std::optional<uint64_t>(row) : std::nullopt;
  }
  KeyBuffer keys, groups;
  keys.push_back(key);
  groups.push_back(group);
  const uint8_t is_exclusive = exclusive ? 1 : 0;
  std::vector<uint64_t> rows;
  std::vector<std::string> values;
  NIMBLE_RETURN_IF_ERROR(find({&keys, &groups, {&is_exclusive, 1}, nullptr},
                              &rows, on == nullptr ? nullptr : &values));
  if (rows[0] == kNoRow) return std::optional<uint64_t>();
  if (on != nullptr) *on = std::move(values[0]);
  return std::optional<uint64_t>(rows[0]);
}

}  // namespace nimble
