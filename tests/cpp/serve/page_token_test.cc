// Tokens read back, and any change makes them invalid.
#include "nimble/serve/page_token.h"

#include "testing/check.h"

namespace nimble {
namespace {

TEST(PageToken, ReadsBack) {
  for (size_t n = 0; n < 12; ++n) {
    PageToken token{1, UINT64_MAX, n, std::string(n, '\xff')};
    const std::string text = token.seal("secret");
    const Result<PageToken> back = PageToken::open(text, "secret");
    REQUIRE(static_cast<bool>(back));
    CHECK_EQ(back->request, token.request);
    CHECK_EQ(back->snapshot, token.snapshot);
    CHECK_EQ(back->rows_of_key, token.rows_of_key);
    CHECK(back->key == token.key);
    CHECK(!PageToken::open(text, "other"));
  }
}

TEST(PageToken, ChangedTextIsRefused) {
  const std::string text = PageToken{1, 2, 3, "key"}.seal("secret");
  for (size_t n = 0; n < text.size(); ++n) {
    CHECK(!PageToken::open(text.substr(0, n), "secret"));
    for (const char c : {'A', 'B', '-', '_', '=', '\0', '9'}) {
      std::string other = text;
      other[n] = c;
      CHECK(other == text || !PageToken::open(other, "secret"));
    }
  }
  CHECK(!PageToken::open(text + "A", "secret"));
}

}  // namespace
}  // namespace nimble
