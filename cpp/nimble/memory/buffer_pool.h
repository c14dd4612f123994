// Memory for large buffers, used again. Fresh pages cost more than decoding
// into them does (a page fault and its zeroes per 4 KiB), so buffers that a
// consumer of a scan drops serve its next batch, and what must be fresh comes
// in huge pages where the system has them; see
// docs/internals/decisions/0016-large-buffers-are-used-again.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nimble {

// Smaller buffers are malloc's.
inline constexpr size_t kPooledBytes = 65536;
// Unused memory above this is the system's to take: it is purgeable (see
// chunk_memory.h) up to an eighth of the machine's memory, and given back
// above.
inline constexpr size_t kMaxIdleBytes = size_t{64} << 20;

// At least `size` bytes at a 64-byte boundary, not zeroed; *size becomes what
// there is. Null where memory is out. Any thread may free what another one has
// allocated, with the size it was given.
void* allocate_buffer(size_t* size);
void free_buffer(void* p, size_t size);

// Bytes that are kept for buffers to come and not purgeable.
size_t idle_buffer_bytes();

}  // namespace nimble
