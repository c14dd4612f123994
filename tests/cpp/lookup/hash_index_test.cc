#include "nimble/lookup/hash_index.h"

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "io/temp_dir.h"
#include "lookup/indexed_file.h"
#include "nimble/index/hash_index_writer.h"
#include "nimble/io/memory_file.h"

namespace nimble::testing {
namespace {

IndexedFile build(const std::vector<std::string>& keys,
                  HashIndexOptions options = {}) {
  auto writer = HashIndexWriter::create(options);
  REQUIRE(writer.has_value());
  // In pieces, like stripes.
  const KeyBuffer buffer = keys_of(keys);
  for (size_t at = 0; at < keys.size(); at += 777) {
    const size_t end = std::min(keys.size(), at + 777);
    REQUIRE((*writer)->add(buffer, at, end, at).is_ok());
  }
  return file_with_index(keys.size(), [&](const SectionSink& sink) {
    return (*writer)->finish(sink);
  });
}

using Truth = std::map<std::string, std::vector<uint64_t>>;

Truth truth_of(const std::vector<std::string>& keys) {
  Truth out;
  for (size_t i = 0; i < keys.size(); ++i) out[keys[i]].push_back(i);
  return out;
}

std::vector<uint64_t> rows_of(const CandidateRows& c, size_t i) {
  const auto begin = i == 0 ? 0 : c.ends[i - 1];
  return {c.rows.begin() + static_cast<ptrdiff_t>(begin),
          c.rows.begin() + static_cast<ptrdiff_t>(c.ends[i])};
}

// Checks that no row is missing. Returns how many probes have false candidates.
size_t check_probes(const HashIndex& index,
                    const std::vector<std::string>& probes,
                    const Truth& truth) {
  CandidateRows found;
  const Status s = index.find(keys_of(probes), &found);
  if (!s) fail(__FILE__, __LINE__, std::string(s.message()));
  REQUIRE(found.ends.size() == probes.size());
  size_t extra = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    const auto it = truth.find(probes[i]);
    const auto want = it == truth.end() ? std::vector<uint64_t>() : it->second;
    const auto have = rows_of(found, i);
    CHECK(std::is_sorted(have.begin(), have.end()));
    CHECK(std::includes(have.begin(), have.end(), want.begin(), want.end()));
    extra += have.size() > want.size();
    std::vector<uint64_t> one;
    const auto all = index.find_first(as_bytes(probes[i]), SIZE_MAX, &one);
    REQUIRE(all.has_value());
    CHECK_EQ(*all, UINT64_MAX);
    CHECK(std::includes(one.begin(), one.end(), want.begin(), want.end()));
    one.clear();
    const auto below = index.find_first(as_bytes(probes[i]), 1, &one);
    REQUIRE(below.has_value());
    for (const uint64_t row : want) {
      CHECK(row >= *below || std::binary_search(one.begin(), one.end(), row));
    }
  }
  return extra;
}

// Keys 0 to `different` - 1 as text, in random order, and absent ones.
std::vector<std::string> random_keys(size_t n, size_t different,
                                     uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::string> out(n);
  for (auto& k : out) k = "key-" + std::to_string(rng() % different);
  return out;
}

Result<std::unique_ptr<HashIndex>> open(const Reader& file,
                                        const IndexedFile& i) {
  return HashIndex::open(*file, i.root);
}

TEST(HashIndex, EveryRowIsFoundMappedOrNot) {
  const TempDir dir;
  struct Case {
    size_t n, different;
    double bloom;
    uint64_t memory;
  };
  const std::vector<Case> cases = {
      {0, 1, 10, 1 << 20},      {1, 1, 10, 1 << 20},
      {1000, 1, 10, 1 << 20},   {5000, 7, 0, 1 << 20},
      {70000, 1u << 30, 10, 0}, {70000, 60000, 0, 1 << 26},
      {70000, 3, 16, 1 << 18},  {200000, 1000, 10, 1 << 18}};
  for (const Case& c : cases) {
    const auto keys = random_keys(c.n, c.different, c.n);
    const Truth truth = truth_of(keys);
    HashIndexOptions options;
    options.bloom_bits_per_key = c.bloom;
    options.memory_bytes = c.memory;
    options.spill_directory = dir.path("");
    const IndexedFile indexed = build(keys, options);
    auto probes = random_keys(300, c.different, 99);
    for (size_t i = 0; i < std::min<size_t>(300, keys.size()); ++i)
      probes.push_back(keys[i]);
    for (int i = 0; i < 300; ++i)
      probes.push_back("absent-" + std::to_string(i));
    for (const Reader& file :
         {open_mapped(indexed.file),
          open_file(std::make_shared<CountingFile>(indexed.file))}) {
      const auto index = open(file, indexed);
      REQUIRE(index.has_value());
      CHECK_EQ((*index)->num_entries(), c.n);
      CHECK_EQ((*index)->num_keys(), truth.size());
      CHECK_EQ((*index)->has_bloom(), c.bloom > 0);
      CHECK(check_probes(**index, probes, truth) <= 3);
    }
  }
  CHECK(dir.names().empty());
}

TEST(HashIndex, BytesDoNotDependOnTheMemory) {
  const TempDir dir;
  const auto keys = random_keys(100000, 90000, 3);
  HashIndexOptions small;
  small.memory_bytes = 0;
  small.spill_directory = dir.path("");
  const IndexedFile a = build(keys, small), b = build(keys);
  CHECK(*a.file == *b.file);
  CHECK(a.root == b.root);
}

TEST(HashIndex, SizeOfAKey) {
  const auto keys = random_keys(200000, uint64_t{1} << 60, 4);
  const IndexedFile i = build(keys);
  const auto index = open(open_mapped(i.file), i);
  REQUIRE(index.has_value());
  // 18 bits per row, 14 per fingerprint, 16 per bucket end for 5.6 keys, and 10
  // in the filter.
  CHECK((*index)->size_bytes() < 200000 * 5.7);
}

TEST(HashIndex, EqualKeysAreCompactAndOnePartition) {
  const std::vector<std::string> keys(300000, "same");
  const IndexedFile i = build(keys);
  const auto file = open_mapped(i.file);
  const auto index = open(file, i);
  REQUIRE(index.has_value());
  CHECK((*index)->size_bytes() < 10000);
  CHECK_EQ((*index)->num_keys(), 1);
  CandidateRows found;
  REQUIRE((*index)->find(keys_of({"same", "other"}), &found).is_ok());
  CHECK_EQ(found.ends[0], 300000);
  CHECK_EQ(found.ends[1], 300000);
}

TEST(HashIndex, AColdKeyReadsOnePartitionAndABatchOneRound) {
  const auto keys = random_keys(300000, uint64_t{1} << 60, 5);
  const IndexedFile i = build(keys);
  const auto counted = std::make_shared<CountingFile>(i.file);
  counted->gap = 1 << 16;
  const auto file = open_file(counted);
  const auto index = open(file, i);
  REQUIRE(index.has_value());
  counted->reads = counted->read_bytes = 0;
  std::vector<uint64_t> rows;
  REQUIRE(
      (*index)->find_first(as_bytes(keys[17]), SIZE_MAX, &rows).has_value());
  CHECK_EQ(counted->reads.load(), 1);
  CHECK(counted->read_bytes < 200000);
  // Many keys: the filter, then all partitions that are not cached.
  CandidateRows found;
  counted->rounds = 0;
  const auto some = std::vector<std::string>(keys.begin(), keys.begin() + 1000);
  REQUIRE((*index)->find(keys_of(some), &found).is_ok());
  CHECK_EQ(counted->rounds.load(), 2);
  CHECK(counted->reads <= 4);
  // Absent keys cost nothing afterwards.
  counted->reads = 0;
  std::vector<std::string> absent;
  for (int k = 0; k < 200; ++k) absent.push_back("absent-" + std::to_string(k));
  REQUIRE((*index)->find(keys_of(absent), &found).is_ok());
  CHECK_EQ(counted->reads.load(), 0);
}

TEST(HashIndex, ManyThreadsOneIndex) {
  const auto keys = random_keys(100000, 50000, 6);
  const Truth truth = truth_of(keys);
  const IndexedFile i = build(keys);
  for (const Reader& file :
       {open_mapped(i.file),
        open_file(std::make_shared<CountingFile>(i.file))}) {
    const auto index = open(file, i);
    REQUIRE(index.has_value());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t round = 0; round < 20; ++round) {
          const auto probes = random_keys(100, 50000, t * 100 + round);
          CandidateRows found;
          if (!(*index)->find(keys_of(probes), &found)) ++wrong;
          for (size_t k = 0; k < probes.size(); ++k) {
            const auto it = truth.find(probes[k]);
            if (it == truth.end()) continue;
            const auto have = rows_of(found, k);
            wrong += !std::includes(have.begin(), have.end(),
                                    it->second.begin(), it->second.end());
          }
        }
      });
    }
    for (auto& t : threads) t.join();
    CHECK_EQ(wrong.load(), 0);
  }
}

