// Compares single values with whole columns.
#include "nimble/stripe/value_reader.h"

#include <algorithm>

#include "reader/columns.h"

namespace nimble::testing {
namespace {

WriterOptions tiny() {
  WriterOptions o;
  o.stripe_rows = 37;
  o.group_rows = 100;
  return o;
}

// The bytes that row 0 of a flat column represents.
std::vector<uint8_t> stored(const Column& column) {
  const Layout layout = column.field().layout;
  if (layout == Layout::kBool) return {get_bit(column.value_data(), 0)};
  const uint8_t* p =
      layout == Layout::kBytes ? column.bytes.data.data() : column.value_data();
  const size_t size = layout == Layout::kBytes ? column.bytes.data.size()
                                               : column.field().width;
  return size == 0 ? std::vector<uint8_t>() : std::vector<uint8_t>(p, p + size);
}

TEST(ValueReader, EveryFlatFieldRowByRow) {
  Rng rng(41);
  size_t flat = 0;
  for (const Field& f : every_field()) {
    const Field root = struct_of({f});
    const RandomArray rows(root, 250, &rng);
    const Reader file = open_mapped(write_file(rows.view(), tiny()));
    const uint32_t node = file->plan().node(0).children[0];
    const auto column = FlatColumn::of(file->plan(), node);
    if (!column) continue;
    ++flat;
    const auto reader = RowReader::create_all(file);
    REQUIRE(reader.has_value());
    RowLocation at;
    for (uint64_t row = 0; row < 250; ++row) {
      Column read = (*reader)->make_output();
      REQUIRE((*reader)->take({&row, 1}, 1, &read).is_ok());
      const Column& want = read.children[0];
      if (!at.move_to(row)) {
        auto found = RowLocation::find(*file, row);
        REQUIRE(found.has_value());
        at = std::move(*found);
      }
      StreamValue place;
      REQUIRE(at.find_value(column->values, &place).is_ok());
      place.prefetch_decoder();
      place.prefetch();
      FlatValue value;
      REQUIRE(value.read(at, *column, place).is_ok());
      CHECK_EQ(value.is_null(), !want.is_valid(0));
      if (value.is_null()) continue;
      const std::vector<uint8_t> bytes = stored(want);
      CHECK(std::equal(value.data(), value.data() + value.size(), bytes.begin(),
                       bytes.end()));
    }
  }
  CHECK(flat > 10);
}

TEST(ValueReader, OtherStripesAndStreamsThatAreTooShort) {
  Rng rng(42);
  const auto fields = every_field();
  const auto flat = std::find_if(fields.begin(), fields.end(), [](auto& f) {
    return f.layout == Layout::kFixed;
  });
  REQUIRE(flat != fields.end());
  const Field root = struct_of({*flat});
  const RandomArray rows(root, 90, &rng);
  const Reader file = open_mapped(write_file(rows.view(), tiny()));
  CHECK(!RowLocation().move_to(0));
  auto at = RowLocation::find(*file, 40);
  REQUIRE(at.has_value());
  CHECK(at->move_to(73));
  CHECK(!at->move_to(74));
  CHECK(!at->move_to(36));
  CHECK(!at->has_values(kNoStream));
}

}  // namespace
}  // namespace nimble::testing
