// Mutations of an input whose checksums are known: bytes are changed in place,
// mostly inside one checked range, and the checksums made right again.
#pragma once

#include <functional>
#include <random>

#include "fuzz/checksum_edges.h"

namespace nimble::fuzz {

using Rng = std::mt19937_64;

// Changes up to `size` bytes at `data`; returns how many there are then (never
// more than `size`). libFuzzer's own mutations, where it runs.
using BaseMutation = std::function<size_t(uint8_t* data, size_t size)>;

// A few edits in place and right checksums. `base` may be empty.
void mutate(const std::vector<ChecksumEdge>& edges, Rng* rng,
            const BaseMutation& base, std::vector<uint8_t>* input);

// The file with its footer written anew from fields of which some have been
// changed: other types, sections of others, rows, groups dropped or repeated.
// Unchanged where the footer cannot be parsed.
std::vector<uint8_t> with_other_footer(ByteSpan file, Rng* rng);

}  // namespace nimble::fuzz
