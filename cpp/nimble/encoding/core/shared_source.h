// SharedSource: the reader's access to the structures that a stream's segments
// share. A file has at most one phrase table and one dictionary per column.
// They are read on first use and stay valid as long as the source. Thread-safe.
#pragma once

#include "nimble/base/result.h"

namespace nimble {

class PhraseTable;       // phrase_table.h
class SharedDictionary;  // shared_dictionary.h

class SharedSource {
 public:
  virtual ~SharedSource() = default;
  // Both may block on a read of the file. They fail if the file has no such
  // structure.
  virtual Result<const PhraseTable*> phrases() const = 0;
  virtual Result<const SharedDictionary*> dictionary() const = 0;
};

// Which shared structures decoding a segment needs.
struct SharedUse {
  bool phrases = false;
  bool dictionary = false;
};

}  // namespace nimble
