// Arrow format strings, both ways.
#include "nimble/types/field.h"

#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::every_field;
using nimble::testing::make_dictionary;
using nimble::testing::make_field;

Field unresolved(const std::string& format, std::vector<Field> children = {}) {
  Field f;
  f.name = "x";
  f.format = format;
  f.children = std::move(children);
  return f;
}

TEST(Field, LeafNames) {
  const std::pair<const char*, const char*> names[] = {
      {"n", "null"},
      {"b", "bool"},
      {"c", "int8"},
      {"L", "uint64"},
      {"e", "float16"},
      {"g", "float64"},
      {"d:7,2,32", "decimal32(7,2)"},
      {"d:15,2", "decimal128(15,2)"},
      {"d:76,-3,256", "decimal256(76,-3)"},
      {"w:16", "fixed_size_binary[16]"},
      {"tdD", "date32"},
      {"tdm", "date64"},
      {"ttm", "time32[ms]"},
      {"ttu", "time64[us]"},
      {"tss:", "timestamp[s]"},
      {"tsn:Europe/Paris", "timestamp[ns, Europe/Paris]"},
      {"tDm", "duration[ms]"},
      {"tiM", "month_interval"},
      {"tiD", "day_time_interval"},
      {"tin", "month_day_nano_interval"},
      {"u", "string"},
      {"U", "large_string"},
      {"vu", "string_view"},
      {"z", "binary"},
      {"Z", "large_binary"},
      {"vz", "binary_view"},
  };
  for (const auto& [format, name] : names) {
    CHECK_EQ(make_field(format).type_name(), name);
  }
}

TEST(Field, NestedNames) {
  const auto i32 = [] { return make_field("i", {}, "item"); };
  CHECK_EQ(make_field("+l", {i32()}).type_name(), "list<item: int32>");
  CHECK_EQ(make_field("+L", {i32()}).type_name(), "large_list<item: int32>");
  CHECK_EQ(make_field("+vl", {i32()}).type_name(), "list_view<item: int32>");
  CHECK_EQ(make_field("+vL", {i32()}).type_name(),
           "large_list_view<item: int32>");
  CHECK_EQ(make_field("+w:3", {i32()}).type_name(),
           "fixed_size_list[3]<item: int32>");
  CHECK_EQ(make_field("+s", {}).type_name(), "struct<>");
  CHECK_EQ(make_field("+ud:4,2", {i32(), make_field("u", {}, "s")}).type_name(),
           "dense_union<item: int32, s: string>");
  CHECK_EQ(make_dictionary("c", make_field("u")).type_name(),
           "dictionary<string, int8>");
}

TEST(Field, WidthsAndValueTypes) {
  CHECK(make_field("e").value_type() == ValueType::unsigned_int(2));
  CHECK(make_field("f").value_type() == ValueType::floating(4));
  CHECK(make_field("tsu:").value_type() == ValueType::signed_int(8));
  CHECK(make_field("d:9,2").value_type() == ValueType::fixed(16, true));
  CHECK(make_field("d:9,2,64").value_type() == ValueType::signed_int(8));
  CHECK(make_field("w:8").value_type() == ValueType::fixed(8));
  CHECK(make_field("b").value_type() == ValueType::boolean());
  CHECK(make_field("vz").value_type() == ValueType::bytes());
  CHECK(make_dictionary("S", make_field("u")).value_type() ==
        ValueType::unsigned_int(2));
}

TEST(Field, BadFormatsAreRefused) {
  for (const char* format : {"",
                             "q",
                             "bb",
                             "l ",
                             "d",
                             "d:",
                             "d:5",
                             "d:5,",
                             "d:,2",
                             "d:5,2,",
                             "d:5,2,16",
                             "d:5,2,128,1",
                             "d:5x,2",
                             "w",
                             "w:",
                             "w:-1",
                             "w:x",
                             "w:2147483648",
                             "w:99999999999999999999",
                             "t",
                             "td",
                             "tdx",
                             "tts:",
                             "tt",
                             "ts",
                             "tsu",
                             "tsx:",
                             "tsu;",
                             "tD",
                             "tDx",
                             "ti",
                             "tix",
                             "v",
                             "vx",
                             "+",
                             "+x",
                             "+w",
                             "+w:",
                             "+u",
                             "+ud",
                             "+us",
                             "+l:",
                             "+vx"}) {
    const Status status = unresolved(format).resolve("some.path");
    CHECK(status.code() == StatusCode::kUnsupported);
    CHECK(status.message().find("some.path") != std::string_view::npos);
  }
}

