// The files that may have a key: by bounds, by column statistics, and opened
// when they are needed.
#include "nimble/locate/files_by_key.h"

#include <algorithm>
#include <string>

#include "reader/columns.h"

namespace nimble::testing {
namespace {

// A key of two integers, (a, b).
struct Keys {
  Keys() : field(struct_of({make_field("l"), make_field("l")})) {
    auto made = KeyEncoder::create(field, {{{0}, {}}, {{1}, {}}});
    REQUIRE(made.has_value());
    encoder.emplace(std::move(*made));
  }
  std::string encode(int64_t a, int64_t b) const {
    const KeyScalar values[] = {KeyScalar::from_int(a), KeyScalar::from_int(b)};
    ByteBuffer out;
    CHECK(encoder->encode_tuple(values, &out));
    return {reinterpret_cast<const char*>(out.data()), out.size()};
  }

  Field field;
  std::optional<KeyEncoder> encoder;
};

struct Bounds final : FileKeyBounds {
  std::vector<std::string> lowers, uppers;
  size_t size() const override { return lowers.size(); }
  ByteSpan lower(size_t file) const override { return as_bytes(lowers[file]); }
  ByteSpan upper(size_t file) const override { return as_bytes(uppers[file]); }
};

struct Opened final : KeyedFile {
  Opened(size_t file, const KeyEncoder* e) : number(file), encodes(e) {}
  const KeyEncoder& encoder() const override { return *encodes; }
  size_t number;
  const KeyEncoder* encodes;
};

// File i has the keys (i / 2, 0) to (i / 2 + width, 9), and b from i to i + 5.
struct Files {
  Files(size_t count, int64_t width) : bounds(std::make_shared<Bounds>()) {
    for (size_t i = 0; i < count; ++i) {
      const auto first = static_cast<int64_t>(i / 2);
      bounds->lowers.push_back(keys.encode(first, 0));
      bounds->uppers.push_back(keys.encode(first + width, 9));
      minimum.push_back(static_cast<int64_t>(i));
      maximum.push_back(static_cast<int64_t>(i) + 5);
    }
  }
  FilesByKey create(bool by_column) {
    std::vector<ColumnBounds> columns;
    if (by_column) columns.push_back({1, minimum, maximum});
    auto made = FilesByKey::create(
        &*keys.encoder, bounds, columns,
        [this](std::span<const size_t> files)
            -> Result<std::vector<FilesByKey::FilePtr>> {
          std::vector<FilesByKey::FilePtr> out;
          for (const size_t file : files) {
            opened.push_back(file);
            if (file == unusable) {
              out.push_back(nullptr);
            } else {
              out.push_back(std::make_shared<Opened>(file, &*keys.encoder));
            }
          }
          rounds += 1;
          return out;
        });
    REQUIRE(made.has_value());
    return std::move(*made);
  }
  // The files that are searched for a key.
  std::vector<size_t> searched(FilesByKey* files, int64_t a, int64_t b) {
    const std::string encoded = keys.encode(a, b);
    FilesByKey::Key key{as_bytes(encoded), {}};
    if (!files->column_bounds().empty()) key.values.push_back(b);
    std::vector<size_t> out;
    const auto done = files->search(key, [&](const KeyedFile& file) {
      out.push_back(static_cast<const Opened&>(file).number);
      return false;
    });
    REQUIRE(done.has_value());
    is_answer = *done;
    return out;
  }

  Keys keys;
  std::shared_ptr<Bounds> bounds;
  std::vector<int64_t> minimum, maximum;
  std::vector<size_t> opened;
  size_t rounds = 0;
  size_t unusable = SIZE_MAX;
  bool is_answer = false;
};

TEST(FilesByKey, OnlyFilesWithTheKeyInTheirBounds) {
  for (const int64_t width : {0, 1, 40}) {
    Files all(300, width);
    FilesByKey files = all.create(false);
    FilesByKey by_column = all.create(true);
    for (int64_t a = -2; a < 200; a += 3) {
      std::vector<size_t> wanted, in_column;
      for (size_t i = 0; i < 300; ++i) {
        const auto first = static_cast<int64_t>(i / 2);
        if (a < first || a > first + width) continue;
        wanted.push_back(i);
        if (all.minimum[i] <= 7 && 7 <= all.maximum[i]) in_column.push_back(i);
      }
      CHECK(all.searched(&files, a, 7) == wanted);
      CHECK(all.is_answer);
      CHECK(all.searched(&by_column, a, 7) == in_column);
    }
  }
}

TEST(FilesByKey, FilesAreOpenedTogetherAndKept) {
  Files all(20, 100);
  FilesByKey files = all.create(false);
  CHECK_EQ(all.searched(&files, 50, 1).size(), 20);
  CHECK_EQ(all.rounds, 2);  // sixteen, then four
  CHECK_EQ(all.searched(&files, 50, 1).size(), 20);
  CHECK_EQ(all.opened.size(), 20);
}

TEST(FilesByKey, AFewHundredFilesAreKept) {
  Files all(2000, 0);
  FilesByKey files = all.create(false);
  for (int64_t a = 0; a < 1000; ++a)
    CHECK_EQ(all.searched(&files, a, 1).size(), 2);
  CHECK_EQ(all.opened.size(), 2000);
  CHECK_EQ(all.searched(&files, 999, 1).size(), 2);
  CHECK_EQ(all.opened.size(), 2000);
  CHECK_EQ(all.searched(&files, 0, 1).size(), 2);
  CHECK_EQ(all.opened.size(), 2002);
}

TEST(FilesByKey, FilesThatCannotBeSearchedEndTheSearch) {
  Files all(6, 100);
  all.unusable = 3;
  FilesByKey files = all.create(false);
  CHECK_EQ(all.searched(&files, 50, 1).size(), 3);
  CHECK(!all.is_answer);
  CHECK_EQ(all.searched(&files, 50, 1).size(), 3);
  CHECK_EQ(all.rounds, 1);
}

TEST(FilesByKey, FailuresOfOpening) {
  Files all(3, 1);
  auto files =
      FilesByKey::create(&*all.keys.encoder, all.bounds, {},
                         [](auto) -> Result<std::vector<FilesByKey::FilePtr>> {
                           return Status::io_error("no");
                         });
  REQUIRE(files.has_value());
  const std::string encoded = all.keys.encode(0, 1);
  const auto done = files->search({as_bytes(encoded), {}},
                                  [](const KeyedFile&) { return true; });
  CHECK(!done.has_value());
  CHECK(!FilesByKey::create(&*all.keys.encoder, all.bounds,
                            {{5, all.minimum, all.maximum}}, nullptr)
             .has_value());
}

}  // namespace
}  // namespace nimble::testing
