// FlatBufferView: a FlatBuffer out of bytes that nobody has looked at yet,
// aligned and verified, then read in place.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "file_generated.h"
#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/section_ref.h"

namespace nimble {

template <class Root>
class FlatBufferView {
 public:
  // Copies `bytes`. `identifier` is the root type's, or null where it has none.
  static Result<FlatBufferView> open(ByteSpan bytes, const char* identifier) {
    FlatBufferView out;
    // FlatBuffers wants alignment that a place in a file does not give.
    out.copy_.resize(bytes.size() / 8 + 1);
    if (!bytes.empty()) {
      std::memcpy(out.copy_.data(), bytes.data(), bytes.size());
    }
    const auto* data = reinterpret_cast<const uint8_t*>(out.copy_.data());
    return std::move(out).verify({data, bytes.size()}, identifier);
  }
  // The same, but bytes that are aligned are not copied: they must outlive
  // the view.
  static Result<FlatBufferView> borrow(ByteSpan bytes, const char* identifier) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
      return open(bytes, identifier);
    }
    return FlatBufferView().verify(bytes, identifier);
  }

  FlatBufferView(FlatBufferView&&) = default;
  FlatBufferView& operator=(FlatBufferView&&) = default;

  const Root* operator->() const { return root_; }
  const Root& operator*() const { return *root_; }
  ByteSpan bytes() const { return bytes_; }
  // The copy, for who keeps pointers into it; empty where bytes are borrowed.
  std::vector<uint64_t> release() && { return std::move(copy_); }

 private:
  FlatBufferView() = default;

  Result<FlatBufferView> verify(ByteSpan bytes, const char* identifier) && {
    // Root offset, identifier and the smallest table. Deeper schemas do not
    // pass.
    constexpr size_t kMinSize = 16;
    constexpr uint32_t kMaxDepth = 160;
    constexpr uint32_t kMaxTables = 10'000'000;
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), kMaxDepth,
                                   kMaxTables);
    if (bytes.size() < kMinSize || !verifier.VerifyBuffer<Root>(identifier)) {
      return Status::corrupt("not a valid FlatBuffer");
    }
    bytes_ = bytes;
    root_ = flatbuffers::GetRoot<Root>(bytes.data());
    return std::move(*this);
  }

  std::vector<uint64_t> copy_;
  ByteSpan bytes_;
  const Root* root_ = nullptr;
};

// May 8-byte elements of a FlatBuffers vector, or null, be used in place? The
// verifier sees to it that a vector's length is aligned, not its elements.
template <class Vector>
bool is_aligned(const Vector* v) {
  return v == nullptr || v->size() == 0 ||
         reinterpret_cast<uintptr_t>(v->Data()) % 8 == 0;
}

inline SectionRef from_fb(const fb::Section& s) {
  return {s.offset(), s.size(), s.checksum()};
}
inline std::vector<SectionRef> from_fb(
    const flatbuffers::Vector<const fb::Section*>* sections) {
  std::vector<SectionRef> out;
  if (sections == nullptr) return out;
  for (const fb::Section* s : *sections) out.push_back(from_fb(*s));
  return out;
}
inline fb::Section to_fb(const SectionRef& s) {
  return fb::Section(s.offset, s.size, s.checksum);
}
inline std::vector<fb::Section> to_fb(const std::vector<SectionRef>& sections) {
  std::vector<fb::Section> out;
  for (const SectionRef& s : sections) out.push_back(to_fb(s));
  return out;
}

}  // namespace nimble
