// Phrases that all segments of a stream share. A file has at most one table for
// a column of text. The first segment that becomes smaller with phrases trains
// it. The table is stored in a section of its own and read once, so a row needs
// only its block. Segments with different text use their own phrases.
#pragma once

#include <bitset>
#include <memory>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/encoding/core/values.h"
#include "nimble/encoding/symbols/phrase_table.h"

namespace nimble {

// The writer's side. The phrases do not change once they exist. Not
// thread-safe.
class StreamPhrases {
 public:
  bool exist() const { return matcher_ != nullptr; }
  // Starts a stripe. Training is expensive, so after each attempt that does not
  // pay, twice as many stripes are skipped before the next attempt.
  void next_stripe();
  bool are_looked_for() const { return are_looked_for_; }
  void paid() { left_ = wait_ = 1; }
  // Sets the phrases. `share` is the size of codes per byte of text.
  // REQUIRES: phrases are in ascending order.
  void begin(std::vector<Phrase> phrases, double share);

  // REQUIRES: exist().
  const std::vector<Phrase>& phrases() const { return phrases_; }
  const PhraseMatcher& matcher() const { return *matcher_; }
  double share() const { return share_; }
  // Whether these strings can be encoded with the phrases.
  bool have_bytes_of(const Values& strings) const;

 private:
  std::vector<Phrase> phrases_;
  std::unique_ptr<const PhraseMatcher> matcher_;
  double share_ = 0;
  uint32_t wait_ = 1;  // stripes between two attempts
  uint32_t left_ = 1;  // stripes to the next attempt
  bool are_looked_for_ = false;
};

// The table as stored in a file. Phrases are in ascending order, and each
// stores the length it shares with its predecessor.
// docs/format/encodings_strings.md.
std::vector<uint8_t> serialize_phrases(const std::vector<Phrase>& phrases);
Result<std::vector<Phrase>> parse_phrases(ByteSpan bytes);

// The set of bytes that occur in the strings.
std::bitset<256> bytes_of(const Values& strings);
// Sorts by bytes. A phrase comes before longer phrases that begin with it.
void sort_phrases(std::vector<Phrase>* phrases);

}  // namespace nimble
