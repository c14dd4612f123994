// Which checksums an input has, found by watching a target verify them: what
// each covers and where it is stored. No knowledge of any layout, so every
// block of every encoding, section, key chunk, footer and postscript is found.
//
// Inputs that have been mutated are sealed: their checksums are made right
// again, so that what lies behind a check is reached, too.
#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/target.h"

namespace nimble::fuzz {

struct ChecksumEdge {
  size_t begin = 0;  // covers input[begin, begin + size)
  size_t size = 0;
  size_t stored = 0;  // eight bytes
};

// Runs the target on the input. Those that do not match are not found.
std::vector<ChecksumEdge> find_checksums(const Target& target, ByteSpan input);

// Makes them right in an input of the same size; those that cover others are
// made right after these.
void seal(const std::vector<ChecksumEdge>& edges, std::vector<uint8_t>* input);

}  // namespace nimble::fuzz
