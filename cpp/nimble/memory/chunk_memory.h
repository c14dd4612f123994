// Large pieces of system memory, aligned to huge pages. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nimble {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Allocates a chunk, in huge pages if the system supports them. Returns null if
// memory is exhausted.
uint8_t* map_chunk(size_t size);
void unmap_chunk(uint8_t* chunk, size_t size);

// Allocates zeroed memory that takes physical memory only for pages that are
// written. Free it with unmap_chunk(). Returns null if address space is
// exhausted.
uint8_t* map_sparse(size_t size);

// Allows the system to take the pages when it is short of memory. Their
// contents are lost. Pages that the system has not taken by the next write cost
// no fault and no zeroing. Returns false if the system does not support this.
bool make_purgeable(uint8_t* chunk, size_t size);

// Bytes that the process can still allocate before the system runs out of
// memory. Systems that overcommit kill the process at that point, instead of
// failing the allocation. Returns SIZE_MAX if unknown. Costs some microseconds.
size_t available_bytes();

// Maximum bytes that may be purgeable at a time: an eighth of the machine's
// memory.
size_t max_purgeable_bytes();

}  // namespace nimble
