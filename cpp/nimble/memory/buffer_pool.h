// A pool of large buffers. Fresh pages cost more than decoding into them: a
// page fault and zeroing for every 4 KiB. Buffers that the consumer of a scan
// frees are used again for its next batch. Fresh memory comes in huge pages if
// the system supports them. Thread-safe. See
// docs/internals/decisions/0016-large-buffers-are-used-again.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nimble {

// Smaller buffers use malloc.
inline constexpr size_t kPooledBytes = 65536;
// Unused memory above this is made purgeable (see chunk_memory.h), up to an
// eighth of the machine's memory. Memory above that is unmapped.
inline constexpr size_t kMaxIdleBytes = size_t{64} << 20;

// Allocates at least *size bytes at a 64-byte boundary, not zeroed, and sets
// *size to the actual size. Returns null if memory is exhausted. Any thread may
// free the buffer, with the actual size.
void* allocate_buffer(size_t* size);
void free_buffer(void* p, size_t size);

// Bytes that the pool keeps for future buffers and that are not purgeable.
size_t idle_buffer_bytes();

}  // namespace nimble
