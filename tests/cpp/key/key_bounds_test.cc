#include "nimble/key/key_bounds.h"

#include "key/nasty_columns.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr SortOrder kOrders[] = {
    {false, false}, {false, true}, {true, false}, {true, true}};

ByteBuffer to_bytes(std::string_view s) {
  ByteBuffer b;
  b.put_bytes(as_bytes(s));
  return b;
}

TEST(KeyBounds, Successor) {
  const auto next = [](std::string_view s) {
    ByteBuffer b = to_bytes(s);
    return successor(&b) ? key_hex(b.span()) : std::string("none");
  };
  CHECK_EQ(next("a"), std::string("62"));
  CHECK_EQ(next("a\xff"), std::string("62"));
  CHECK_EQ(next("a\xff\xff"), std::string("62"));
  CHECK_EQ(next("\xff"
                "a"),
           std::string("ff62"));
  CHECK_EQ(next("\xff\xff"), std::string("none"));
  CHECK_EQ(next(""), std::string("none"));
}

KeyScalar scalar_of(const Field& f, const Cell& cell) {
  if (!cell) return KeyScalar::null();
  const std::string& c = *cell;
  if (is_bytes_format(f)) return KeyScalar::from_bytes(as_bytes(c));
  if (f.logical == Logical::kBool) return KeyScalar::from_bool(c[0] != 0);
  if (f.logical == Logical::kFloat) return KeyScalar::from_double(to_double(c));
  std::array<uint8_t, 32> wide;
  wide.fill(f.is_signed && c.back() < 0 ? 0xff : 0);
  std::memcpy(wide.data(), c.data(), c.size());
  return KeyScalar::from_wide(wide);
}

struct Table {
  std::vector<Cells> columns;
  std::unique_ptr<TestArray> array;
  std::vector<SortOrder> orders;
  std::optional<KeyEncoder> encoder;
  KeyBuffer keys;

  Table(const std::vector<std::string>& formats, std::vector<SortOrder> o,
        size_t rows, std::mt19937_64* rng)
      : orders(std::move(o)) {
    std::vector<std::unique_ptr<TestArray>> leaves;
    std::vector<KeyColumnSpec> specs;
    for (size_t c = 0; c < formats.size(); ++c) {
      columns.push_back(random_cells(formats[c], rows, 20, rng));
      leaves.push_back(
          TestArray::leaf("c" + std::to_string(c), formats[c], columns.back()));
      specs.push_back({{static_cast<int>(c)}, orders[c]});
    }
    array = batch(std::move(leaves), rows);
    auto made = KeyEncoder::create(array->field(), specs);
    REQUIRE(made.has_value());
    encoder = *made;
    REQUIRE(encoder->encode(array->view(), 0, static_cast<int64_t>(rows), &keys)
                .is_ok());
  }
  const Field& field(size_t c) const { return array->field().children[c]; }
  // The first k values of a row as a bound.
  std::vector<KeyScalar> tuple(size_t row, size_t k) const {
    std::vector<KeyScalar> out;
    for (size_t c = 0; c < k; ++c)
      out.push_back(scalar_of(field(c), columns[c][row]));
    return out;
  }
  // Compares row a with the first k values of row b.
  int compare(size_t a, size_t b, size_t k) const {
    int r = 0;
    for (size_t c = 0; c < k && r == 0; ++c) {
      r = compare_cells(field(c), orders[c], columns[c][a], columns[c][b]);
    }
    return r;
  }
};

std::vector<std::string> random_formats(size_t n, std::mt19937_64* rng) {
  std::vector<std::string> out;
  while (out.size() < n)
    out.push_back(key_formats()[(*rng)() % key_formats().size()]);
  return out;
}

