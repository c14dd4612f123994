// BlockStrings: a base class for decoders of strings in blocks
// (string_blocks.h). Subclasses decode the bytes of a block.
#pragma once

#include "nimble/encoding/blocks/string_blocks.h"

namespace nimble {

class BlockStrings : public Decoder {
 public:
  // Total size of all decoded strings.
  struct Room {
    uint64_t claimed;  // from the head, untrusted
    uint64_t most;     // upper bound from the blocks' sizes
    uint64_t spare;    // slack to reserve, limited by `most`
  };

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    blocks_.append_ranges(begin, end, out);
  }
  // For many rows, reserves memory for all strings at once.
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    blocks_.prefetch(body, row);
  }

 protected:
  BlockStrings(const DecodeContext& context, StringBlocks blocks,
               const Room& room)
      : Decoder(context.type, context.num_values),
        blocks_(std::move(blocks)),
        room_(room) {}

  // Appends strings [from, to) of a block to the sink. String `from` becomes
  // value `at` of the sink.
  // REQUIRES: from < to. The sink has room for the values' ends.
  virtual Status decode_block(const SegmentBody& body, const StringBlock& block,
                              uint32_t from, uint32_t to, uint64_t at,
                              BytesSink* sink) const = 0;

  StringBlocks blocks_;

 private:
  Room room_;
};

}  // namespace nimble
