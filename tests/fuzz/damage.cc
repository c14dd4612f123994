#include "fuzz/damage.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "fuzz/fuzz_file.h"
#include "nimble/lookup/open_index.h"

namespace nimble::fuzz {
namespace {

// splitmix64: as good as needed, and cheap to begin anew for every file.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>((*this)() % n); }

 private:
  uint64_t state_;
};

// Bytes that are overwritten, inserted or erased at a time.
constexpr size_t kMost = 48;
// Bytes of elsewhere: not a whole block with the checksum in front of it, for
// checksums do not say where a block belongs (docs/format/file.md).
constexpr size_t kMostMoved = 8;

void damage(Numbers* random, ByteSpan other, std::vector<uint8_t>* file) {
  const size_t size = file->size();
  const size_t at = random->below(size);
  const size_t n = 1 + random->below(std::min(size - at, kMost));
  const size_t few = std::min(n, kMostMoved);
  uint8_t* const p = file->data() + at;
  const auto place = file->begin() + static_cast<int64_t>(at);
  switch (random->below(12)) {
    case 0:
    case 1:
    case 2:
      *p ^= static_cast<uint8_t>(1u << random->below(8));
      return;
    case 3:
    case 4:
      *p = static_cast<uint8_t>((*random)());
      return;
    case 5:
      std::memset(p, 0, n);
      return;
    case 6:
      std::memset(p, 0xff, n);
      return;
    case 7:  // from elsewhere in the file
      std::memmove(p, file->data() + random->below(size - few + 1), few);
      return;
    case 8:  // from another file
      std::memcpy(p, other.data() + random->below(other.size() - few + 1), few);
      return;
    case 9:
      file->resize(at);
      return;
    case 10:
      file->insert(place, n, static_cast<uint8_t>((*random)()));
      return;
    default:
      file->erase(place, place + static_cast<int64_t>(n));
  }
}

uint64_t digest_of(const LookupAnswer& answer) {
  uint64_t out = answer.ends.size();
  const auto add = [&](uint64_t v) { out = (out ^ v) * 0x9e3779b97f4a7c15; };
  for (const uint64_t end : answer.ends) add(end);
  for (const RowRange& r : answer.ranges) add(r.begin), add(r.end);
  return out;
}

// What a file says; nothing where it refuses to.
using Answer = std::optional<uint64_t>;

Answer scan(const Reader& file) {
  const auto rows = RowReader::create_all(file);
  if (!rows) return std::nullopt;
  Column out = (*rows)->make_output();
  const RowRange all{0, file->num_rows()};
  if (!(*rows)->read_ranges({&all, 1}, 1, &out)) return std::nullopt;
  const auto read = ArrowRows::make(**rows, std::move(out));
  return read ? Answer(read->digest()) : std::nullopt;
}

Answer take(const Reader& file) {
  const auto rows = RowReader::create_all(file);
  if (!rows || file->num_rows() == 0) return std::nullopt;
  const uint64_t n = file->num_rows();
  const std::vector<uint64_t> wanted = {n - 1, n / 3, 0, n / 2, n / 3};
  Column out = (*rows)->make_output();
  if (!(*rows)->take(wanted, 1, &out)) return std::nullopt;
  const auto read = ArrowRows::make(**rows, std::move(out));
  return read ? Answer(read->digest()) : std::nullopt;
}

Answer find(const IndexLookup& index, const KeyBuffer& keys) {
  LookupAnswer answer;
  if (!index.find(keys, true, nullptr, &answer)) return std::nullopt;
  return digest_of(answer);
}

// Indexes of a file, the cluster index first.
size_t num_indexes(const FileReader& file) {
  return file.footer().indexes.size() + (file.encoder() != nullptr ? 1 : 0);
}
Answer ask(const FileReader& file, size_t i, const KeyBuffer& keys) {
  if (file.encoder() != nullptr && i == 0) {
    return find(*open_cluster_lookup(file.cluster()), keys);
  }
  const auto index = file.index(i - (file.encoder() != nullptr ? 1 : 0));
  return index ? find(**index, keys) : std::nullopt;
}

}  // namespace

