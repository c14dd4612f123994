// ArrayView over hand-made arrays. Column's tests use random arrays.
#include "nimble/types/array_view.h"

#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::every_field;
using nimble::testing::make_dictionary;
using nimble::testing::make_field;
using nimble::testing::RandomArray;
using nimble::testing::Rng;
using nimble::testing::row_texts;

template <size_t N>
ArrowArray array_of(const void* (&buffers)[N], int64_t length,
                    int64_t offset = 0) {
  ArrowArray a{};
  a.length = length;
  a.offset = offset;
  a.null_count = -1;
  a.n_buffers = N;
  a.buffers = buffers;
  return a;
}

ArrayView open(const Field& f,
               ArrowArray&& a) = delete;  // must outlive the view
ArrayView open(const Field& f, const ArrowArray& a) {
  auto v = ArrayView::open(f, a, "test");
  REQUIRE(v.has_value());
  return *v;
}

TEST(ArrayView, SlicesOfEveryLayoutSeeTheirRows) {
  Rng rng(5);
  for (const Field& f : every_field()) {
    const RandomArray array(f, 60, &rng);
    const auto all = row_texts(array.view());
    for (int round = 0; round < 10; ++round) {
      const auto begin = static_cast<int64_t>(rng() % 61);
      const auto count = static_cast<int64_t>(rng() % (61 - begin));
      const ArrayView part = array.view().slice(begin, count);
      CHECK_EQ(part.length(), count);
      CHECK(row_texts(part) ==
            std::vector<std::string>(all.begin() + begin,
                                     all.begin() + begin + count));
      if (count < 3) continue;
      CHECK(row_texts(part.slice(1, count - 2)) ==
            std::vector<std::string>(all.begin() + begin + 1,
                                     all.begin() + begin + count - 1));
    }
  }
}

TEST(ArrayView, OffsetsApplyToBitsAndValues) {
  const uint8_t validity[] = {0b01101101};
  const int16_t values[] = {0, 10, 20, 30, 40, 50};
  const void* buffers[] = {validity, values};
  const Field f = make_field("s");
  const ArrowArray a = array_of(buffers, 4, 2);
  const ArrayView v = open(f, a);
  const bool valid[] = {true, true, false, true};
  for (int i = 0; i < 4; ++i) {
    CHECK_EQ(v.is_valid(i), valid[i]);
    CHECK_EQ(load<int16_t>(v.values() + i * 2), values[i + 2]);
  }
}

TEST(ArrayView, NoNullsMeansNoBitmap) {
  const uint8_t validity[] = {0};
  const int32_t values[] = {1};
  const void* buffers[] = {validity, values};
  const Field f = make_field("i");
  ArrowArray a = array_of(buffers, 1);
  a.null_count = 0;  // the bitmap must not be used
  CHECK(!open(f, a).may_have_nulls());
  CHECK(open(f, a).is_valid(0));
}

TEST(ArrayView, StringViewsInlineAndOutOfLine) {
  uint8_t views[3][16] = {};
  views[0][0] = 12;
  std::memcpy(views[0] + 4, "exactlytwelv", 12);
  const char first[] = "not here", second[] = "..thirteen long";
  views[1][0] = 13;
  std::memcpy(views[1] + 4, "thir", 4);
  views[1][8] = 1;   // buffer
  views[1][12] = 2;  // offset
  const int64_t sizes[] = {8, 15};
  const void* buffers[] = {nullptr, views, first, second, sizes};
  const Field f = make_field("vu");
  const ArrowArray a = array_of(buffers, 3);
  const ArrayView v = open(f, a);
  CHECK_EQ(v.bytes_at(0), "exactlytwelv");
  CHECK_EQ(v.bytes_at(1), "thirteen long");
  CHECK_EQ(v.bytes_at(2), "");
}

TEST(ArrayView, NullStringsAreEmpty) {
  const uint8_t validity[] = {0b10};
  const int32_t offsets[] = {0, 3, 5};
  const char data[] = "xxxab";
  const void* buffers[] = {validity, offsets, data};
  const Field f = make_field("u");
  const ArrowArray a = array_of(buffers, 2);
  const ArrayView v = open(f, a);
  CHECK_EQ(v.bytes_at(0), "");
  CHECK_EQ(v.bytes_at(1), "ab");
}

