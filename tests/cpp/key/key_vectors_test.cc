// The bytes of keys, pinned: the vectors of docs/format/keys.md.
#include <cmath>

#include "key/nasty_columns.h"
#include "nimble/key/key_decoder.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr SortOrder kAsc{false, false}, kDesc{true, false},
    kNullsFirst{false, true};

struct Vector {
  const char* format;
  SortOrder order;
  Cell cell;
  KeyScalar scalar;
  const char* hex;
};

Vector i64(SortOrder o, int64_t v, const char* h) {
  return {"l", o, Cell(raw(v)), KeyScalar::from_int(v), h};
}
Vector i32(SortOrder o, int32_t v, const char* h) {
  return {"i", o, Cell(raw(v)), KeyScalar::from_int(v), h};
}
Vector f64(SortOrder o, double v, const char* h) {
  return {"g", o, Cell(raw(v)), KeyScalar::from_double(v), h};
}
Vector f32(SortOrder o, float v, const char* h) {
  return {"f", o, Cell(raw(v)), KeyScalar::from_double(static_cast<double>(v)),
          h};
}
Vector text(SortOrder o, std::string_view v, const char* h) {
  return {"u", o, Cell(std::string(v)), KeyScalar::from_bytes(as_bytes(v)), h};
}
Vector null(const char* format, SortOrder o, const char* h) {
  return {format, o, Cell(), KeyScalar::null(), h};
}

std::vector<Vector> vectors() {
  using namespace std::string_view_literals;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr float kInfF = std::numeric_limits<float>::infinity();
  const double nan = std::bit_cast<double>(uint64_t{0xfff0000000000123});
  std::array<uint8_t, 32> wide{};
  wide.fill(0xff);
  wide[0] = 0xfe;  // -2
  return {
      {"b", kAsc, Cell(raw(uint8_t{0})), KeyScalar::from_bool(false), "0001"},
      {"b", kAsc, Cell(raw(uint8_t{1})), KeyScalar::from_bool(true), "0002"},
      {"b", kDesc, Cell(raw(uint8_t{0})), KeyScalar::from_bool(false), "00fe"},
      {"b", kDesc, Cell(raw(uint8_t{1})), KeyScalar::from_bool(true), "00fd"},
      {"c", kAsc, Cell(raw(int8_t{-128})), KeyScalar::from_int(-128), "0000"},
      {"c", kAsc, Cell(raw(int8_t{-1})), KeyScalar::from_int(-1), "007f"},
      {"c", kAsc, Cell(raw(int8_t{127})), KeyScalar::from_int(127), "00ff"},
      {"c", kDesc, Cell(raw(int8_t{1})), KeyScalar::from_int(1), "007e"},
      {"C", kAsc, Cell(raw(uint8_t{200})), KeyScalar::from_int(200), "00c8"},
      {"s", kAsc, Cell(raw(int16_t{-32768})), KeyScalar::from_int(-32768),
       "000000"},
      {"s", kDesc, Cell(raw(int16_t{1})), KeyScalar::from_int(1), "007ffe"},
      {"L", kAsc, Cell(raw(~uint64_t{0})), KeyScalar::from_uint(~uint64_t{0}),
       "00ffffffffffffffff"},
      i32(kAsc, INT32_MIN, "0000000000"),
      i32(kAsc, -1, "007fffffff"),
      i32(kAsc, 0, "0080000000"),
      i32(kAsc, INT32_MAX, "00ffffffff"),
      i32(kDesc, 1, "007ffffffe"),
      {"tdD", kAsc, Cell(raw(19737)), KeyScalar::from_int(19737), "0080004d19"},
      i64(kAsc, INT64_MIN, "000000000000000000"),
      i64(kAsc, -1, "007fffffffffffffff"),
      i64(kAsc, 0, "008000000000000000"),
      i64(kAsc, 1, "008000000000000001"),
      i64(kAsc, 300, "00800000000000012c"),
      i64(kAsc, INT64_MAX, "00ffffffffffffffff"),
      i64(kDesc, 1, "007ffffffffffffffe"),
      i64(kNullsFirst, 0, "018000000000000000"),
      {"d:10,2,64", kAsc, Cell(raw(int64_t{12345})), KeyScalar::from_int(12345),
       "008000000000003039"},
      {"d:20,2", kAsc, Cell(raw_wide(12345, 16)), KeyScalar::from_int(12345),
       "0080000000000000000000000000003039"},
      {"d:20,2", kDesc, Cell(raw_wide(-2, 16)), KeyScalar::from_wide(wide),
       "0080000000000000000000000000000001"},
      f64(kAsc, -kInf, "00000fffffffffffff"),
      f64(kAsc, -1.0, "00400fffffffffffff"),
      f64(kAsc, -0.0, "008000000000000000"),
      f64(kAsc, 0.0, "008000000000000000"),
      f64(kAsc, 4.9406564584124654e-324, "008000000000000001"),
      f64(kAsc, 1.0, "00bff0000000000000"),
      f64(kAsc, 100.5, "00c059200000000000"),
      f64(kAsc, kInf, "00fff0000000000000"),
      f64(kAsc, nan, "00fff8000000000000"),
      f64(kDesc, 1.0, "00400fffffffffffff"),
      f64(kDesc, nan, "000007ffffffffffff"),
      f32(kAsc, -kInfF, "00007fffff"),
      f32(kAsc, -0.0f, "0080000000"),
      f32(kAsc, 100.5f, "00c2c90000"),
      f32(kAsc, std::nanf("1"), "00ffc00000"),
      f32(kDesc, 1.0f, "00407fffff"),
      {"e", kAsc, Cell(raw(uint16_t{0x3e00})), KeyScalar::from_double(1.5),
       "00be00"},
      {"e", kAsc, Cell(raw(uint16_t{0xfc01})), KeyScalar::from_double(nan),
       "00fe00"},
      text(kAsc, "", "0000"),
      text(kAsc, "a", "006100"),
      text(kAsc, "abc", "0061626300"),
      text(kAsc, "\0"sv, "00010000"),
      text(kAsc, "\x01", "00010100"),
      text(kAsc, "\0\x01\x02"sv, "00010001010200"),
      text(kAsc, "a\0b"sv, "006101006200"),
      text(kAsc, "\xff", "00ff00"),
      text(kAsc, "orange", "006f72616e676500"),
      text(kAsc, "0123456789abcdef\0"sv,
           "0030313233343536373839616263646566010000"),
      text(kDesc, "", "00ff"),
      text(kDesc, "abc", "009e9d9cff"),
      text(kDesc, "\0"sv, "00feffff"),
      {"w:3", kDesc, Cell(std::string("\0\x01z", 3)),
       KeyScalar::from_bytes(as_bytes("\0\x01z"sv)), "00fffe85"},
      // Nulls: text has only the marker, fixed-width values also have zeros.
      null("u", kAsc, "01"),
      null("u", kNullsFirst, "00"),
      null("z", kDesc, "01"),
      null("l", kAsc, "010000000000000000"),
      null("i", kDesc, "0100000000"),
      null("b", kNullsFirst, "0000"),
      null("w:3", kAsc, "01000000"),
  };
}

