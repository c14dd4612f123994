#include "nimble/encoding/blocks/patches.h"

#include "nimble/base/hash.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

constexpr uint64_t kInlinePositionBytes = 1024;

}  // namespace

// ------------------------------------------------------------------ positions

void PatchPositions::write(std::span<const uint32_t> rows, uint32_t num_values,
                           SegmentBuilder* out) {
  std::vector<uint32_t> counts(num_blocks_of(num_values));
  for (const uint32_t row : rows) ++counts[row / kBlockValues];
  for (const uint32_t n : counts) out->head.put_varint(n);
  const bool is_inline = rows.size() * 2 <= kInlinePositionBytes;
  const uint64_t begin = is_inline ? 0 : out->begin_part();
  ByteBuffer& to = is_inline ? out->head : out->body;
  out->head.put_u8(is_inline ? 1 : 0);
  if (is_inline) out->head.put_varint(rows.size() * 2);
  size_t at = 0;
  for (const uint32_t n : counts) {
    if (n == 0) continue;
    const size_t group = to.size();
    if (!is_inline) to.extend(8);
    for (const size_t end = at + n; at < end; ++at) {
      to.put(static_cast<uint16_t>(rows[at] % kBlockValues));
    }
    if (is_inline) continue;
    store(to.data() + group,
          checksum64({to.data() + group + 8, size_t{n} * 2}));
  }
  if (!is_inline) out->put_part(begin);
}

Status PatchPositions::read_counts(ByteReader* head) {
  const uint32_t num_blocks = num_blocks_of(num_values_);
  uint32_t total = 0;
  uint32_t group = 0;
  for (uint32_t b = 0; b < num_blocks; ++b) {
    const uint64_t n = head->get_varint();
    if (n > block_rows(b, num_values_)) {
      return Status::corrupt("block " + std::to_string(b) + " has " +
                             std::to_string(n) +
                             " exceptions, more than it has rows");
    }
    starts_.push_back(total);
    groups_.push_back(group);
    total += static_cast<uint32_t>(n);
    group += static_cast<uint32_t>(n == 0 ? 0 : 8 + 2 * n);
  }
  starts_.push_back(total);
  groups_.push_back(group);
  return head->status("counts of exceptions");
}

Result<PatchPositions> PatchPositions::open(ByteReader* head,
                                            const DecodeContext& context) {
  PatchPositions positions(context.num_values);
  NIMBLE_RETURN_IF_ERROR(positions.read_counts(head));
  const uint8_t place = head->get_u8();
  if (place > 1) {
    return Status::corrupt("the place of exceptions must be 0 or 1, found " +
                           std::to_string(place));
  }
  positions.is_inline_ = place == 1;
  uint64_t size = 0;
  uint64_t needed = 2 * uint64_t{positions.count()};
  if (positions.is_inline_) {
    const ByteSpan bytes = head->get_sized();
    NIMBLE_RETURN_IF_ERROR(head->status("positions of exceptions"));
    positions.inline_.assign(bytes.begin(), bytes.end());
    size = bytes.size();
  } else {
    NIMBLE_ASSIGN_OR_RETURN(positions.part_, Part::read(head, context));
    size = positions.part_.size();
    needed = positions.groups_.back();
  }
  if (size < needed) {
    return Status::corrupt("positions of " + std::to_string(positions.count()) +
                           " exceptions do not fit " + std::to_string(size) +
                           " bytes");
  }
  if (!positions.is_inline_) {
    NIMBLE_RETURN_IF_ERROR(positions.part_.check_blocks(
        positions.groups_.size() - 1,
        [&](uint64_t i) { return positions.groups_[i]; }));
  }
  return positions;
}

void PatchPositions::append_ranges(uint32_t begin, uint32_t end,
                                   std::vector<ByteRange>* out) const {
  if (is_inline_ || begin >= end) return;
  const uint64_t from = groups_[begin / kBlockValues];
  const uint64_t to = groups_[(end - 1) / kBlockValues + 1];
  part_.append(from, to, out);
}

