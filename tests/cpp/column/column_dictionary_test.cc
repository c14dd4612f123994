// One list of values over all batches' dictionaries.
#include "nimble/column/column.h"

#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

struct Dictionary {
  explicit Dictionary(const std::vector<int>& v)
      : values(v.begin(), v.end()), field(make_field("i")) {
    for (size_t i = 0; i < v.size(); ++i) {
      if (v[i] < 0) continue;  // null
      validity[i / 8] |= static_cast<uint8_t>(1 << i % 8);
    }
    array.length = static_cast<int64_t>(v.size());
    array.null_count = -1;
    array.n_buffers = 2;
    array.buffers = buffers;
  }
  ArrayView view() const { return *ArrayView::open(field, array, "x"); }

  std::vector<int32_t> values;
  uint8_t validity[8] = {};
  const void* buffers[2] = {validity, values.data()};
  ArrowArray array{};
  Field field;
};

std::vector<int64_t> map(DictionaryValues* all,
                         const std::vector<int>& values) {
  const Dictionary d(values);
  const auto places = all->map(d.view(), "x");
  REQUIRE(places.has_value());
  return **places;
}
using Places = std::vector<int64_t>;

TEST(DictionaryValues, ValuesKeepTheirFirstPlace) {
  const Field f = make_field("i");
  DictionaryValues all(f);
  CHECK(map(&all, {10, 20}) == Places({0, 1}));
  CHECK(map(&all, {20, 30, 10}) == Places({1, 2, 0}));
  CHECK(map(&all, {}) == Places());
  CHECK(map(&all, {30}) == Places({2}));
  CHECK(map(&all, {40, 40}) == Places({3, 3}));
  CHECK_EQ(all.values.length(), 4);
}

TEST(DictionaryValues, TheFirstDictionaryStaysAsItIs) {
  const Field f = make_field("i");
  DictionaryValues all(f);
  // Repeats and nulls included: the codes of a single batch are unchanged.
  CHECK(map(&all, {5, 5, -1, 6, -1}) == Places({0, 1, 2, 3, 4}));
  CHECK(map(&all, {5, 5, -1, 6, -1}) == Places({0, 1, 2, 3, 4}));
  CHECK(map(&all, {5, 5}) == Places({0, 1}));  // still begins like it
  CHECK(map(&all, {6, -1, 5}) == Places({3, 2, 0}));
  CHECK_EQ(all.values.length(), 5);
  CHECK(map(&all, {5, 5, -1, 6, -1, 7}) == Places({0, 1, 2, 3, 4, 5}));
}

// Regression: every batch searched its whole dictionary again, which was
// quadratic in the number of distinct values.
TEST(DictionaryValues, ADictionaryThatComesAgainIsNotSearchedAgain) {
  const Field f = make_field("i");
  DictionaryValues all(f);
  std::vector<int> values = {7, 3, 3, -1, 9, 12};
  for (int i = 0; i < 5; ++i) map(&all, values);
  CHECK_EQ(all.num_searched(), 6);
  // If a dictionary grows, only its new values are searched.
  values.push_back(40);
  values.push_back(41);
  CHECK(map(&all, values) == Places({0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK_EQ(all.num_searched(), 8);
  // A dictionary that begins with other values, twice.
  CHECK(map(&all, {41, 3, 50}) == Places({7, 1, 8}));
  CHECK(map(&all, {41, 3, 50}) == Places({7, 1, 8}));
  CHECK_EQ(all.num_searched(), 11);
  CHECK(map(&all, {41, 3}) == Places({7, 1}));
  CHECK(map(&all, {41, 7}) == Places({7, 0}));
  CHECK_EQ(all.num_searched(), 12);
}

TEST(DictionaryValues, NullIsAValueOfItsOwn) {
  const Field f = make_field("i");
  DictionaryValues all(f);
  CHECK(map(&all, {0}) == Places({0}));
  CHECK(map(&all, {-1, 0}) == Places({1, 0}));
  const Texts texts = texts_of(std::move(all.values));
  CHECK_EQ(texts[1], "null");
}

}  // namespace
}  // namespace nimble
