// Written: what an attempt writes to a builder, to be measured, taken back, and
// put there again.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// What is written to a builder from here on.
class Written {
 public:
  explicit Written(const SegmentBuilder& out)
      : head_size_(out.head.size()),
        body_size_(out.body.size()),
        shared_bytes_(out.shared_bytes),
        before_(out.cost()) {}

  double cost(const SegmentBuilder& out) const {
    return static_cast<double>(out.cost() - before_);
  }
  // The same without what it has to pay for elsewhere, and of its body alone.
  uint64_t bytes(const SegmentBuilder& out) const {
    return out.head.size() - head_size_ + body_bytes(out);
  }
  uint64_t body_bytes(const SegmentBuilder& out) const {
    return out.body.size() - body_size_;
  }
  // Keeps it, in the place of what was kept before.
  void keep(const SegmentBuilder& out) {
    const ByteSpan head = out.head.span().subspan(head_size_);
    const ByteSpan body = out.body.span().subspan(body_size_);
    head_.assign(head.begin(), head.end());
    body_.assign(body.begin(), body.end());
    kept_shared_bytes_ = out.shared_bytes;
  }
  void undo(SegmentBuilder* out) const {
    out->head.resize(head_size_);
    out->body.resize(body_size_);
    out->shared_bytes = shared_bytes_;
  }
  // Writes what was kept, after undo().
  void put_back(SegmentBuilder* out) const {
    out->head.put_bytes(head_);
    out->body.put_bytes(body_);
    out->shared_bytes = kept_shared_bytes_;
  }

 private:
  size_t head_size_, body_size_;
  uint64_t shared_bytes_, before_;
  std::vector<uint8_t> head_, body_;
  uint64_t kept_shared_bytes_ = 0;
};

}  // namespace nimble