Status PatchPositions::check(const SegmentBody& body, uint32_t block,
                             const uint8_t** rows) const {
  const uint32_t n = count_in(block);
  const uint8_t* const p = bytes_of(body, block);
  *rows = p;
  if (!is_inline_) {
    NIMBLE_RETURN_IF_ERROR(verified_.check(body, block, {p, size_t{n} * 2},
                                           load<uint64_t>(p - 8)));
  }
  const uint64_t bit = uint64_t{1} << (block % 64);
  std::atomic<uint64_t>& word = ascending_[block / 64];
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return Status::ok();
  uint32_t before = load<uint16_t>(p);
  for (uint32_t i = 1; i < n; ++i) {
    const uint32_t row = load<uint16_t>(p + 2 * i);
    if (row <= before) {
      return Status::corrupt("exceptions of block " + std::to_string(block) +
                             " are not in ascending order");
    }
    before = row;
  }
  if (before >= block_rows(block, num_values_)) {
    return Status::corrupt("exception at row " + std::to_string(before) +
                           " of block " + std::to_string(block) +
                           " is past its end");
  }
  if (is_inline_ || body.stable) {
    word.fetch_or(bit, std::memory_order_relaxed);
  }
  return Status::ok();
}

Status PatchPositions::read(const SegmentBody& body, uint32_t block,
                            uint16_t* rows) const {
  const uint32_t n = count_in(block);
  if (n == 0) return Status::ok();
  const uint8_t* p = nullptr;
  NIMBLE_RETURN_IF_ERROR(check(body, block, &p));
  std::memcpy(rows, p, size_t{n} * 2);
  return Status::ok();
}

Status PatchPositions::find(const SegmentBody& body, uint32_t block,
                            const uint32_t* rows, size_t n,
                            uint32_t* places) const {
  const uint32_t count = count_in(block);
  if (count == 0) {
    std::fill(places, places + n, kNone);
    return Status::ok();
  }
  const uint8_t* p = nullptr;
  NIMBLE_RETURN_IF_ERROR(check(body, block, &p));
  uint32_t low = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t row = rows[i] % kBlockValues;
    for (uint32_t left = count - low; left > 0;) {
      const uint32_t half = left / 2;
      const bool is_before = load<uint16_t>(p + 2 * (low + half)) < row;
      low = is_before ? low + half + 1 : low;
      left = is_before ? left - half - 1 : half;
    }
    const bool is_found = low < count && load<uint16_t>(p + 2 * low) == row;
    places[i] = is_found ? low : kNone;
  }
  return Status::ok();
}

void PatchPositions::prefetch(const SegmentBody& body, uint32_t row) const {
  const uint32_t block = row / kBlockValues;
  const uint32_t n = count_in(block);
  if (n == 0) return;
  const uint8_t* const p = bytes_of(body, block);
  if (!is_inline_) __builtin_prefetch(p - 8);
  // The binary search starts in the middle and ends near the interpolated
  // position, so both are prefetched.
  __builtin_prefetch(p + n);
  __builtin_prefetch(p + uint64_t{row % kBlockValues} * n / kBlockValues * 2);
}

// --------------------------------------------------------------------- values

Status Patches::write(std::span<const uint32_t> rows, const Values& values,
                      uint32_t num_values, const EncodeContext& context,
                      SegmentBuilder* out) {
  PatchPositions::write(rows, num_values, out);
  return encode_child(values, context, kInlineBytes, out);
}

Result<Patches> Patches::open(ByteReader* head, const DecodeContext& context) {
  if (context.type.width == 0 || context.type.width > kMaxWidth) {
    return Status::corrupt("values of " + std::to_string(context.type.width) +
                           " bytes cannot have exceptions");
  }
  NIMBLE_ASSIGN_OR_RETURN(PatchPositions positions,
                          PatchPositions::open(head, context));
  NIMBLE_ASSIGN_OR_RETURN(Child values, Child::open(head, context, context.type,
                                                    positions.count()));
  return Patches(std::move(positions), std::move(values), context.type.width);
}

