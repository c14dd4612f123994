// Damaged files, checksums left as they are: whatever is flipped, cut, moved or
// overwritten, reading gives an error or exactly the rows that were written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/base/bytes.h"

namespace nimble::fuzz {

struct DamageCounts {
  uint64_t files = 0;
  uint64_t refused = 0;  // not opened
  uint64_t read = 0;     // opened, all answers right
  uint64_t errors = 0;   // opened, some answers refused, the others right
  double slowest = 0;    // seconds of one file
};

class DamagedFiles {
 public:
  // Whole files; `largest` bytes at most, others are left out.
  DamagedFiles(const std::vector<std::vector<uint8_t>>& seeds, size_t largest);
  ~DamagedFiles();

  // Makes damaged file `number`: the same for ever.
  std::vector<uint8_t> make(uint64_t number) const;
  // Opens, scans and looks up in it. What is wrong; empty if nothing is.
  std::string check(uint64_t number, DamageCounts* counts) const;

 private:
  struct Original;
  std::vector<std::unique_ptr<const Original>> originals_;
};

}  // namespace nimble::fuzz
