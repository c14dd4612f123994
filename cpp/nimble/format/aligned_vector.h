// What the FlatBuffers verifier leaves out: it sees to it that a vector's
// length is aligned, not that its elements are.
#pragma once

#include <cstdint>

namespace nimble {

// May 8-byte elements of a FlatBuffers vector, or null, be used in place?
template <class Vector>
bool is_aligned(const Vector* v) {
  return v == nullptr || v->size() == 0 ||
         reinterpret_cast<uintptr_t>(v->Data()) % 8 == 0;
}

}  // namespace nimble