void Patches::append_ranges(uint32_t begin, uint32_t end,
                            std::vector<ByteRange>* out) const {
  if (begin >= end) return;
  positions_.append_ranges(begin, end, out);
  values_.append_ranges(positions_.start(begin / kBlockValues),
                        positions_.start((end - 1) / kBlockValues + 1), out);
}

namespace {

// Maximum number of rows, and of exceptions, that are gathered at once.
constexpr size_t kGathered = 256;

// Copies value i to position `begin` + at[i] of `data`. `begin` may be the
// two's complement of a negative number.
template <class Place>
void put_values(const uint8_t* values, uint32_t width, uint64_t begin,
                const Place* at, size_t n, uint8_t* data) {
  const auto put = [&]<class T>(T) {
    for (size_t i = 0; i < n; ++i) {
      store(data + (begin + at[i]) * sizeof(T),
            load<T>(values + i * sizeof(T)));
    }
  };
  switch (width) {
    case 1:
      return put(uint8_t{});
    case 2:
      return put(uint16_t{});
    case 4:
      return put(uint32_t{});
    case 8:
      return put(uint64_t{});
    default:
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(data + (begin + at[i]) * width, values + i * width, width);
      }
  }
}

// Reads a child's values in ascending order, decoding a block at a time. Many
// row blocks with few exceptions each then share one decode.
class ValueCursor {
 public:
  ValueCursor(const Child& child, const SegmentBody& body, uint32_t width,
              uint32_t limit)
      : child_(child), body_(body), width_(width), limit_(limit) {}

  // Sets `*values` to the values from `i` on, and `*count` to their number, at
  // least 1. Valid until the next call.
  // REQUIRES: `i` is not below that of an earlier call.
  Status at(uint32_t i, const uint8_t** values, uint32_t* count) {
    if (i >= end_) {
      begin_ = i;
      end_ = std::min(limit_, (i / kBlockValues + 1) * kBlockValues);
      Output out;
      out.data = scratch_;
      NIMBLE_RETURN_IF_ERROR(child_.decode(body_, begin_, end_, out));
    }
    *values = scratch_ + uint64_t{i - begin_} * width_;
    *count = end_ - i;
    return Status::ok();
  }

 private:
  const Child& child_;
  const SegmentBody& body_;
  const uint32_t width_;
  const uint32_t limit_;  // the body has no values past this
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  alignas(64) uint8_t
      scratch_[kBlockValues * Patches::kMaxWidth + AlignedBuffer::kSlack];
};

}  // namespace

Status Patches::apply(const SegmentBody& body, uint32_t begin, uint32_t end,
                      uint8_t* data) const {
  if (begin >= end) return Status::ok();
  const uint32_t last_block = (end - 1) / kBlockValues;
  if (positions_.start(begin / kBlockValues) ==
      positions_.start(last_block + 1)) {
    return Status::ok();
  }
  ValueCursor cursor(values_, body, width_, positions_.start(last_block + 1));
  uint16_t rows[kBlockValues];
  return for_blocks(
      begin, end, [&](uint32_t block, uint32_t from, uint32_t to) -> Status {
        NIMBLE_RETURN_IF_ERROR(positions_.read(body, block, rows));
        const uint32_t first = positions_.start(block);
        const uint32_t n = positions_.start(block + 1) - first;
        const auto place = [&](uint32_t row) {
          return static_cast<uint32_t>(std::lower_bound(rows, rows + n, row) -
                                       rows);
        };
        const uint32_t stop = to < kBlockValues ? place(to) : n;
        for (uint32_t i = from > 0 ? place(from) : 0; i < stop;) {
          const uint8_t* values = nullptr;
          uint32_t count = 0;
          NIMBLE_RETURN_IF_ERROR(cursor.at(first + i, &values, &count));
          count = std::min(count, stop - i);
          put_values(values, width_, uint64_t{block} * kBlockValues - begin,
                     rows + i, count, data);
          i += count;
        }
        return Status::ok();
      });
}

