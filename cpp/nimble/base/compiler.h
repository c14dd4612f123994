// Compiler hints.
#pragma once

// Functions with hot loops are compiled for several x86-64 levels. The loader
// selects a version when the module is loaded.
#if defined(NIMBLE_TARGET_CLONES) && NIMBLE_TARGET_CLONES
#define NIMBLE_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define NIMBLE_CLONES
#endif

#define NIMBLE_LIKELY(x) __builtin_expect(!!(x), 1)
#define NIMBLE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NIMBLE_ALWAYS_INLINE inline __attribute__((always_inline))
