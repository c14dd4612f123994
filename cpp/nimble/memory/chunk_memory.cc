#include "nimble/memory/chunk_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

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
  // Only a hint: the memory works without huge pages, too.
  (void)::madvise(first + before, size, MADV_HUGEPAGE);
  return first + before;
}

void unmap_chunk(uint8_t* chunk, size_t size) { ::munmap(chunk, size); }

uint8_t* map_sparse(size_t size) {
  void* const p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // A huge page would take far more memory than the pages that are written.
  (void)::madvise(p, size, MADV_NOHUGEPAGE);
  return static_cast<uint8_t*>(p);
}

bool make_purgeable(uint8_t* chunk, size_t size) {
  return ::madvise(chunk, size, MADV_FREE) == 0;
}

namespace {

// Reads a file that contains one number. Returns `otherwise` if it does not
// (for example "max").
size_t number_in(const char* path, size_t otherwise) {
  std::FILE* const f = std::fopen(path, "r");
  if (f == nullptr) return otherwise;
  unsigned long long n = 0;
  const bool read = std::fscanf(f, "%llu", &n) == 1;
  (void)std::fclose(f);
  return read ? static_cast<size_t>(n) : otherwise;
}

// Sums the named lines of a file with lines "NAME NUMBER ...". Returns
// `otherwise` if none of the names occurs.
size_t sum_of(const char* path, std::initializer_list<const char*> names,
              size_t otherwise) {
  std::FILE* const f = std::fopen(path, "r");
  if (f == nullptr) return otherwise;
  char name[64];
  unsigned long long n = 0;
  size_t sum = 0;
  bool has_line = false;
  while (std::fscanf(f, "%63s %llu%*[^\n]", name, &n) >= 1) {
    for (const char* wanted : names) {
      if (std::strcmp(name, wanted) != 0) continue;
      has_line = true;
      sum += static_cast<size_t>(n);
    }
  }
  (void)std::fclose(f);
  return has_line ? sum : otherwise;
}

// Memory available on the machine. The file's lines are in KiB.
size_t available_to_all() {
  const size_t kib =
      sum_of("/proc/meminfo", {"MemAvailable:", "SwapFree:"}, SIZE_MAX);
  return kib > SIZE_MAX / 1024 ? SIZE_MAX : kib * 1024;
}

// Memory available within the limit of the container, if any. The page cache
// counts as used there, but the system frees it on demand.
size_t available_to_container() {
  const size_t limit = number_in("/sys/fs/cgroup/memory.max", SIZE_MAX);
  if (limit == SIZE_MAX) return SIZE_MAX;
  const size_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  const size_t cached =
      sum_of("/sys/fs/cgroup/memory.stat", {"active_file", "inactive_file"}, 0);
  const size_t held = used - std::min(used, cached);
  return limit - std::min(limit, held);
}

}  // namespace

size_t available_bytes() {
  return std::min(available_to_all(), available_to_container());
}

size_t max_purgeable_bytes() {
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
bool make_purgeable(uint8_t*, size_t) { return false; }
size_t available_bytes() { return SIZE_MAX; }
size_t max_purgeable_bytes() { return 0; }

#endif

}  // namespace nimble