TEST(KeyBounds, EqualAndKeyOrderRanges) {
  std::mt19937_64 rng(21);
  for (int round = 0; round < 80; ++round) {
    const Table t(random_formats(3, &rng),
                  {kOrders[rng() % 4], kOrders[rng() % 4], kOrders[rng() % 4]},
                  60, &rng);
    for (int i = 0; i < 20; ++i) {
      const size_t a = rng() % 60, b = rng() % 60, ka = rng() % 4,
                   kb = rng() % 4;
      const bool in_a = rng() % 2, in_b = rng() % 2;
      const auto equal = equal_range(*t.encoder, t.tuple(a, ka));
      const auto between = key_order_range(*t.encoder, {t.tuple(a, ka), in_a},
                                           {t.tuple(b, kb), in_b});
      REQUIRE(equal.has_value());
      REQUIRE(between.has_value());
      bool any = false;
      for (size_t r = 0; r < 60; ++r) {
        CHECK_EQ(equal->contains(t.keys.key(r)), t.compare(r, a, ka) == 0);
        const int low = t.compare(r, a, ka), high = t.compare(r, b, kb);
        const bool want = (ka == 0 || low > 0 || (low == 0 && in_a)) &&
                          (kb == 0 || high < 0 || (high == 0 && in_b));
        CHECK_EQ(between->contains(t.keys.key(r)), want);
        any |= want;
      }
      if (any) CHECK(!between->empty());
    }
  }
}

TEST(KeyBounds, ValueRangeOfOneColumn) {
  std::mt19937_64 rng(22);
  for (const std::string& format : key_formats()) {
    for (const SortOrder order : kOrders) {
      const Table t({format, "i"}, {order, {}}, 60, &rng);
      for (int i = 0; i < 30; ++i) {
        const size_t a = rng() % 60, b = rng() % 60;
        if (!t.columns[0][a] || !t.columns[0][b]) continue;
        KeyBound low{t.tuple(a, rng() % 4 != 0), rng() % 2 == 0};
        KeyBound high{t.tuple(b, rng() % 4 != 0), rng() % 2 == 0};
        const bool nulls = rng() % 2;
        const auto range = value_range(*t.encoder, low, high, nulls);
        REQUIRE(range.has_value());
        for (size_t r = 0; r < 60; ++r) {
          const Cell& cell = t.columns[0][r];
          const bool no_low = low.values.empty(), no_high = high.values.empty();
          bool want = no_low && no_high;
          if (cell && !want) {
            const int x =
                no_low ? 1
                       : compare_values(t.field(0), *cell, *t.columns[0][a]);
            const int y =
                no_high ? -1
                        : compare_values(t.field(0), *cell, *t.columns[0][b]);
            want = (x > 0 || (x == 0 && low.inclusive)) &&
                   (y < 0 || (y == 0 && high.inclusive));
          } else if (!cell && nulls) {
            // Nulls are at one end of the order, so they are in the range if
            // that end is open.
            want = order.nulls_first != order.descending ? no_low : no_high;
          }
          CHECK_EQ(range->contains(t.keys.key(r)), want);
        }
      }
    }
  }
}

TEST(KeyBounds, ValueRangeBelowEqualColumns) {
  // (a ascending, t descending): a = 1 and 10 <= t < 30.
  std::mt19937_64 rng(1);
  const Table t({"i", "l"}, {{}, {true, false}}, 1, &rng);
  const auto bound = [](int64_t a, int64_t v) {
    return std::vector<KeyScalar>{KeyScalar::from_int(a),
                                  KeyScalar::from_int(v)};
  };
  const auto range =
      value_range(*t.encoder, {bound(1, 10), true}, {bound(1, 30), false});
  REQUIRE(range.has_value());
  const auto holds = [&](int64_t a, int64_t v) {
    ByteBuffer key;
    REQUIRE(t.encoder->encode_tuple(bound(a, v), &key).is_ok());
    return range->contains(key.span());
  };
  CHECK(holds(1, 10));
  CHECK(holds(1, 29));
  CHECK(!holds(1, 30));
  CHECK(!holds(1, 9));
  CHECK(!holds(2, 20));
  // Different values of a: rows between the bounds are not contiguous.
  CHECK(!value_range(*t.encoder, {bound(1, 10), true}, {bound(2, 30), false})
             .has_value());
  CHECK(!value_range(*t.encoder, {bound(1, 10), true}, {}).has_value());
  // A bound that is a whole prefix: a = 1 and t >= 10, without null t.
  const KeyBound whole{{KeyScalar::from_int(1)}, true};
  const auto open = value_range(*t.encoder, {bound(1, 10), true}, whole);
  REQUIRE(open.has_value());
  ByteBuffer null_key;
  REQUIRE(
      t.encoder
          ->encode_tuple(std::vector{KeyScalar::from_int(1), KeyScalar::null()},
                         &null_key)
          .is_ok());
  CHECK(!open->contains(null_key.span()));
  const auto with_nulls =
      value_range(*t.encoder, whole, {bound(1, 10), true}, true);
  REQUIRE(with_nulls.has_value());
  CHECK(with_nulls->contains(null_key.span()));
}

