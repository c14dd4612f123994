#include "nimble/lookup/open_index.h"

#include <algorithm>

#include "nimble/cursor/cluster_cursor.h"
#include "nimble/index/cluster_index_writer.h"
#include "nimble/key/key_sort.h"
#include "nimble/lookup/find_keys.h"
#include "nimble/lookup/hash_lookup.h"
#include "nimble/lookup/sorted_index.h"

namespace nimble {
namespace {

class ClusterLookup final : public IndexLookup {
 public:
  explicit ClusterLookup(const ClusterIndex& index)
      : index_(index), file_(index.file()) {}

  const KeyEncoder& encoder() const override { return *file_.encoder(); }
  bool is_ordered() const override { return true; }

  Result<std::optional<uint64_t>> find_first(
      ByteSpan key, const RowReader* wanted) const override {
    return ClusterCursor(index_, wanted).find_first(key);
  }
  Status find(const KeyBuffer& keys, bool whole, const RowReader* wanted,
              LookupAnswer* out) const override {
    NIMBLE_ASSIGN_OR_RETURN(*out, find_keys(index_, keys, whole, wanted));
    return Status::ok();
  }
  Status find_sorted(const ProbeSpan& probes, bool whole,
                     const RowReader* wanted,
                     std::vector<FoundRange>* out) const override {
    return find_sorted_keys(index_, probes, whole, wanted, out);
  }
  Status count(const KeyBuffer& keys, bool whole,
               std::vector<uint64_t>* out) const override {
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(find(keys, whole, nullptr, &answer));
    for (const RowRange& r : answer.ranges) out->push_back(r.size());
    return Status::ok();
  }
  Result<PlaceRange> find_range(const KeyRange& range,
                                const RowReader* wanted) const override {
    return ClusterCursor(index_, wanted).find_range(range);
  }
  // Searches keys as prefixes: a search for whole keys would use the Bloom
  // filter and uniqueness, and would not find the places of absent keys.
  Status find_places(const KeyBuffer& keys,
                     std::vector<PlaceRange>* out) const override {
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(find(keys, false, nullptr, &answer));
    *out = std::move(answer.ranges);
    return Status::ok();
  }
  Status lower_bounds(const KeyBuffer& targets,
                      std::vector<uint64_t>* out) const override {
    return find_lower_bounds(index_, targets, out);
  }
  Status rows_at(std::span<const PlaceRange> places,
                 std::vector<uint64_t>* out) const override {
    for (const PlaceRange& p : places) {
      for (uint64_t row = p.begin; row < p.end; ++row) out->push_back(row);
    }
    return Status::ok();
  }
  // verify_file() itself compares the key stream with the rows.
  Status check_rows(const KeyBuffer&, uint64_t) const override {
    return Status::ok();
  }
  Status check_order() const override { return Status::ok(); }

 private:
  const ClusterIndex& index_;
  const OpenFile& file_;
};

class SortedLookup final : public IndexLookup {
 public:
  SortedLookup(std::unique_ptr<const SortedIndex> index, KeyEncoder encoder)
      : index_(std::move(index)), encoder_(std::move(encoder)) {}

  const KeyEncoder& encoder() const override { return encoder_; }
  bool is_ordered() const override { return true; }

  // The rows of equal keys ascend, so the first row is at the key's first
  // place.
  Result<std::optional<uint64_t>> find_first(
      ByteSpan key, const RowReader* /*wanted*/) const override {
    return SortedCursor(*index_).find_first(key);
  }
  Status find_sorted(const ProbeSpan& probes, bool /*whole*/,
                     const RowReader* /*wanted*/,
                     std::vector<FoundRange>* out) const override {
    SortedCursor cursor(*index_);
    std::vector<uint64_t> rows;
    for (const uint64_t number : probes.numbers) {
      NIMBLE_ASSIGN_OR_RETURN(const PlaceRange places,
                              cursor.find_prefix(probes.keys->key(number)));
      rows.clear();
      NIMBLE_RETURN_IF_ERROR(cursor.rows(places, &rows));
      LookupAnswer answer;
      add_rows(&rows, 0, rows.size(), &answer);
      for (const RowRange& r : answer.ranges) out->push_back({number, r});
    }
    return Status::ok();
  }
  // Probes are searched in key order, so that each group and chunk is opened
  // once. Answers are in the order of the probes.
  Status find(const KeyBuffer& keys, bool /*whole*/,
              const RowReader* /*wanted*/, LookupAnswer* out) const override {
    SortedCursor cursor(*index_);
    std::vector<uint64_t> rows;
    std::vector<uint64_t> order;
    sort_keys(keys, &order);
    std::vector<PlaceRange> row_ranges(keys.size());  // ranges of `rows`
    for (size_t i = 0; i < order.size(); ++i) {
      const uint64_t probe = order[i];
      if (i > 0 &&
          compare_bytes(keys.key(probe), keys.key(order[i - 1])) == 0) {
        row_ranges[probe] = row_ranges[order[i - 1]];
        continue;
      }
      NIMBLE_ASSIGN_OR_RETURN(const PlaceRange places,
                              cursor.find_prefix(keys.key(probe)));
      row_ranges[probe].begin = rows.size();
      NIMBLE_RETURN_IF_ERROR(cursor.rows(places, &rows));
      row_ranges[probe].end = rows.size();
    }
    for (const PlaceRange& f : row_ranges) add_rows(&rows, f.begin, f.end, out);
    return Status::ok();
  }

