#include "nimble/encoding/strings/front_coded.h"

#include <algorithm>
#include <bit>
#include <span>

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/memory/scratch.h"

namespace nimble {
namespace {

constexpr uint32_t kMaxFrontShift = kBlockShift;
const ValueType kSharedType = ValueType::unsigned_int(2);
constexpr uint64_t kMaxShared = UINT16_MAX;

// The suffixes of rows.
struct Rests {
  BytesSink sink;

  Rests() { sink.wide = true; }
  size_t size() const { return sink.data.size(); }
  void clear() {
    sink.data.clear();
    sink.offsets.clear();
    sink.count = 0;
  }
  Output output() {
    Output out;
    out.bytes = &sink;
    return out;
  }
};

Status shared_too_much(uint64_t shared, uint64_t length, uint64_t row) {
  return Status::corrupt(
      "string " + std::to_string(row) + " shares " + std::to_string(shared) +
      " bytes with a string of only " + std::to_string(length));
}

// Copies of at most this many bytes use a fixed size, which both buffers' slack
// allows.
constexpr uint64_t kShortCopy = 32;
static_assert(kShortCopy <= AlignedBuffer::kSlack);

NIMBLE_ALWAYS_INLINE void copy_front(uint8_t* to, const uint8_t* from,
                                     uint64_t n) {
  if (n <= kShortCopy) {
    uint8_t copy[kShortCopy];  // `to` may overlap the excess of `from`
    std::memcpy(copy, from, kShortCopy);
    std::memcpy(to, copy, kShortCopy);
  } else {
    std::memcpy(to, from, n);
  }
}

// Rows to put together, and the rows whose suffixes they may consist of. These
// are read together, because a read of few rows costs about as much as a read
// of one.
class RowChains {
 public:
  static constexpr size_t kMaxRows = 32;

  size_t num_rows() const { return num_rows_; }
  std::span<const uint32_t> needed() const { return {needed_, num_needed_}; }
  // The positions in needed() of the parts of row i, in their order.
  std::span<const uint16_t> parts(size_t i) const {
    return {parts_ + (i == 0 ? 0 : ends_[i - 1]),
            parts_ + static_cast<size_t>(ends_[i])};
  }
  void clear() { num_rows_ = num_needed_ = num_parts_ = 0; }
  // Adds rows of one block.
  // REQUIRES: the rows ascend, follow all others, and there is space for them.
  void add(std::span<const uint32_t> rows, uint32_t shift) {
    const uint32_t mask = (1u << shift) - 1;
    const size_t first = num_needed_;
    for (const uint32_t row : rows) {
      // Clearing the lowest set bit of a row's position in its block gives the
      // position of the row that it shares bytes with.
      for (uint32_t i = row & mask;; i = front_row(i)) {
        needed_[num_needed_++] = (row & ~mask) + i;
        if (i == 0) break;
      }
    }
    uint32_t* const begin = needed_ + first;
    if (rows.size() == 1) {
      std::reverse(begin, needed_ + num_needed_);
      for (size_t at = first; at < num_needed_; ++at) {
        parts_[num_parts_++] = static_cast<uint16_t>(at);
      }
      ends_[num_rows_++] = static_cast<uint16_t>(num_parts_);
      return;
    }
    std::sort(begin, needed_ + num_needed_);
    num_needed_ = static_cast<size_t>(
        std::unique(begin, needed_ + num_needed_) - needed_);
    for (const uint32_t row : rows) {
      const size_t from = num_parts_;
      for (uint32_t i = row & mask;; i = front_row(i)) {
        const uint32_t* const at =
            std::lower_bound(begin, needed_ + num_needed_, (row & ~mask) + i);
        parts_[num_parts_++] = static_cast<uint16_t>(at - needed_);
        if (i == 0) break;
      }
      std::reverse(parts_ + from, parts_ + num_parts_);
      ends_[num_rows_++] = static_cast<uint16_t>(num_parts_);
    }
  }

