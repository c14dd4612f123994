// Trains phrases on a sample. Deterministic.
#pragma once

#include <algorithm>
#include <bitset>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/phrase_table.h"

namespace nimble {

// Returns the single bytes in `bytes` and the best phrases, for `total` bytes
// of strings like the sample.
std::vector<Phrase> train_phrases(const std::vector<ByteSlice>& sample,
                                  const std::bitset<256>& bytes,
                                  uint64_t total);

// Number of codes for the strings, and size of the strings in bytes.
struct PhraseSizes {
  uint64_t raw = 0;
  uint64_t codes = 0;
};
PhraseSizes measure_phrases(const PhraseMatcher& matcher,
                            const std::vector<ByteSlice>& strings);

// A copy of a string with 16 readable bytes after it. Valid until the next
// call.
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

// Calls f(id, length) for every phrase of a string, in order.
// REQUIRES: at least 16 bytes after `text` are readable.
template <class F>
void for_phrases(const PhraseMatcher& matcher, const uint8_t* text,
                 uint64_t size, F&& f) {
  for (uint64_t at = 0; at < size;) {
    const PhraseMatcher::Match match = matcher.match(text + at, size - at);
    f(match.id, match.length);
    at += match.length;
  }
}

}  // namespace nimble
