#include "nimble/encoding/blocks/presence.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bit_packing.h"
#include "nimble/base/bitmap.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {

Status Presence::write(const uint8_t* has, uint32_t rows,
                       const EncodeContext& context, SegmentBuilder* out,
                       ByteBuffer* has_head) {
  Values where;
  where.type = ValueType::boolean();
  where.size = rows;
  where.data = has;
  const size_t place = out->head.size();
  NIMBLE_RETURN_IF_ERROR(encode_child(where, context, 0, out));
  if (has_head != nullptr) {
    has_head->put_bytes(out->head.span().subspan(place + 1));
  }
  std::vector<uint64_t> counts;
  uint64_t before = 0;
  for (uint32_t b = 0; b + 1 < num_blocks_of(rows); ++b) {
    before += count_bits(has, uint64_t{b} * kBlockValues, kBlockValues);
    counts.push_back(before);
  }
  PackedOffsets::write(counts, &out->head);
  return Status::ok();
}

Result<Presence> Presence::open(ByteReader* head, const DecodeContext& context,
                                uint64_t count) {
  const uint32_t rows = context.num_values;
  if (count > rows) {
    return Status::corrupt(std::to_string(count) + " values in only " +
                           std::to_string(rows) + " rows");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child where, Child::open(head, context, ValueType::boolean(), rows));
  const uint32_t blocks = num_blocks_of(rows);
  NIMBLE_ASSIGN_OR_RETURN(
      PackedOffsets counts,
      PackedOffsets::open(head, blocks > 0 ? blocks - 1 : 0));
  uint64_t before = 0;
  for (uint64_t i = 0; i <= counts.count(); ++i) {
    const uint64_t next = i < counts.count() ? counts.get(i) : count;
    if (next < before) {
      return Status::corrupt(
          "counts of rows with a value descend: " + std::to_string(before) +
          " before block " + std::to_string(i) + ", " + std::to_string(next) +
          " before block " + std::to_string(i + 1));
    }
    before = next;
  }
  return Presence(rows, static_cast<uint32_t>(count), std::move(where),
                  std::move(counts));
}

void Presence::append_ranges(uint32_t begin, uint32_t end, const Child& values,
                             std::vector<ByteRange>* out) const {
  if (begin >= end) return;
  const uint32_t block = begin / kBlockValues;
  where_.append_ranges(block * kBlockValues, end, out);
  // The ranges cover whole blocks, because only the decoded booleans say
  // exactly which values the rows need.
  values.append_ranges(before(block), before((end - 1) / kBlockValues + 1),
                       out);
}

Status Presence::check(uint64_t first, uint64_t count,
                       uint32_t last_block) const {
  const uint32_t end = before(last_block + 1);
  if (first + count <= end) return Status::ok();
  return Status::corrupt("values [" + std::to_string(first) + ", " +
                         std::to_string(first + count) +
                         ") are out of bounds: blocks 0 to " +
                         std::to_string(last_block) + " have only " +
                         std::to_string(end) + " values");
}

Result<Presence::Own> Presence::read(const SegmentBody& body, uint32_t begin,
                                     uint32_t end, uint64_t* words) const {
  const uint32_t block = begin / kBlockValues;
  const uint32_t from = block * kBlockValues;
  std::fill(words, words + div_ceil(end - from, 64), 0);
  Output to;
  to.data = reinterpret_cast<uint8_t*>(words);
  NIMBLE_RETURN_IF_ERROR(where_.decode(body, from, end, to));
  const uint64_t first = before(block) + count_bits(to.data, 0, begin - from);
  const uint64_t count = count_bits(to.data, begin - from, end - begin);
  NIMBLE_RETURN_IF_ERROR(check(first, count, (end - 1) / kBlockValues));
  return Own{static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
}

namespace {

// Presence::find() for n ascending rows of one block. `words` has the block's
// booleans, `before` is the number of values before the block, and bits of
// `has` are set from `at` on.
NIMBLE_CLONES uint32_t find_in_block(const uint64_t* words, uint32_t before,
                                     const uint32_t* rows, size_t n, size_t at,
                                     uint64_t* has, uint32_t* places) {
  uint32_t num_present = 0, word = 0;
  for (size_t i = 0; i < n; ++i, ++at) {
    const uint32_t row = rows[i] % kBlockValues;
    for (; word < row / 64; ++word) {
      before += static_cast<uint32_t>(std::popcount(words[word]));
    }
    const uint64_t own = words[word] >> (row % 64) & 1;
    places[num_present] =
        before +
        static_cast<uint32_t>(std::popcount(words[word] & low_bits(row % 64)));
    num_present += static_cast<uint32_t>(own);
    has[at / 64] |= own << (at % 64);
  }
  return num_present;
}

}  // namespace

Result<uint32_t> Presence::find(const SegmentBody& body, const uint32_t* rows,
                                uint32_t n, uint64_t* has,
                                uint32_t* places) const {
  uint32_t num_present = 0;
  NIMBLE_RETURN_IF_ERROR(for_row_groups(
      rows, n, [&](uint32_t block, size_t at, size_t some) -> Status {
        const uint32_t end = rows[at + some - 1] + 1;
        uint64_t words[kSelectionWords];
        NIMBLE_ASSIGN_OR_RETURN(const Own own,
                                read(body, block * kBlockValues, end, words));
        num_present += find_in_block(words, own.first, rows + at, some, at, has,
                                     places + num_present);
        return Status::ok();
      }));
  return num_present;
}

void Presence::prefetch(const SegmentBody& body, uint32_t row,
                        const Child& values) const {
  where_.prefetch(body, row);
  const uint32_t block = row / kBlockValues;
  const uint64_t first = before(block);
  const uint64_t count = before(block + 1) - first;
  if (count == 0) return;
  // An interpolated position, assuming an even distribution.
  const uint64_t at =
      first + count * (row % kBlockValues) / block_rows(block, rows_);
  values.prefetch(body, static_cast<uint32_t>(at));
}

}  // namespace nimble
