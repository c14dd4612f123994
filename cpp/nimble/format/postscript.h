// Postscript: the end of a file, with a fixed size. It has the position and the
// checksum of the footer.
#pragma once

#include <array>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/constants.h"

namespace nimble {

// offset  size  meaning (little-endian)
//      0     8  footer offset
//      8     8  footer size
//     16     8  footer checksum (XXH3-64)
//     24     8  required feature bits: unknown ones make the file unreadable
//     32     8  optional feature bits: unknown ones are ignored
//     40     2  major version: readers refuse newer ones
//     42     2  minor version
//     44     4  reserved, zero
//     48     8  checksum (XXH3-64) of bytes 0 .. 47
//     56     8  magic
struct Postscript {
  uint64_t footer_offset = 0;
  uint64_t footer_size = 0;
  uint64_t footer_checksum = 0;
  uint64_t required_features = 0;
  uint64_t optional_features = 0;
  uint16_t major = kMajorVersion;
  uint16_t minor = kMinorVersion;

  std::array<uint8_t, kPostscriptSize> serialize() const;
  // REQUIRES: `tail` is the last kPostscriptSize bytes of a file of `file_size`
  // bytes.
  static Result<Postscript> parse(ByteSpan tail, uint64_t file_size,
                                  const std::string& name);
};

}  // namespace nimble
