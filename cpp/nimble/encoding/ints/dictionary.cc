#include "nimble/encoding/ints/dictionary.h"

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {

// --------------------------------------------------------------------- encode

Status encode_dictionary(const DistinctValues& distinct,
                         const EncodeContext& context, SegmentBuilder* out) {
  out->head.put_u8(static_cast<uint8_t>(EncodingId::kDictionary));
  out->head.put_varint(distinct.count());
  EncodeContext codes = context;
  codes.random_access_only |=
      context.effort != Effort::kCompact && !distinct.is_by_frequency();
  NIMBLE_RETURN_IF_ERROR(encode_child(distinct.codes(), codes, 0, out));
  return encode_child(distinct.distinct(), context, kInlineDictionaryBytes,
                      out);
}

namespace {

// Strings up to these lengths are copied as so many bytes.
constexpr uint64_t kShortString = 16;
constexpr uint64_t kLineString = 64;
// Room is made for so many bytes a value without looking at the values.
constexpr uint64_t kGenerousLength = 64;
// Of the strings of a dictionary that has not been decoded.
constexpr size_t kGuessedLength = 32;

// The whole dictionary in memory.
struct DecodedValues {
  AlignedBuffer fixed;
  BytesSink bytes;
  uint64_t longest = 0;  // of bytes
};

// --------------------------------------------------------------------- decode

class DictionaryDecoder final : public Decoder {
 public:
  DictionaryDecoder(const DecodeContext& context, Child codes, Child values)
      : Decoder(context.type, context.num_values),
        codes_(std::move(codes)),
        values_(std::move(values)) {}
  ~DictionaryDecoder() override { delete decoded_.load(); }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    codes_.append_ranges(begin, end, out);
    if (decoded_.load(std::memory_order_acquire) == nullptr) {
      values_.append_ranges(0, values_.size(), out);
    }
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    codes_.prefetch(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return "dictionary n=" + std::to_string(values_.size()) + " (" +
           values_.describe() + ") of " + codes_.describe();
  }
  // Caches ask once, when it is opened: what it will take decoded is in it.
  size_t memory_bytes() const override {
    const size_t width = type().kind == ValueKind::kBytes
                             ? kGuessedLength + sizeof(int64_t)
                             : type().width;
    return sizeof *this + codes_.memory_bytes() + values_.memory_bytes() +
           sizeof(DecodedValues) + values_.size() * width;
  }

 private:
  Status load_values(const SegmentBody& body, const DecodedValues** out) const;
  // n codes of code_width, checked, to `to` or appended to `out.bytes`.
  Status look_up(const DecodedValues& values, const Scratch& codes, uint32_t n,
                 const Output& out, uint8_t* to) const;
  Status look_up_bytes(const DecodedValues& values, const Scratch& codes,
                       uint32_t n, BytesSink* sink) const;
  Status check_codes(const Scratch& codes, uint32_t n) const;
  Status check_code(uint64_t max) const {
    if (max < values_.size()) return Status::ok();
    return Status::corrupt("code " + std::to_string(max) +
                           " of a dictionary of " +
                           std::to_string(values_.size()));
  }
  // Of a dictionary that is not decoded: are so many rows more still too few to
  // decode it for?
  bool are_few(uint64_t rows) const {
    // A number taken alone costs what it takes to decode many of them.
    const uint64_t alone = type().kind == ValueKind::kBytes ? 8 : 64;
    // Threads may overwrite each other's: then it is decoded a little later.
    rows += taken_.load(std::memory_order_relaxed);
    taken_.store(rows, std::memory_order_relaxed);
    return rows * alone < values_.size();
  }
  Status gather_few(const SegmentBody& body, const Scratch& codes, uint32_t n,
                    const Output& out, uint8_t* to) const;

  // The test of codes that `test` of values comes down to.
  Predicate test_of_codes(const DecodedValues& values,
                          const Predicate& test) const;

  Child codes_;
  Child values_;
  // Decoded by the first scan, kept as long as this decoder.
  mutable std::atomic<const DecodedValues*> decoded_{nullptr};
  mutable std::atomic<uint64_t> taken_{0};  // rows, before that
};

// Calls f with a pointer to codes of their own type.
template <class F>
decltype(auto) with_codes(const Scratch& codes, uint32_t width, F&& f) {
  if (width == 1) return f(codes.as<uint8_t>());
  if (width == 2) return f(codes.as<uint16_t>());
  return f(codes.as<uint32_t>());
}

template <class Code, class T>
void look_up_fixed(const Code* codes, uint32_t n, const uint8_t* values,
                   uint8_t* to) {
  for (uint32_t i = 0; i < n; ++i) {
    store(to + i * sizeof(T), load<T>(values + uint64_t{codes[i]} * sizeof(T)));
  }
}

struct Words2 {
  uint64_t words[2];
};

Status DictionaryDecoder::load_values(const SegmentBody& body,
                                      const DecodedValues** out) const {
  *out = decoded_.load(std::memory_order_acquire);
  if (*out != nullptr) return Status::ok();
  auto decoded = std::make_unique<DecodedValues>();
  decoded->bytes.wide = true;
  decoded->bytes.data.reserve(1);  // short strings are read 16 bytes at a time
  Output to;
  if (type().kind == ValueKind::kBytes) {
    to.bytes = &decoded->bytes;
  } else {
    decoded->fixed.resize(uint64_t{values_.size()} * type().width);
    to.data = decoded->fixed.data();
  }
  NIMBLE_RETURN_IF_ERROR(values_.decode(body, 0, values_.size(), to));
  for (uint64_t i = 0; i < decoded->bytes.count; ++i) {
    decoded->longest =
        std::max(decoded->longest,
                 decoded->bytes.end_of(i) - decoded->bytes.begin_of(i));
  }
  if (decoded_.compare_exchange_strong(*out, decoded.get(),
                                       std::memory_order_acq_rel)) {
    *out = decoded.release();
  }
  return Status::ok();
}

Status DictionaryDecoder::check_codes(const Scratch& codes, uint32_t n) const {
  return check_code(
      min_max(codes_.decoder().type(), codes.as<uint8_t>(), n).max);
}

Status DictionaryDecoder::look_up(const DecodedValues& values,
                                  const Scratch& codes, uint32_t n,
                                  const Output& out, uint8_t* to) const {
  NIMBLE_RETURN_IF_ERROR(check_codes(codes, n));
  if (type().kind == ValueKind::kBytes) {
    return look_up_bytes(values, codes, n, out.bytes);
  }
  const uint8_t* from = values.fixed.data();
  const uint32_t width = type().width;
  with_codes(codes, codes_.decoder().type().width,
             [&]<class Code>(const Code* c) {
               switch (width) {
                 case 1:
                   return look_up_fixed<Code, uint8_t>(c, n, from, to);
                 case 2:
                   return look_up_fixed<Code, uint16_t>(c, n, from, to);
                 case 4:
                   return look_up_fixed<Code, uint32_t>(c, n, from, to);
                 case 8:
                   return look_up_fixed<Code, uint64_t>(c, n, from, to);
                 case 16:
                   return look_up_fixed<Code, Words2>(c, n, from, to);
                 default:
                   for (uint32_t i = 0; i < n; ++i) {
                     std::memcpy(to + uint64_t{i} * width,
                                 from + uint64_t{c[i]} * width, width);
                   }
               }
             });
  return Status::ok();
}

// Appends the strings of n codes at `to`, of which `ends` counts; returns
// where they end. Each is one copy of `Copied` bytes, as both buffers have
// slack; 0: of its size.
template <uint64_t Copied, class Code, class End>
NIMBLE_ALWAYS_INLINE uint64_t copy_each(const Code* codes, uint32_t n,
                                        const DecodedValues& values,
                                        uint8_t* to, uint64_t at, End* ends) {
  const uint64_t* starts = values.bytes.offsets.as<uint64_t>();
  const uint8_t* from = values.bytes.data.data();
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t begin = starts[codes[i]];
    const uint64_t size = starts[codes[i] + uint64_t{1}] - begin;
    std::memcpy(to + at, from + begin, Copied > 0 ? Copied : size);
    at += size;
    ends[i] = static_cast<End>(at);
  }
  return at;
}
template <class Code, class End>
uint64_t copy_strings(const Code* codes, uint32_t n,
                      const DecodedValues& values, uint8_t* to, uint64_t at,
                      End* ends) {
  static_assert(kLineString <= AlignedBuffer::kSlack);
  if (values.longest <= kShortString) {
    return copy_each<kShortString>(codes, n, values, to, at, ends);
  }
  if (values.longest <= 2 * kShortString) {
    return copy_each<2 * kShortString>(codes, n, values, to, at, ends);
  }
  if (values.longest <= kLineString) {
    return copy_each<kLineString>(codes, n, values, to, at, ends);
  }
  return copy_each<0>(codes, n, values, to, at, ends);
}

Status DictionaryDecoder::look_up_bytes(const DecodedValues& values,
                                        const Scratch& codes, uint32_t n,
                                        BytesSink* sink) const {
  const uint64_t first = sink->add_values(n);
  const uint64_t* starts = values.bytes.offsets.as<uint64_t>();
  with_codes(codes, codes_.decoder().type().width, [&](const auto* c) {
    const uint64_t at = sink->data.size();
    // Room for the longest, where that is little; else for what there is.
    uint64_t room = uint64_t{n} * values.longest;
    if (values.longest > kGenerousLength) {
      room = 0;
      for (uint32_t i = 0; i < n; ++i) {
        room += starts[c[i] + uint64_t{1}] - starts[c[i]];
      }
    }
    sink->data.reserve(at + room);
    uint8_t* const to = sink->data.data();
    const uint64_t end =
        sink->wide ? copy_strings(c, n, values, to, at,
                                  sink->offsets.as<uint64_t>() + first + 1)
                   : copy_strings(c, n, values, to, at,
                                  sink->offsets.as<uint32_t>() + first + 1);
    sink->data.resize(end);
  });
  return Status::ok();
}

Status DictionaryDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const DecodedValues* values = nullptr;
  NIMBLE_RETURN_IF_ERROR(load_values(body, &values));
  if (values->bytes.count > 0) {
    // A guess at all of it, so that the buffer does not grow again and again.
    const uint64_t mean = values->bytes.data.size() / values->bytes.count + 1;
    out.bytes->data.reserve(out.bytes->data.size() +
                            (end - begin) * std::min(mean, kGenerousLength));
  }
  Scratch codes;
  return for_blocks(
      begin, end, [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
        const uint32_t first = block * kBlockValues;
        NIMBLE_RETURN_IF_ERROR(
            codes_.decode(body, first + from, first + until, codes.output()));
        return look_up(
            *values, codes, until - from, out,
            out.data + uint64_t{first + from - begin} * type().width);
      });
}

