#include "nimble/lookup/find_keys.h"

#include <algorithm>
#include <numeric>

#include "nimble/base/hash.h"
#include "nimble/cursor/cluster_cursor.h"
#include "nimble/key/key_sort.h"
#include "nimble/memory/scratch.h"
#include "nimble/open/range_fetch.h"

namespace nimble {
namespace {

// Number of probes between two stages of the same probe. By the next stage, the
// prefetched bytes have arrived. A core can have about twenty cache misses in
// flight.
constexpr size_t kStage = 8;

// The keys of a chunk that equal a probe or begin with it.
struct ChunkAnswer {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool ends_here = true;  // false: keys may continue in the next chunk
};
// A `whole` probe equals the keys that it matches; otherwise it is their
// prefix. If `unique`, at most one key matches. `gap` is chunk.gap(key).
struct ChunkProbe {
  ByteSpan key;
  KeyGap gap;
  bool whole = true;
  bool unique = false;
};

// `boundary` is the chunk's boundary in its directory.
Result<ChunkAnswer> search_chunk(const KeyChunk& chunk, ByteSpan boundary,
                                 const ChunkProbe& probe, ByteBuffer* scratch) {
  ChunkAnswer out;
  NIMBLE_ASSIGN_OR_RETURN(const FoundKey match,
                          chunk.find(probe.key, probe.gap));
  out.begin = out.end = match.at;
  if (probe.whole) {
    // Keys are not prefixes of other keys, so the next chunk cannot have this
    // key.
    if (!match.is_equal) return out;
    ++out.end;
    if (probe.unique) return out;
    if (out.end < chunk.num_keys()) {
      NIMBLE_ASSIGN_OR_RETURN(const bool again,
                              chunk.matches(out.end, probe.key));
      if (!again) return out;
    }
  }
  out.ends_here = false;
  scratch->clear();
  scratch->put_bytes(probe.key);
  if (out.begin == chunk.num_keys() || !successor(scratch)) return out;
  // Most ranges end in the same chunk, close to their beginning.
  NIMBLE_ASSIGN_OR_RETURN(out.end,
                          chunk.lower_bound_from(out.begin, scratch->span()));
  out.ends_here = out.end < chunk.num_keys() ||
                  compare_bytes(boundary, scratch->span()) >= 0;
  return out;
}

// The batch form of ClusterCursor: searches ascending probes in one group.
// Every probe passes four stages, kStage probes apart, so that cache misses
// overlap. The stages find its chunk, open it, find the gap between sampled
// keys, and finish the search.
class GroupFinder {
 public:
  // `wanted`: see ClusterCursor.
  GroupFinder(const ClusterIndex& index, const KeyBuffer& keys, bool whole,
              const RowReader* wanted, std::vector<RowRange>* out)
      : index_(index),
        file_(index.file()),
        keys_(keys),
        whole_(whole),
        unique_(file_.footer().cluster->unique),
        order_(file_),
        wanted_(wanted),
        columns_(index, wanted),
        out_(out) {}

  Status find(size_t group, std::span<const uint64_t> probes) {
    NIMBLE_ASSIGN_OR_RETURN(group_, order_.group(group));
    NIMBLE_ASSIGN_OR_RETURN(source_, columns_.source());
    // If the index stores all keys, there are no gaps, and the last stage is
    // not needed.
    const size_t last_stage = (source_ == nullptr ? 2 : 3) * kStage;
    group_index_ = group;
    last_chunk_ = 0;
    opened_ = SIZE_MAX;
    const size_t n = probes.size();
    for (size_t i = 0; i < n + last_stage; ++i) {
      if (i < n) NIMBLE_RETURN_IF_ERROR(name_chunk(i, probes[i]));
      if (i >= kStage && i - kStage < n) {
        NIMBLE_RETURN_IF_ERROR(open_chunk(i - kStage));
      }
      if (source_ != nullptr && i >= 2 * kStage && i - 2 * kStage < n) {
        NIMBLE_RETURN_IF_ERROR(find_gap(i - 2 * kStage));
      }
      if (i >= last_stage) NIMBLE_RETURN_IF_ERROR(search(i - last_stage));
    }
    return Status::ok();
  }

  // Finds the ends of ranges that continue in a later chunk, possibly of
  // another group.
  Status find_ends() {
    ClusterCursor cursor(index_, wanted_);
    for (const uint64_t probe : open_ended_) {
      NIMBLE_ASSIGN_OR_RETURN(const uint64_t end,
                              cursor.end_of(keys_.key(probe)));
      RowRange& range = (*out_)[probe];
      range.end = std::max(range.begin, end);
    }
    open_ended_.clear();
    return Status::ok();
  }

