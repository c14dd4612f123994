// Speed and size of a hash index over random int64 keys, built in memory.
//
//   hash_index [keys] [memory budget in MiB]
//
// Link with the rooms up to `reader` of a release build (nimble_reader and what
// is below it).
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "nimble/base/hash.h"
#include "nimble/format/constants.h"
#include "nimble/index/hash_index_writer.h"
#include "nimble/io/memory_file.h"
#include "nimble/lookup/hash_index.h"

namespace {

using namespace nimble;

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void print(const char* what, double value, const char* unit) {
  std::printf("%-36s %10.2f %s\n", what, value, unit);
}

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Keys of rows [begin, end) of a file: nine bytes each, as an encoder's.
void fill(uint64_t begin, uint64_t end, KeyBuffer* keys) {
  keys->reset(9);
  uint8_t* out = keys->extend_fixed(end - begin);
  for (uint64_t i = begin; i < end; ++i, out += 9) {
    out[0] = 0;
    store<uint64_t>(out + 1, mix(i));
  }
}

void check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// A file of `num_rows` rows with no data but what `write` appends.
std::shared_ptr<std::vector<uint8_t>> make_file(
    uint64_t num_rows, const std::shared_ptr<std::vector<uint8_t>>& bytes) {
  FileFooter footer;
  footer.num_rows = num_rows;
  footer.schema.format = "+s";
  footer.groups.push_back({{8, 1, 0}, num_rows});
  const auto f = footer.serialize();
  Postscript ps;
  ps.footer_offset = bytes->size();
  ps.footer_size = f.size();
  ps.footer_checksum = checksum64(f);
  bytes->insert(bytes->end(), f.begin(), f.end());
  const auto tail = ps.serialize();
  bytes->insert(bytes->end(), tail.begin(), tail.end());
  return bytes;
}

void measure_lookups(const HashIndex& index, uint64_t num_keys) {
  std::mt19937_64 rng(1);
  constexpr size_t kProbes = 10000;
  KeyBuffer probes(9);
  const auto draw = [&](bool present) {
    probes.reset(9);
    KeyBuffer one;
    for (size_t i = 0; i < kProbes; ++i) {
      const uint64_t k = rng() % num_keys + (present ? 0 : num_keys);
      fill(k, k + 1, &one);
      probes.push_back(one.key(0));
    }
  };
  CandidateRows found;
  for (const bool present : {true, false}) {
    double batch = 1e9, single = 1e9;
    size_t rows_found = 0;
    for (int round = 0; round < 30; ++round) {
      draw(present);
      double start = seconds();
      check(index.find(probes, &found));
      batch = std::min(batch, seconds() - start);
      rows_found += found.rows.size();
      draw(present);
      std::vector<uint64_t> rows;
      rows.reserve(2 * kProbes);
      start = seconds();
      for (size_t i = 0; i < kProbes; ++i) {
        const auto all = index.find_first(probes.key(i), SIZE_MAX, &rows);
        if (!all) check(all.error());
      }
      single = std::min(single, seconds() - start);
    }
    const char* kind = present ? "present" : "absent";
    std::printf("%s keys\n", kind);
    print("  find, batch of 10,000", batch / kProbes * 1e9, "ns a key");
    print("  find_first", single / kProbes * 1e9, "ns a key");
    print("  candidates", static_cast<double>(rows_found) / (30.0 * kProbes),
          "a key");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t n =
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  HashIndexOptions options;
  if (argc > 2)
    options.memory_bytes = std::strtoull(argv[2], nullptr, 10) << 20;
  const bool discard = argc > 3;  // sections: measure the memory of building
  const auto writer = HashIndexWriter::create(options);
  const long before = peak_kib();
  KeyBuffer keys;
  double hashing = 0, start = 0;
  for (uint64_t at = 0; at < n; at += 65536) {
    const uint64_t end = std::min(n, at + 65536);
    fill(at, end, &keys);
    start = seconds();
    check((*writer)->add(keys, 0, end - at, at));
    hashing += seconds() - start;
  }
  const auto bytes = std::make_shared<std::vector<uint8_t>>(kMagic, kMagic + 8);
  uint64_t size = 0;
  start = seconds();
  const auto root = (*writer)->finish([&](ByteSpan s) -> Result<SectionRef> {
    if (discard) {
      size += s.size();
      return SectionRef{8, s.size(), checksum64(s)};
    }
    bytes->resize(round_up(bytes->size(), 8));
    const SectionRef ref{bytes->size(), s.size(), checksum64(s)};
    bytes->insert(bytes->end(), s.begin(), s.end());
    return ref;
  });
  const double finishing = seconds() - start;
  if (!root) check(root.error());
  print("add", hashing / static_cast<double>(n) * 1e9, "ns a key");
  print("finish", finishing / static_cast<double>(n) * 1e9, "ns a key");
  print("memory of building", static_cast<double>(peak_kib() - before) / 1024,
        "MiB");
  print("root", static_cast<double>(root->size()), "bytes");
  if (discard) {
    print("size", static_cast<double>(size) / static_cast<double>(n),
          "bytes a key");
    return 0;
  }
  make_file(n, bytes);
  const auto file =
      FileReader::open(std::make_shared<MemoryFile>(*bytes, bytes), {});
  if (!file) check(file.error());
  const auto index = HashIndex::open(**file, *root);
  if (!index) check(index.error());
  print("size",
        static_cast<double>((*index)->size_bytes()) / static_cast<double>(n),
        "bytes a key");
  measure_lookups(**index, n);
}
