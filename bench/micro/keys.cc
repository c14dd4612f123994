// Speed of key encoding, chunk building and seeking. One number a line.
//
//   g++ -std=c++20 -O3 -march=native -Icpp bench/micro/keys.cc
//       cpp/nimble/{base,types,key}/*.cc
//       cpp/nimble/index/{key_chunk*,cluster_index_writer,chunk_directory,bloom_filter}.cc -o keys
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "nimble/index/bloom_filter.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/index/cluster_index_writer.h"
#include "nimble/key/key_sort.h"
#include "nimble/key/key_encoder.h"

namespace {

using namespace nimble;

// Best of several runs, in nanoseconds an item.
template <class Run>
double time_of(size_t items, Run run) {
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(items));
  }
  return best;
}

void print(const char* what, double ns) {
  std::printf("%-44s %8.2f ns  %8.1f M/s\n", what, ns, 1e3 / ns);
}

uint64_t sink = 0;

// One column of int64, int32 or text as an Arrow batch.
struct Column {
  Field root;
  ArrowArray array{}, child{};
  ArrowArray* children[1] = {&child};
  const void* none[1] = {nullptr};
  const void* buffers[3] = {nullptr, nullptr, nullptr};

  Column(const char* format, size_t n, const void* values, const void* data) {
    root.format = "+s";
    root.children.emplace_back();
    root.children[0].format = format;
    (void)root.resolve("").is_ok();
    buffers[1] = values;
    buffers[2] = data;
    child.length = array.length = static_cast<int64_t>(n);
    child.n_buffers = data != nullptr ? 3 : 2;
    child.buffers = buffers;
    array.n_buffers = 1;
    array.buffers = none;
    array.n_children = 1;
    array.children = children;
  }
  KeyBuffer encode() const {
    KeyBuffer keys;
    const auto encoder = KeyEncoder::create(root, {{{0}, {}}});
    const auto view = ArrayView::open(root, array, "");
    (void)encoder->encode(*view, 0, array.length, &keys).is_ok();
    return keys;
  }
};

void bench_encode(const char* name, const Column& column) {
  const auto encoder = KeyEncoder::create(column.root, {{{0}, {}}});
  const auto view = ArrayView::open(column.root, column.array, "");
  KeyBuffer keys;
  const auto n = static_cast<size_t>(column.array.length);
  print(name, time_of(n * 10, [&] {
          for (int i = 0; i < 10; ++i) {
            keys.clear();
            (void)encoder->encode(*view, 0, column.array.length, &keys).is_ok();
          }
        }));
  sink += keys.num_bytes();
}

void bench_index(const std::string& name, const KeyBuffer& keys) {
  const size_t n = keys.size();
  GroupKeys group;
  print((name + ": verify and build").c_str(), time_of(n, [&] {
          ClusterIndexWriter writer({});
          for (size_t at = 0; at < n; at += 65536) {
            (void)writer.add(keys, at, std::min(n, at + 65536)).is_ok();
          }
          group = writer.finish_group();
        }));
  std::printf("%-44s %8.3f bytes a key\n", (name + ": chunks").c_str(),
              static_cast<double>(group.blob.size()) / static_cast<double>(n));

  std::mt19937_64 rng(1);
  constexpr size_t kProbes = 4096;
  std::vector<uint32_t> rows(kProbes);
  // One chunk, in L1 or L2: the seek itself.
  const ByteSpan first = group.blob.span().first(group.chunks[0].size);
  for (auto& r : rows) r = static_cast<uint32_t>(rng() % group.chunks[0].num_keys);
  print((name + ": open and seek").c_str(), time_of(kProbes, [&] {
          for (const uint32_t r : rows) {
            const auto chunk = KeyChunk::open(first, group.chunks[0].num_keys);
            sink += *chunk->lower_bound(keys.key(r));
          }
        }));
  const auto chunk = KeyChunk::open(first, group.chunks[0].num_keys);
  print((name + ": seek").c_str(), time_of(kProbes, [&] {
          for (const uint32_t r : rows) sink += *chunk->lower_bound(keys.key(r));
        }));
  std::sort(rows.begin(), rows.end());
  print((name + ": seek, sorted batch").c_str(), time_of(kProbes, [&] {
          uint32_t at = 0;
          for (const uint32_t r : rows) {
            at = *chunk->lower_bound_from(at, keys.key(r));
          }
          sink += at;
        }));
  std::vector<uint32_t> ends;
  for (size_t i = 0; i < group.chunks.size(); ++i) {
    ends.push_back(static_cast<uint32_t>(group.boundaries.offset(i + 1)));
  }
  const auto directory = ChunkDirectory::open(
      {group.boundaries.data(), group.boundaries.num_bytes()}, ends);
  for (auto& r : rows) r = static_cast<uint32_t>(rng() % n);
  print((name + ": directory").c_str(), time_of(kProbes, [&] {
          for (const uint32_t r : rows) sink += directory->find(keys.key(r));
        }));
  KeyBuffer decoded;
  print((name + ": decode").c_str(), time_of(chunk->num_keys(), [&] {
          decoded.reset(keys.fixed_width());
          (void)chunk->decode(0, chunk->num_keys(), &decoded).is_ok();
        }));
}