 private:
  static constexpr size_t kSlots = 4 * kStage;  // a power of two
  struct Step {
    uint64_t probe = 0;
    size_t chunk = 0;
    size_t slot = 0;  // of the opened chunk
    KeyGap gap;
  };

  Step& step(size_t i) { return steps_[i % kSlots]; }

  Status name_chunk(size_t i, uint64_t probe) {
    const ChunkDirectory& chunks = group_->boundaries();
    const size_t chunk = chunks.find_from(last_chunk_, keys_.key(probe));
    // The group's last boundary is at least its last key, so a probe of this
    // group cannot be above it.
    if (chunk == chunks.size())
      return ends_before_boundary(file_, group_index_);
    step(i) = {probe, chunk, 0, {}};
    const uint8_t* const map = file_.file().mapped();
    if (map != nullptr && (chunk != last_chunk_ || i == 0)) {
      const uint8_t* bytes = map + group_->location(chunk).offset;
      __builtin_prefetch(bytes);
      __builtin_prefetch(bytes + 64);
    }
    last_chunk_ = chunk;
    return Status::ok();
  }

  Status open_chunk(size_t i) {
    Step& s = step(i);
    if (s.chunk != opened_) {
      slot_ = (slot_ + 1) % kSlots;
      NIMBLE_RETURN_IF_ERROR(
          slots_[slot_].open(file_, *group_, s.chunk, source_));
      opened_ = s.chunk;
    }
    s.slot = slot_;
    slots_[slot_].chunk->prefetch(keys_.key(s.probe));
    return Status::ok();
  }

  Status find_gap(size_t i) {
    Step& s = step(i);
    const KeyChunk& chunk = *slots_[s.slot].chunk;
    NIMBLE_ASSIGN_OR_RETURN(s.gap, chunk.gap(keys_.key(s.probe)));
    chunk.prefetch_gap(keys_.key(s.probe), s.gap);
    return Status::ok();
  }

  Status search(size_t i) {
    const Step& s = step(i);
    const OpenKeyChunk& opened = slots_[s.slot];
    const ChunkProbe probe{keys_.key(s.probe), s.gap, whole_, unique_};
    NIMBLE_ASSIGN_OR_RETURN(
        const ChunkAnswer answer,
        search_chunk(*opened.chunk, group_->boundaries().boundary(s.chunk),
                     probe, &scratch_));
    (*out_)[s.probe] = {opened.first + answer.begin, opened.first + answer.end};
    if (!answer.ends_here) open_ended_.push_back(s.probe);
    return Status::ok();
  }

