// Memory of the system in large pieces that begin at a huge page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nimble {

inline constexpr size_t kHugePage = size_t{2} << 20;

// In huge pages where the system has them. Null where memory is out.
uint8_t* map_chunk(size_t size);
void unmap_chunk(uint8_t* chunk, size_t size);

// Zeroes of which only the pages that are written take memory. For
// unmap_chunk; null where address space is out.
uint8_t* map_sparse(size_t size);

// Lets the system take the pages when it is short of memory; what it has not
// taken when the chunk is written again costs no fault and no zeroes. The
// bytes are lost. False where the system offers no such thing.
bool make_purgeable(uint8_t* chunk, size_t size);

// Bytes that the process can still get before the system runs out of memory and
// ends it, which is what it does instead of refusing. SIZE_MAX where that
// cannot be known. Costs some microseconds.
size_t available_bytes();

// Bytes that may be purgeable at a time: an eighth of the machine's memory.
size_t max_purgeable_bytes();

}  // namespace nimble