void bench_sort(const char* name, const KeyBuffer& keys) {
  std::vector<uint32_t> order;
  print(name, time_of(keys.size(), [&] { sort_keys(keys, &order); }));
  sink += order[0];
}

void bench_bloom() {
  constexpr size_t kKeys = 1 << 20;
  std::mt19937_64 rng(1);
  std::vector<uint64_t> hashes(kKeys);
  for (auto& h : hashes) h = rng();
  BloomFilterBuilder builder(kKeys, 10);
  print("Bloom filter, 1.3 MB: insert", time_of(kKeys, [&] { builder.insert(hashes); }));
  const auto filter = BloomFilter::open(builder.bytes());
  std::vector<uint8_t> found(kKeys);
  print("Bloom filter, 1.3 MB: probe", time_of(kKeys, [&] { filter->might_contain(hashes, found.data()); }));
  sink += found[0];
}

}  // namespace

int main() {
  constexpr size_t n = 1 << 17, rows = 1 << 20;
  std::mt19937_64 rng(3);
  std::vector<int64_t> numbers(rows);
  std::vector<int32_t> small(n), offsets(rows + 1);
  std::string text;
  for (size_t i = 0; i < n; ++i) small[i] = static_cast<int32_t>(rng());
  for (size_t i = 0; i < rows; ++i) numbers[i] = static_cast<int64_t>(i);
  bench_encode("encode int64", Column("l", n, numbers.data(), nullptr));
  bench_encode("encode int32", Column("i", n, small.data(), nullptr));
  bench_encode("encode float64", Column("g", n, numbers.data(), nullptr));

  const auto index_numbers = [&](const char* name, auto make) {
    for (size_t i = 0; i < rows; ++i) numbers[i] = make(i);
    std::sort(numbers.begin(), numbers.end());
    bench_index(name, Column("l", rows, numbers.data(), nullptr).encode());
  };
  index_numbers("sequential", [](size_t i) { return static_cast<int64_t>(i); });
  index_numbers("TPC-H orderkey", [](size_t i) { return static_cast<int64_t>(i / 8 * 32 + i % 8); });
  index_numbers("TPC-H lineitem", [&](size_t i) { const size_t o = i / 4; return static_cast<int64_t>(o / 8 * 32 + o % 8); });
  index_numbers("random int64", [&](size_t) { return static_cast<int64_t>(rng()); });
  for (size_t i = 0; i < rows; ++i) numbers[i] = static_cast<int64_t>(rng());
  bench_sort("sort random int64", Column("l", rows, numbers.data(), nullptr).encode());

  const auto index_text = [&](const char* name, auto make) {
    std::vector<std::string> values(rows);
    for (size_t i = 0; i < rows; ++i) values[i] = make(i);
    std::sort(values.begin(), values.end());
    text.clear();
    for (size_t i = 0; i < rows; ++i) {
      text += values[i];
      offsets[i + 1] = static_cast<int32_t>(text.size());
    }
    const Column column("u", rows, offsets.data(), text.data());
    bench_encode((std::string("encode ") + name).c_str(), column);
    bench_index(name, column.encode());
  };
  index_text("32 hex digits", [&](size_t) {
    char s[40];
    std::snprintf(s, sizeof s, "%016llx%016llx", static_cast<unsigned long long>(rng()),
                  static_cast<unsigned long long>(rng()));
    return std::string(s);
  });
  index_text("names like user_123", [&](size_t i) { return "user_" + std::to_string(i); });
  bench_bloom();
  return sink == 42 ? 1 : 0;
}
