// Values as text and back, and keys of several values.
#include "nimble/serve/snapshot/value_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <random>

#include "nimble/serve/snapshot/key_parts.h"
#include "reader/columns.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Field field_of(const std::string& format) {
  Field f = make_field(format);
  REQUIRE(f.resolve("x"));
  return f;
}

template <class T>
std::string bytes_of(T v) {
  return std::string(reinterpret_cast<const char*>(&v), sizeof v);
}

std::string text_of(const Field& field, const std::string& value) {
  std::string out;
  append_text(field, as_bytes(value), &out);
  return out;
}

template <class T>
std::string text(const std::string& format, T v) {
  return text_of(field_of(format), bytes_of(v));
}

TEST(ValueText, KnownForms) {
  CHECK_EQ(text<int64_t>("l", INT64_MIN), "-9223372036854775808");
  CHECK_EQ(text<uint64_t>("L", UINT64_MAX), "18446744073709551615");
  CHECK_EQ(text<uint8_t>("C", 200), "200");
  CHECK_EQ(text<int8_t>("b", 1), "true");
  // As repr() of Python.
  CHECK_EQ(text<double>("g", 1.0), "1.0");
  CHECK_EQ(text<double>("g", -0.0), "-0.0");
  CHECK_EQ(text<double>("g", 0.1), "0.1");
  CHECK_EQ(text<double>("g", 1e15), "1000000000000000.0");
  CHECK_EQ(text<double>("g", 1e16), "1e+16");
  CHECK_EQ(text<double>("g", 1.5e-5), "1.5e-05");
  CHECK_EQ(text<double>("g", 0.0001), "0.0001");
  CHECK_EQ(text<double>("g", 123456.789), "123456.789");
  CHECK_EQ(text<double>("g", 5e-324), "5e-324");
  CHECK_EQ(text<double>("g", INFINITY), "inf");
  CHECK_EQ(text<double>("g", NAN), "nan");
  CHECK_EQ(text<float>("f", 0.1f), "0.1");
  CHECK_EQ(text<int64_t>("d:10,2,64", -105), "-1.05");
  CHECK_EQ(text<int64_t>("d:10,-2,64", -105), "-10500");
  CHECK_EQ(text<int64_t>("d:10,-2,64", 0), "0");
  CHECK_EQ(text<int32_t>("tdD", 19844), "2024-05-01");
  CHECK_EQ(text<int32_t>("tdD", -719529), "-0001-12-31");
  CHECK_EQ(text<int64_t>("tsu:", 1714564800000000),
           "2024-05-01T12:00:00.000000");
  CHECK_EQ(text<int64_t>("tsu:UTC", -1), "1969-12-31T23:59:59.999999Z");
  CHECK_EQ(text<int64_t>("tsn:", 1), "1970-01-01T00:00:00.000000001");
  CHECK_EQ(text<int64_t>("tss:", 1), "1970-01-01T00:00:01");
  CHECK_EQ(text<int64_t>("ttu", 3723000004), "01:02:03.000004");
  Field uuid = field_of("w:16");
  uuid.metadata = {{"ARROW:extension:name", "arrow.uuid"}};
  const std::string value =
      "\x12\x34\x56\x78\x9a\xbc\xde\xf0\x12\x34\x56\x78"
      "\x9a\xbc\xde\xf0";
  CHECK_EQ(text_of(uuid, value), "12345678-9abc-def0-1234-56789abcdef0");
  std::string back;
  CHECK(parse_text(uuid, text_of(uuid, value), &back) == TextFit::kExact);
  CHECK(back == value);
}

template <class T>
void check_round_trips(const std::string& format, std::mt19937_64* rng) {
  const Field field = field_of(format);
  for (int i = 0; i < 3000; ++i) {
    uint64_t bits = (*rng)();
    if (i % 3 == 0) bits >>= (*rng)() % 64;
    T v;
    std::memcpy(&v, &bits, sizeof v);
    if (i == 0) v = std::numeric_limits<T>::min();
    if (i == 1) v = std::numeric_limits<T>::max();
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(v)) continue;
    }
    std::string back;
    const std::string shown = text_of(field, bytes_of(v));
    if (parse_text(field, shown, &back) != TextFit::kExact ||
        back != bytes_of(v)) {
      CHECK_EQ(shown, format);  // names the value
    }
  }
}

TEST(ValueText, TextReadsBack) {
  std::mt19937_64 rng(1);
  check_round_trips<int8_t>("c", &rng);
  check_round_trips<uint16_t>("S", &rng);
  check_round_trips<int32_t>("i", &rng);
  check_round_trips<int64_t>("l", &rng);
  check_round_trips<uint64_t>("L", &rng);
  check_round_trips<float>("f", &rng);
  check_round_trips<double>("g", &rng);
  check_round_trips<int32_t>("tdD", &rng);
  check_round_trips<int64_t>("tsu:", &rng);
  check_round_trips<int64_t>("tsn:UTC", &rng);
  check_round_trips<int64_t>("tDu", &rng);
  check_round_trips<int32_t>("d:9,3,32", &rng);
  check_round_trips<int64_t>("d:18,0,64", &rng);
  check_round_trips<int64_t>("d:18,-3,64", &rng);
  check_round_trips<int64_t>("tss:", &rng);
}