  // Removes the parts that a later part of their row overwrites, because it
  // shares no more bytes than they do. `shared` has the number of bytes that
  // each row of needed() shares; it is changed like needed().
  void drop_overwritten(uint16_t* shared) {
    uint16_t places[kMaxParts];
    std::fill_n(places, num_needed_, kOverwritten);
    size_t kept = num_parts_ = 0;
    uint16_t chain[kMaxFrontShift + 1];
    for (size_t i = 0, begin = 0; i < num_rows_; ++i) {
      const size_t end = ends_[i];
      size_t n = 0;
      uint32_t limit = UINT32_MAX;
      for (size_t at = end; at-- > begin && limit > 0;) {
        const uint16_t part = parts_[at];
        if (shared[part] >= limit) continue;
        limit = shared[part];
        places[part] = 0;
        chain[n++] = part;
      }
      while (n > 0) parts_[num_parts_++] = chain[--n];
      ends_[i] = static_cast<uint16_t>(num_parts_);
      begin = end;
    }
    for (size_t i = 0; i < num_needed_; ++i) {
      if (places[i] == kOverwritten) continue;
      places[i] = static_cast<uint16_t>(kept);
      shared[kept] = shared[i];
      needed_[kept++] = needed_[i];
    }
    num_needed_ = kept;
    for (size_t i = 0; i < num_parts_; ++i) parts_[i] = places[parts_[i]];
  }

  static constexpr size_t kMaxParts = kMaxRows * (kMaxFrontShift + 1);

 private:
  static constexpr uint16_t kOverwritten = UINT16_MAX;

  uint32_t needed_[kMaxParts];  // ascending
  uint16_t parts_[kMaxParts];
  uint16_t ends_[kMaxRows];
  size_t num_rows_ = 0, num_needed_ = 0, num_parts_ = 0;
};

class FrontCodedDecoder final : public Decoder {
 public:
  FrontCodedDecoder(const DecodeContext& context, uint32_t shift, Child shared,
                    Child rests)
      : Decoder(context.type, context.num_values),
        shift_(shift),
        shared_(std::move(shared)),
        rests_(std::move(rests)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t first = begin >> shift_ << shift_;
    shared_.append_ranges(first, end, out);
    rests_.append_ranges(first, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    shared_.prefetch(body, row);
    rests_.prefetch(body, row);
  }
  std::string describe() const override {
    return "front coded rows=" + std::to_string(1u << shift_) + " (" +
           shared_.describe() + ") of " + rests_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + shared_.memory_bytes() + rests_.memory_bytes();
  }

 private:
  Status append_block(const uint16_t* shared, uint32_t first, uint32_t n,
                      const Rests& rests, uint64_t rest, uint32_t from,
                      uint64_t at, BytesSink* sink) const;
  // Changes *rows.
  Status append_rows(const SegmentBody& body, RowChains* rows, Rests* rests,
                     uint64_t at, BytesSink* sink) const;
  Status append_some(const SegmentBody& body, uint32_t first,
                     std::span<const uint32_t> rows, uint64_t at,
                     BytesSink* sink) const;

  uint32_t shift_;
  Child shared_;
  Child rests_;
};

// Decodes the first n rows of a block and appends the rows from `from` on.
// `rest` is the index of the block's first suffix in `rests`.
Status FrontCodedDecoder::append_block(const uint16_t* shared, uint32_t first,
                                       uint32_t n, const Rests& rests,
                                       uint64_t rest, uint32_t from,
                                       uint64_t at, BytesSink* sink) const {
  const uint64_t* const ends = rests.sink.offsets.as<uint64_t>() + rest;
  const uint8_t* const bytes = rests.sink.data.data();
  // Lengths are computed and checked before memory is reserved for the strings,
  // because a damaged file may contain any lengths.
  uint64_t starts[kBlockValues + 1];
  starts[0] = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t before = i > 0 ? front_row(i) : 0;
    const uint64_t length =
        i > 0 ? starts[before + 1] - starts[before] : uint64_t{0};
    if (NIMBLE_UNLIKELY(shared[i] > length)) {
      return shared_too_much(shared[i], length, uint64_t{first} + i);
    }
    starts[i + 1] = starts[i] + shared[i] + (ends[i + 1] - ends[i]);
  }
  const uint64_t before = sink->data.size();
  sink->data.reserve(before + starts[n]);
  uint8_t* const to = sink->data.data() + before;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t begin = starts[i];
    if (i > 0) copy_front(to + begin, to + starts[front_row(i)], shared[i]);
    copy_front(to + begin + shared[i], bytes + ends[i], ends[i + 1] - ends[i]);
  }
  const uint64_t skip = starts[from];
  if (skip > 0) std::memmove(to, to + skip, starts[n] - skip);
  for (uint32_t i = from; i < n; ++i) {
    sink->set_end(at + (i - from), before + starts[i + 1] - skip);
  }
  sink->data.resize(before + starts[n] - skip);
  return Status::ok();
}

Status FrontCodedDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const uint64_t at = out.bytes->add_values(end - begin);
  const uint32_t first = begin >> shift_ << shift_;
  ThreadScratch<Rests, FrontCodedDecoder> rests;
  rests->sink.data.reserve(1);  // short suffixes are read kShortCopy at a time
  Scratch shared;
  const uint64_t before = out.bytes->data.size();
  return for_blocks(
      first, end, [&](uint32_t block, uint32_t from, uint32_t to) -> Status {
        const uint32_t row = block * kBlockValues + from;
        const uint32_t stop = block * kBlockValues + to;
        rests->clear();
        NIMBLE_RETURN_IF_ERROR(
            shared_.decode(body, row, stop, shared.output()));
        NIMBLE_RETURN_IF_ERROR(rests_.decode(body, row, stop, rests->output()));
        for (uint32_t b = row; b < stop; b += 1u << shift_) {
          const uint32_t n = std::min(1u << shift_, stop - b);
          const uint32_t kept = std::max(b, begin);
          NIMBLE_RETURN_IF_ERROR(append_block(shared.as<uint16_t>() + (b - row),
                                              b, n, *rests, b - row, kept - b,
                                              at + (kept - begin), out.bytes));
        }
        if (row == first && stop < end) {
          out.bytes->reserve_alike(before, stop - begin, end - stop);
        }
        return Status::ok();
      });
}