// --------------------------------------------------------------------- gather

Status DictionaryDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  if (count == 0) return Status::ok();
  const DecodedValues* values = decoded_.load(std::memory_order_acquire);
  // Decoding all of a dictionary for a few rows would cost more than the rows.
  const bool is_few = values == nullptr && are_few(count);
  if (!is_few) NIMBLE_RETURN_IF_ERROR(load_values(body, &values));
  Scratch codes;
  return for_chunks(count, [&](size_t first, uint32_t n) -> Status {
    NIMBLE_RETURN_IF_ERROR(
        codes_.gather(body, rows + first, n, codes.output()));
    uint8_t* to = out.data + first * type().width;
    if (is_few) return gather_few(body, codes, n, out, to);
    return look_up(*values, codes, n, out, to);
  });
}

Status DictionaryDecoder::value(const SegmentBody& body, uint32_t row,
                                uint64_t* out) const {
  uint64_t code = 0;
  NIMBLE_RETURN_IF_ERROR(codes_.value(body, row, &code));
  code &= low_bits(8 * codes_.decoder().type().width);
  NIMBLE_RETURN_IF_ERROR(check_code(code));
  const DecodedValues* values = decoded_.load(std::memory_order_acquire);
  if (values == nullptr) {
    if (are_few(1)) {
      return values_.value(body, static_cast<uint32_t>(code), out);
    }
    NIMBLE_RETURN_IF_ERROR(load_values(body, &values));
  }
  // What lies behind the last value is the buffer's slack.
  *out = load<uint64_t>(values->fixed.data() + code * type().width);
  return Status::ok();
}

