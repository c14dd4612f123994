#include "nimble/index/bloom_filter.h"

#include <cmath>
#include <random>
#include <string>

#include "index/parquet_bloom.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

ByteSpan span_of(const std::vector<uint8_t>& v) { return v; }

// The bits that a hash sets in a filter of one block.
std::vector<int> bits_of(uint64_t hash) {
  BloomFilterBuilder builder(0, 10);
  builder.insert(hash);
  std::vector<int> bits;
  for (size_t i = 0; i < 8; ++i) {
    bits.push_back(
        std::countr_zero(load<uint32_t>(builder.bytes().data() + 4 * i)));
  }
  return bits;
}

TEST(BloomFilter, Vectors) {
  const std::vector<uint8_t> number = {0, 0x80, 0, 0, 0, 0, 0, 0, 1};
  CHECK_EQ(key_hash64(number), 0x138152f2fd808345u);
  CHECK(bits_of(0x138152f2fd808345u) ==
        std::vector<int>{25, 31, 2, 1, 3, 3, 24, 6});
  const std::vector<uint8_t> text = {0, 'a', 'b', 'c', 0};
  CHECK_EQ(key_hash64(text), 0xfb69c65c8bed7e7eu);
  CHECK(bits_of(0xfb69c65c8bed7e7eu) ==
        std::vector<int>{23, 24, 30, 2, 20, 14, 25, 25});
  CHECK_EQ(key_hash64({}), 0xef46db3751d8e999u);
  CHECK(bits_of(0xef46db3751d8e999u) ==
        std::vector<int>{29, 0, 25, 28, 14, 22, 29, 30});
}

TEST(BloomFilter, BlockIsMultiplyShift) {
  CHECK_EQ(bloom_block(0, 7), 0);
  CHECK_EQ(bloom_block(~uint64_t{0}, 7), 6);
  CHECK_EQ(bloom_block(0x138152f2fd808345u, 1000),
           (0x138152f2ull * 1000) >> 32);
  CHECK_EQ(bloom_block(0x80000000ull << 32, 3), 1);
}

TEST(BloomFilter, SizesAreWholeBlocks) {
  const auto size = [](uint64_t n, double bits) {
    return BloomFilterBuilder(n, bits).bytes().size();
  };
  CHECK_EQ(size(0, 10), 32);
  CHECK_EQ(size(25, 10), 32);
  CHECK_EQ(size(26, 10), 64);
  CHECK_EQ(size(1000, -1), 32);
  CHECK_EQ(size(1000, std::nan("")), 32);
}

TEST(BloomFilter, HasWhatWasInsertedAndLittleElse) {
  constexpr size_t kKeys = 20000;
  std::mt19937_64 rng(7);
  std::vector<uint64_t> in(kKeys), out(10 * kKeys);
  for (auto& h : in) h = rng();
  for (auto& h : out) h = rng();
  for (const double bits : {8.0, 10.0, 16.0}) {
    BloomFilterBuilder builder(kKeys, bits), one_by_one(kKeys, bits);
    builder.insert(in);
    for (const uint64_t h : in) one_by_one.insert(h);
    const auto filter = BloomFilter::open(builder.bytes());
    REQUIRE(filter.has_value());
    CHECK(std::equal(builder.bytes().begin(), builder.bytes().end(),
                     one_by_one.bytes().begin()));
    for (const uint64_t h : in) CHECK(filter->might_contain(h));
    std::vector<uint8_t> found(out.size());
    filter->might_contain(out, found.data());
    double hits = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      CHECK_EQ(found[i] != 0, filter->might_contain(out[i]));
      hits += found[i];
    }
    // In a block with k keys, k bits are drawn in each of its 32-bit words.
    const double mean = 256 / bits;
    double expected = 0, p = std::exp(-mean);
    for (int k = 0; k < 400; ++k, p *= mean / k) {
      expected += p * std::pow(1 - std::pow(1 - 1.0 / 32, k), 8);
    }
    const double rate = hits / static_cast<double>(out.size());
    CHECK(std::fabs(rate - expected) < 0.15 * expected + 0.0003);
  }
}

// Builds the filter of a Parquet file over the plain bytes of its values.
std::string hex_of(const std::vector<std::string>& values, size_t hex_digits) {
  const double bits =
      static_cast<double>(hex_digits * 4) / static_cast<double>(values.size());
  BloomFilterBuilder builder(values.size(), bits);
  for (const std::string& v : values) builder.insert(key_hash64(as_bytes(v)));
  std::string out;
  for (const uint8_t b : builder.bytes()) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

TEST(BloomFilter, BitsAreThoseOfParquetFiles) {
  std::vector<std::string> texts, numbers;
  for (int64_t i = 0; i < 100; ++i) {
    texts.push_back("user-" + std::to_string(i * i) + "@example.org");
    const int64_t cube = i * i * i;
    numbers.emplace_back(reinterpret_cast<const char*>(&cube), 8);
  }
  const std::string_view of_texts = kParquetTexts, of_numbers = kParquetNumbers;
  CHECK_EQ(hex_of(texts, of_texts.size()), of_texts);
  CHECK_EQ(hex_of(numbers, of_numbers.size()), of_numbers);
}

TEST(BloomFilter, HostileSizes) {
  const std::vector<uint8_t> bytes(65);
  CHECK(!BloomFilter::open({}).has_value());
  CHECK(!BloomFilter::open(span_of(bytes)).has_value());
  // Any alignment.
  const auto filter = BloomFilter::open(span_of(bytes).subspan(1));
  REQUIRE(filter.has_value());
  CHECK_EQ(filter->num_blocks(), 2);
  CHECK(!filter->might_contain(12345));
  CHECK(!filter->might_contain(as_bytes("abc")));
}

}  // namespace
}  // namespace nimble::testing
