// Checkpoint: the state of a builder before an attempt to encode values. It
// measures what the attempt writes, can roll it back and write it again.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Starts at the builder's current end. Not thread-safe.
class Checkpoint {
 public:
  explicit Checkpoint(const SegmentBuilder& out)
      : head_size_(out.head.size()),
        body_size_(out.body.size()),
        shared_bytes_(out.shared_bytes),
        before_(out.cost()) {}

  double cost(const SegmentBuilder& out) const {
    return static_cast<double>(out.cost() - before_);
  }
  // Size of the head and the body, without the cost of shared values.
  // body_bytes() is the size of the body alone.
  uint64_t bytes(const SegmentBuilder& out) const {
    return out.head.size() - head_size_ + body_bytes(out);
  }
  uint64_t body_bytes(const SegmentBuilder& out) const {
    return out.body.size() - body_size_;
  }
  // Saves a copy of the bytes written, replacing the previous copy.
  void save(const SegmentBuilder& out) {
    const ByteSpan head = out.head.span().subspan(head_size_);
    const ByteSpan body = out.body.span().subspan(body_size_);
    head_.assign(head.begin(), head.end());
    body_.assign(body.begin(), body.end());
    kept_shared_bytes_ = out.shared_bytes;
  }
  void roll_back(SegmentBuilder* out) const {
    out->head.resize(head_size_);
    out->body.resize(body_size_);
    out->shared_bytes = shared_bytes_;
  }
  // Writes the saved copy.
  // REQUIRES: save() was called, and roll_back() afterwards.
  void restore(SegmentBuilder* out) const {
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
