#include "nimble/base/chunk_memory.h"

#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "nimble/base/bytes.h"

namespace nimble {

#if defined(__linux__)

uint8_t* map_chunk(size_t size) {
  const size_t mapped = size + kHugePage;
  void* const p = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* const first = static_cast<uint8_t*>(p);
  const size_t before = round_up(reinterpret_cast<uintptr_t>(p), kHugePage) -
                        reinterpret_cast<uintptr_t>(p);
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + size, kHugePage - before);
  // Only a hint: without huge pages all works the same.
  (void)::madvise(first + before, size, MADV_HUGEPAGE);
  return first + before;
}

void unmap_chunk(uint8_t* chunk, size_t size) { ::munmap(chunk, size); }

uint8_t* map_sparse(size_t size) {
  void* const p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // A huge page would back far more than what is written.
  (void)::madvise(p, size, MADV_NOHUGEPAGE);
  return static_cast<uint8_t*>(p);
}

bool lend_chunk(uint8_t* chunk, size_t size) {
  return ::madvise(chunk, size, MADV_FREE) == 0;
}

size_t lendable_bytes() {
  static const size_t bytes = [] {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long size = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || size <= 0) return size_t{0};
    return static_cast<size_t>(pages) / 8 * static_cast<size_t>(size);
  }();
  return bytes;
}

#else

uint8_t* map_chunk(size_t size) {
  constexpr size_t kAlignment = 64;
  return static_cast<uint8_t*>(
      std::aligned_alloc(kAlignment, round_up(size, kAlignment)));
}
void unmap_chunk(uint8_t* chunk, size_t) { std::free(chunk); }
uint8_t* map_sparse(size_t size) {
  return static_cast<uint8_t*>(std::calloc(size, 1));
}
bool lend_chunk(uint8_t*, size_t) { return false; }
size_t lendable_bytes() { return 0; }

#endif

}  // namespace nimble