  const ClusterIndex& index_;
  const OpenFile& file_;
  const KeyBuffer& keys_;
  const bool whole_;
  const bool unique_;
  const ClusterOrder order_;
  const RowReader* wanted_;
  ColumnKeys columns_;
  const KeySource* source_ = nullptr;
  std::vector<RowRange>* out_;
  std::vector<uint64_t> open_ended_;
  KeyGroupHandle group_;
  size_t group_index_ = 0;
  size_t last_chunk_ = 0;
  size_t opened_ = 0;
  size_t slot_ = 0;
  Step steps_[kSlots];
  OpenKeyChunk slots_[kSlots];
  ByteBuffer scratch_;
};

// Asks the Bloom filter which probes may exist. Returns an empty vector if the
// filter is not used.
Result<std::vector<uint8_t>> ask_filter(const ClusterIndex& index,
                                        const KeyBuffer& keys) {
  std::vector<uint8_t> maybe;
  NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom, index.bloom(keys.size()));
  if (bloom == nullptr) return maybe;
  maybe.resize(keys.size());
  std::vector<uint64_t> hashes(keys.size());
  for (size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = key_hash64(keys.key(i));
  bloom->might_contain(hashes, maybe.data());
  return maybe;
}

// Whether this key and all keys that begin with it are before the file's first
// key.
bool is_before_all(ByteSpan key, ByteSpan first) {
  return compare_bytes(key, first) < 0 &&
         compare_bytes(key, first.first(std::min(key.size(), first.size()))) !=
             0;
}

// Returns the probes that need a search, in key order. Leaves out repeated
// keys, keys that the filter excludes, and keys before the file's first key.
std::vector<uint64_t> worth_searching(const OpenFile& file,
                                      const KeyBuffer& keys,
                                      std::span<const uint64_t> order,
                                      std::span<const uint8_t> maybe) {
  std::vector<uint64_t> out;
  out.reserve(order.size());
  const ByteSpan first = file.footer().cluster->first_key;
  for (size_t i = 0; i < order.size(); ++i) {
    const ByteSpan key = keys.key(order[i]);
    if (!maybe.empty() && maybe[order[i]] == 0) continue;
    if (i > 0 && compare_bytes(key, keys.key(order[i - 1])) == 0) continue;
    if (out.empty() && is_before_all(key, first)) continue;
    out.push_back(order[i]);
  }
  return out;
}

// Searches ascending probes, group by group.
Status search_groups(const OpenFile& file, const KeyBuffer& keys,
                     std::span<const uint64_t> probes, GroupFinder* finder,
                     std::vector<RowRange>* out) {
  const ChunkDirectory& groups = file.group_boundaries();
  size_t group = 0;
  while (!probes.empty()) {
    group = groups.find_from(group, keys.key(probes[0]));
    // this probe and all later probes are after the last key
    if (group == groups.size()) {
      for (const uint64_t probe : probes) {
        (*out)[probe] = {file.num_rows(), file.num_rows()};
      }
      break;
    }
    // The probes up to the group's boundary.
    const ByteSpan boundary = groups.boundary(group);
    const auto end =
        std::partition_point(probes.begin(), probes.end(), [&](uint64_t probe) {
          return compare_bytes(keys.key(probe), boundary) <= 0;
        });
    const auto n = static_cast<size_t>(end - probes.begin());
    NIMBLE_RETURN_IF_ERROR(finder->find(group, probes.first(n)));
    probes = probes.subspan(n);
  }
  return finder->find_ends();
}

// If a file is not mapped, the gaps of this many probes are read together:
// about 16 KiB each, which must remain in the cache until they are searched.
constexpr size_t kFetched = 1024;
// With at most this many probes, the wanted columns are read together with the
// gaps.
constexpr size_t kFew = 8;

// Reads the groups of ascending probes in one round, and their key chunks in
// another.
Status fetch_index(const OpenFile& file, const KeyBuffer& keys,
                   std::span<const uint64_t> probes) {
  const ChunkDirectory& boundaries = file.group_boundaries();
  std::vector<size_t> group_of(probes.size()), groups;
  size_t group = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    group = boundaries.find_from(group, keys.key(probes[i]));
    group_of[i] = group;
    if (group == boundaries.size()) break;
    if (groups.empty() || groups.back() != group) groups.push_back(group);
  }
  NIMBLE_RETURN_IF_ERROR(file.groups().load_together(groups, ReadKind::kIndex));
  std::vector<ByteRange> chunks;
  for (size_t i = 0; i < probes.size() && group_of[i] < boundaries.size();
       ++i) {
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle loaded,
                            file.groups().get(group_of[i], ReadKind::kIndex));
    const KeyChunkGroup& chunks_of = loaded->keys();
    const size_t chunk = chunks_of.boundaries().find(keys.key(probes[i]));
    if (chunk == chunks_of.size()) continue;  // the search reports it
    const ChunkLocation place = chunks_of.location(chunk);
    if (chunks.empty() || chunks.back().begin != place.offset) {
      chunks.push_back({place.offset, place.offset + place.size});
    }
  }
  return fetch_ranges(file, std::move(chunks), ReadKind::kIndex);
}

// Reads the key columns that searches in sampled keys will need, in few rounds.
Status fetch_gaps(const ClusterIndex& index, const KeyBuffer& keys,
                  std::span<const uint64_t> probes, const RowReader* wanted) {
  NIMBLE_ASSIGN_OR_RETURN(const RowKeys* columns, index.row_keys());
  if (columns == nullptr) return Status::ok();
  ClusterCursor cursor(index, wanted);
  std::vector<RowRange> gaps;
  for (const uint64_t i : probes) {
    NIMBLE_ASSIGN_OR_RETURN(const RowRange gap,
                            cursor.rows_to_read(keys.key(i)));
    if (!gap.empty()) gaps.push_back(gap);
  }
  return cursor.fetch(merge_ranges(std::move(gaps)));
}

// Reads everything that a search of ascending probes needs.
Status fetch_ahead(const ClusterIndex& index, const KeyBuffer& keys,
                   std::span<const uint64_t> probes, const RowReader* wanted) {
  if (probes.size() > 1) {
    NIMBLE_RETURN_IF_ERROR(fetch_index(index.file(), keys, probes));
  }
  return fetch_gaps(index, keys, probes, wanted);
}

// Searches ascending probes and stores their answers in *out, indexed by key.
Status search(const ClusterIndex& index, const KeyBuffer& keys, bool whole,
              std::span<const uint64_t> probes, const RowReader* wanted,
              std::vector<RowRange>* out) {
  const OpenFile& file = index.file();
  const bool mapped = file.file().mapped() != nullptr;
  const RowReader* few = probes.size() <= kFew ? wanted : nullptr;
  GroupFinder finder(index, keys, whole, mapped ? nullptr : few, out);
  const size_t step = mapped ? probes.size() : kFetched;
  for (size_t at = 0; at < probes.size(); at += step) {
    const auto some = probes.subspan(at, std::min(step, probes.size() - at));
    if (!mapped) NIMBLE_RETURN_IF_ERROR(fetch_ahead(index, keys, some, few));
    NIMBLE_RETURN_IF_ERROR(search_groups(file, keys, some, &finder, out));
  }
  return Status::ok();
}

}  // namespace

