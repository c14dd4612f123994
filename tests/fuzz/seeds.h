// Seeds of every target, made by this repository's own writers: small, and
// together with one of everything.
#pragma once

#include <vector>

#include "fuzz/target.h"

namespace nimble::fuzz {

std::vector<std::vector<uint8_t>> seeds_of(const Target& target);

// Files of at most 4 KiB or so: all types, all kinds of indexes.
const std::vector<std::vector<uint8_t>>& file_seeds();
std::vector<std::vector<uint8_t>> encoding_seeds();
// Parts of files: part_seeds.cc.
std::vector<std::vector<uint8_t>> footer_seeds();
std::vector<std::vector<uint8_t>> group_seeds();
std::vector<std::vector<uint8_t>> bloom_seeds();
std::vector<std::vector<uint8_t>> partition_seeds();
std::vector<std::vector<uint8_t>> chunk_seeds();
std::vector<std::vector<uint8_t>> key_seeds();
std::vector<std::vector<uint8_t>> vector_index_seeds();  // vector_target.cc

}  // namespace nimble::fuzz
