#include "nimble/key/key_encoder.h"

#include "key/nasty_columns.h"
#include "nimble/key/key_decoder.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr SortOrder kEveryOrder[] = {
    {false, false}, {false, true}, {true, false}, {true, true}};

int sign(int v) { return v < 0 ? -1 : v > 0 ? 1 : 0; }

struct Rows {
  std::vector<Cells> columns;
  std::unique_ptr<TestArray> array;
};

Rows make_rows(const std::vector<std::string>& formats, size_t n, int nulls,
               std::mt19937_64* rng) {
  Rows out;
  std::vector<std::unique_ptr<TestArray>> leaves;
  for (const std::string& f : formats) {
    out.columns.push_back(random_cells(f, n, nulls, rng));
    leaves.push_back(TestArray::leaf("c" + std::to_string(leaves.size()), f,
                                     out.columns.back()));
  }
  out.array = batch(std::move(leaves), n);
  return out;
}

KeyEncoder make_encoder(const Field& root,
                        const std::vector<SortOrder>& orders) {
  std::vector<KeyColumnSpec> specs;
  for (size_t i = 0; i < orders.size(); ++i) {
    specs.push_back({{static_cast<int>(i)}, orders[i]});
  }
  auto encoder = KeyEncoder::create(root, specs);
  REQUIRE(encoder.has_value());
  return *encoder;
}

KeyBuffer encode_all(const KeyEncoder& encoder, const TestArray& rows) {
  KeyBuffer keys;
  const ArrayView view = rows.view();
  REQUIRE(encoder.encode(view, 0, view.length(), &keys).is_ok());
  REQUIRE(keys.size() == static_cast<size_t>(view.length()));
  return keys;
}

void check_order(const Rows& rows, const KeyBuffer& keys,
                 const std::vector<SortOrder>& orders, std::mt19937_64* rng) {
  const size_t n = keys.size();
  for (int i = 0; i < 4000; ++i) {
    const size_t a = (*rng)() % n, b = (*rng)() % n;
    int want = 0;
    for (size_t c = 0; c < orders.size() && want == 0; ++c) {
      want = compare_cells(rows.array->field().children[c], orders[c],
                           rows.columns[c][a], rows.columns[c][b]);
    }
    CHECK_EQ(sign(compare_bytes(keys.key(a), keys.key(b))), want);
  }
}

void check_decode(const Rows& rows, const KeyEncoder& encoder,
                  const KeyBuffer& keys) {
  const KeyDecoder decoder(encoder);
  std::vector<DecodedColumn> out;
  REQUIRE(decoder.decode(keys, 0, keys.size(), &out).is_ok());
  for (size_t c = 0; c < out.size(); ++c) {
    const Field& f = rows.array->field().children[c];
    REQUIRE(out[c].size() == keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const Cell& cell = rows.columns[c][i];
      CHECK_EQ(out[c].validity[i] != 0, cell.has_value());
      if (!cell) continue;
      CHECK(as_string(out[c].value(encoder.columns()[c], i)) ==
            canonical(f, *cell));
    }
  }
}

TEST(KeyEncoder, OrderOfEveryType) {
  std::mt19937_64 rng(1);
  for (const std::string& format : key_formats()) {
    for (const SortOrder order : kEveryOrder) {
      for (const int nulls : {0, 15}) {
        const int before = failures;
        const Rows rows = make_rows({format}, 1300, nulls, &rng);
        const KeyEncoder encoder = make_encoder(rows.array->field(), {order});
        const KeyBuffer keys = encode_all(encoder, *rows.array);
        check_order(rows, keys, {order}, &rng);
        check_decode(rows, encoder, keys);
        if (failures > before)
          return fail(format.c_str(), nulls, "in this type");
      }
    }
  }
}

TEST(KeyEncoder, OrderOfTuples) {
  std::mt19937_64 rng(2);
  const auto& formats = key_formats();
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> chosen;
    std::vector<SortOrder> orders;
    for (size_t c = 0; c < 2 + rng() % 3; ++c) {
      chosen.push_back(formats[rng() % formats.size()]);
      orders.push_back(kEveryOrder[rng() % 4]);
    }
    const Rows rows = make_rows(chosen, 200, 20, &rng);
    const KeyEncoder encoder = make_encoder(rows.array->field(), orders);
    const KeyBuffer keys = encode_all(encoder, *rows.array);
    check_order(rows, keys, orders, &rng);
    check_decode(rows, encoder, keys);
    // Keys of the leading columns are prefixes.
    const KeyBuffer leading = encode_all(encoder.leading(1), *rows.array);
    for (size_t i = 0; i < keys.size(); ++i) {
      const ByteSpan whole = keys.key(i), part = leading.key(i);
      CHECK(shared_prefix(whole, part) == part.size());
    }
  }
}

TEST(KeyEncoder, BatchesAndSlicesAppend) {
  std::mt19937_64 rng(3);
  const Rows rows = make_rows({"l", "u"}, 3000, 10, &rng);
  const KeyEncoder encoder =
      make_encoder(rows.array->field(), {{}, {true, true}});
  const KeyBuffer whole = encode_all(encoder, *rows.array);
  KeyBuffer pieces;
  const ArrayView view = rows.array->view();
  for (int64_t at = 0; at < 3000;) {
    const int64_t n =
        std::min<int64_t>(3000 - at, static_cast<int64_t>(rng() % 1500));
    CHECK(encoder.encode(view, at, n, &pieces).is_ok());
    at += n;
  }
  REQUIRE(pieces.num_bytes() == whole.num_bytes());
  CHECK(std::memcmp(pieces.data(), whole.data(), whole.num_bytes()) == 0);
  CHECK(!encoder.encode(view, 2999, 2, &pieces).is_ok());
  CHECK(!encoder.encode(view, -1, 1, &pieces).is_ok());
}

