#include "nimble/lookup/hash_lookup.h"

#include <algorithm>
#include <utility>

#include "nimble/cursor/row_keys.h"
#include "nimble/key/key_sort.h"
#include "nimble/lookup/hash_index.h"
#include "nimble/memory/scratch.h"

namespace nimble {
namespace {

// The distinct keys of a buffer. Borrows `keys`.
class DistinctKeys {
 public:
  explicit DistinctKeys(const KeyBuffer& keys) : all_(keys) {
    std::vector<uint64_t> order;
    sort_keys(keys, &order);
    const auto repeats = [&](size_t i) {
      return i > 0 &&
             compare_bytes(keys.key(order[i]), keys.key(order[i - 1])) == 0;
    };
    size_t first = 0;
    while (first < order.size() && !repeats(first)) ++first;
    if (first == order.size()) return;
    numbers_.resize(order.size());
    once_.reset(keys.fixed_width());
    for (size_t i = 0; i < order.size(); ++i) {
      if (!repeats(i)) once_.push_back(keys.key(order[i]));
      numbers_[order[i]] = once_.size() - 1;
    }
  }

  // Whether no key occurs twice.
  bool is_all() const { return numbers_.empty(); }
  const KeyBuffer& keys() const { return is_all() ? all_ : once_; }
  // The index of key i in keys().
  uint64_t number(size_t i) const { return is_all() ? i : numbers_[i]; }

 private:
  const KeyBuffer& all_;
  KeyBuffer once_;
  std::vector<uint64_t> numbers_;
};

class HashLookup final : public IndexLookup {
 public:
  HashLookup(std::unique_ptr<const HashIndex> index,
             std::unique_ptr<const RowKeys> row_keys, KeyEncoder encoder)
      : index_(std::move(index)),
        row_keys_(std::move(row_keys)),
        encoder_(std::move(encoder)) {}

  const KeyEncoder& encoder() const override { return encoder_; }
  bool is_ordered() const override { return false; }

  Status find_candidates(const KeyBuffer& keys, bool whole,
                         LookupAnswer* out) const override {
    CandidateRows row_candidates;
    NIMBLE_RETURN_IF_ERROR(candidates(keys, whole, &row_candidates));
    uint64_t at = 0;
    for (const uint64_t end : row_candidates.ends) {
      for (; at < end; ++at) out->add(row_candidates.rows[at]);
      out->finish_key();
    }
    return Status::ok();
  }

  // Candidates are ascending, so the first match is the answer. Only a few are
  // fetched at first: if a key has many rows, usually the first candidate
  // matches.
  Result<std::optional<uint64_t>> find_first(
      ByteSpan key, const RowReader* wanted) const override {
    struct Candidates;
    ThreadScratch<std::vector<uint64_t>, Candidates> rows;
    for (const size_t enough : {kFirst, SIZE_MAX}) {
      rows->clear();
      NIMBLE_ASSIGN_OR_RETURN(const uint64_t known_below,
                              index_->find_first(key, enough, &*rows));
      const size_t ahead = std::min(rows->size(), kFirst);
      NIMBLE_RETURN_IF_ERROR(fetch(std::span(*rows).first(ahead), wanted));
      for (const uint64_t row : *rows) {
        if (row >= known_below) break;
        NIMBLE_ASSIGN_OR_RETURN(const int sign, row_keys_->compare(row, key));
        if (sign == 0) return std::optional<uint64_t>(row);
      }
      if (known_below == UINT64_MAX) break;
    }
    return std::optional<uint64_t>();
  }

  Status find(const KeyBuffer& keys, bool whole, const RowReader* wanted,
              LookupAnswer* out) const override {
    const DistinctKeys distinct(keys);
    LookupAnswer once;
    CandidateRows row_candidates;
    NIMBLE_RETURN_IF_ERROR(candidates(distinct.keys(), whole, &row_candidates));
    NIMBLE_RETURN_IF_ERROR(settle(
        row_candidates, wanted,
        [&](size_t i) { return distinct.keys().key(i); },
        [&once](uint64_t row) { once.add(row); },
        [&once] { once.finish_key(); }));
    if (distinct.is_all()) {
      *out = std::move(once);
      return Status::ok();
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t key = distinct.number(i);
      const uint64_t begin = key == 0 ? 0 : once.ends[key - 1];
      const std::span<const RowRange> ranges(once.ranges);
      for (const RowRange& r : ranges.subspan(begin, once.ends[key] - begin)) {
        out->ranges.push_back(r);
      }
      out->finish_key();
    }
    return Status::ok();
  }

  Status find_sorted(const ProbeSpan& probes, bool whole,
                     const RowReader* wanted,
                     std::vector<FoundRange>* out) const override {
    if (!whole) return whole_keys_only();
    CandidateRows row_candidates;
    NIMBLE_RETURN_IF_ERROR(index_->find_hashes(probes.hashes, &row_candidates));
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(settle(
        row_candidates, wanted,
        [&](size_t i) { return probes.keys->key(probes.numbers[i]); },
        [&answer](uint64_t row) { answer.add(row); },
        [&answer] { answer.finish_key(); }));
    uint64_t at = 0;
    for (size_t i = 0; i < answer.ends.size(); ++i) {
      for (; at < answer.ends[i]; ++at) {
        out->push_back({probes.numbers[i], answer.ranges[at]});
      }
    }
    return Status::ok();
  }

