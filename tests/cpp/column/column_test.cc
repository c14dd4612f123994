// Column: rows in and out of Arrow, for every layout, against the rows as text.
#include "nimble/column/column.h"

#include <algorithm>
#include <numeric>

#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

// A column with its dictionaries. `finished` moves them into the column.
struct Growing {
  explicit Growing(const Field& f, bool wide = true) : column(f, wide) {
    attach_dictionaries(&column, &dictionaries);
  }
  static void adopt(Column* c) {
    if (c->mapper != nullptr) {
      c->dictionary = {std::shared_ptr<const void>(), c->mapper};
    }
    for (Column& child : c->children) adopt(&child);
  }
  Texts texts() {
    adopt(&column);
    return texts_of(std::move(column));
  }

  DictionaryList dictionaries;
  Column column;
};

Texts part(const Texts& all, const std::vector<uint64_t>& rows) {
  Texts out;
  for (const uint64_t r : rows) out.push_back(all[r]);
  return out;
}

TEST(Column, AppendsInPiecesComeBack) {
  Rng rng(8);
  for (const Field& f : every_field()) {
    for (const bool wide : {false, true}) {
      const RandomArray array(f, 200, &rng);
      const ArrayView view = array.view();
      const Texts all = row_texts(view);
      Growing g(f, wide);
      Texts want;
      for (int piece = 0; piece < 12; ++piece) {
        const auto begin = static_cast<int64_t>(rng() % 201);
        const auto count = static_cast<int64_t>(rng() % (201 - begin));
        CHECK(g.column.append(view, begin, count, "x"));
        want.insert(want.end(), all.begin() + begin,
                    all.begin() + begin + count);
      }
      CHECK_EQ(g.column.length(), want.size());
      CHECK(g.texts() == want);
    }
  }
}

TEST(Column, BatchesWithOtherOffsetsAndDictionaries) {
  Rng rng(9);
  for (const Field& f : every_field()) {
    Growing g(f);
    Texts want;
    for (int batch = 0; batch < 6; ++batch) {
      const RandomArray array(f, static_cast<int64_t>(rng() % 40), &rng);
      CHECK(g.column.append(array.view(), 0, array.view().length(), "x"));
      for (std::string& s : row_texts(array.view()))
        want.push_back(std::move(s));
    }
    CHECK(g.texts() == want);
  }
}

TEST(Column, RowsInAnyOrder) {
  Rng rng(10);
  for (const Field& f : every_field()) {
    const RandomArray array(f, 150, &rng);
    const Texts all = row_texts(array.view());
    Growing source(f);
    CHECK(source.column.append(array.view(), 0, 150, "x"));
    Growing::adopt(&source.column);
    Column out(f, rng() % 2 == 0);
    Texts want;
    for (int piece = 0; piece < 5; ++piece) {
      std::vector<uint64_t> rows(rng() % 100);
      for (uint64_t& r : rows) r = rng() % 150;
      if (piece == 2) {  // all of them
        rows.resize(150);
        std::iota(rows.begin(), rows.end(), uint64_t{0});
      }
      out.append_rows(source.column, rows.data(), rows.size());
      for (std::string& s : part(all, rows)) want.push_back(std::move(s));
    }
    CHECK(texts_of(std::move(out)) == want);
  }
}

TEST(Column, ClearedColumnsStartAnew) {
  Rng rng(11);
  for (const Field& f : every_field()) {
    const RandomArray array(f, 100, &rng);
    const Texts all = row_texts(array.view());
    Growing g(f);
    CHECK(g.column.append(array.view(), 0, 100, "x"));
    g.column.clear();
    CHECK_EQ(g.column.length(), 0);
    CHECK_EQ(g.column.null_count(), 0);
    CHECK(g.column.append(array.view(), 40, 50, "x"));
    CHECK(g.texts() == Texts(all.begin() + 40, all.begin() + 90));
  }
}

TEST(Column, EmptyColumnsAreArraysToo) {
  for (const Field& f : every_field()) {
    CHECK(texts_of(Column(f, false)).empty());
    CHECK(texts_of(Column(f, true)).empty());
  }
}

TEST(Column, RunsOfRowsAreNotConfusedWithAppendedOnes) {
  // append_rows() in between ends the previous run.
  Field ends = make_field("i", {}, "run_ends");
  ends.flags = 0;
  const Field f = make_field("+r", {ends, make_field("C")});
  Rng rng(12);
  const RandomArray array(f, 50, &rng);
  const Texts all = row_texts(array.view());
  Growing other(f);
  CHECK(other.column.append(array.view(), 0, 50, "x"));
  Growing g(f);
  Texts want;
  for (int round = 0; round < 40; ++round) {
    const uint64_t a = rng() % 50, b = rng() % 50;
    CHECK(g.column.append(array.view(), static_cast<int64_t>(a), 1, "x"));
    g.column.append_rows(other.column, &b, 1);
    want.push_back(all[a]);
    want.push_back(all[b]);
  }
  CHECK(g.texts() == want);
}

TEST(Column, NullSlotsRepeatTheValueBefore) {
  const uint8_t validity[] = {0b00100110};
  const int32_t values[] = {99, 1, 2, 98, 97, 3};
  const void* buffers[] = {validity, values};
  ArrowArray a{};
  a.length = 6;
  a.null_count = -1;
  a.n_buffers = 2;
  a.buffers = buffers;
  const Field f = make_field("i");
  const auto view = ArrayView::open(f, a, "x");
  REQUIRE(view.has_value());
  Column c(f, true);
  CHECK(c.append(*view, 0, 4, "x"));
  CHECK(c.append(*view, 4, 2, "x"));
  const int32_t want[] = {0, 1, 2, 2, 2, 3};
  for (int i = 0; i < 6; ++i) CHECK_EQ(c.values.as<int32_t>()[i], want[i]);
  CHECK_EQ(c.null_count(), 3);
}

TEST(Column, BadArraysAreRefusedWithTheirRow) {
  // Arrow's own rules are trusted, but errors that would be stored in the file
  // are not.
  const int32_t codes[] = {0, 1, 5};
  const void* buffers[] = {nullptr, codes};
  ArrowArray values{};
  const void* value_buffers[] = {nullptr, codes};
  values.length = 3;
  values.n_buffers = 2;
  values.buffers = value_buffers;
  ArrowArray a{};
  a.length = 3;
  a.n_buffers = 2;
  a.buffers = buffers;
  a.dictionary = &values;
  const Field f = make_dictionary("i", make_field("i"));
  const auto view = ArrayView::open(f, a, "x");
  REQUIRE(view.has_value());
  Growing g(f);
  CHECK(g.column.append(*view, 0, 2, "some.path"));
  const Status status = g.column.append(*view, 2, 1, "some.path");
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("some.path") != std::string_view::npos);
  CHECK(status.message().find("code 5") != std::string_view::npos);
}

}  // namespace
}  // namespace nimble