struct DamagedFiles::Original {
  explicit Original(const std::vector<uint8_t>& file);

  std::vector<uint8_t> bytes;
  Answer rows, some_rows;
  std::vector<KeyBuffer> keys;  // of each index: of its rows, and absent ones
  std::vector<Answer> found;
};

DamagedFiles::Original::Original(const std::vector<uint8_t>& file)
    : bytes(file) {
  const Reader reader = open_input(bytes, true);
  FUZZ_CHECK(reader != nullptr);
  rows = scan(reader);
  FUZZ_CHECK(rows.has_value());
  some_rows = take(reader);
  const uint64_t n = std::min<uint64_t>(reader->num_rows(), 12);
  const auto all = RowReader::create_all(reader);
  Column out = (*all)->make_output();
  const RowRange first{0, n};
  FUZZ_CHECK(bool{(*all)->read_ranges({&first, 1}, 1, &out)});
  const auto read = ArrowRows::make(**all, std::move(out));
  for (size_t i = 0; i < num_indexes(*reader); ++i) {
    const bool is_cluster = reader->encoder() != nullptr && i == 0;
    const KeyEncoder encoder =
        is_cluster
            ? *reader->encoder()
            : (*reader->index(i - (reader->encoder() != nullptr ? 1 : 0)))
                  ->encoder();
    KeyBuffer probes;
    FUZZ_CHECK(bool{
        encoder.encode(read->view(), 0, static_cast<int64_t>(n), &probes)});
    keys.push_back(std::move(probes));
    found.push_back(ask(*reader, i, keys.back()));
    FUZZ_CHECK(found.back().has_value());
  }
}

DamagedFiles::DamagedFiles(const std::vector<std::vector<uint8_t>>& seeds,
                           size_t largest) {
  for (const std::vector<uint8_t>& s : seeds) {
    if (s.size() > largest) continue;
    originals_.push_back(std::make_unique<const Original>(s));
  }
  FUZZ_CHECK(!originals_.empty());
}
DamagedFiles::~DamagedFiles() = default;

std::vector<uint8_t> DamagedFiles::make(uint64_t number) const {
  Numbers random(number);
  std::vector<uint8_t> file = originals_[number % originals_.size()]->bytes;
  const std::vector<uint8_t>& other =
      originals_[random.below(originals_.size())]->bytes;
  for (size_t n = 1 + random.below(3); n > 0 && file.size() > 1; --n) {
    damage(&random, other, &file);
  }
  return file;
}

std::string DamagedFiles::check(uint64_t number, DamageCounts* counts) const {
  const Original& original = *originals_[number % originals_.size()];
  const std::vector<uint8_t> bytes = make(number);
  const std::clock_t begin = std::clock();
  ++counts->files;
  std::string wrong;
  uint64_t errors = 0;
  const auto compare = [&](const char* what, Answer got, Answer right) {
    if (got && got != right) wrong = what;
    if (!got && right) ++errors;
  };
  const Reader file = open_input(bytes, number / originals_.size() % 4 != 0);
  if (file == nullptr) {
    ++counts->refused;
  } else if (file->num_rows() > 1000) {
    wrong = "number of rows";
  } else {
    compare("scan", scan(file), original.rows);
    compare("take", take(file), original.some_rows);
    if (num_indexes(*file) != original.keys.size()) wrong = "indexes";
    for (size_t i = 0; i < original.keys.size() && wrong.empty(); ++i) {
      compare("lookup", ask(*file, i, original.keys[i]), original.found[i]);
    }
    ++(errors > 0 ? counts->errors : counts->read);
  }
  const double took =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  counts->slowest = std::max(counts->slowest, took);
  return wrong;
}

}  // namespace nimble::fuzz
