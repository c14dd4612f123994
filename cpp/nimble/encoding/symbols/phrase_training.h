// Which phrases: those that a sample is made of. Deterministic.
#pragma once

#include <algorithm>
#include <bitset>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/phrase_table.h"

namespace nimble {

// The single bytes of `bytes` and the best phrases, for strings that begin like
// the sample and have `total` bytes.
std::vector<Phrase> train_phrases(const std::vector<ByteSlice>& sample,
                                  const std::bitset<256>& bytes,
                                  uint64_t total);

// Codes that the strings take with these phrases, and the bytes they have.
struct PhraseSizes {
  uint64_t raw = 0;
  uint64_t codes = 0;
};
PhraseSizes measure_phrases(const PhraseMatcher& matcher,
                            const std::vector<ByteSlice>& strings);

// A copy of a string, which may be read beyond its end.
class PaddedText {
 public:
  const uint8_t* of(const ByteSlice& s) {
    if (bytes_.size() < s.size + kMaxPhraseBytes) {
      bytes_.resize(2 * s.size + kMaxPhraseBytes);
    }
    std::copy_n(s.data, s.size, bytes_.data());
    return bytes_.data();
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Calls f(id, length) for every phrase of a string, in order. Behind `text`
// are at least 16 bytes that may be read.
template <class F>
void for_phrases(const PhraseMatcher& matcher, const uint8_t* text,
                 uint64_t size, F&& f) {
  for (uint64_t at = 0; at < size;) {
    const PhraseMatcher::Match found = matcher.match(text + at, size - at);
    f(found.id, found.length);
    at += found.length;
  }
}

}  // namespace nimble
