// As-of searches against a loop over all rows: both directions, equal rows,
// deleted rows, several files, mapped and other files.
#include "nimble/asof/asof_search.h"

#include <algorithm>

#include "nimble/lookup/open_index.h"
#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

// A sorted int64 column with runs of equal values.
struct Times {
  explicit Times(std::vector<int64_t> sorted)
      : field(struct_of({make_field("l")})), values(std::move(sorted)) {
    leaf.length = root.length = static_cast<int64_t>(values.size());
    leaf.n_buffers = 2;
    leaf.buffers = leaf_buffers;
    root.n_buffers = 1;
    root.buffers = root_buffers;
    root.n_children = 1;
    root.children = &child;
    leaf_buffers[1] = values.data();
  }
  ArrayView view() const { return *ArrayView::open(field, root, ""); }

  Field field;
  std::vector<int64_t> values;
  const void* leaf_buffers[2] = {nullptr, nullptr};
  const void* root_buffers[1] = {nullptr};
  ArrowArray leaf{}, root{};
  ArrowArray* child = &leaf;
};

WriterOptions tiny(bool descending) {
  WriterOptions o;
  o.stripe_rows = 64;
  o.group_rows = 200;
  o.key_chunk_rows = 16;
  o.restart_interval = 4;
  o.cluster_by = {{{0}, {descending, false}}};
  return o;
}

std::vector<int64_t> random_times(size_t count, bool descending, Rng* rng) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int64_t>((*rng)() % (count / 2)) * 3);
  }
  std::sort(out.begin(), out.end());
  if (descending) std::reverse(out.begin(), out.end());
  return out;
}

struct Query {
  int64_t at = 0;
  bool backward = true;
  bool exclusive = false;
};

// The row of a query, by a look at every row.
uint64_t expected(const std::vector<int64_t>& values, const RowBitmap& deleted,
                  const Query& q) {
  uint64_t best = kNoRow;
  for (uint64_t row = 0; row < values.size(); ++row) {
    const int64_t v = values[row];
    if (deleted.contains(row) || (q.exclusive && v == q.at)) continue;
    if (q.backward ? v > q.at : v < q.at) continue;
    const bool is_nearer =
        best == kNoRow || (q.backward ? v >= values[best] : v < values[best]);
    if (is_nearer) best = row;
  }
  return best;
}

AsofFile asof_file(const Reader& file, const IndexLookup& index,
                   const RowBitmap* deleted) {
  return {&*file, &index, true, &file->footer().cluster->columns, deleted};
}

KeyBuffer keys_at(const KeyEncoder& encoder, const std::vector<int64_t>& at) {
  KeyBuffer keys(encoder.fixed_width());
  for (const int64_t v : at) {
    ByteBuffer key;
    const KeyScalar value = KeyScalar::from_int(v);
    CHECK(encoder.encode_tuple({&value, 1}, &key));
    keys.push_back(key.span());
  }
  return keys;
}

TEST(AsofSearch, OneFileWithDeletedRows) {
  Rng rng(51);
  for (const bool descending : {false, true}) {
    const Times rows(random_times(900, descending, &rng));
    const Bytes bytes = write_file(rows.view(), tiny(descending));
    std::vector<uint64_t> gone;
    for (uint64_t row = 0; row < rows.values.size(); ++row) {
      if (rng() % 3 == 0 || (row > 300 && row < 600)) gone.push_back(row);
    }
    for (const RowBitmap& deleted : {RowBitmap(), RowBitmap(gone)})
      for (const Reader& file :
           {open_mapped(bytes),
            open_file(std::make_shared<CountingFile>(bytes))}) {
        const auto index = open_cluster_lookup(file->cluster());
        const AsofFile asof =
            asof_file(file, *index, deleted.empty() ? nullptr : &deleted);
        std::vector<int64_t> at;
        for (int i = 0; i < 300; ++i) {
          at.push_back(static_cast<int64_t>(rng() % 1400) - 20);
        }
        const KeyBuffer keys = keys_at(*file->encoder(), at);
        std::vector<uint8_t> exclusive(at.size());
        for (uint8_t& flag : exclusive) flag = rng() % 2;
        for (const bool backward : {false, true}) {
          AsofSearch search(*file->encoder(), keys, exclusive, nullptr,
                            backward);
          CHECK(search.search(7, asof, std::nullopt, search.wanted({}), true));
          const AsofFinder finder(asof, 1, backward);
          for (size_t i = 0; i < at.size(); ++i) {
            const uint64_t want = expected(
                rows.values, deleted, {at[i], backward, exclusive[i] != 0});
            const AsofSearch::Match& match = search.matches()[i];
            CHECK_EQ(match.file, want == kNoRow ? -1 : 7);
            if (want != kNoRow) CHECK_EQ(match.row, want);
            const auto one = finder.find_one(keys.key(i), keys.key(i).first(1),
                                             exclusive[i] != 0, nullptr);
            REQUIRE(one.has_value());
            CHECK_EQ(one->value_or(kNoRow), want);
          }
        }
      }
  }
}

TEST(AsofSearch, ManyFilesWithBounds) {
  Rng rng(52);
  std::vector<Times> rows;
  std::vector<Reader> files;
  rows.reserve(5);
  for (int i = 0; i < 5; ++i) {
    rows.emplace_back(random_times(40 + 60 * i, false, &rng));
    files.push_back(open_mapped(write_file(rows.back().view(), tiny(false))));
  }
  std::vector<int64_t> at;
  for (int i = 0; i < 200; ++i) at.push_back(static_cast<int64_t>(rng() % 500));
  const KeyEncoder& encoder = *files[0]->encoder();
  const KeyBuffer keys = keys_at(encoder, at);
  for (const bool backward : {false, true}) {
    AsofSearch search(encoder, keys, std::vector<uint8_t>(at.size()), nullptr,
                      backward);
    for (size_t f = 0; f < files.size(); ++f) {
      const KeyBuffer ends =
          keys_at(encoder, {rows[f].values.front(), rows[f].values.back()});
      const std::vector<uint64_t> wanted =
          search.wanted({ends.key(0), ends.key(1), ends.key(0), ends.key(1)});
      const auto index = open_cluster_lookup(files[f]->cluster());
      CHECK(search.search(static_cast<int64_t>(f),
                          asof_file(files[f], *index, nullptr), std::nullopt,
                          wanted, false));
    }
    for (size_t i = 0; i < at.size(); ++i) {
      std::optional<int64_t> want;
      for (const Times& file : rows) {
        const uint64_t row =
            expected(file.values, {}, {at[i], backward, false});
        if (row == kNoRow) continue;
        const int64_t v = file.values[row];
        if (!want || (backward ? v > *want : v < *want)) want = v;
      }
      const AsofSearch::Match& match = search.matches()[i];
      CHECK_EQ(match.file >= 0, want.has_value());
      if (want) {
        CHECK_EQ(rows[static_cast<size_t>(match.file)].values[match.row],
                 *want);
      }
    }
  }
}

}  // namespace
}  // namespace nimble