TEST(HashIndex, FlippedBitsAreNoticed) {
  const auto keys = random_keys(3000, 1000, 7);
  const Truth truth = truth_of(keys);
  const IndexedFile good = build(keys);
  const uint64_t end = open_mapped(good.file)->postscript().footer_offset;
  std::mt19937_64 rng(8);
  for (int round = 0; round < 600; ++round) {
    IndexedFile bad = good;
    bad.file = std::make_shared<std::vector<uint8_t>>(*good.file);
    const uint64_t at = 8 + rng() % (end - 8);
    (*bad.file)[at] ^= static_cast<uint8_t>(1u << rng() % 8);
    for (const Reader& file :
         {open_mapped(bad.file),
          open_file(std::make_shared<CountingFile>(bad.file))}) {
      const auto index = open(file, bad);
      REQUIRE(index.has_value());
      CandidateRows found;
      const Status s = (*index)->find(keys_of(keys), &found);
      if (!s) {
        CHECK(s.code() == StatusCode::kCorrupt);
        continue;
      }
      // The byte is in a gap between sections.
      CHECK(check_probes(**index, keys, truth) <= 3000);
    }
  }
}

TEST(HashIndex, HostileRootsAreRefused) {
  const auto keys = random_keys(3000, 1000, 7);
  const IndexedFile good = build(keys);
  const auto file = open_mapped(good.file);
  for (size_t cut = 0; cut < good.root.size(); ++cut) {
    std::vector<uint8_t> root(good.root.begin(),
                              good.root.begin() + static_cast<ptrdiff_t>(cut));
    (void)HashIndex::open(*file, root);
  }
  std::mt19937_64 rng(9);
  for (int round = 0; round < 5000; ++round) {
    auto root = good.root;
    root[rng() % root.size()] = static_cast<uint8_t>(rng());
    const auto index = HashIndex::open(*file, root);
    if (!index) {
      CHECK(index.error().code() == StatusCode::kCorrupt);
      continue;
    }
    CandidateRows found;
    if ((*index)->find(keys_of(keys), &found)) {
      for (const uint64_t r : found.rows) CHECK(r < keys.size());
    }
  }
}

HashIndexOptions options_of(double load_factor, double bloom_bits) {
  HashIndexOptions options;
  options.load_factor = load_factor;
  options.bloom_bits_per_key = bloom_bits;
  return options;
}

TEST(HashIndexWriter, RefusesOptionsOutOfRange) {
  for (const double load : {0.0, -1.0, 1.1, std::nan("")}) {
    CHECK(!HashIndexWriter::create(options_of(load, 10)).has_value());
  }
  for (const double bits : {-1.0, 65.0, std::nan("")}) {
    CHECK(!HashIndexWriter::create(options_of(0.7, bits)).has_value());
  }
}

TEST(HashIndexWriter, AFailingSinkEndsIt) {
  auto writer = HashIndexWriter::create({});
  REQUIRE(writer.has_value());
  const KeyBuffer keys = keys_of({"a", "b"});
  REQUIRE((*writer)->add(keys, 0, 2, 0).is_ok());
  const auto root = (*writer)->finish([](ByteSpan) -> Result<SectionRef> {
    return Status::io_error("full", 28);
  });
  REQUIRE(!root.has_value());
  CHECK_EQ(root.error().os_error(), 28);
}

}  // namespace
}  // namespace nimble::testing
