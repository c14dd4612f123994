// SectionRef: the location of a metadata section. docs/format/file.md.
#pragma once

#include <cstdint>

namespace nimble {

struct SectionRef {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t checksum = 0;
};

}  // namespace nimble