TEST(ArrayView, RunsAreFoundBySearch) {
  const int16_t ends[] = {3, 4, 10};
  const void* end_buffers[] = {nullptr, ends};
  const uint8_t values[] = {7, 8, 9};
  const void* value_buffers[] = {nullptr, values};
  ArrowArray children[] = {array_of(end_buffers, 3),
                           array_of(value_buffers, 3)};
  ArrowArray* pointers[] = {&children[0], &children[1]};
  ArrowArray a{};
  a.length = 7;
  a.offset = 2;
  a.n_children = 2;
  a.children = pointers;
  const Field f = make_field("+r", {make_field("s"), make_field("C")});
  const ArrayView v = open(f, a);
  const int64_t runs[] = {0, 1, 2, 2, 2, 2, 2};
  for (int64_t i = 0; i < 7; ++i) CHECK_EQ(v.run_of(i), runs[i]);
  CHECK_EQ(v.slice(3, 4).run_of(0), 2);
  CHECK_EQ(v.run_of(8), 3);  // past the last run
  CHECK_EQ(v.run_end(1), 4);
}

TEST(ArrayView, UnionsFindTheirChildren) {
  const int8_t ids[] = {5, 0, 5, 9};
  const int32_t rows[] = {0, 0, 1, 0};
  const void* buffers[] = {ids, rows};
  const int32_t ints[] = {1, 2};
  const void* child_buffers[] = {nullptr, ints};
  ArrowArray children[] = {array_of(child_buffers, 2),
                           array_of(child_buffers, 2)};
  ArrowArray* pointers[] = {&children[0], &children[1]};
  ArrowArray a = array_of(buffers, 4);
  a.n_children = 2;
  a.children = pointers;
  const Field f = make_field("+ud:0,5", {make_field("i"), make_field("i")});
  const ArrayView v = open(f, a);
  CHECK_EQ(v.union_child(0), 1);
  CHECK_EQ(v.union_child(1), 0);
  CHECK_EQ(v.union_row(2), 1);
  CHECK_EQ(v.union_child(3), -1);  // an id that the type does not have
  CHECK_EQ(v.slice(2, 2).union_row(0), 1);
}

TEST(ArrayView, CodesOfAllWidths) {
  const uint8_t bytes[8] = {0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0};
  const void* buffers[] = {nullptr, bytes};
  const std::pair<const char*, int64_t> codes[] = {
      {"c", -2}, {"C", 254},        {"s", -2},         {"S", 65534},
      {"i", -2}, {"I", 4294967294}, {"l", 4294967294}, {"L", 4294967294}};
  for (const auto& [format, code] : codes) {
    const Field f = make_dictionary(format, make_field("n"));
    ArrowArray values{};
    values.length = 1;
    ArrowArray a = array_of(buffers, 1);
    a.dictionary = &values;
    CHECK_EQ(open(f, a).code_at(0), code);
  }
}

TEST(ArrayView, ShapesThatDoNotMatchAreRefused) {
  const void* buffers[] = {nullptr, nullptr, nullptr};
  ArrowArray a = array_of(buffers, 0);
  const auto refused = [&a](const Field& f) {
    const auto v = ArrayView::open(f, a, "some.path");
    return !v && v.error().code() == StatusCode::kInvalidArgument &&
           v.error().message().find("some.path") != std::string_view::npos;
  };
  a.n_buffers = 1;
  CHECK(refused(make_field("i")));
  CHECK(refused(make_field("u")));
  CHECK(refused(make_field("+l", {make_field("i")})));  // no children
  a.n_buffers = 2;
  CHECK(!refused(make_field("i")));
  CHECK(refused(make_field("vu")));
  CHECK(refused(make_field("+vl", {make_field("i")})));
  CHECK(refused(make_dictionary("i", make_field("u"))));  // no dictionary
  ArrowArray values{};
  a.dictionary = &values;
  CHECK(refused(make_field("i")));  // an unexpected dictionary
  CHECK(refused(make_dictionary("i", make_field("u"))));  // 0 buffers inside
}

}  // namespace
}  // namespace nimble
