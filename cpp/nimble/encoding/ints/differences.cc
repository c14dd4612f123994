#include "nimble/encoding/ints/differences.h"

#include <algorithm>

#include "nimble/encoding/blocks/running_sums.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"

namespace nimble {
namespace {

// Replaces the differences of n rows, from a block's first row on, by the
// values. The first difference is ignored. The words are unsigned, so that
// hostile differences wrap.
void add_up_from(uint32_t width, uint64_t first, uint32_t n, uint8_t* values) {
  store_int(width, first, values);
  add_up(width, first, n - 1, values + width);
}

class DifferencesDecoder final : public Decoder {
 public:
  DifferencesDecoder(const DecodeContext& context, Child firsts, Child steps)
      : Decoder(context.type, context.num_values),
        firsts_(std::move(firsts)),
        steps_(std::move(steps)),
        summed_(dynamic_cast<const SummedDecoder*>(&steps_.decoder())) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t first = begin / kBlockValues;
    firsts_.append_ranges(first, (end - 1) / kBlockValues + 1, out);
    steps_.append_ranges(first * kBlockValues, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    const uint32_t width = type().width;
    Output to = out;
    if (begin < end && begin % kBlockValues != 0) {
      const uint32_t block = begin / kBlockValues;
      const uint32_t from = begin % kBlockValues;
      const uint32_t until = std::min(end - block * kBlockValues, kBlockValues);
      Scratch values;
      NIMBLE_RETURN_IF_ERROR(read_blocks(body, block * kBlockValues,
                                         block * kBlockValues + until,
                                         values.output()));
      std::memcpy(to.data, values.as<uint8_t>() + from * width,
                  (until - from) * width);
      to.data += uint64_t{until - from} * width;
      begin += until - from;
    }
    return begin < end ? read_blocks(body, begin, end, to) : Status::ok();
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    if (count == 0) return Status::ok();
    const uint32_t width = type().width;
    Scratch firsts;
    NIMBLE_RETURN_IF_ERROR(read_firsts(body, rows, count, &firsts));
    size_t group = 0;
    return for_row_groups(
        rows, count, [&](uint32_t block, size_t at, size_t n) -> Status {
          const uint64_t first =
              load_int(type(), firsts.as<uint8_t>(), group++);
          if (summed_ != nullptr && n <= kFewSums) {
            return add_sums(body, first, rows + at, n, out.data + at * width);
          }
          Scratch steps;
          const uint32_t begin = block * kBlockValues;
          const uint32_t last = rows[at + n - 1] % kBlockValues;
          // In a stable body, a whole block is decoded without a copy. In other
          // bodies, the bytes after the last row may be missing.
          const uint32_t read =
              body.stable ? block_rows(block, size()) : last + 1;
          NIMBLE_RETURN_IF_ERROR(
              steps_.decode(body, begin, begin + read, steps.output()));
          uint8_t* const values = steps.output().data;
          uint8_t* const to = out.data + at * width;
          if (n <= kFewSums) {
            running_sums_at(width, first, values, rows + at, n, to);
            return Status::ok();
          }
          add_up_from(width, first, last + 1, values);
          pick_values(values, width, rows + at, n, begin, to);
          return Status::ok();
        });
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    const uint32_t block = row / kBlockValues;
    firsts_.prefetch(body, block);
    steps_.prefetch(body, block * kBlockValues);
  }
  std::string describe() const override {
    return "differences (" + steps_.describe() + ") firsts " +
           firsts_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + firsts_.memory_bytes() + steps_.memory_bytes();
  }

