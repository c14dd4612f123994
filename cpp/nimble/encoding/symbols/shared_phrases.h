// Phrases that segments of a stream share. A file has one table of them for a
// column of text: made of the first segment that gains by phrases, stored in a
// section of its own, and read once, so that a row is found by its block alone.
// Segments of other text bring their own.
#pragma once

#include <bitset>
#include <memory>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/encoding/core/values.h"
#include "nimble/encoding/symbols/phrase_table.h"

namespace nimble {

// What the writer of a stream knows of them. Once there are some, they stay.
class StreamPhrases {
 public:
  bool exist() const { return matcher_ != nullptr; }
  // New ones take long to find: each time that none paid, twice as many stripes
  // pass before one whose segments look for them.
  void next_stripe();
  bool are_looked_for() const { return are_looked_for_; }
  void paid() { left_ = wait_ = 1; }
  // `share` of the text's bytes is what its codes take. Phrases ascend.
  void begin(std::vector<Phrase> phrases, double share);

  // Where they exist.
  const std::vector<Phrase>& phrases() const { return phrases_; }
  const PhraseMatcher& matcher() const { return *matcher_; }
  double share() const { return share_; }
  // Can these strings be written with them?
  bool have_bytes_of(const Values& strings) const;

 private:
  std::vector<Phrase> phrases_;
  std::unique_ptr<const PhraseMatcher> matcher_;
  double share_ = 0;
  uint32_t wait_ = 1;  // stripes from one look to the next
  uint32_t left_ = 1;  // to the next look
  bool are_looked_for_ = false;
};

// The table as a file holds it. Phrases ascend, and each says how much it has
// of the one before it. docs/format/encodings_strings.md.
std::vector<uint8_t> serialize_phrases(const std::vector<Phrase>& phrases);
Result<std::vector<Phrase>> parse_phrases(ByteSpan bytes);

// Which bytes the strings have.
std::bitset<256> bytes_of(const Values& strings);
// By their bytes, a shorter one before those that begin with it.
void sort_phrases(std::vector<Phrase>* phrases);

}  // namespace nimble
