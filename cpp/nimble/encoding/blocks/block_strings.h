// BlockStrings: what decoders of strings in blocks have in common, whatever a
// block's bytes say (string_blocks.h).
#pragma once

#include "nimble/encoding/blocks/string_blocks.h"

namespace nimble {

class BlockStrings : public Decoder {
 public:
  // Bytes of all strings.
  struct Room {
    uint64_t claimed;  // what the head says, not to be trusted
    uint64_t most;     // more than blocks of this size can give
    uint64_t spare;    // behind them, as far as `most` goes
  };

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    blocks_.append_ranges(begin, end, out);
  }
  // Where many rows are wanted, room for all of them is made at once.
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

  // Appends strings [from, to) of a block to the sink, from < to, as its values
  // from `at` on, for which there are ends already.
  virtual Status decode_block(const SegmentBody& body, const StringBlock& block,
                              uint32_t from, uint32_t to, uint64_t at,
                              BytesSink* sink) const = 0;

  StringBlocks blocks_;

 private:
  Room room_;
};

}  // namespace nimble