  Status count(const KeyBuffer& keys, bool /*whole*/,
               std::vector<uint64_t>* out) const override {
    std::vector<PlaceRange> places;
    NIMBLE_RETURN_IF_ERROR(find_places(keys, &places));
    for (const PlaceRange& p : places) out->push_back(p.size());
    return Status::ok();
  }
  Status find_places(const KeyBuffer& keys,
                     std::vector<PlaceRange>* out) const override {
    std::vector<uint64_t> order;
    sort_keys(keys, &order);
    out->resize(keys.size());
    SortedCursor cursor(*index_);
    for (const uint64_t probe : order) {
      NIMBLE_ASSIGN_OR_RETURN((*out)[probe],
                              cursor.find_prefix(keys.key(probe)));
    }
    return Status::ok();
  }

  Status lower_bounds(const KeyBuffer& targets,
                      std::vector<uint64_t>* out) const override {
    std::vector<uint64_t> order;
    sort_keys(targets, &order);
    out->resize(targets.size());
    SortedCursor cursor(*index_);
    for (const uint64_t target : order) {
      NIMBLE_ASSIGN_OR_RETURN((*out)[target],
                              cursor.lower_bound(targets.key(target)));
    }
    return Status::ok();
  }

  Result<PlaceRange> find_range(const KeyRange& range,
                                const RowReader* /*wanted*/) const override {
    return SortedCursor(*index_).find_range(range);
  }
  Status rows_at(std::span<const PlaceRange> places,
                 std::vector<uint64_t>* out) const override {
    SortedCursor cursor(*index_);
    for (const PlaceRange& p : places) {
      NIMBLE_RETURN_IF_ERROR(cursor.rows(p, out));
    }
    return Status::ok();
  }

  // The index has as many entries as the file has rows. If every row is found,
  // the index cannot have other entries.
  Status check_rows(const KeyBuffer& keys, uint64_t first_row) const override {
    std::vector<uint64_t> order;
    sort_keys(keys, &order);
    SortedCursor cursor(*index_);
    for (const uint64_t i : order) {
      NIMBLE_ASSIGN_OR_RETURN(const bool contains_row,
                              cursor.has_entry(keys.key(i), first_row + i));
      if (contains_row) continue;
      return Status::corrupt("row " + std::to_string(first_row + i) +
                             ": the sorted index has no entry for it");
    }
    return Status::ok();
  }
  Status check_order() const override {
    constexpr uint64_t kBatch = 4096;
    SortedCursor cursor(*index_);
    KeyBuffer entries;
    const uint64_t n = index_->num_keys();
    for (uint64_t at = 0; at < n; at += kBatch) {
      // Batches overlap by one entry, so that the last entry of a batch is
      // compared with the first entry of the next.
      const PlaceRange places{at, std::min(n, at + kBatch + 1)};
      NIMBLE_RETURN_IF_ERROR(cursor.entries(places, &entries));
      const size_t bad = find_disorder(entries, 0, entries.size(), true);
      if (bad == entries.size()) continue;
      return Status::corrupt("sorted index: place " + std::to_string(at + bad) +
                             " is not greater than the one before it");
    }
    return Status::ok();
  }

 private:
  // Adds the rows of one key. The rows of a whole key ascend already. The rows
  // of a prefix are in key order and must be sorted.
  static void add_rows(std::vector<uint64_t>* rows, uint64_t begin,
                       uint64_t end, LookupAnswer* out) {
    const auto first = rows->begin() + static_cast<int64_t>(begin);
    const auto last = rows->begin() + static_cast<int64_t>(end);
    if (!std::is_sorted(first, last)) std::sort(first, last);
    for (auto row = first; row != last; ++row) out->add(*row);
    out->finish_key();
  }

  std::unique_ptr<const SortedIndex> index_;
  KeyEncoder encoder_;
};

}  // namespace

std::unique_ptr<const IndexLookup> open_cluster_lookup(
    const ClusterIndex& cluster) {
  return std::make_unique<ClusterLookup>(cluster);
}

Result<std::unique_ptr<const IndexLookup>> open_secondary_lookup(
    const OpenFile& file, size_t i) {
  const SecondaryIndexRef& ref = file.footer().indexes[i];
  const auto fail = [&](Status s) {
    return std::move(s).with_context(file.file().name() + ": index " +
                                     std::to_string(i));
  };
  auto encoder = KeyEncoder::create(file.footer().schema, ref.columns);
  if (!encoder) {
    return fail(Status::corrupt(std::string(encoder.error().message())));
  }
  NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> root,
                          file.read_section(ref.root, "index root"));
  if (ref.kind == IndexKind::kHash) {
    auto hash = open_hash_lookup(file, ref, std::move(root),
                                 std::move(encoder).value());
    if (!hash) return fail(std::move(hash).error());
    return hash;
  }
  auto index = SortedIndex::open(file, std::move(root));
  if (!index) return fail(std::move(index).error());
  return std::unique_ptr<const IndexLookup>(std::make_unique<SortedLookup>(
      std::move(index).value(), std::move(encoder).value()));
}

}  // namespace nimble