  Status count(const KeyBuffer& keys, bool whole,
               std::vector<uint64_t>* out) const override {
    const DistinctKeys distinct(keys);
    std::vector<uint64_t> once;
    uint64_t count = 0;
    CandidateRows row_candidates;
    NIMBLE_RETURN_IF_ERROR(candidates(distinct.keys(), whole, &row_candidates));
    NIMBLE_RETURN_IF_ERROR(settle(
        row_candidates, nullptr,
        [&](size_t i) { return distinct.keys().key(i); },
        [&count](uint64_t) { ++count; },
        [&] { once.push_back(std::exchange(count, 0)); }));
    for (size_t i = 0; i < keys.size(); ++i) {
      out->push_back(once[distinct.number(i)]);
    }
    return Status::ok();
  }

  Status find_places(const KeyBuffer&,
                     std::vector<PlaceRange>*) const override {
    return no_order();
  }
  Status lower_bounds(const KeyBuffer&, std::vector<uint64_t>*) const override {
    return no_order();
  }
  Result<PlaceRange> find_range(const KeyRange&,
                                const RowReader*) const override {
    return no_order();
  }
  Status rows_at(std::span<const PlaceRange>,
                 std::vector<uint64_t>*) const override {
    return no_order();
  }

  // Equal keys are looked up once, because each of them may have all rows of
  // the file.
  Status check_rows(const KeyBuffer& keys, uint64_t first_row) const override {
    std::vector<uint64_t> order, rows;
    sort_keys(keys, &order);
    for (size_t i = 0; i < order.size(); ++i) {
      const ByteSpan key = keys.key(order[i]);
      if (i == 0 || compare_bytes(key, keys.key(order[i - 1])) != 0) {
        rows.clear();
        NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t all,
                                index_->find_first(key, SIZE_MAX, &rows));
      }
      const uint64_t row = first_row + order[i];
      if (std::binary_search(rows.begin(), rows.end(), row)) continue;
      return Status::corrupt("row " + std::to_string(row) +
                             ": the hash index does not find it by its key");
    }
    return Status::ok();
  }
  // The index has as many entries as the file has rows. If every row was found,
  // the index cannot have other entries.
  Status check_order() const override { return index_->check(); }

 private:
  static constexpr size_t kFirst = 8;
  // With more candidates than this, wanted columns are not read together with
  // the candidates' keys: the cache might drop the first columns before they
  // are used.
  static constexpr size_t kMostAhead = 16384;
  // Number of rows whose keys are in memory at a time.
  static constexpr size_t kStep = size_t{1} << 18;

  // If the file is not mapped, reads the key columns of candidates and the
  // `wanted` columns in one round.
  Status fetch(std::span<const uint64_t> rows, const RowReader* wanted) const {
    const OpenFile& file = row_keys_->rows().file();
    if (rows.empty() || file.file().mapped() != nullptr) return Status::ok();
    std::vector<RowRange> ranges;
    for (const uint64_t row : rows) {
      ranges.push_back({row, row + 1});
    }
    const RowReader* const readers[] = {&row_keys_->rows(), wanted};
    return fetch_rows({readers, wanted == nullptr ? 1u : 2u},
                      merge_ranges(std::move(ranges)));
  }
  static Status no_order() {
    return Status::not_found("a hash index does not order its keys");
  }

  static Status whole_keys_only() {
    return Status::not_found("a hash index finds whole keys only");
  }
  Status candidates(const KeyBuffer& keys, bool whole,
                    CandidateRows* out) const {
    return whole ? index_->find(keys, out) : whole_keys_only();
  }

  // Compares candidates with their keys. Calls `hit` for each row of probe i
  // whose key is key(i), and `next` after each probe. If `wanted` is not null,
  // the caller reads those columns of the rows afterwards.
  // REQUIRES: the probes are distinct, so that a row is a candidate of few
  // probes.
  template <class Key, class Hit, class Next>
  Status settle(const CandidateRows& row_candidates, const RowReader* wanted,
                const Key& key, const Hit& hit, const Next& next) const {
    const std::span<const uint64_t> rows(row_candidates.rows);
    if (wanted != nullptr && rows.size() <= kMostAhead) {
      NIMBLE_RETURN_IF_ERROR(fetch(rows, wanted));
    }
    KeyBuffer actual;  // keys of rows [begin, begin + actual.size())
    uint64_t at = 0, begin = 0;
    for (size_t i = 0; i < row_candidates.ends.size(); ++i) {
      for (; at < row_candidates.ends[i]; ++at) {
        if (at == begin + actual.size()) {
          begin = at;
          NIMBLE_RETURN_IF_ERROR(row_keys_->read(
              rows.subspan(at, std::min(kStep, rows.size() - at)), &actual));
        }
        if (compare_bytes(actual.key(at - begin), key(i)) == 0) {
          hit(rows[at]);
        }
      }
      next();
    }
    return Status::ok();
  }

  std::unique_ptr<const HashIndex> index_;
  std::unique_ptr<const RowKeys> row_keys_;
  KeyEncoder encoder_;
};

}  // namespace

Result<std::unique_ptr<const IndexLookup>> open_hash_lookup(
    const OpenFile& file, const SecondaryIndexRef& ref,
    std::vector<uint8_t> root, KeyEncoder encoder) {
  NIMBLE_ASSIGN_OR_RETURN(auto index, HashIndex::open(file, std::move(root)));
  NIMBLE_ASSIGN_OR_RETURN(auto row_keys, RowKeys::create(file, ref.columns));
  return std::unique_ptr<const IndexLookup>(std::make_unique<HashLookup>(
      std::move(index), std::move(row_keys), std::move(encoder)));
}

}  // namespace nimble