KeyEncoder encoder_of(const Field& root, std::vector<SortOrder> orders) {
  std::vector<KeyColumnSpec> specs;
  for (size_t i = 0; i < orders.size(); ++i)
    specs.push_back({{static_cast<int>(i)}, orders[i]});
  auto e = KeyEncoder::create(root, specs);
  REQUIRE(e.has_value());
  return *e;
}

TEST(KeyVectors, ColumnsScalarsAndDecoder) {
  for (const Vector& v : vectors()) {
    std::vector<std::unique_ptr<TestArray>> columns;
    // The second row makes the array path differ between null and not null.
    columns.push_back(TestArray::leaf("k", v.format, {v.cell, v.cell}));
    const auto rows = batch(std::move(columns), 2);
    const KeyEncoder encoder = encoder_of(rows->field(), {v.order});
    KeyBuffer keys;
    REQUIRE(encoder.encode(rows->view(), 0, 2, &keys).is_ok());
    CHECK_EQ(key_hex(keys.key(0)), std::string(v.hex));
    CHECK_EQ(key_hex(keys.key(1)), std::string(v.hex));
    ByteBuffer scalar;
    CHECK(encoder.encode_scalar(0, v.scalar, &scalar).is_ok());
    CHECK_EQ(key_hex(scalar.span()), std::string(v.hex));
    if (v.scalar.kind == KeyScalar::Kind::kInt &&
        encoder.columns()[0].kind != KeyKind::kWide) {
      uint8_t key[KeyEncoder::kMaxIntKey];
      const size_t n = encoder.encode_int_key(v.scalar.i, key);
      CHECK_EQ(key_hex({key, n}), std::string(v.hex));
    }
    if (encoder.columns()[0].kind == KeyKind::kBytes && v.cell) {
      std::vector<uint8_t> key(KeyEncoder::max_text_key(v.cell->size()));
      const size_t n = encoder.encode_text_key(*v.cell, key.data());
      CHECK_EQ(key_hex({key.data(), n}), std::string(v.hex));
    }
  }
}

