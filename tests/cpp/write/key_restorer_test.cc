// Rows that are restored from keys equal the rows that were encoded.
#include "nimble/write/key_restorer.h"

#include "key/nasty_columns.h"
#include "reader/columns.h"

namespace nimble::testing {
namespace {

KeyEncoder encoder_of(const Field& root,
                      const std::vector<KeyColumnSpec>& columns) {
  auto encoder = KeyEncoder::create(root, columns);
  REQUIRE(encoder.has_value());
  return *encoder;
}

TEST(KeyRestorer, EveryTypeInAnyOrder) {
  Rng rng(71);
  for (const std::string& format : key_formats()) {
    for (const SortOrder order :
         {SortOrder{}, SortOrder{true, false}, SortOrder{false, true},
          SortOrder{true, true}}) {
      const Field root = struct_of({make_field("L"), make_field(format)});
      const KeyEncoder encoder = encoder_of(root, {{{1}, order}, {{0}, {}}});
      const auto restorer = KeyRestorer::create(root, encoder);
      const bool is_float = format == "e" || format == "f" || format == "g";
      CHECK_EQ(restorer.has_value(), !is_float);
      if (!restorer) continue;
      const RandomArray rows(root, 2500, &rng);
      KeyBuffer keys;
      REQUIRE(encoder.encode(rows.view(), 0, 2500, &keys).is_ok());
      Column restored(root, /*wide=*/true), want(root, /*wide=*/true);
      REQUIRE(want.append(rows.view(), 0, 2500, "").is_ok());
      // In two parts, so that the second one continues all buffers.
      REQUIRE(restorer->append(keys, 0, 1203, &restored).is_ok());
      REQUIRE(restorer->append(keys, 1203, 2500, &restored).is_ok());
      if (texts_of(std::move(restored)) != texts_of(std::move(want))) {
        fail(format.c_str(), order.descending, "restored rows differ");
      }
    }
  }
}

TEST(KeyRestorer, NullSlotsRepeatTheValueBefore) {
  const Field root = struct_of({make_field("l")});
  const KeyEncoder encoder = encoder_of(root, {{{0}, {}}});
  KeyBuffer keys(encoder.fixed_width());
  for (const char* key :
       {"\1\0\0\0\0\0\0\0\0", "\0\x80\0\0\0\0\0\0\7", "\1\0\0\0\0\0\0\0\0"}) {
    keys.push_back(as_bytes(std::string_view(key, 9)));
  }
  Column restored(root, /*wide=*/true);
  REQUIRE(KeyRestorer::create(root, encoder)
              ->append(keys, 0, 3, &restored)
              .is_ok());
  const Column& column = restored.children[0];
  CHECK_EQ(column.null_count(), 2);
  CHECK_EQ(column.values.as<int64_t>()[0], 0);
  CHECK_EQ(column.values.as<int64_t>()[1], 7);
  CHECK_EQ(column.values.as<int64_t>()[2], 7);
}

TEST(KeyRestorer, NeedsAllColumnsAsTheyAre) {
  const Field two = struct_of({make_field("l"), make_field("u")});
  CHECK(!KeyRestorer::create(two, encoder_of(two, {{{0}, {}}})));
  const Field codes = struct_of({make_dictionary("i", make_field("u"))});
  CHECK(!KeyRestorer::create(codes, encoder_of(codes, {{{0}, {}}})));
  const Field nested = struct_of({make_field("+s", {make_field("l")})});
  CHECK(!KeyRestorer::create(nested, encoder_of(nested, {{{0, 0}, {}}})));
}

TEST(KeyRestorer, RandomBytesAreReadOrRefused) {
  Rng rng(72);
  const Field root = struct_of({make_field("u"), make_field("i"),
                                make_field("b"), make_field("d:38,2")});
  const auto restorer = KeyRestorer::create(
      root,
      encoder_of(root, {{{0}, {}}, {{1}, {true, true}}, {{2}, {}}, {{3}, {}}}));
  REQUIRE(restorer.has_value());
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    KeyBuffer keys;
    std::vector<uint8_t> key(1 + rng() % 40);
    for (uint8_t& b : key) {
      b = static_cast<uint8_t>(rng() % 3 == 0 ? rng() : rng() % 3);
    }
    keys.push_back(key);
    Column out(root, /*wide=*/true);
    const Status status = restorer->append(keys, 0, 1, &out);
    refused += status.is_ok() ? 0 : 1;
    CHECK(status.is_ok() || status.code() == StatusCode::kCorrupt);
  }
  CHECK(refused > 0);
}

}  // namespace
}  // namespace nimble::testing
