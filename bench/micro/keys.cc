// Keys: encoding rows, seeking in a key chunk and in a directory, sorting.
#include <algorithm>

#include "kernels.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/index/cluster_index_writer.h"
#include "nimble/key/key_encoder.h"
#include "nimble/key/key_sort.h"

namespace nimble::micro {
namespace {

constexpr size_t kKeys = 1 << 14;
constexpr size_t kProbes = 1024;

// One column of int64 or text as an Arrow batch.
struct Source {
  std::vector<int64_t> numbers;
  std::string text;
  std::vector<int32_t> offsets{0};
  Field root;
  ArrowArray array{}, child{};
  ArrowArray* children[1] = {&child};
  const void* none[1] = {nullptr};
  const void* buffers[3] = {nullptr, nullptr, nullptr};

  void set(const char* format) {
    root.format = "+s";
    root.children.emplace_back();
    root.children[0].format = format;
    if (!root.resolve("")) fail("Field::resolve");
    const bool is_text = *format == 'u';
    buffers[1] = is_text ? static_cast<const void*>(offsets.data())
                         : static_cast<const void*>(numbers.data());
    buffers[2] = text.data();
    child.length = array.length = static_cast<int64_t>(kKeys);
    child.n_buffers = is_text ? 3 : 2;
    child.buffers = buffers;
    array.n_buffers = 1;
    array.buffers = none;
    array.n_children = 1;
    array.children = children;
  }

  KeyEncoder encoder() const {
    auto created = KeyEncoder::create(root, {{{0}, {}}});
    if (!created) fail("KeyEncoder::create");
    return std::move(*created);
  }
  void encode(const KeyEncoder& encoder, KeyBuffer* keys) const {
    const auto view = ArrayView::open(root, array, "");
    if (!view || !encoder.encode(*view, 0, array.length, keys)) fail("encode");
  }
};

using SourcePtr = std::shared_ptr<Source>;

SourcePtr numbers(int64_t (*make)(size_t), bool sorted) {
  auto source = std::make_shared<Source>();
  for (size_t i = 0; i < kKeys; ++i) source->numbers.push_back(make(i));
  if (sorted) std::sort(source->numbers.begin(), source->numbers.end());
  source->set("l");
  return source;
}

SourcePtr texts(std::string (*make)(size_t), bool sorted) {
  std::vector<std::string> values;
  for (size_t i = 0; i < kKeys; ++i) values.push_back(make(i));
  if (sorted) std::sort(values.begin(), values.end());
  auto source = std::make_shared<Source>();
  for (const std::string& v : values) {
    source->text += v;
    source->offsets.push_back(static_cast<int32_t>(source->text.size()));
  }
  source->set("u");
  return source;
}

Ready encode_rows(const SourcePtr& source) {
  auto keys = std::make_shared<KeyBuffer>();
  const KeyEncoder encoder = source->encoder();
  source->encode(encoder, keys.get());
  return {kKeys, [source, keys, encoder] {
            keys->clear();
            source->encode(encoder, keys.get());
            sink = keys->num_bytes();
          }};
}

// The chunks of an index over sorted keys, and rows whose keys are looked for.
struct Index {
  KeyBuffer keys;
  GroupKeys group;
  std::vector<uint32_t> ends;
  std::vector<uint32_t> probes;

  explicit Index(const Source& source) {
    source.encode(source.encoder(), &keys);
    ClusterIndexWriter writer({});
    if (!writer.add(keys, 0, keys.size())) fail("ClusterIndexWriter");
    group = writer.finish_group();
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      ends.push_back(static_cast<uint32_t>(group.boundaries.offset(i + 1)));
    }
  }
  KeyChunk first() const {
    const auto bytes = group.blob.span().first(group.chunks[0].size);
    const auto chunk = KeyChunk::open(bytes, group.chunks[0].num_keys);
    if (!chunk) fail("KeyChunk::open");
    return *chunk;
  }
  void probe(uint64_t among) {
    for (size_t i = 0; i < kProbes; ++i) {
      probes.push_back(static_cast<uint32_t>(mix(i) % among));
    }
  }
};

Ready seek(const Source& source, KeyChunkMode mode, bool batch) {
  auto index = std::make_shared<Index>(source);
  const KeyChunk chunk = index->first();
  if (chunk.mode() != mode) fail("the chunk has another form");
  index->probe(chunk.num_keys());
  if (batch) std::sort(index->probes.begin(), index->probes.end());
  return {kProbes, [index, chunk, batch] {
            uint32_t at = 0;
            uint64_t sum = 0;
            for (const uint32_t row : index->probes) {
              const auto key = index->keys.key(row);
              at = *chunk.lower_bound_from(batch ? at : 0, key);
              sum += at;
            }
            sink = sum;
          }};
}

Ready open_chunk(const Source& source) {
  auto index = std::make_shared<Index>(source);
  return {1, [index] { sink = index->first().num_keys(); }};
}

Ready find_chunk(const Source& source) {
  auto index = std::make_shared<Index>(source);
  index->probe(kKeys);
  const auto& boundaries = index->group.boundaries;
  auto opened = ChunkDirectory::open(
      {boundaries.data(), boundaries.num_bytes()}, index->ends);
  if (!opened) fail("ChunkDirectory::open");
  auto directory = std::make_shared<ChunkDirectory>(std::move(*opened));
  return {kProbes, [index, directory] {
            uint64_t sum = 0;
            for (const uint32_t row : index->probes) {
              sum += directory->find(index->keys.key(row));
            }
            sink = sum;
          }};
}

Ready sort(const Source& source) {
  auto keys = std::make_shared<KeyBuffer>();
  source.encode(source.encoder(), keys.get());
  auto order = std::make_shared<std::vector<uint32_t>>();
  return {kKeys, [keys, order] {
            sort_keys(*keys, order.get());
            sink = (*order)[0];
          }};
}

int64_t order_key(size_t i) { return static_cast<int64_t>(i / 8 * 32 + i % 8); }
int64_t random_key(size_t i) { return static_cast<int64_t>(mix(i)); }
std::string user(size_t i) {
  return "user_" + std::to_string(mix(i) % 1000000);
}

}  // namespace

std::vector<Kernel> key_kernels() {
  constexpr auto kFixed = KeyChunkMode::kFixed;
  constexpr auto kPrefix = KeyChunkMode::kPrefix;
  const auto orders = [] { return numbers(order_key, true); };
  const auto random = [] { return numbers(random_key, true); };
  const auto users = [] { return texts(user, true); };
  return {
      {"key.encode_int64", "key",
       [] { return encode_rows(numbers(random_key, false)); }},
      {"key.encode_text", "key",
       [] { return encode_rows(texts(user, false)); }},
      {"key.open_chunk", "chunk", [=] { return open_chunk(*orders()); }},
      {"key.seek_line", "key", [=] { return seek(*orders(), kFixed, false); }},
      {"key.seek_random", "key",
       [=] { return seek(*random(), kFixed, false); }},
      {"key.seek_text", "key", [=] { return seek(*users(), kPrefix, false); }},
      {"key.seek_batch_line", "key",
       [=] { return seek(*orders(), kFixed, true); }},
      {"key.seek_batch_text", "key",
       [=] { return seek(*users(), kPrefix, true); }},
      {"key.find_chunk", "key", [=] { return find_chunk(*random()); }},
      {"key.sort_int64", "key",
       [] { return sort(*numbers(random_key, false)); }},
  };
}

}  // namespace nimble::micro