// The digits of a number, without zeros at both ends.
std::string digits_of(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('e'))) {
    if (c >= '0' && c <= '9' && (c != '0' || !out.empty())) out.push_back(c);
  }
  return out.substr(0, out.find_last_not_of('0') + 1);
}

template <class T, class Bits>
void check_floats(const std::string& format) {
  const Field field = field_of(format);
  std::mt19937_64 random(5);
  const auto check = [&](T v) {
    if (!std::isfinite(v)) return;
    const std::string text = text_of(field, bytes_of(v));
    T back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    CHECK_EQ(bytes_of(back), bytes_of(v));
    char shortest[64];
    const char* const end = std::to_chars(shortest, shortest + sizeof shortest,
                                          v, std::chars_format::scientific)
                                .ptr;
    CHECK_EQ(digits_of(text), digits_of({shortest, end}));
    CHECK(text.find('.') != std::string::npos ||
          text.find('e') != std::string::npos);
  };
  for (const T v : {T{0}, -T{0}, T{1}, T{0.5}, T(0.001), T(0.0001), T(1e9),
                    T(999999999.999999), T(999.999), T(1e6), T(1e15)}) {
    check(v);
    check(-v);
  }
  for (int i = 0; i < 100000; ++i) {
    // A number with a few decimals, and its neighbors.
    const int decimals = static_cast<int>(random() % 9);
    const auto whole = static_cast<T>(random() >> (random() % 64));
    const T v = whole / static_cast<T>(std::pow(10, decimals));
    check(v);
    check(std::nextafter(v, T{0}));
    check(std::nextafter(-v, T{-1e9}));
    check(std::bit_cast<T>(static_cast<Bits>(random())));
  }
}

TEST(ValueText, FloatsHaveTheShortestDigits) {
  check_floats<double, uint64_t>("g");
  check_floats<float, uint32_t>("f");
}

TEST(ValueText, OtherTextsAreNoValues) {
  std::string out;
  const auto fit = [&](const std::string& format, std::string_view t) {
    return parse_text(field_of(format), t, &out);
  };
  for (const std::string_view t :
       {"", "+1", " 1", "1 ", "01", "-0", "1.0", "abc", "1\n", "--1"}) {
    CHECK(fit("l", t) == TextFit::kInvalid);
  }
  CHECK(fit("c", "128") == TextFit::kOutside);
  CHECK(fit("C", "-1") == TextFit::kOutside);
  CHECK(fit("l", "9223372036854775808") == TextFit::kOutside);
  CHECK(fit("tdD", "2023-02-29") == TextFit::kInvalid);
  CHECK(fit("tsu:", "2024-05-01T12:00:00Z") == TextFit::kInvalid);
  CHECK(fit("tsu:UTC", "2024-05-01T12:00:00") == TextFit::kInvalid);
  CHECK(fit("tsu:", "2024-05-01T12:00:00.0000001") == TextFit::kOutside);
  CHECK(fit("d:9,2,32", "1.005") == TextFit::kInvalid);
  CHECK(fit("d:9,2,32", "99999999999") == TextFit::kInvalid);
  CHECK(fit("d:9,2,32", "99999999999.00") == TextFit::kOutside);
  CHECK(fit("d:9,0,32", "99999999999") == TextFit::kOutside);
  // One value has one text, so that a row has one key.
  for (const std::string_view t :
       {"1", "1.0", "1.005", "1.500", "01.50", "-0.00", ".50", "1.", "+1.50"}) {
    CHECK(fit("d:9,2,32", t) == TextFit::kInvalid);
  }
  CHECK(fit("d:9,0,32", "1.0") == TextFit::kInvalid);
  CHECK(fit("d:9,2,32", "-1.50") == TextFit::kExact);
  CHECK(fit("b", "1") == TextFit::kInvalid);
}

TEST(KeyParts, SplitAndJoin) {
  std::vector<std::optional<std::string>> parts;
  const std::vector<std::vector<std::string>> keys = {
      {""}, {"a"}, {"a:b", "\\"}, {"", ""}, {":", "x\\:", ""}, {"N", "\\N"}};
  for (const auto& key : keys) {
    std::string joined;
    for (size_t i = 0; i < key.size(); ++i) {
      append_key_part(key[i], i == 0, &joined);
    }
    REQUIRE(split_key(joined, &parts));
    REQUIRE(parts.size() == key.size());
    for (size_t i = 0; i < key.size(); ++i) CHECK(parts[i] == key[i]);
  }
  REQUIRE(split_key("7:\\N", &parts));
  CHECK(parts[0] == "7" && !parts[1]);
  for (const std::string_view bad : {"\\", "a\\b", "\\Nx", "a\\"}) {
    CHECK(!split_key(bad, &parts));
  }
}

}  // namespace
}  // namespace nimble::testing