Status DictionaryDecoder::gather_few(const SegmentBody& body,
                                     const Scratch& codes, uint32_t n,
                                     const Output& out, uint8_t* to) const {
  NIMBLE_RETURN_IF_ERROR(check_codes(codes, n));
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t code =
        with_codes(codes, codes_.decoder().type().width,
                   [&](const auto* c) -> uint32_t { return c[i]; });
    uint8_t value[kMaxNestedWidth + AlignedBuffer::kSlack];
    Output one;
    one.data = value;
    one.bytes = out.bytes;
    NIMBLE_RETURN_IF_ERROR(values_.gather(body, &code, 1, one));
    if (type().kind == ValueKind::kBytes) continue;
    std::memcpy(to + uint64_t{i} * type().width, value, type().width);
  }
  return Status::ok();
}

// --------------------------------------------------------------------- filter

Predicate DictionaryDecoder::test_of_codes(const DecodedValues& values,
                                           const Predicate& test) const {
  Predicate out;  // not negated: test.negated is in the table already
  out.type = codes_.decoder().type();
  out.table.resize(values_.size());
  const uint64_t* starts = values.bytes.offsets.as<uint64_t>();
  const auto* bytes = reinterpret_cast<const char*>(values.bytes.data.data());
  uint32_t first = values_.size(), end = 0, count = 0;
  for (uint32_t i = 0; i < values_.size(); ++i) {
    const bool pass =
        type().kind == ValueKind::kBytes
            ? passes(test, std::string_view(bytes + starts[i],
                                            starts[i + 1] - starts[i]))
            : passes(test, values.fixed.data() + uint64_t{i} * type().width);
    out.table[i] = pass ? 1 : 0;
    if (!pass) continue;
    first = std::min(first, i);
    end = i + 1;
    ++count;
  }
  if (count == 0) return out;
  out.ints.low = first;
  out.ints.high = end - 1;
  const bool is_range = end - first == count;
  out.shape = is_range ? Predicate::Shape::kRange : Predicate::Shape::kTable;
  return out;
}