TEST(KeyEncoder, DictionariesEncodeTheirValues) {
  for (const char* format : {"u", "g", "b"}) {
    const Cells values =
        format[0] == 'u' ? Cells{Cell("b"), Cell(), Cell("a")}
        : format[0] == 'g'
            ? Cells{Cell(raw(-0.0)), Cell(), Cell(raw(1.5))}
            : Cells{Cell(raw(uint8_t{1})), Cell(), Cell(raw(uint8_t{0}))};
    const std::vector<std::optional<int32_t>> codes = {2, 0, {}, 1, 0};
    Cells plain;
    for (const auto& c : codes)
      plain.push_back(c ? values[static_cast<size_t>(*c)] : Cell());
    std::vector<std::unique_ptr<TestArray>> a, b;
    a.push_back(
        TestArray::dictionary("d", codes, TestArray::leaf("", format, values)));
    b.push_back(TestArray::leaf("d", format, plain));
    const auto coded = batch(std::move(a), 5), flat = batch(std::move(b), 5);
    const KeyEncoder encoder = make_encoder(coded->field(), {{true, false}});
    const KeyBuffer x = encode_all(encoder, *coded),
                    y = encode_all(encoder, *flat);
    for (size_t i = 0; i < 5; ++i)
      CHECK_EQ(key_hex(x.key(i)), key_hex(y.key(i)));
  }
}

TEST(KeyEncoder, CodeOutsideItsDictionary) {
  std::vector<std::unique_ptr<TestArray>> columns;
  columns.push_back(TestArray::dictionary(
      "d", {0, 2}, TestArray::leaf("", "u", {Cell("a"), Cell("b")})));
  const auto rows = batch(std::move(columns), 2);
  const KeyEncoder encoder = make_encoder(rows->field(), {{}});
  KeyBuffer keys;
  const Status s = encoder.encode(rows->view(), 0, 2, &keys);
  CHECK(s.code() == StatusCode::kInvalidArgument);
  CHECK(s.message().find("'d'") != std::string_view::npos);
}

TEST(KeyEncoder, StructLeavesAreNullBelowNullAncestors) {
  std::vector<std::unique_ptr<TestArray>> inner, outer, columns;
  inner.push_back(TestArray::leaf("other", "i", Cells(9, raw(1))));
  inner.push_back(TestArray::leaf(
      "x", "s",
      {Cell(raw(int16_t{9})), Cell(raw(int16_t{8})), Cell(raw(int16_t{7})),
       Cell(raw(int16_t{1})), Cell(), Cell(raw(int16_t{3})),
       Cell(raw(int16_t{4})), Cell(raw(int16_t{5})), Cell(raw(int16_t{6}))}));
  // Two junk rows in the inner struct, one more in the outer one.
  outer.push_back(
      TestArray::structure("in", std::move(inner), 7,
                           {true, true, true, true, false, true, true}, 2));
  columns.push_back(TestArray::structure(
      "out", std::move(outer), 6, {true, true, true, true, false, true}, 1));
  const auto rows = batch(std::move(columns), 6);
  auto encoder = KeyEncoder::create(rows->field(), {{{0, 0, 1}, {}}});
  REQUIRE(encoder.has_value());
  CHECK_EQ(encoder->columns()[0].name, std::string("out.in.x"));
  const KeyBuffer keys = encode_all(*encoder, *rows);
  // Rows 0..5 of the root are values 1, null, 3 (in: row 3), ... of x.
  const char* want[] = {"008001", "010000", "008003",
                        "010000", "010000", "008006"};
  for (size_t i = 0; i < 6; ++i)
    CHECK_EQ(key_hex(keys.key(i)), std::string(want[i]));
}

TEST(KeyEncoder, RefusesWhatHasNoOrder) {
  std::vector<std::unique_ptr<TestArray>> deep, columns;
  deep.push_back(TestArray::leaf("when", "tiM", {Cell(raw(1))}));
  columns.push_back(TestArray::structure("s", std::move(deep), 1));
  columns.push_back(TestArray::leaf("k", "i", {Cell(raw(1))}));
  const auto rows = batch(std::move(columns), 1);
  const auto refused = KeyEncoder::create(rows->field(), {{{0, 0}, {}}});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::kUnsupported);
  CHECK(refused.error().message().find("'s.when' of type month_interval") !=
        std::string_view::npos);
  CHECK(!KeyEncoder::create(rows->field(), {{{0}, {}}}).has_value());
  CHECK(!KeyEncoder::create(rows->field(), {{{2}, {}}}).has_value());
  CHECK(!KeyEncoder::create(rows->field(), {{{1, 0}, {}}}).has_value());
  CHECK(!KeyEncoder::create(rows->field(), {{{}, {}}}).has_value());
  CHECK(!KeyEncoder::create(rows->field(), {}).has_value());
  CHECK(!KeyEncoder::create(rows->field(), {{{1}, {}}, {{1}, {}}}).has_value());
}

}  // namespace
}  // namespace nimble::testing
