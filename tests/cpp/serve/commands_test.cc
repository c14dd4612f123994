// Which commands run on a worker, and how many rows are decoded at once.
#include "nimble/serve/commands.h"

#include "nimble/serve/snapshot/row_slices.h"
#include "testing/check.h"

namespace nimble {
namespace {

bool is_long(std::vector<std::string_view> arguments) {
  return is_long_command(arguments);
}

TEST(Commands, WorkOfUnknownSizeIsLong) {
  CHECK(is_long({"NB.RANGE", "t", "-", "+"}));
  CHECK(is_long({"nb.prefix", "t", "1"}));
  CHECK(is_long({"NB.MGET", "t", "AS", "ARROW", "ALL", "KEYS", "1", "1"}));
  CHECK(is_long({"nb.mget", "t", "KEYS", "1", "1", "as", "arrow", "all"}));
  // A column named KEYS does not hide the option behind it.
  CHECK(is_long({"NB.MGET", "t", "COLS", "1", "KEYS", "ALL"}));
  CHECK(is_long(std::vector<std::string_view>(65, "EXISTS")));
  CHECK(!is_long({"NB.MGET", "t", "AS", "ARROW", "KEYS", "1", "1"}));
  CHECK(!is_long({"HGETALL", "t:ALL"}));
}

Field root_of(std::vector<std::string> formats) {
  Field root;
  root.format = "+s";
  for (std::string& format : formats) {
    Field& child = root.children.emplace_back();
    child.name = format;
    child.format = std::move(format);
    if (child.format.starts_with("+w")) {
      Field& item = child.children.emplace_back();
      item.name = "item";
      item.format = "f";
    }
  }
  CHECK(static_cast<bool>(root.resolve("")));
  return root;
}

TEST(Commands, SlicesAreMeasuredInBytes) {
  const uint32_t first[] = {0}, second[] = {1}, third[] = {2}, fourth[] = {3};
  const Field root = root_of({"g", "u", "+w:1000000", "+w:3"});
  CHECK_EQ(SliceSize(root, {}).rows(), SliceSize::kFixedRows);
  CHECK_EQ(SliceSize(root, first).rows(), SliceSize::kFixedRows);
  CHECK_EQ(SliceSize(root, third).rows(), uint64_t{1});
  CHECK_EQ(SliceSize(root, fourth).rows(), SliceSize::kFixedRows);
  SliceSize texts(root, second);
  CHECK_EQ(texts.rows(), SliceSize::kFirstRows);
  texts.add(16, 1600);
  CHECK_EQ(texts.rows(), SliceSize::kVariableRows);
  texts.add(256, 256 * (SliceSize::kBytes / 10));
  CHECK_EQ(texts.rows(), uint64_t{10});
  texts.add(10, 10 * 2 * SliceSize::kBytes);
  CHECK_EQ(texts.rows(), uint64_t{1});
  texts.add(1, 0);
  CHECK_EQ(texts.rows(), SliceSize::kVariableRows);
}

}  // namespace
}  // namespace nimble