Result<LookupAnswer> find_keys(const ClusterIndex& index, const KeyBuffer& keys,
                               bool whole, const RowReader* wanted) {
  const OpenFile& file = index.file();
  LookupAnswer out;
  out.ranges.resize(keys.size());
  out.ends.resize(keys.size());
  std::iota(out.ends.begin(), out.ends.end(), uint64_t{1});
  if (keys.empty()) return out;
  sort_keys(keys, &out.order);
  if (file.num_rows() == 0) return out;
  std::vector<uint8_t> maybe;
  if (whole) {
    NIMBLE_ASSIGN_OR_RETURN(maybe, ask_filter(index, keys));
  }
  const std::vector<uint64_t> probes =
      worth_searching(file, keys, out.order, maybe);
  NIMBLE_RETURN_IF_ERROR(
      search(index, keys, whole, probes, wanted, &out.ranges));
  // Repeated keys get the answer of their first occurrence.
  for (size_t i = 1; i < out.order.size(); ++i) {
    const uint64_t before = out.order[i - 1], now = out.order[i];
    if (compare_bytes(keys.key(before), keys.key(now)) == 0) {
      out.ranges[now] = out.ranges[before];
    }
  }
  return out;
}

Status find_lower_bounds(const ClusterIndex& index, const KeyBuffer& targets,
                         std::vector<uint64_t>* out) {
  const OpenFile& file = index.file();
  out->assign(targets.size(), 0);
  if (targets.empty() || file.num_rows() == 0) return Status::ok();
  std::vector<uint64_t> order;
  sort_keys(targets, &order);
  std::vector<RowRange> ranges(targets.size());
  // Searching for a whole key finds its first row without finding the last one.
  NIMBLE_RETURN_IF_ERROR(search(index, targets, true,
                                worth_searching(file, targets, order, {}),
                                nullptr, &ranges));
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_repeated =
        i > 0 &&
        compare_bytes(targets.key(order[i]), targets.key(order[i - 1])) == 0;
    (*out)[order[i]] =
        is_repeated ? (*out)[order[i - 1]] : ranges[order[i]].begin;
  }
  return Status::ok();
}

namespace {

// Answers by key number. Keys that are not searched keep the answers of an
// earlier call: clearing them for every file would cost more than the search.
struct KeptAnswers {
  std::vector<RowRange> ranges;
  void clear() {}
  size_t size() const { return ranges.size(); }
};

}  // namespace

Status find_sorted_keys(const ClusterIndex& index, const ProbeSpan& probes,
                        bool whole, const RowReader* wanted,
                        std::vector<FoundRange>* out) {
  const OpenFile& file = index.file();
  const size_t n = probes.numbers.size();
  if (n == 0 || file.num_rows() == 0) return Status::ok();
  struct Maybe;
  struct Worth;
  struct Answers;
  ThreadScratch<std::vector<uint8_t>, Maybe> maybe;
  ThreadScratch<std::vector<uint64_t>, Worth> worth;
  const BloomFilter* bloom = nullptr;
  if (whole) {
    NIMBLE_ASSIGN_OR_RETURN(bloom, index.bloom(n));
  }
  if (bloom != nullptr) {
    maybe->resize(n);
    bloom->might_contain(probes.hashes, maybe->data());
  }
  const ByteSpan first = file.footer().cluster->first_key;
  for (size_t i = 0; i < n; ++i) {
    if (bloom != nullptr) {
      // The filter often excludes eight consecutive probes.
      while (i + 8 <= n && load<uint64_t>(maybe->data() + i) == 0) i += 8;
      if (i == n) break;
      if ((*maybe)[i] == 0) continue;
    }
    const uint64_t number = probes.numbers[i];
    if (worth->empty() && is_before_all(probes.keys->key(number), first))
      continue;
    worth->push_back(number);
  }
  if (worth->empty()) return Status::ok();
  ThreadScratch<KeptAnswers, Answers> answers;
  if (answers->size() < probes.keys->size()) {
    answers->ranges.resize(probes.keys->size());
  }
  NIMBLE_RETURN_IF_ERROR(
      search(index, *probes.keys, whole, *worth, wanted, &answers->ranges));
  for (const uint64_t number : *worth) {
    const RowRange& rows = answers->ranges[number];
    if (!rows.empty()) out->push_back({number, rows});
  }
  return Status::ok();
}

}  // namespace nimble