Status FrontCodedDecoder::append_rows(const SegmentBody& body, RowChains* rows,
                                      Rests* rests, uint64_t at,
                                      BytesSink* sink) const {
  if (rows->num_rows() == 0) return Status::ok();
  uint16_t shared[RowChains::kMaxParts + AlignedBuffer::kSlack / 2];
  Output lengths;
  lengths.data = reinterpret_cast<uint8_t*>(shared);
  NIMBLE_RETURN_IF_ERROR(shared_.gather(body, rows->needed().data(),
                                        rows->needed().size(), lengths));
  rows->drop_overwritten(shared);
  const std::span<const uint32_t> needed = rows->needed();
  rests->clear();
  rests->sink.data.reserve(1);  // short suffixes are read kShortCopy at a time
  NIMBLE_RETURN_IF_ERROR(
      rests_.gather(body, needed.data(), needed.size(), rests->output()));
  const uint8_t* const bytes = rests->sink.data.data();
  AlignedBuffer& text = sink->data;
  for (size_t i = 0; i < rows->num_rows(); ++i) {
    const uint64_t start = text.size();
    // A string is not longer than all of its suffixes together.
    text.reserve(start + rests->size());
    uint8_t* const to = text.data() + start;
    uint64_t length = 0;
    for (const uint16_t part : rows->parts(i)) {
      if (NIMBLE_UNLIKELY(shared[part] > length)) {
        return shared_too_much(shared[part], length, needed[part]);
      }
      const uint64_t begin = rests->sink.begin_of(part);
      const uint64_t size = rests->sink.end_of(part) - begin;
      copy_front(to + shared[part], bytes + begin, size);
      length = shared[part] + size;
    }
    text.resize(start + length);
    sink->set_end(at + i, text.size());
  }
  return Status::ok();
}