TEST(KeyBounds, StartsWith) {
  std::mt19937_64 rng(23);
  for (const char* format : {"u", "z", "vu", "w:5"}) {
    for (const SortOrder order : kOrders) {
      const Table t({"C", format}, {kOrders[rng() % 4], order}, 80, &rng);
      for (int i = 0; i < 40; ++i) {
        const size_t a = rng() % 80;
        if (!t.columns[1][a]) continue;
        const std::string& whole = *t.columns[1][a];
        const std::string start = whole.substr(0, rng() % (whole.size() + 1));
        std::vector<KeyScalar> tuple = t.tuple(a, 1);
        tuple.push_back(KeyScalar::from_bytes(as_bytes(start)));
        const auto range = equal_range(*t.encoder, tuple, true);
        REQUIRE(range.has_value());
        for (size_t r = 0; r < 80; ++r) {
          const bool want = t.compare(r, a, 1) == 0 && t.columns[1][r] &&
                            t.columns[1][r]->starts_with(start);
          CHECK_EQ(range->contains(t.keys.key(r)), want);
        }
      }
    }
  }
}

TEST(KeyBounds, ValuesThatTheColumnCannotHold) {
  std::mt19937_64 rng(24);
  for (const SortOrder order : kOrders) {
    const Table t({"c", "i"}, {order, {}}, 50, &rng);
    const auto at = [](int64_t v) {
      return std::vector<KeyScalar>{KeyScalar::from_int(v)};
    };
    CHECK(equal_range(*t.encoder, at(300))->empty());
    CHECK(equal_range(*t.encoder, at(-300))->empty());
    for (const bool inclusive : {false, true}) {
      const auto all =
          value_range(*t.encoder, {at(-300), inclusive}, {at(300), inclusive});
      const auto above = value_range(*t.encoder, {at(300), inclusive}, {});
      const auto below = value_range(*t.encoder, {}, {at(-300), inclusive});
      for (size_t r = 0; r < 50; ++r) {
        CHECK_EQ(all->contains(t.keys.key(r)), t.columns[0][r].has_value());
        CHECK(!above->contains(t.keys.key(r)));
        CHECK(!below->contains(t.keys.key(r)));
      }
    }
    CHECK(!equal_range(*t.encoder, std::vector{KeyScalar::from_double(1)})
               .has_value());
    CHECK(!key_order_range(*t.encoder,
                           {{KeyScalar{}, KeyScalar{}, KeyScalar{}}, true}, {})
               .has_value());
    CHECK(!value_range(*t.encoder,
                       {{KeyScalar{}, KeyScalar{}, KeyScalar{}}, true}, {})
               .has_value());
    CHECK(!equal_range(*t.encoder, at(1), true).has_value());
  }
}

TEST(KeyBounds, NothingAndEverything) {
  CHECK(KeyRange::none().empty());
  CHECK(!KeyRange::none().contains(as_bytes("")));
  CHECK(!KeyRange::all().empty());
  CHECK(KeyRange::all().contains(as_bytes("\xff")));
  CHECK(prefix_range(as_bytes("\xff")).contains(as_bytes("\xff\xff")));
  CHECK(!prefix_range(as_bytes("b")).contains(as_bytes("c")));
}

}  // namespace
}  // namespace nimble::testing
