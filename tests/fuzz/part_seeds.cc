// Seeds of the targets that take parts of files, cut out of the seed files.
#include "fuzz/part_input.h"
#include "fuzz/seeds.h"
#include "nimble/base/hash.h"
#include "nimble/format/footer.h"
#include "nimble/format/group.h"
#include "nimble/format/postscript.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/hash_index_partition.h"
#include "nimble/key_chunk/key_chunk.h"
#include "types/random_array.h"

namespace nimble::fuzz {

Field group_field() {
  Field number = testing::make_field("l");
  number.flags = 0;
  return testing::struct_of({number, testing::make_field("u")});
}

const std::vector<KeyEncoder>& key_encoders() {
  static const std::vector<KeyEncoder> all = [] {
    std::vector<KeyEncoder> out;
    const char* const formats[] = {"l", "C",   "u",      "z",   "b",   "g",
                                   "f", "w:5", "d:20,5", "tdD", "tsu:"};
    for (const char* format : formats) {
      const Field root = testing::struct_of(
          {testing::make_field(format), testing::make_field("u")});
      for (const bool descending : {false, true}) {
        auto e = KeyEncoder::create(root, {{{0}, {descending, !descending}},
                                           {{1}, {!descending, false}}});
        FUZZ_CHECK(e.has_value());
        out.push_back(*std::move(e));
      }
    }
    return out;
  }();
  return all;
}

namespace {

using Bytes = std::vector<uint8_t>;

Bytes to_bytes(ByteSpan span) { return {span.begin(), span.end()}; }

}  // namespace

std::vector<Bytes> footer_seeds() {
  std::vector<Bytes> out;
  for (const Bytes& file : file_seeds()) {
    const auto p = Postscript::parse(ByteSpan(file).last(kPostscriptSize),
                                     file.size(), "");
    FUZZ_CHECK(p.has_value());
    out.push_back(
        to_bytes(ByteSpan(file).subspan(p->footer_offset, p->footer_size)));
  }
  return out;
}

std::vector<Bytes> group_seeds() {
  std::vector<StripeMeta> stripes;
  for (uint64_t i = 0; i < 2; ++i) {
    StripeMeta s;
    s.rows = 12;
    s.values = {0, 0, 12, i * 12, 12};
    const uint32_t segments = i == 0 ? 2 : 3;
    for (uint32_t k = 0; k < segments; ++k) {
      s.segment_offsets.push_back(64 * (k + 1));
      s.segment_sizes.push_back(30);
      s.heads.insert(s.heads.end(), {3, 0, 18, 5, 0});
      s.head_ends.push_back(5 * (k + 1));
    }
    stripes.push_back(std::move(s));
  }
  ChunkDirectoryMeta chunks;
  chunks.chunk_end_rows = {10, 24};
  chunks.chunk_ends = {100, 220};
  chunks.key_stream_offset = 512;
  chunks.key_bytes = {0, 1, 2, 0, 1, 3};
  chunks.key_ends = {3, 6};
  return {serialize_group(stripes, nullptr), serialize_group(stripes, &chunks),
          serialize_group({}, nullptr)};
}

std::vector<Bytes> bloom_seeds() {
  std::vector<Bytes> out;
  for (const uint64_t n : {1, 40, 300}) {
    BloomFilterBuilder filter(n, 10);
    for (uint64_t i = 0; i < n; ++i) filter.insert(i * 0x9e3779b97f4a7c15);
    out.push_back(to_bytes(filter.bytes()));
  }
  return out;
}

std::vector<Bytes> partition_seeds() {
  std::vector<Bytes> out;
  for (const uint64_t n : {1, 30, 200}) {
    HashPartitionBuilder builder(n, 0.7);
    for (uint64_t i = 0; i < n; ++i) {  // some lists of rows
      FUZZ_CHECK(bool{builder.add(i / 9 * 0x0567890123456789, i)});
    }
    const auto bytes = builder.finish();
    FUZZ_CHECK(bytes.has_value());
    ByteBuffer seed;
    seed.put(n);
    seed.put_bytes(*bytes);
    out.push_back(seed.take());
  }
  return out;
}

std::vector<Bytes> chunk_seeds() {
  std::vector<Bytes> out;
  const auto add = [&](const KeyBuffer& keys, const KeyChunkOptions& options) {
    ByteBuffer chunk;
    const bool sampled = build_key_chunk(keys, 0, keys.size(), options, &chunk);
    ByteBuffer seed;
    seed.put(static_cast<uint16_t>(keys.size()));
    seed.put_u8(sampled ? 1 : 0);
    seed.put_bytes(chunk.span());
    out.push_back(seed.take());
  };
  for (const uint64_t n : {1, 7, 100}) {
    KeyBuffer numbers(8), texts;
    for (uint64_t i = 0; i < n; ++i) {
      uint8_t key[8];
      store_be(key, 7 + i, 8);
      numbers.push_back(ByteSpan(key));
      const std::string text = "key " + std::to_string(1000 + i * i);
      texts.push_back(as_bytes(text));
    }
    KeyChunkOptions options;
    add(numbers, options);
    add(texts, options);
    options.restart_interval = 3;
    options.allow_fixed = false;
    add(numbers, options);
    add(texts, options);
    options.sample_step = 4;
    add(texts, options);
  }
  return out;
}

std::vector<Bytes> key_seeds() {
  std::vector<Bytes> out;
  for (uint8_t i = 0; i < key_encoders().size(); ++i) {
    out.push_back({i, 0, 0x80, 0, 0, 0, 0, 0, 0, 10, 0, 'a', 'b', 0});
    out.push_back({i, 0, 'x', 'y', 0, 0, 'z', 0});
    out.push_back({i, 1, 0, 0, 0});
  }
  return out;
}

}  // namespace nimble::fuzz
