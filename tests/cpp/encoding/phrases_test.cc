#include "nimble/encoding/symbols/phrases.h"

#include <algorithm>

#include "encoding/text_samples.h"
#include "nimble/base/hash.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "nimble/encoding/symbols/phrase_training.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Phrase phrase(const std::string& s) {
  return Phrase::of(reinterpret_cast<const uint8_t*>(s.data()),
                    static_cast<uint32_t>(s.size()));
}

// Any phrases work if every byte can be encoded.
Status encode_with_few(const Values& values, SegmentBuilder* out) {
  std::vector<Phrase> phrases;
  for (uint32_t b = 0; b < 256; ++b) phrases.push_back({b, 0, 1});
  for (const char* s : {"th", "the ", "quick ", "0123456789abcdef", "final "}) {
    phrases.push_back(phrase(s));
  }
  return encode_phrases(values, phrases, out);
}

Status encode_with_own_phrases(const Values& values, SegmentBuilder* out) {
  return encode_phrases(values, train_phrases(values), out);
}

TEST(Phrases, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("few phrases of " + s.name, s.sample, encode_with_few);
    if (s.sample.size < 2) continue;
    check_encoding("phrases of " + s.name, s.sample, encode_with_own_phrases);
  }
}

TEST(Phrases, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("phrases of " + s.name, s.sample, encode_with_own_phrases);
  }
}

TEST(Phrases, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    check_encoding("phrases of words",
                   bytes_sample(n,
                                [](uint32_t i) {
                                  return comment(i % 1000).substr(0,
                                                                  mix(i) % 20);
                                }),
                   encode_with_few);
  }
}

// Codes of every width: from two phrases to a full table.
TEST(Phrases, TablesOfAllSizes) {
  for (uint32_t bits = 1; bits <= kMaxPhraseBits; ++bits) {
    std::vector<Phrase> phrases = {phrase("a"), phrase("b")};
    for (uint32_t i = 2; i < 1u << bits; ++i) {
      std::string s;
      for (uint32_t k = i; k > 0; k /= 2) s += k % 2 == 0 ? "a" : "b";
      phrases.push_back(phrase(s));
    }
    check_encoding("phrases of " + std::to_string(bits) + " bits",
                   bytes_sample(600,
                                [](uint32_t i) {
                                  std::string s;
                                  for (uint32_t k = 0; k < mix(i) % 60; ++k)
                                    s += mix(i * 64 + k) % 2 == 0 ? "a" : "b";
                                  return s;
                                }),
                   [&](const Values& v, SegmentBuilder* out) {
                     return encode_phrases(v, phrases, out);
                   });
  }
}

TEST(Phrases, TakeLessThanFsst) {
  const Sample sample = bytes_sample(30000, comment);
  const uint64_t fsst =
      encoded_bytes(sample, [](const Values& v, SegmentBuilder* out) {
        return encode_fsst(v, train_fsst(sample_strings(v, 24576)), out);
      });
  const uint64_t own = encoded_bytes(sample, encode_with_own_phrases);
  CHECK(own * 10 < fsst * 8);
  const Values values = sample.values();
  const uint64_t guess = estimate_phrases(values, train_phrases(values));
  CHECK(guess * 10 > own * 9);
  CHECK(guess * 9 < own * 10);
}

TEST(Phrases, TrainingIsDeterministic) {
  const Sample sample = bytes_sample(20000, comment);
  const std::vector<Phrase> phrases = train_phrases(sample.values());
  CHECK(phrases == train_phrases(sample.values()));
  CHECK(phrases.size() <= kMaxPhrases);
  // Bytes that do not occur are not in the table.
  const auto of = [&](char c) {
    return std::find(phrases.begin(), phrases.end(), phrase({c}));
  };
  CHECK(of('e') != phrases.end());
  CHECK(of('\x01') == phrases.end());
}

TEST(Phrases, TheLongestIsTaken) {
  std::vector<Phrase> bytes;
  for (uint32_t b = 0; b < 255; ++b) bytes.push_back({b, 0, 1});
  PhraseMatcher matcher(bytes);
  const std::vector<std::string> all = {"ab",       "abc",       "abcd",
                                        "abcdefgh", "abcdefghi", "xyz"};
  for (uint32_t i = 0; i < all.size(); ++i) {
    CHECK(matcher.add(phrase(all[i]), 256 + i));
    CHECK(!matcher.add(phrase(all[i]), 999));
  }
  const auto match = [&](std::string text, uint64_t remaining) {
    text.resize(16);
    const PhraseMatcher::Match found =
        matcher.match(reinterpret_cast<const uint8_t*>(text.data()), remaining);
    return std::pair{found.id, found.length};
  };
  CHECK(match("abcdefghij", 10) == std::pair(260u, 9u));
  CHECK(match("abcdefghij", 8) == std::pair(259u, 8u));
  CHECK(match("abcdefghij", 7) == std::pair(258u, 4u));
  CHECK(match("abcdefghij", 3) == std::pair(257u, 3u));
  CHECK(match("abcdefghij", 2) == std::pair(256u, 2u));
  CHECK(match("abcdefghij", 1) == std::pair(uint32_t{'a'}, 1u));
  CHECK(match("xyzw", 4) == std::pair(261u, 3u));
  CHECK(match("zzz", 3) == std::pair(uint32_t{'z'}, 1u));
  CHECK(match("\xff", 1) == std::pair(PhraseMatcher::kNoPhrase, 1u));
}

