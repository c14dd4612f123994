// A spilled file gives back what was written to it.
#include "nimble/io/spilled_file.h"

#include "io/temp_dir.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

TEST(SpilledFile, IsReadAsItWasWritten) {
  const TempDir dir;
  auto created = SpillFile::create(dir.path(""));
  REQUIRE(created.has_value());
  const std::shared_ptr<SpillFile> file = std::move(*created);
  std::string want;
  {
    const auto target = spill_target(file);
    for (const size_t n :
         {size_t{5}, size_t{0}, size_t{300} << 10, size_t{7}}) {
      const std::string piece(n, static_cast<char>('a' + n % 26));
      CHECK(target->append(as_bytes(piece)));
      want += piece;
    }
    CHECK(target->commit());
  }
  const auto source = spill_source(file);
  CHECK_EQ(source->size(), want.size());
  CHECK(source->mapped() == nullptr);
  std::string got(want.size(), ' ');
  auto* out = reinterpret_cast<uint8_t*>(got.data());
  CHECK(source->read_at({0, want.size(), out}));
  CHECK(got == want);
  CHECK(source->read_at({1, want.size(), out}).code() == StatusCode::kCorrupt);
  CHECK(dir.names().empty());
}

}  // namespace
}  // namespace nimble::testing
