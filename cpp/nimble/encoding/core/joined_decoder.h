// JoinedDecoder: a decoder that computes each value from the values of one or
// more children in the same row, block by block.
#pragma once

#include <vector>

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"

namespace nimble {

class JoinedDecoder : public Decoder {
 public:
  JoinedDecoder(const DecodeContext& context, std::vector<Child> children)
      : Decoder(context.type, context.num_values),
        children_(std::move(children)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    for (const Child& child : children_) child.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    return for_blocks(
        begin, end, [&](uint32_t block, uint32_t from, uint32_t until) {
          const uint32_t first = block * kBlockValues + from;
          const Rows rows{body, nullptr, first, until - from};
          return join(rows, out.data + uint64_t{first - begin} * type().width);
        });
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    return for_chunks(count, [&](size_t first, uint32_t n) {
      return join({body, rows + first, 0, n}, out.data + first * type().width);
    });
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    for (const Child& child : children_) child.prefetch(body, row);
  }
  size_t memory_bytes() const override {
    size_t total = sizeof *this;
    for (const Child& child : children_) total += child.memory_bytes();
    return total;
  }

 protected:
  // At most kBlockValues rows: the rows of `list` if it is not null, else
  // [first, first + count).
  struct Rows {
    const SegmentBody& body;
    const uint32_t* list;
    uint32_t first;
    uint32_t count;

    Status read(const Child& child, const Output& out) const {
      return list != nullptr ? child.gather(body, list, count, out)
                             : child.decode(body, first, first + count, out);
    }
  };

  // Computes the values of `rows` and writes them to `out`.
  virtual Status join(const Rows& rows, uint8_t* out) const = 0;

  const Child& child(size_t i) const { return children_[i]; }
  const std::vector<Child>& children() const { return children_; }

 private:
  std::vector<Child> children_;
};

}  // namespace nimble