// Finds the longest phrase by trying all of them.
TEST(Phrases, MatchesAreThoseOfASearch) {
  std::vector<Phrase> phrases;
  for (uint32_t i = 0; i < 4000; ++i) {
    std::string s;
    for (uint32_t k = 0; k <= mix(i) % 16; ++k) {
      s += static_cast<char>('a' + mix(i * 16 + k) % (i % 2 == 0 ? 2 : 6));
    }
    phrases.push_back(phrase(s));
  }
  const PhraseMatcher matcher(phrases);
  std::string text;
  for (uint32_t i = 0; i < 20000; ++i) {
    text += static_cast<char>('a' + mix(i + 77) % (i / 1000 % 2 == 0 ? 2 : 7));
  }
  text.resize(text.size() + kMaxPhraseBytes);
  const auto* const begin = reinterpret_cast<const uint8_t*>(text.data());
  for (uint32_t i = 0; i < 20000; ++i) {
    const uint32_t left = 1 + static_cast<uint32_t>(mix(i) % 20);
    uint32_t longest = 0;
    const Phrase here = Phrase::of(begin + i, kMaxPhraseBytes);
    for (const Phrase& p : phrases) {
      if (p.length > longest && p.length <= left && here.front(p.length) == p) {
        longest = p.length;
      }
    }
    const PhraseMatcher::Match found = matcher.match(begin + i, left);
    CHECK_EQ(found.length, std::max(longest, 1u));
    if (longest == 0) {
      CHECK_EQ(found.id, uint32_t{PhraseMatcher::kNoPhrase});
    } else {
      CHECK(phrases[found.id] == here.front(longest));
    }
  }
}

TEST(Phrases, BytesOfTheDocumentedExample) {
  const std::vector<std::string> strings = {"abcd", "ab!", "cd"};
  std::vector<Phrase> phrases;
  for (const char* s : {"!", "a", "b", "c", "d", "ab", "cd", "abcd"}) {
    phrases.push_back(phrase(s));
  }
  const Sample sample = bytes_sample(3, [&](uint32_t i) { return strings[i]; });
  SegmentBuilder out;
  REQUIRE(encode_phrases(sample.values(), phrases, &out).is_ok());
  CHECK_EQ(hex(out.head.span()),
           "16 08 01 18 51 ca 50 26 a2 a0 83 33 49 12 89 21 61 62 63 64 61 62 "
           "63 64 61 62 63 64 14 08 03 00 18 03 09 08 02 00 0b");
  CHECK_EQ(hex(out.body.span()), "f8 e7 c2 67 fb d2 11 b9 19 2f 0c");
}

// ------------------------------------------------------------------- shared

TEST(Phrases, SharedTablesComeBack) {
  const Sample sample = bytes_sample(20000, comment);
  std::vector<Phrase> phrases = train_shared_phrases(sample.values());
  CHECK(phrases == *parse_phrases(serialize_phrases(phrases)));
  // Every byte has a phrase, because codes are not wider for it.
  StreamPhrases stream;
  CHECK(!stream.exist());
  stream.begin(phrases, 0.2);
  CHECK(stream.have_bytes_of(bytes_sample(256, [](uint32_t i) {
                               return std::string(1, static_cast<char>(i));
                             }).values()));
  // Phrases of two letters cannot encode other letters.
  const Sample few = bytes_sample(900, [](uint32_t i) {
    return i % 3 == 0 ? std::string("aaaa") : std::string("abababab");
  });
  StreamPhrases narrow;
  narrow.begin(train_shared_phrases(few.values()), 0.2);
  CHECK(narrow.have_bytes_of(few.values()));
  CHECK(!narrow.have_bytes_of(
      bytes_sample(3, [](uint32_t) { return std::string("abc"); }).values()));
  CHECK(parse_phrases(serialize_phrases({}))->empty());
}

TEST(Phrases, BytesOfTheDocumentedTable) {
  std::vector<Phrase> phrases;
  for (const char* s : {"cd", "b", "abcd", "a", "ab"}) {
    phrases.push_back(phrase(s));
  }
  sort_phrases(&phrases);
  CHECK_EQ(hex(serialize_phrases(phrases)),
           "05 00 61 11 62 23 63 64 00 62 01 63 64");
}

