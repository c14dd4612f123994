#include "fuzz/checksum_edges.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "nimble/base/hash.h"

// The linker sends every call of nimble::checksum64() here (NimbleFuzz.cmake):
// nothing of this is in what users get. Apple's linker cannot: no checksum is
// found there, and mutations stay unsealed.
#ifndef __APPLE__
extern "C" {
uint64_t __real__ZN6nimble10checksum64ESt4spanIKhLm18446744073709551615EE(
    nimble::ByteSpan bytes);
uint64_t __wrap__ZN6nimble10checksum64ESt4spanIKhLm18446744073709551615EE(
    nimble::ByteSpan bytes);
}
#endif

namespace nimble::fuzz {
namespace {

// Finds checksums while a target runs.
class Watcher {
 public:
  explicit Watcher(ByteSpan input) : input_(input) {}

  void saw(ByteSpan bytes, uint64_t value) {
    if (bytes.empty() || edges.size() >= kMostEdges) return;
    const std::optional<size_t> begin = place_of(bytes);
    if (!begin) return;
    for (const ChecksumEdge& e : edges) {
      if (e.begin == *begin && e.size == bytes.size()) return;
    }
    uint8_t wanted[8];
    store(wanted, value);
    const std::optional<size_t> stored = find_stored(*begin, wanted);
    if (stored) edges.push_back({*begin, bytes.size(), *stored});
  }

  std::vector<ChecksumEdge> edges;

 private:
  static constexpr size_t kMostEdges = 2000;

  std::optional<size_t> find(ByteSpan what, size_t from) const {
    const void* p = memmem(input_.data() + from, input_.size() - from,
                           what.data(), what.size());
    if (p == nullptr) return std::nullopt;
    return static_cast<size_t>(static_cast<const uint8_t*>(p) - input_.data());
  }
  // Bytes that have been copied out of the input are looked for in it.
  std::optional<size_t> place_of(ByteSpan bytes) const {
    const auto base = reinterpret_cast<uintptr_t>(input_.data());
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    if (at >= base && at - base <= input_.size() &&
        bytes.size() <= input_.size() - (at - base)) {
      return at - base;
    }
    if (bytes.size() > input_.size()) return std::nullopt;
    return find(bytes, 0);
  }
  // Right before the bytes, else the first place that no other range has.
  std::optional<size_t> find_stored(size_t begin, const uint8_t* wanted) const {
    if (begin >= 8 && std::memcmp(input_.data() + begin - 8, wanted, 8) == 0) {
      return begin - 8;
    }
    for (size_t from = 0; from + 8 <= input_.size(); ++from) {
      const std::optional<size_t> at = find({wanted, 8}, from);
      if (!at) return std::nullopt;
      const bool is_taken =
          std::any_of(edges.begin(), edges.end(),
                      [&](const ChecksumEdge& e) { return e.stored == *at; });
      if (!is_taken) return at;
      from = *at;
    }
    return std::nullopt;
  }

  ByteSpan input_;
};

thread_local Watcher* watcher = nullptr;

}  // namespace

std::vector<ChecksumEdge> find_checksums(const Target& target, ByteSpan input) {
  Watcher watching(input);
  watcher = &watching;
  target.run(input);
  watcher = nullptr;
  return std::move(watching.edges);
}

void seal(const std::vector<ChecksumEdge>& edges, std::vector<uint8_t>* input) {
  // Checks go from the postscript inwards: the other way round, what a checksum
  // covers is final before it is made, mostly; two passes do the rest.
  for (int pass = 0; pass < 4; ++pass) {
    bool changed = false;
    for (auto e = edges.rbegin(); e != edges.rend(); ++e) {
      if (e->begin + e->size > input->size() || e->stored + 8 > input->size()) {
        continue;
      }
      const uint64_t right = checksum64({input->data() + e->begin, e->size});
      changed |= load<uint64_t>(input->data() + e->stored) != right;
      store(input->data() + e->stored, right);
    }
    if (!changed) return;
  }
}

}  // namespace nimble::fuzz

#ifndef __APPLE__
uint64_t __wrap__ZN6nimble10checksum64ESt4spanIKhLm18446744073709551615EE(
    nimble::ByteSpan bytes) {
  const uint64_t value =
      __real__ZN6nimble10checksum64ESt4spanIKhLm18446744073709551615EE(bytes);
  if (nimble::fuzz::watcher != nullptr)
    nimble::fuzz::watcher->saw(bytes, value);
  return value;
}
#endif
