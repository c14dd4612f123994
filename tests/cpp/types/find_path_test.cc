// Column paths: dots separate struct fields, but names may hold dots too.
#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::make_field;
using Path = std::vector<int>;

Field leaf(const std::string& name) { return make_field("i", {}, name); }
Field group(const std::string& name, std::vector<Field> children) {
  return make_field("+s", std::move(children), name);
}

Path find(const Field& root, std::string_view path) {
  const auto found = find_path(root, path);
  return found ? *found : Path{-1};
}
const Path kNone{-1};

TEST(FindPath, Levels) {
  const Field root =
      group("", {leaf("a"), group("b", {leaf("c"), group("d", {leaf("e")})})});
  CHECK(find(root, "a") == Path{0});
  CHECK(find(root, "b") == Path{1});
  CHECK(find(root, "b.c") == Path({1, 0}));
  CHECK(find(root, "b.d.e") == Path({1, 1, 0}));
  for (const char* path :
       {"", ".", "c", "a.b", "b.", "b.x", ".a", "b..c", "b.d.e.f", "A"}) {
    CHECK(find(root, path) == kNone);
  }
  const auto missing = find_path(root, "b.x");
  CHECK(missing.error().code() == StatusCode::kNotFound);
  CHECK(missing.error().message().find("b.x") != std::string_view::npos);
}

TEST(FindPath, NamesWithDotsComeFirst) {
  const Field root = group("", {group("a", {leaf("b"), leaf("c")}), leaf("a.b"),
                                group("x.y", {leaf("z")}), leaf(".")});
  CHECK(find(root, "a.b") == Path{1});
  CHECK(find(root, "a.c") == Path({0, 1}));
  CHECK(find(root, "x.y") == Path{2});
  CHECK(find(root, "x.y.z") == Path({2, 0}));
  CHECK(find(root, "x") == kNone);
  CHECK(find(root, ".") == Path{3});
}

TEST(FindPath, OnlyStructsAreEntered) {
  const Field root = group("", {make_field("+l", {leaf("item")}, "l"),
                                make_field("+w:2", {leaf("item")}, "w")});
  CHECK(find(root, "l") == Path{0});
  CHECK(find(root, "l.item") == kNone);
  CHECK(find(root, "w.item") == kNone);
}

TEST(FindPath, EmptyNamesAndNonAscii) {
  const Field root = group("", {leaf(""), group("é", {leaf("")})});
  CHECK(find(root, "") == Path{0});
  CHECK(find(root, "é") == Path{1});
  CHECK(find(root, "é.") == Path({1, 0}));
}

TEST(FindPath, AnEarlierNameDoesNotHideALaterOne) {
  // "a.b" is a struct without "c"; the way through "a" is the one that leads.
  const Field root = group(
      "", {group("a.b", {leaf("y")}), group("a", {group("b", {leaf("c")})})});
  CHECK(find(root, "a.b.y") == Path({0, 0}));
  CHECK(find(root, "a.b.c") == Path({1, 0, 0}));
}

}  // namespace
}  // namespace nimble
