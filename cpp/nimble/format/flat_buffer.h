// FlatBufferView: a FlatBuffer in untrusted bytes, aligned and verified, then
// accessed in place.
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
  // Copies `bytes`. `identifier` is the identifier of the root type, or null if
  // the type does not have one.
  static Result<FlatBufferView> open(ByteSpan bytes, const char* identifier) {
    FlatBufferView out;
    // FlatBuffers must be aligned. A position in a file need not be.
    out.copy_.resize(bytes.size() / 8 + 1);
    if (!bytes.empty()) {
      std::memcpy(out.copy_.data(), bytes.data(), bytes.size());
    }
    const auto* data = reinterpret_cast<const uint8_t*>(out.copy_.data());
    return std::move(out).verify({data, bytes.size()}, identifier);
  }
  // Like open(), but does not copy aligned bytes.
  // REQUIRES: `bytes` outlive the view.
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
  // Returns the copy, for callers that keep pointers into it. Empty if the
  // bytes are borrowed.
  std::vector<uint64_t> release() && { return std::move(copy_); }

 private:
  FlatBufferView() = default;

  Result<FlatBufferView> verify(ByteSpan bytes, const char* identifier) && {
    // Smaller buffers cannot have a root offset, an identifier and a table. The
    // verifier also rejects buffers that are nested too deeply.
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

// Whether a vector's 8-byte elements can be accessed in place. True for null.
// The verifier checks the alignment of a vector's length, but not of its
// elements.
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