Status DictionaryDecoder::filter(const SegmentBody& body, const Predicate& test,
                                 uint64_t* selection) const {
  const DecodedValues* values = decoded_.load(std::memory_order_acquire);
  const uint32_t wanted =
      count_selected(selection, num_blocks_of(size()) * kSelectionWords);
  if (wanted == 0) return Status::ok();
  // A few rows cost less than asking every value, as in gather().
  if (wanted < values_.size() / 8) return filter_decoded(body, test, selection);
  NIMBLE_RETURN_IF_ERROR(load_values(body, &values));
  return codes_.filter(body, test_of_codes(*values, test), selection);
}

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_dictionary(ByteReader* head,
                                                 const DecodeContext& context) {
  if (context.type.kind == ValueKind::kBool ||
      context.type.width > kMaxNestedWidth) {
    return Status::corrupt("dictionary of a type it cannot hold");
  }
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("dictionary head"));
  if (count > context.num_values) {
    return Status::corrupt("dictionary of " + std::to_string(count) +
                           " values for " + std::to_string(context.num_values) +
                           " rows");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child codes,
      Child::open(head, context, ValueType::unsigned_int(code_width(count)),
                  context.num_values));
  NIMBLE_ASSIGN_OR_RETURN(
      Child values,
      Child::open(head, context, context.type, static_cast<uint32_t>(count)));
  return std::unique_ptr<Decoder>(std::make_unique<DictionaryDecoder>(
      context, std::move(codes), std::move(values)));
}

}  // namespace nimble