TEST(Field, WrongChildrenAreRefused) {
  const Field i32 = make_field("i");
  const Field pair = make_field("+s", {i32, i32});
  CHECK(!unresolved("i", {i32}).resolve(""));
  CHECK(!unresolved("u", {i32}).resolve(""));
  CHECK(!unresolved("+l").resolve(""));
  CHECK(!unresolved("+l", {i32, i32}).resolve(""));
  CHECK(!unresolved("+vl").resolve(""));
  CHECK(!unresolved("+w:2").resolve(""));
  CHECK(!unresolved("+w:-1", {i32}).resolve(""));
  CHECK(!unresolved("+m", {i32}).resolve(""));
  CHECK(!unresolved("+m", {pair, pair}).resolve(""));
  CHECK(!unresolved("+r", {i32}).resolve(""));
  CHECK(!unresolved("+ud:0,1", {i32}).resolve(""));
  CHECK(!unresolved("+ud:0", {i32, i32}).resolve(""));
  CHECK(!unresolved("+us:0,", {i32, i32}).resolve(""));
  CHECK(!unresolved("+us:0,128", {i32, i32}).resolve(""));
  CHECK(!unresolved("+us:-1", {i32}).resolve(""));
  CHECK(!unresolved("+s", {unresolved("?")}).resolve(""));
}

// Fields that a hostile footer may contain: the derived members must be valid.
TEST(Field, RunEndsAndTypeIdsMustMakeSense) {
  const Field i32 = make_field("i"), text = make_field("u");
  CHECK(!unresolved("+r", {text, i32}).resolve(""));
  CHECK(!unresolved("+r", {make_field("f"), i32}).resolve(""));
  CHECK(!unresolved("+r", {make_field("C"), i32}).resolve(""));
  CHECK(!unresolved("+ud:3,3", {i32, i32}).resolve(""));
  CHECK(!unresolved("+m", {make_field("+s", {i32})}).resolve(""));
}

TEST(Field, DictionaryCodesAreIntegers) {
  for (const char* codes : {"b", "f", "u", "tdD", "+l", "n", ""}) {
    Field f = unresolved(codes);
    f.dictionary.push_back(make_field("u"));
    CHECK(!f.resolve("x"));
  }
}

TEST(Field, DepthIsBounded) {
  Field f = make_field("i");
  for (int depth = 0; depth < 1000; ++depth) {
    f = unresolved("+l", {std::move(f)});
  }
  CHECK(f.resolve("x").code() == StatusCode::kUnsupported);
}

bool same(const Field& a, const Field& b) {
  if (a.name != b.name || a.format != b.format || a.flags != b.flags ||
      a.metadata != b.metadata || a.layout != b.layout || a.width != b.width ||
      a.type_ids != b.type_ids || a.children.size() != b.children.size() ||
      a.dictionary.size() != b.dictionary.size()) {
    return false;
  }
  for (size_t i = 0; i < a.children.size(); ++i) {
    if (!same(a.children[i], b.children[i])) return false;
  }
  return a.dictionary.empty() || same(a.dictionary[0], b.dictionary[0]);
}

TEST(Field, ThroughTheCInterface) {
  for (Field f : every_field()) {
    f.metadata = {
        {"key", "value"}, {"", std::string("\0\xff", 2)}, {"key", ""}};
    f.flags = 6;
    ArrowSchema schema{};
    export_schema(f, &schema);
    const auto back = Field::from_arrow(schema);
    REQUIRE(back.has_value());
    CHECK(same(*back, f));
    schema.release(&schema);
    CHECK(schema.release == nullptr);
  }
}

TEST(Field, ChildrenMayBeMovedOutOfAnExportedSchema) {
  const Field f = make_field("+s", {make_field("i"), make_field("u")});
  ArrowSchema schema{};
  export_schema(f, &schema);
  // the specification allows moving it
  ArrowSchema child = *schema.children[1];
  schema.children[1]->release = nullptr;
  schema.release(&schema);
  const auto back = Field::from_arrow(child);
  REQUIRE(back.has_value());
  CHECK_EQ(back->format, "u");
  child.release(&child);
}

TEST(Field, FindsDictionaries) {
  CHECK(!has_dictionary(make_field("+l", {make_field("i")})));
  CHECK(has_dictionary(
      make_field("+l", {make_dictionary("i", make_field("u"))})));
}

}  // namespace
}  // namespace nimble
