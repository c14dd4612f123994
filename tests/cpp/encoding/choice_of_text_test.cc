#include "encoding/text_samples.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Encode select(Effort effort, bool random_access_only = false) {
  return [=](const Values& values, SegmentBuilder* out) {
    EncodeContext context;
    context.effort = effort;
    context.random_access_only = random_access_only;
    return encode_values(values, context, out);
  };
}

// The decoder's description: "dictionary n=5 (...) of ...".
std::string choice(const Sample& sample, Effort effort = Effort::kBalanced,
                   bool random_access_only = false) {
  SegmentBuilder builder;
  const Status status =
      select(effort, random_access_only)(sample.values(), &builder);
  if (!status.is_ok()) return std::string(status.message());
  ByteReader head(builder.head.span());
  auto decoder = open_decoder(
      &head, {ValueType::bytes(), sample.size, builder.body.size(), 0});
  return decoder ? (*decoder)->describe()
                 : std::string(decoder.error().message());
}

void check_choice(const std::string& got, const std::string& want) {
  CHECK_EQ(got.substr(0, want.size()), want);
}

const Effort kEfforts[] = {Effort::kBalanced, Effort::kFast, Effort::kCompact};

TEST(BytesSelection, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    for (const Effort effort : kEfforts) {
      check_encoding(s.name, s.sample, select(effort));
    }
    check_encoding(s.name, s.sample, select(Effort::kBalanced, true));
  }
}

TEST(BytesSelection, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding(s.name, s.sample, select(Effort::kBalanced));
  }
}

TEST(BytesSelection, NeverMuchLargerThanPlain) {
  for (const NamedSample& s : nasty_samples()) {
    const uint64_t plain = encoded_bytes(s.sample, encode_plain_bytes);
    for (const Effort effort : kEfforts) {
      CHECK(encoded_bytes(s.sample, select(effort)) <= plain + 64);
    }
  }
}

TEST(BytesSelection, TakesWhatFitsTheColumn) {
  const auto make = [](auto&& f) { return bytes_sample(20000, f); };
  check_choice(choice(make([](uint32_t) { return std::string("same"); })),
               "constant");
  check_choice(choice(make(comment)), "fsst");
  check_choice(choice(make(uuid)), "template \"xxxxxxxx-xxxx-4xxx-xxxx-");
  check_choice(choice(make([](uint32_t i) { return noise(i, 20); })), "plain");
  const Sample few = make([](uint32_t i) { return comment(mix(i) % 40); });
  check_choice(choice(few), "dictionary n=40 ");
  check_choice(choice(few, Effort::kFast), "dictionary n=40 ");
  const Sample runs = make([](uint32_t i) { return comment(i / 300); });
  check_choice(choice(runs), "run length");
  check_choice(choice(make(comment), Effort::kFast), "plain");
  check_choice(choice(make(comment), Effort::kCompact), "phrases");
  check_choice(choice(bytes_sample(1000, comment), Effort::kCompact), "zstd");
  check_choice(choice(make(comment), Effort::kCompact, true), "phrases");
}

// A constant that is too long for a head.
// The lengths of shared prefixes vary, although all strings have the same
// length.
TEST(BytesSelection, ShortCodesAreNotFrontCoded) {
  const auto skewed = bytes_sample(50000, [](uint32_t i) {
    const uint64_t value = mix(i) % 20;
    return std::string(1, value < 15 ? 'D' : "NPSCR"[value - 15]);
  });
  check_choice(choice(skewed), "dictionary n=6");
  const auto letters = bytes_sample(50000, [](uint32_t i) {
    return std::string(1, static_cast<char>('A' + mix(i) % 5));
  });
  check_choice(choice(letters), "dictionary n=5");
  const auto runs = bytes_sample(50000, [](uint32_t i) {
    const uint64_t value = mix(i / 6) % 100;
    return std::string{static_cast<char>('A' + value / 10),
                       static_cast<char>('A' + value % 10)};
  });
  check_choice(choice(runs), "run length");
}

TEST(BytesSelection, LongConstantIsStoredOnce) {
  const Sample sample =
      bytes_sample(1000, [](uint32_t) { return noise(1, 10000); });
  CHECK(encoded_bytes(sample, select(Effort::kBalanced)) < 11000);
  check_encoding("long constant", sample, select(Effort::kBalanced));
}

TEST(BytesSelection, IsDeterministic) {
  const Sample sample = bytes_sample(10000, comment);
  for (const Effort effort : kEfforts) {
    SegmentBuilder a, b;
    REQUIRE(select(effort)(sample.values(), &a).is_ok());
    REQUIRE(select(effort)(sample.values(), &b).is_ok());
    CHECK(a.head.take() == b.head.take());
    CHECK(a.body.take() == b.body.take());
  }
}

}  // namespace
}  // namespace nimble::testing
