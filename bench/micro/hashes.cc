// Checksums, key hashes and the Bloom filter.
#include "kernels.h"
#include "nimble/base/hash.h"
#include "nimble/index/bloom_filter.h"

namespace nimble::micro {
namespace {

constexpr size_t kKeys = 1 << 16;  // 80 KiB of filter: in L2
constexpr size_t kBlockBytes = 4096;
constexpr size_t kHashed = 1024;

std::vector<uint64_t> random_hashes(uint64_t from) {
  std::vector<uint64_t> out(kKeys);
  for (size_t i = 0; i < kKeys; ++i) out[i] = mix(from + i);
  return out;
}

std::vector<uint8_t> random_bytes(size_t size) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(mix(i));
  return out;
}

struct Filter {
  BloomFilterBuilder builder{kKeys, 10};
  std::vector<uint64_t> absent = random_hashes(1 << 30);
  std::vector<uint8_t> found = std::vector<uint8_t>(kKeys);
  BloomFilter filter;

  Filter() {
    builder.insert(random_hashes(0));
    auto opened = BloomFilter::open(builder.bytes());
    if (!opened) fail("BloomFilter::open");
    filter = *opened;
  }
};

Ready bloom_one_by_one() {
  auto f = std::make_shared<Filter>();
  return {kKeys, [f] {
            uint64_t sum = 0;
            for (const uint64_t hash : f->absent) {
              sum += f->filter.might_contain(hash);
            }
            sink = sum;
          }};
}

Ready bloom_batch() {
  auto f = std::make_shared<Filter>();
  return {kKeys, [f] {
            f->filter.might_contain(f->absent, f->found.data());
            sink = f->found[0];
          }};
}

Ready bloom_insert() {
  auto hashes = std::make_shared<std::vector<uint64_t>>(random_hashes(0));
  auto builder = std::make_shared<BloomFilterBuilder>(kKeys, 10);
  return {kKeys, [hashes, builder] { builder->insert(*hashes); }};
}

Ready hash_keys(size_t size) {
  auto bytes =
      std::make_shared<std::vector<uint8_t>>(random_bytes(kHashed * size));
  return {kHashed, [bytes, size] {
            uint64_t sum = 0;
            for (size_t i = 0; i < kHashed; ++i) {
              sum += key_hash64({bytes->data() + i * size, size});
            }
            sink = sum;
          }};
}

Ready checksum() {
  auto bytes =
      std::make_shared<std::vector<uint8_t>>(random_bytes(kBlockBytes));
  return {kBlockBytes,
          [bytes] { sink = checksum64({bytes->data(), bytes->size()}); }};
}

}  // namespace

std::vector<Kernel> hash_kernels() {
  return {
      {"hash.key8", "key", [] { return hash_keys(8); }},
      {"hash.key36", "key", [] { return hash_keys(36); }},
      {"hash.checksum_4k", "byte", checksum},
      {"bloom.probe", "key", bloom_one_by_one},
      {"bloom.probe_batch", "key", bloom_batch},
      {"bloom.insert", "key", bloom_insert},
  };
}

}  // namespace nimble::micro