TEST(Phrases, DamagedTablesAreRefused) {
  const auto parsed = [](const std::vector<uint8_t>& bytes) {
    return parse_phrases(bytes).has_value();
  };
  CHECK(parsed({2, 0x00, 'a', 0x11, 'b'}));
  CHECK(!parsed({}));
  CHECK(!parsed({2, 0x00, 'a'}));     // one is missing
  CHECK(!parsed({1, 0x03, 'a'}));     // and three bytes
  CHECK(!parsed({1, 0x00, 'a', 0}));  // a byte too many
  CHECK(!parsed({1, 0x11, 'a'}));     // shares with no predecessor
  // shares more than the predecessor has
  CHECK(!parsed({2, 0x00, 'a', 0x22, 'b'}));
  CHECK(!parsed({2, 0x00, 'a', 0x10, 'b'}));  // shares a whole predecessor
  CHECK(!parsed({0x81, 0x20}));               // 4,097 phrases
}

TEST(Phrases, LooksBecomeRareUntilOnePays) {
  StreamPhrases stream;
  const auto looks = [&](uint32_t stripes) {
    std::string s;
    for (uint32_t i = 0; i < stripes; ++i) {
      stream.next_stripe();
      s += stream.are_looked_for() ? 'x' : '.';
    }
    return s;
  };
  CHECK_EQ(looks(15), std::string("x.x...x.......x"));
  stream.paid();
  CHECK_EQ(looks(3), std::string("x.x"));
}

// ------------------------------------------------------------------- damage

// A head as a file may contain it, before the blocks of one string.
Status opened(const std::vector<std::string>& phrases, uint8_t width) {
  SegmentBuilder out;
  put_encoding_id(EncodingId::kPhrases, &out);
  out.head.put_varint(phrases.size());
  std::vector<ByteSlice> slices;
  for (const std::string& s : phrases) {
    slices.push_back({reinterpret_cast<const uint8_t*>(s.data()), s.size()});
  }
  Values child;
  child.type = ValueType::bytes();
  child.size = static_cast<uint32_t>(slices.size());
  child.slices = slices.data();
  NIMBLE_RETURN_IF_ERROR(encode_child_with(
      [&](SegmentBuilder* to) { return encode_plain_bytes(child, to); },
      1 << 20, &out));
  out.head.put_u8(width);
  out.head.put_varint(3);
  // One block: three codes of one byte each, or fewer.
  out.head.put_u8(8);
  out.head.put_u8(0);
  out.head.put_varint(3);
  out.head.put_varint(0);
  out.head.put_varint(11);
  out.body.resize(11);
  const uint8_t codes[3] = {0, 1, 1};
  std::copy_n(codes, 3, out.body.data() + 8);
  store(out.body.data(), checksum64({codes, 3}));
  ByteReader head(out.head.span());
  DecodeContext context;
  context.type = ValueType::bytes();
  context.num_values = 1;
  context.body_size = out.body.size();
  NIMBLE_ASSIGN_OR_RETURN(const auto decoder, open_decoder(&head, context));
  SegmentBody body;
  body.data = out.body.data();
  body.size = out.body.size();
  BytesSink sink;
  Output to;
  to.bytes = &sink;
  NIMBLE_RETURN_IF_ERROR(decoder->decode(body, 0, 1, to));
  CHECK_EQ(sink.data.size(),
           size_t{4});  // "x", "yz" and a code without a phrase
  const uint32_t row = 0;
  BytesSink one;
  to.bytes = &one;
  return decoder->gather(body, &row, 1, to);
}

TEST(Phrases, DamageIsFound) {
  const std::vector<std::string> two = {"xyz", "y"};
  CHECK(opened({"x", ""}, 8).code() == StatusCode::kCorrupt);
  CHECK(opened({"x", std::string(17, 'x')}, 8).code() == StatusCode::kCorrupt);
  CHECK(opened(std::vector<std::string>(4097, "x"), 8).code() ==
        StatusCode::kCorrupt);
  CHECK(opened(two, 0).code() == StatusCode::kCorrupt);
  CHECK(opened(two, 13).code() == StatusCode::kCorrupt);
  // Three codes of seven bits take three bytes, of nine bits four.
  CHECK(opened(two, 9).code() == StatusCode::kCorrupt);
}

// Damaged segments may have codes without a phrase.
TEST(Phrases, CodesWithoutAPhraseAreEmpty) {
  CHECK(opened({"xx", "y"}, 8).is_ok());
  CHECK(opened({"wxyz"}, 8).is_ok());
}

}  // namespace
}  // namespace nimble::testing
