#include "nimble/lookup/hash_lookup.h"

#include <algorithm>

#include "nimble/base/scratch.h"
#include "nimble/key/key_sort.h"
#include "nimble/lookup/hash_index.h"
#include "nimble/lookup/row_keys.h"

namespace nimble {
namespace {

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
    CandidateRows found;
    NIMBLE_RETURN_IF_ERROR(candidates(keys, whole, &found));
    uint64_t at = 0;
    for (const uint64_t end : found.ends) {
      for (; at < end; ++at) out->add(found.rows[at]);
      out->finish_key();
    }
    return Status::ok();
  }

  // Candidates ascend, so the first one with the key is the answer. Only a few
  // are asked for at first: of a key with many rows the first one mostly is it.
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
    return settle(
        keys, whole, wanted, [out](uint64_t row) { out->add(row); },
        [out] { out->finish_key(); });
  }

  Status count(const KeyBuffer& keys, bool whole,
               std::vector<uint64_t>* out) const override {
    uint64_t count = 0;
    return settle(
        keys, whole, nullptr, [&count](uint64_t) { ++count; },
        [&count, out] {
          out->push_back(count);
          count = 0;
        });
  }

  Status find_places(const KeyBuffer&,
                     std::vector<PlaceRange>*) const override {
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

  // Equal keys are looked up once: the rows of each may be all of the file.
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
                             ": the hash index does not lead to it");
    }
    return Status::ok();
  }
  // Entry count equals row count, so finding every row proves that there are no
  // extras.
  Status check_order() const override { return index_->check(); }

 private:
  static constexpr size_t kFirst = 8;
  // More candidates than this are not read together with wanted columns: the
  // cache might have dropped the first ones before they are used.
  static constexpr size_t kMostAhead = 16384;

  // Of a file that is not mapped: reads the key columns of candidates, and the
  // `wanted` columns, in one round.
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
    return Status::not_found("a hash index has no order");
  }

  Status candidates(const KeyBuffer& keys, bool whole,
                    CandidateRows* out) const {
    if (!whole)
      return Status::not_found("a hash index answers whole keys only");
    return index_->find(keys, out);
  }

  // Calls `hit` with each row that has a probe's key, `next` behind a probe.
  // `wanted`: reads the rows afterwards.
  template <class Hit, class Next>
  Status settle(const KeyBuffer& keys, bool whole, const RowReader* wanted,
                const Hit& hit, const Next& next) const {
    CandidateRows found;
    NIMBLE_RETURN_IF_ERROR(candidates(keys, whole, &found));
    if (wanted != nullptr && found.rows.size() <= kMostAhead) {
      NIMBLE_RETURN_IF_ERROR(fetch(found.rows, wanted));
    }
    KeyBuffer actual;
    NIMBLE_RETURN_IF_ERROR(row_keys_->read(found.rows, &actual));
    uint64_t at = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      for (; at < found.ends[i]; ++at) {
        if (compare_bytes(actual.key(at), keys.key(i)) == 0)
          hit(found.rows[at]);
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
