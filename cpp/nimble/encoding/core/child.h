// Child: an encoding nested in another.
//
// Head grammar of a child:
//
//   SIZE     MEANING
//   1        0: its parts are in the segment's body
//            1: its body is inline, a small body of its own:
//   varint     size of the inline body
//   size       the inline body; the child's parts are relative to its start
//   ...      the child's head, beginning with its EncodingId
//
// Inline bodies keep small dictionaries and exceptions in the metadata. A cold
// lookup then reads a single range of the data region.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Parts of up to this size are stored inline if distant rows need them:
// dictionaries, values of exceptions, runs.
inline constexpr uint64_t kInlineBytes = 2048;

// Encodes `values` one level below `context`; encode_values() chooses the
// encoding. A body part of 1 to `inline_bytes` bytes is stored inline. The
// child does not use the stream's shared phrases and dictionary.
Status encode_child(const Values& values, const EncodeContext& context,
                    uint64_t inline_bytes, SegmentBuilder* out);
// Like encode_child(), for values that are the stream's own, or derived from
// them: the child may use the stream's shared phrases and dictionary.
Status encode_own(const Values& values, const EncodeContext& context,
                  uint64_t inline_bytes, SegmentBuilder* out);
// Like encode_child(), with an encoder: encode(SegmentBuilder*) -> Status.
// REQUIRES: `encode` is deterministic. It may be called twice.
template <class F>
Status encode_child_with(F&& encode, uint64_t inline_bytes,
                         SegmentBuilder* out) {
  const size_t head_size = out->head.size();
  const size_t body_size = out->body.size();
  const uint64_t shared_bytes = out->shared_bytes;
  out->head.put_u8(0);
  NIMBLE_RETURN_IF_ERROR(encode(out));
  const size_t added = out->body.size() - body_size;
  if (added == 0 || added > inline_bytes) return Status::ok();
  out->head.resize(head_size);
  out->body.resize(body_size);
  out->shared_bytes = shared_bytes;
  // Heads name parts by their offset, so the child is encoded again, from
  // offset 0.
  SegmentBuilder child;
  NIMBLE_RETURN_IF_ERROR(encode(&child));
  out->head.put_u8(1);
  out->head.put_sized(child.body.span());
  out->head.put_bytes(child.head.span());
  out->shared_bytes += child.shared_bytes;
  return Status::ok();
}

class Child {
 public:
  // Reads the head of a child that has `num_values` values of `type`.
  static Result<Child> open(ByteReader* head, const DecodeContext& parent,
                            const ValueType& type, uint32_t num_values);

  uint32_t size() const { return decoder_->size(); }
  EncodingId id() const { return id_; }
  const Decoder& decoder() const { return *decoder_; }
  // The body to pass to decoder()'s functions, given the segment's body. An
  // inline body is valid as long as this Child.
  SegmentBody body(const SegmentBody& segment) const {
    if (!is_inline_) return segment;
    return {inline_body_.data(), inline_body_.size(), true};
  }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const {
    if (!is_inline_ && begin < end) decoder_->append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& segment, uint32_t begin, uint32_t end,
                const Output& out) const {
    return decoder_->decode(body(segment), begin, end, out);
  }
  Status gather(const SegmentBody& segment, const uint32_t* rows, size_t count,
                const Output& out) const {
    return decoder_->gather(body(segment), rows, count, out);
  }
  Status value(const SegmentBody& segment, uint32_t row, uint64_t* out) const {
    return decoder_->value(body(segment), row, out);
  }
  void prefetch(const SegmentBody& segment, uint32_t row) const {
    decoder_->prefetch(body(segment), row);
  }
  Status filter(const SegmentBody& segment, const Predicate& test,
                uint64_t* selection) const {
    return decoder_->filter(body(segment), test, selection);
  }
  std::string describe() const { return decoder_->describe(); }
  size_t memory_bytes() const {
    return decoder_->memory_bytes() + inline_body_.capacity();
  }

 private:
  Child() = default;

  std::unique_ptr<Decoder> decoder_;
  EncodingId id_ = EncodingId::kPlain;
  bool is_inline_ = false;
  AlignedBuffer inline_body_;
};

}  // namespace nimble
