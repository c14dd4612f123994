#include "nimble/encoding/ints/differences.h"

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/later_encodings.h"
#include "nimble/encoding/core/part.h"

namespace nimble {
namespace {

// Running sums of n differences, the first of which counts as 0. Unsigned, so
// that hostile ones wrap.
template <class T>
void add_up(uint64_t first, uint32_t n, uint8_t* values) {
  T sum = static_cast<T>(first);
  store(values, sum);
  for (uint32_t i = 1; i < n; ++i) {
    sum = static_cast<T>(sum + load<T>(values + i * sizeof(T)));
    store(values + i * sizeof(T), sum);
  }
}

class DifferencesDecoder final : public Decoder {
 public:
  DifferencesDecoder(const DecodeContext& context, Child firsts, Child steps)
      : Decoder(context.type, context.num_values),
        firsts_(std::move(firsts)),
        steps_(std::move(steps)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t first = begin / kBlockValues;
    firsts_.append_ranges(first, (end - 1) / kBlockValues + 1, out);
    steps_.append_ranges(first * kBlockValues, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    uint8_t* to = out.data;
    const uint32_t width = type().width;
    return for_blocks(
        begin, end,
        [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
          if (from == 0) {
            NIMBLE_RETURN_IF_ERROR(read_block(body, block, until, to));
          } else {
            Scratch scratch;
            NIMBLE_RETURN_IF_ERROR(
                read_block(body, block, until, scratch.output().data));
            std::memcpy(to, scratch.as<uint8_t>() + from * width,
                        (until - from) * width);
          }
          to += (until - from) * width;
          return Status::ok();
        });
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    return for_row_groups(
        rows, count, [&](uint32_t block, size_t first, size_t n) -> Status {
          Scratch scratch;
          const uint32_t last = rows[first + n - 1] % kBlockValues;
          NIMBLE_RETURN_IF_ERROR(
              read_block(body, block, last + 1, scratch.output().data));
          pick_values(scratch.as<uint8_t>(), type().width, rows + first, n,
                      block * kBlockValues, out.data + first * type().width);
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
  // The first n > 0 rows of a block to `out`, with room for slack.
  Status read_block(const SegmentBody& body, uint32_t block, uint32_t n,
                    uint8_t* out) const {
    alignas(8) uint8_t bytes[8 + AlignedBuffer::kSlack] = {};
    Output to;
    to.data = bytes;
    NIMBLE_RETURN_IF_ERROR(firsts_.gather(body, &block, 1, to));
    const uint64_t first = load<uint64_t>(bytes);
    const uint32_t begin = block * kBlockValues;
    to.data = out;
    NIMBLE_RETURN_IF_ERROR(steps_.decode(body, begin, begin + n, to));
    switch (type().width) {
      case 1:
        add_up<uint8_t>(first, n, out);
        break;
      case 2:
        add_up<uint16_t>(first, n, out);
        break;
      case 4:
        add_up<uint32_t>(first, n, out);
        break;
      default:
        add_up<uint64_t>(first, n, out);
    }
    return Status::ok();
  }

  Child firsts_;
  Child steps_;
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
      // A first row repeats the step before it, which disturbs no encoding.
      store(steps.data() + i * sizeof(T), static_cast<T>(step));
      before = v;
    }
  });
  put_encoding_id(LaterEncodingId::kDifferences, out);
  Values child;
  child.type = values.type;
  child.size = num_blocks_of(values.size);
  child.data = firsts.data();
  EncodeContext of_firsts = context;
  of_firsts.random_access_only = true;  // taken one by one
  NIMBLE_RETURN_IF_ERROR(encode_child(child, of_firsts, 0, out));
  child.type = ValueType::signed_int(width);
  child.size = values.size;
  child.data = steps.data();
  return encode_child(child, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_differences(
    ByteReader* head, const DecodeContext& context) {
  if (!is_int(context.type)) {
    return Status::corrupt("only integers have differences");
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
