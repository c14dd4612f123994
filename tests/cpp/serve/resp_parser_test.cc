// Commands cut from bytes: split anywhere, above limits, and random.
#include "nimble/serve/resp_parser.h"

#include <random>

#include "testing/check.h"

namespace nimble {
namespace {

struct Parsed {
  RespState state = RespState::kIncomplete;
  std::vector<std::string_view> arguments;
  size_t used = 0;
  std::string problem;
};

Parsed parse(std::string_view bytes, const RespLimits& limits = {}) {
  Parsed out;
  out.state =
      RespParser().next(bytes, limits, &out.arguments, &out.used, &out.problem);
  return out;
}

TEST(RespParser, CommandIsIncompleteAtEveryCut) {
  const std::string text = "*3\r\n$5\r\nHMGET\r\n$7\r\nusers:1\r\n$0\r\n\r\n";
  for (size_t n = 0; n < text.size(); ++n) {
    CHECK(parse(text.substr(0, n)).state == RespState::kIncomplete);
  }
  const std::string two = text + "*1\r\n";
  const Parsed p = parse(two);
  REQUIRE(p.state == RespState::kCommand);
  CHECK_EQ(p.used, text.size());
  REQUIRE(p.arguments.size() == 3u);
  CHECK(p.arguments[0] == "HMGET" && p.arguments[1] == "users:1");
  CHECK(p.arguments[2].empty());
}

// Every packet made the parser start again at the first argument.
TEST(RespParser, CommandThatArrivesInPiecesEqualsTheWholeOne) {
  std::mt19937_64 rng(3);
  std::string text = "*500\r\n";
  for (int i = 0; i < 500; ++i) {
    const std::string argument(rng() % 30, 'a');
    text += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  }
  text += "PING  x\r\n*1\r\n$4\r\nPING\r\n";
  for (const size_t most : {1, 2, 7, 100, 5000}) {
    RespParser parser;
    std::vector<size_t> sizes;
    size_t begin = 0, end = 0;
    while (begin < text.size()) {
      const std::string received = text.substr(begin, end - begin);
      Parsed p;
      p.state = parser.next(received, {}, &p.arguments, &p.used, &p.problem);
      REQUIRE(p.state != RespState::kBroken);
      if (p.state == RespState::kIncomplete) {
        REQUIRE(end < text.size());
        end = std::min(text.size(), end + 1 + rng() % most);
        continue;
      }
      const Parsed whole = parse(std::string_view(text).substr(begin));
      CHECK(p.arguments == whole.arguments);
      CHECK_EQ(p.used, whole.used);
      sizes.push_back(p.arguments.size());
      begin += p.used;
    }
    CHECK(sizes == (std::vector<size_t>{500, 2, 1}));
  }
}

TEST(RespParser, InlineCommandIsSplitAtBlanks) {
  const Parsed p = parse("  get \t a:1 \r\nPING\r\n");
  REQUIRE(p.state == RespState::kCommand);
  REQUIRE(p.arguments.size() == 2u);
  CHECK(p.arguments[0] == "get" && p.arguments[1] == "a:1");
  CHECK_EQ(p.used, size_t{14});
  const Parsed empty = parse("\r\n");
  CHECK(empty.state == RespState::kCommand && empty.arguments.empty());
  CHECK_EQ(empty.used, size_t{2});
}

TEST(RespParser, BytesOutsideTheLimitsAreBroken) {
  for (const std::string_view text :
       {"*1000000000\r\n", "*1\r\n$-5\r\n", "*1\r\n$9999999999\r\n",
        "*1\r\n:1\r\n", "*x\r\n", "*1\rx", "*1\r\n$1\r\nab\r\n",
        "*99999999999999999999999999999999999", "*1\r\n$1\r\naXY"}) {
    const Parsed p = parse(text);
    CHECK(p.state == RespState::kBroken);
    CHECK(!p.problem.empty());
  }
  // No arguments, as Redis accepts it.
  CHECK(parse("*0\r\n").state == RespState::kCommand);
  CHECK(parse("*-1\r\n").state == RespState::kCommand);
  RespLimits small;
  small.max_command_bytes = 20;
  CHECK(parse("*2\r\n$9\r\n123456789\r\n$9\r\n", small).state ==
        RespState::kBroken);
  small.max_inline_bytes = 8;
  CHECK(parse("12345678", small).state == RespState::kBroken);
}

TEST(RespParser, RandomBytesNeverUseMoreThanThereIs) {
  std::mt19937_64 rng(7);
  constexpr std::string_view kLikely = "*$\r\n0123456789-: GETa";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = rng() % 40; n > 0; --n) {
      text.push_back(rng() % 8 == 0 ? static_cast<char>(rng())
                                    : kLikely[rng() % kLikely.size()]);
    }
    const Parsed p = parse(text);
    CHECK(p.used <= text.size());
    for (const std::string_view a : p.arguments) {
      CHECK(a.data() >= text.data() &&
            a.data() + a.size() <= text.data() + text.size());
    }
    if (p.state != RespState::kCommand) continue;
    CHECK(p.used > 0);
    // The same command whatever follows.
    CHECK_EQ(parse(text.substr(0, p.used)).used, p.used);
  }
}

}  // namespace
}  // namespace nimble