TEST(KeyVectors, Tuples) {
  std::vector<std::unique_ptr<TestArray>> columns;
  columns.push_back(
      TestArray::leaf("a", "u", {Cell("0000"), Cell("00000"), Cell("a")}));
  columns.push_back(
      TestArray::leaf("b", "i", {Cell(raw(0)), Cell(raw(0)), Cell()}));
  columns.push_back(TestArray::leaf("c", "u", {Cell("x"), Cell(), Cell("")}));
  const auto rows = batch(std::move(columns), 3);
  const KeyEncoder encoder = encoder_of(rows->field(), {kAsc, kAsc, kDesc});
  KeyBuffer keys;
  REQUIRE(encoder.encode(rows->view(), 0, 3, &keys).is_ok());
  CHECK_EQ(key_hex(keys.key(0)), std::string("00303030300000800000000087ff"));
  CHECK_EQ(key_hex(keys.key(1)), std::string("00303030303000008000000001"));
  CHECK_EQ(key_hex(keys.key(2)), std::string("006100010000000000ff"));
}

TEST(KeyVectors, IntKeyOutOfRange) {
  uint8_t key[KeyEncoder::kMaxIntKey];
  const auto size = [&key](const char* format, int64_t v) {
    std::vector<std::unique_ptr<TestArray>> columns;
    columns.push_back(TestArray::leaf("k", format, {Cell()}));
    return encoder_of(batch(std::move(columns), 1)->field(), {kAsc})
        .encode_int_key(v, key);
  };
  CHECK_EQ(size("c", 128), 0);
  CHECK_EQ(size("c", -129), 0);
  CHECK_EQ(size("c", -128), 2);
  CHECK_EQ(size("C", -1), 0);
  CHECK_EQ(size("C", 256), 0);
  CHECK_EQ(size("L", -1), 0);
  CHECK_EQ(size("L", INT64_MAX), 9);
  CHECK_EQ(size("l", INT64_MIN), 9);
  CHECK_EQ(size("g", 1), 0);
  CHECK_EQ(size("u", 1), 0);
}

TEST(KeyVectors, ScalarFit) {
  const auto fit = [](const char* format, const KeyScalar& v) {
    Field root;
    root.format = "+s";
    root.children.emplace_back();
    root.children[0].format = format;
    REQUIRE(root.resolve("").is_ok());
    auto c = resolve_key_column(root, {{0}, kAsc});
    REQUIRE(c.has_value());
    ByteBuffer out;
    CHECK_EQ(encode_scalar(*c, v, &out).is_ok(),
             fit_of(*c, v) == ScalarFit::kExact);
    return fit_of(*c, v);
  };
  CHECK(fit("c", KeyScalar::from_int(300)) == ScalarFit::kAbove);
  CHECK(fit("c", KeyScalar::from_int(-300)) == ScalarFit::kBelow);
  CHECK(fit("C", KeyScalar::from_int(-1)) == ScalarFit::kBelow);
  CHECK(fit("l", KeyScalar::from_uint(1ull << 63)) == ScalarFit::kAbove);
  CHECK(fit("L", KeyScalar::from_uint(1ull << 63)) == ScalarFit::kExact);
  CHECK(fit("d:76,0,256", KeyScalar::from_int(-5)) == ScalarFit::kExact);
  CHECK(fit("f", KeyScalar::from_double(0.1)) == ScalarFit::kInexact);
  CHECK(fit("f", KeyScalar::from_double(1e300)) == ScalarFit::kInexact);
  CHECK(fit("f", KeyScalar::from_double(0.5)) == ScalarFit::kExact);
  CHECK(fit("e", KeyScalar::from_double(65504)) == ScalarFit::kExact);
  CHECK(fit("e", KeyScalar::from_double(65520)) == ScalarFit::kInexact);
  CHECK(fit("e", KeyScalar::from_double(0x1p-24)) == ScalarFit::kExact);
  CHECK(fit("e", KeyScalar::from_double(0x1p-25)) == ScalarFit::kInexact);
  CHECK(fit("g", KeyScalar::from_int((1ll << 53) + 1)) == ScalarFit::kInexact);
  CHECK(fit("g", KeyScalar::from_int(INT64_MAX)) == ScalarFit::kInexact);
  CHECK(fit("g", KeyScalar::from_int(INT64_MIN)) == ScalarFit::kExact);
  CHECK(fit("l", KeyScalar::from_double(1)) == ScalarFit::kWrongType);
  CHECK(fit("u", KeyScalar::from_int(1)) == ScalarFit::kWrongType);
  CHECK(fit("w:2", KeyScalar::from_bytes(as_bytes("abc"))) ==
        ScalarFit::kWrongType);
  CHECK(fit("b", KeyScalar::from_int(1)) == ScalarFit::kWrongType);
  CHECK(fit("l", KeyScalar::null()) == ScalarFit::kExact);
}

TEST(KeyVectors, HalfFloatsConvertExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    const double v = half_to_double(h);
    uint16_t back = 0;
    CHECK(double_to_half(v, &back));
    if (!std::isnan(v)) CHECK_EQ(back, h);
  }
}

}  // namespace
}  // namespace nimble::testing