Status Patches::apply_gather(const SegmentBody& body, const uint32_t* wanted,
                             size_t count, uint8_t* data) const {
  // The exceptions found so far and their indexes in `wanted`. Their values are
  // read together.
  uint32_t gathered[kGathered], at[kGathered];
  size_t num_gathered = 0;
  alignas(64) uint8_t values[kGathered * kMaxWidth + AlignedBuffer::kSlack];
  const auto put_gathered = [&]() -> Status {
    if (num_gathered == 0) return Status::ok();
    Output out;
    out.data = values;
    NIMBLE_RETURN_IF_ERROR(values_.gather(body, gathered, num_gathered, out));
    put_values(values, width_, 0, at, num_gathered, data);
    num_gathered = 0;
    return Status::ok();
  };
  NIMBLE_RETURN_IF_ERROR(for_row_groups(
      wanted, count, [&](uint32_t block, size_t first, size_t n) -> Status {
        const uint32_t start = positions_.start(block);
        if (positions_.start(block + 1) == start) return Status::ok();
        for (const size_t end = first + n; first < end; first += kGathered) {
          const size_t some = std::min<size_t>(end - first, kGathered);
          uint32_t places[kGathered];
          NIMBLE_RETURN_IF_ERROR(
              positions_.find(body, block, wanted + first, some, places));
          if (num_gathered + some > kGathered)
            NIMBLE_RETURN_IF_ERROR(put_gathered());
          for (size_t i = 0; i < some; ++i) {
            gathered[num_gathered] = start + places[i];
            at[num_gathered] = static_cast<uint32_t>(first + i);
            num_gathered += places[i] != PatchPositions::kNone ? 1 : 0;
          }
        }
        return Status::ok();
      }));
  return put_gathered();
}

Status Patches::sum_to(const SegmentBody& body, const ValueType& type,
                       uint64_t common, const uint32_t* rows, size_t n,
                       uint64_t* sums) const {
  const uint32_t block = rows[0] / kBlockValues;
  const uint32_t start = positions_.start(block);
  const uint32_t count = positions_.start(block + 1) - start;
  uint16_t places[kBlockValues];
  Scratch values;
  NIMBLE_RETURN_IF_ERROR(positions_.read(body, block, places));
  if (count > 0) {
    NIMBLE_RETURN_IF_ERROR(
        values_.decode(body, start, start + count, values.output()));
  }
  uint32_t next = count > 0 && places[0] == 0 ? 1 : 0;
  uint64_t more = 0;  // sum of differences from `common`
  for (size_t i = 0; i < n; ++i) {
    const uint32_t row = rows[i] % kBlockValues;
    for (; next < count && places[next] <= row; ++next) {
      more += load_int(type, values.as<uint8_t>(), next) - common;
    }
    sums[i] = row * common + more;
  }
  return Status::ok();
}

Status Patches::apply_filter(const SegmentBody& body, const Predicate& test,
                             const uint64_t* before,
                             uint64_t* selection) const {
  uint16_t rows[kBlockValues];
  for (uint32_t b = 0; positions_.start(b) < count(); ++b) {
    const uint32_t first = positions_.start(b);
    const uint32_t n = positions_.start(b + 1) - first;
    const uint64_t* const wanted = before + b * kSelectionWords;
    if (n == 0 || count_selected(wanted, kSelectionWords) == 0) continue;
    NIMBLE_RETURN_IF_ERROR(positions_.read(body, b, rows));
    // Each block needs its own cursor. A cursor decodes whole blocks of values,
    // and values between two selected blocks may not be in the body.
    ValueCursor cursor(values_, body, width_, first + n);
    uint64_t* const words = selection + b * kSelectionWords;
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t bit = uint64_t{1} << (rows[i] % 64);
      if ((wanted[rows[i] / 64] & bit) == 0) continue;
      const uint8_t* value = nullptr;
      uint32_t values = 0;
      NIMBLE_RETURN_IF_ERROR(cursor.at(first + i, &value, &values));
      words[rows[i] / 64] &= ~bit;
      if (passes(test, value)) words[rows[i] / 64] |= bit;
    }
  }
  return Status::ok();
}

}  // namespace nimble