Status FrontCodedDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  BytesSink* const sink = out.bytes;
  const uint64_t at = sink->add_values(count);
  ThreadScratch<Rests, FrontCodedDecoder> rests;
  RowChains waiting;
  size_t done = 0;
  const auto append_waiting = [&]() -> Status {
    NIMBLE_RETURN_IF_ERROR(
        append_rows(body, &waiting, &*rests, at + done, sink));
    done += waiting.num_rows();
    waiting.clear();
    return Status::ok();
  };
  NIMBLE_RETURN_IF_ERROR(for_row_groups(
      rows, count,
      [&](uint32_t block, size_t begin, size_t n) -> Status {
        if (n > kExtractRows || waiting.num_rows() + n > RowChains::kMaxRows) {
          NIMBLE_RETURN_IF_ERROR(append_waiting());
        }
        if (n <= kExtractRows) {
          waiting.add({rows + begin, n}, shift_);
          return Status::ok();
        }
        done = begin + n;
        return append_some(body, block << shift_, {rows + begin, n}, at + begin,
                           sink);
      },
      shift_));
  return append_waiting();
}

// Decodes the whole block that begins at row `first`, because many of its rows
// are needed.
Status FrontCodedDecoder::append_some(const SegmentBody& body, uint32_t first,
                                      std::span<const uint32_t> rows,
                                      uint64_t at, BytesSink* sink) const {
  struct WholeBlock;
  ThreadScratch<Rests, WholeBlock> block;
  NIMBLE_RETURN_IF_ERROR(decode(body, first, rows.back() + 1, block->output()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t begin = block->sink.begin_of(rows[i] - first);
    sink->data.append(block->sink.data.data() + begin,
                      block->sink.end_of(rows[i] - first) - begin);
    sink->set_end(at + i, sink->data.size());
  }
  return Status::ok();
}

uint64_t common_front(const ByteSlice& a, const ByteSlice& b) {
  const uint64_t n = std::min({a.size, b.size, kMaxShared});
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t differ =
        load<uint64_t>(a.data + i) ^ load<uint64_t>(b.data + i);
    if (differ != 0) {
      return i + static_cast<uint64_t>(std::countr_zero(differ)) / 8;
    }
  }
  while (i < n && a.data[i] == b.data[i]) ++i;
  return i;
}

}  // namespace

uint64_t shared_front(const Values& values, uint32_t row) {
  const uint32_t mask = (1u << kFrontCodedShift) - 1;
  const uint32_t i = row & mask;
  if (i == 0) return 0;
  return common_front(values.slices[row],
                      values.slices[(row & ~mask) + front_row(i)]);
}

Status encode_front_coded(const Values& values, const EncodeContext& context,
                          SegmentBuilder* out) {
  std::vector<uint16_t> shared(values.size);
  std::vector<ByteSlice> rests(values.size);
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint64_t n = shared_front(values, i);
    shared[i] = static_cast<uint16_t>(n);
    const ByteSlice& s = values.slices[i];
    rests[i] = {n > 0 ? s.data + n : s.data, s.size - n};
  }
  put_encoding_id(EncodingId::kFrontCoded, out);
  out->head.put_u8(kFrontCodedShift);
  Values lengths;
  lengths.type = kSharedType;
  lengths.size = values.size;
  lengths.data = reinterpret_cast<const uint8_t*>(shared.data());
  EncodeContext nested = context;
  nested.random_access_only = true;  // a lookup reads several
  NIMBLE_RETURN_IF_ERROR(encode_child(lengths, nested, 0, out));
  Values strings = values;
  strings.slices = rests.data();
  strings.empty_is_null = false;
  return encode_own(strings, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_front_coded(
    ByteReader* head, const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("front coding holds strings only");
  }
  const uint32_t shift = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("front-coded head"));
  if (shift > kMaxFrontShift) {
    return Status::corrupt("front-coded blocks of 2^" + std::to_string(shift) +
                           " rows; at most 2^10 are allowed");
  }
  NIMBLE_ASSIGN_OR_RETURN(Child shared, Child::open(head, context, kSharedType,
                                                    context.num_values));
  NIMBLE_ASSIGN_OR_RETURN(Child rests, Child::open(head, context, context.type,
                                                   context.num_values));
  return std::unique_ptr<Decoder>(std::make_unique<FrontCodedDecoder>(
      context, shift, std::move(shared), std::move(rests)));
}

}  // namespace nimble
