// SharedSource: what the segments of a stream share, where a reader has it
// from. A file has at most one table of phrases and one dictionary for each
// column, read on first use and good as long as the source.
#pragma once

#include "nimble/base/result.h"

namespace nimble {

class PhraseTable;       // phrase_table.h
class SharedDictionary;  // shared_dictionary.h

class SharedSource {
 public:
  virtual ~SharedSource() = default;
  // Both may wait for a read of the file, and fail where it has none.
  virtual Result<const PhraseTable*> phrases() const = 0;
  virtual Result<const SharedDictionary*> dictionary() const = 0;
};

// What decoding a segment needs of it.
struct SharedUse {
  bool phrases = false;
  bool dictionary = false;
};

}  // namespace nimble
