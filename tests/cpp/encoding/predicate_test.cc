#include "nimble/encoding/core/predicate.h"

#include <random>
#include <vector>

#include "testing/check.h"

namespace nimble::testing {
namespace {

// Words of every density, in a buffer without room for one row more.
TEST(Predicate, SelectedRowsAreThoseOfTheBits) {
  std::mt19937_64 random(7);
  for (const uint32_t words : {1u, 2u, 16u, 100u}) {
    for (int density = 0; density <= 8; ++density) {
      for (int turn = 0; turn < 20; ++turn) {
        std::vector<uint64_t> selection(words);
        for (uint64_t& word : selection) {
          // A power of a half of the bits, all of them, or none.
          word = density == 8 ? 0 : ~uint64_t{0};
          for (int i = 0; i < density % 8; ++i) word &= random();
          if (random() % 4 == 0) word = density % 2 == 0 ? 0 : random();
        }
        std::vector<uint32_t> expected;
        for (uint32_t i = 0; i < words * 64; ++i) {
          if ((selection[i / 64] >> (i % 64) & 1) != 0) {
            expected.push_back(1000 + i);
          }
        }
        CHECK_EQ(count_selected(selection.data(), words), expected.size());
        std::vector<uint32_t> rows(expected.size());
        CHECK_EQ(selected_rows(selection.data(), words, 1000, rows.data()),
                 expected.size());
        CHECK(rows == expected);
      }
    }
  }
}

}  // namespace
}  // namespace nimble::testing
