// Parts of a file by themselves: metadata, and what indexes are made of. What
// checks a checksum is one level above them.
#include <algorithm>

#include "fuzz/part_input.h"
#include "fuzz/target.h"
#include "nimble/base/byte_reader.h"
#include "nimble/format/footer.h"
#include "nimble/format/group.h"
#include "nimble/format/postscript.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/index/hash_index_partition.h"
#include "nimble/key/key_decoder.h"
#include "nimble/key_chunk/key_chunk.h"

namespace nimble::fuzz {

FUZZ_TARGET(postscript) {
  if (input.size() < kPostscriptSize) return;
  const auto p =
      Postscript::parse(input.last(kPostscriptSize), input.size(), "x");
  if (!p) return;
  FUZZ_CHECK(p->footer_offset + p->footer_size + kPostscriptSize ==
             input.size());
}

FUZZ_TARGET(footer) {
  const auto footer = FileFooter::parse(input, 4096);
  if (!footer) return;
  // What is accepted can be written, and means the same then.
  const std::vector<uint8_t> bytes = footer->serialize();
  const auto again = FileFooter::parse(bytes, 4096);
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(again->serialize() == bytes);
  (void)footer->schema.type_name();
}

FUZZ_TARGET(group) {
  const Field root = group_field();
  const StreamPlan plan(root);
  const auto group = GroupView::open(input, plan, 100, 24, 4096);
  if (!group) return;
  (void)group->memory_bytes();
  uint64_t rows = 0;
  for (const StripeView& s : group->stripes()) {
    FUZZ_CHECK(s.first_row == 100 + rows);
    rows += s.rows;
    for (uint32_t i = 0; i < s.segment_offsets.size(); ++i) {
      const SegmentRef segment = s.segment(i);
      FUZZ_CHECK(in_bounds(segment.offset, segment.size, 4096));
      for (const uint8_t b : segment.head) FUZZ_CHECK(b <= 255);
    }
  }
  FUZZ_CHECK(rows == 24);
  for (uint64_t row = 100; row < 124; ++row) {
    const StripeView& s = group->stripe_of(row);
    FUZZ_CHECK(s.first_row <= row && row - s.first_row < s.rows);
  }
  const auto boundaries =
      ChunkDirectory::open(group->chunks().key_bytes, group->chunks().key_ends);
  if (!boundaries) return;
  for (size_t n = 0; n < 12; ++n) {
    const size_t at = boundaries->find(input.first(std::min(input.size(), n)));
    FUZZ_CHECK(at <= boundaries->size());
  }
}

FUZZ_TARGET(bloom) {
  const auto filter = BloomFilter::open(input);
  if (!filter) return;
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < 40; ++i) hashes.push_back(i * 0x9e3779b97f4a7c15);
  hashes.push_back(UINT64_MAX);
  std::vector<uint8_t> found(hashes.size());
  filter->might_contain(hashes, found.data());
  for (size_t i = 0; i < hashes.size(); ++i) {
    FUZZ_CHECK(filter->might_contain(hashes[i]) == (found[i] != 0));
  }
}

// u64 rows of the file, then the partition.
FUZZ_TARGET(hash_partition) {
  ByteReader reader(input);
  const uint64_t num_rows = reader.get<uint64_t>() % (uint64_t{1} << 44);
  const ByteSpan rest = reader.get_bytes(reader.remaining());
  const std::vector<uint8_t> bytes(rest.begin(), rest.end());
  const auto partition = HashPartition::open(bytes, num_rows);
  if (!partition) return;
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t fraction = i == 0 ? UINT64_MAX : i * 0x0567890123456789;
    partition->prefetch_bucket(fraction);
    const HashPartition::Place place = partition->place(fraction);
    partition->prefetch_entries(place);
    std::vector<uint64_t> rows;
    if (!partition->find(place, &rows)) continue;
    for (const uint64_t row : rows) FUZZ_CHECK(row < num_rows);
  }
  uint64_t count = 0;
  (void)partition->count_rows(&count);
}

// u16 number of keys, u8 whether there is a source; then the chunk.
FUZZ_TARGET(key_chunk) {
  ByteReader reader(input);
  const uint32_t num_keys = reader.get<uint16_t>();
  const bool has_source = reader.get_u8() % 2 == 1;
  const ByteSpan rest = reader.get_bytes(reader.remaining());
  const std::vector<uint8_t> bytes(rest.begin(), rest.end());
  if (!KeyChunk::verify_checksum(bytes)) return;
  const NumberedKeys source;
  const auto chunk =
      KeyChunk::open(bytes, num_keys, has_source ? &source : nullptr, 7);
  if (!chunk) return;
  const uint32_t n = chunk->num_keys();
  FUZZ_CHECK(n == num_keys);
  ByteBuffer key;
  for (uint32_t i = 0; i < n; i += n / 20 + 1) {
    if (!chunk->key_at(i, &key)) continue;
    KeyBuffer one;  // a source need not agree with what is stored
    if (chunk->decode(i, i + 1, &one) && chunk->step() == 1) {
      FUZZ_CHECK(one.size() == 1 && compare_bytes(one.key(0), key.span()) == 0);
    }
    (void)chunk->matches(i, key.span());
    chunk->prefetch(key.span());
    for (const uint32_t start : {0u, i, n}) {
      const auto at = chunk->lower_bound_from(start, key.span());
      if (at) FUZZ_CHECK(*at <= n);
    }
    const auto gap = chunk->gap(key.span());
    if (!gap) continue;
    FUZZ_CHECK(gap->begin <= gap->end && gap->end <= n);
    chunk->prefetch_gap(key.span(), *gap);
    const auto found = chunk->find(key.span(), *gap);
    if (found) FUZZ_CHECK(found->at <= n);
  }
  for (const size_t size : {size_t{0}, size_t{1}, size_t{9}, size_t{40}}) {
    const auto at =
        chunk->lower_bound(ByteSpan(bytes).last(std::min(size, bytes.size())));
    if (at) FUZZ_CHECK(*at <= n);
  }
  KeyBuffer all;
  (void)chunk->decode(n / 3, n, &all);
}

// u8 which columns, then the key.
FUZZ_TARGET(key_decode) {
  if (input.empty()) return;
  const std::vector<KeyEncoder>& encoders = key_encoders();
  const KeyEncoder& encoder = encoders[input[0] % encoders.size()];
  const KeyDecoder decoder(encoder);
  std::vector<DecodedColumn> columns;
  const ByteSpan key = input.subspan(1);
  const Status status = decoder.decode(key, &columns);
  (void)decoder.to_text(key);
  if (!status) return;
  FUZZ_CHECK(columns.size() == encoder.columns().size());
  for (const DecodedColumn& c : columns) FUZZ_CHECK(c.size() == 1);
}

}  // namespace nimble::fuzz