 private:
  // Reads the first value of each block that contains one of the rows.
  Status read_firsts(const SegmentBody& body, const uint32_t* rows,
                     size_t count, Scratch* firsts) const {
    uint32_t blocks[kSegmentValues / kBlockValues];
    size_t n = 0;
    NIMBLE_RETURN_IF_ERROR(
        for_row_groups(rows, count, [&](uint32_t block, size_t, size_t) {
          blocks[n++] = block;
          return Status::ok();
        }));
    return firsts_.gather(body, blocks, n, firsts->output());
  }
  // Decodes a few rows of a block by sums. `first` is the block's first value.
  Status add_sums(const SegmentBody& body, uint64_t first, const uint32_t* rows,
                  size_t n, uint8_t* out) const {
    uint64_t sums[kFewSums];
    NIMBLE_RETURN_IF_ERROR(summed_->sum_to(steps_.body(body), rows, n, sums));
    for (size_t i = 0; i < n; ++i) {
      store_int(type().width, first + sums[i], out + i * type().width);
    }
    return Status::ok();
  }
  // Decodes rows [begin, end).
  // REQUIRES: begin < end; `begin` is the first row of a block.
  Status read_blocks(const SegmentBody& body, uint32_t begin, uint32_t end,
                     const Output& out) const {
    const uint32_t width = type().width;
    const uint32_t block = begin / kBlockValues;
    Scratch firsts;
    NIMBLE_RETURN_IF_ERROR(firsts_.decode(
        body, block, (end - 1) / kBlockValues + 1, firsts.output()));
    // Decodes a few blocks at a time, so that they remain in the L1 cache.
    constexpr uint32_t kRowsTogether = 4 * kBlockValues;
    for (uint32_t row = begin; row < end;) {
      const uint32_t stop =
          std::min(end, (row / kRowsTogether + 1) * kRowsTogether);
      Output to = out;
      to.data += uint64_t{row - begin} * width;
      NIMBLE_RETURN_IF_ERROR(steps_.decode(body, row, stop, to));
      for (; row < stop; row += kBlockValues) {
        const uint32_t n = std::min(stop - row, kBlockValues);
        add_up_from(
            width,
            load_int(type(), firsts.as<uint8_t>(), row / kBlockValues - block),
            n, to.data);
        to.data += uint64_t{n} * width;
      }
    }
    return Status::ok();
  }

  Child firsts_;
  Child steps_;
  const SummedDecoder* summed_;  // null if steps_ is not one
};

}  // namespace

Status encode_differences(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint8_t> firsts;
  std::vector<uint8_t> steps(uint64_t{values.size} * width);
  with_int_type(values.type, [&](auto tag) {
    using T = decltype(tag);
    uint64_t before = load_int(values.type, values.data, 0);
    uint64_t step =
        values.size > 1 ? load_int(values.type, values.data, 1) - before : 0;
    for (uint32_t i = 0; i < values.size; ++i) {
      const auto v =
          static_cast<uint64_t>(load<T>(values.data + i * sizeof(T)));
      if (i % kBlockValues == 0) {
        const uint8_t* p = values.data + i * sizeof(T);
        firsts.insert(firsts.end(), p, p + sizeof(T));
      } else {
        step = v - before;
      }
      // A block's first row repeats the previous difference, which encodes
      // cheaply.
      store(steps.data() + i * sizeof(T), static_cast<T>(step));
      before = v;
    }
  });
  put_encoding_id(EncodingId::kDifferences, out);
  Values child;
  child.type = values.type;
  child.size = num_blocks_of(values.size);
  child.data = firsts.data();
  EncodeContext of_firsts = context;
  of_firsts.random_access_only = true;  // read one by one
  NIMBLE_RETURN_IF_ERROR(encode_child(child, of_firsts, kInlineBytes, out));
  child.type = ValueType::signed_int(width);
  child.size = values.size;
  child.data = steps.data();
  return encode_child(child, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_differences(
    ByteReader* head, const DecodeContext& context) {
  if (!is_int(context.type)) {
    return Status::corrupt("only integers can be stored as differences");
  }
  NIMBLE_ASSIGN_OR_RETURN(Child firsts,
                          Child::open(head, context, context.type,
                                      num_blocks_of(context.num_values)));
  NIMBLE_ASSIGN_OR_RETURN(
      Child steps,
      Child::open(head, context, ValueType::signed_int(context.type.width),
                  context.num_values));
  return std::unique_ptr<Decoder>(std::make_unique<DifferencesDecoder>(
      context, std::move(firsts), std::move(steps)));
}

}  // namespace nimble
