#include "nimble/lookup/hash_index.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "hash_index_generated.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/hash_index_writer.h"
#include "nimble/open/section_fetch.h"

namespace nimble {
namespace {

// Number of keys of a batch whose memory is prefetched together.
constexpr size_t kFewKeys = 32;
// If a file is not mapped, at most about this many bytes of partitions are held
// at a time.
constexpr uint64_t kMaxHeldBytes = uint64_t{64} << 20;
// Approximate number of bytes that a search for an absent key reads if the file
// is not mapped.
constexpr uint64_t kBytesPerAbsentHash = 160 * 1024;

}  // namespace

// --------------------------------------------------------------------- open

Result<std::unique_ptr<HashIndex>> HashIndex::open(const OpenFile& file,
                                                   std::vector<uint8_t> root) {
  std::unique_ptr<HashIndex> index(new HashIndex(file));
  if (Status s = index->parse(root); !s) {
    return std::move(s).with_context(file.file().name() + ": hash index");
  }
  const size_t sections =
      index->partitions_.size() + index->bloom_sections_.size();
  file.budget()->add_resident(
      sizeof *index + sections * (sizeof(SectionRef) + sizeof(void*)) +
      index->partitions_.size() * sizeof(HashPartition));
  return index;
}

HashIndex::~HashIndex() {
  if (views_ == nullptr) return;  // opening failed
  for (size_t i = 0; i < partitions_.size(); ++i) {
    delete views_[i].load(std::memory_order_relaxed);
  }
}

Status HashIndex::parse(const std::vector<uint8_t>& root) {
  auto index =
      FlatBufferView<fb::HashIndex>::open(root, fb::HashIndexIdentifier());
  if (!index) return std::move(index).error().with_context("its root");
  if (!is_aligned((*index)->partitions()) ||
      !is_aligned((*index)->bloom_parts())) {
    return Status::corrupt("its root has arrays that are not aligned");
  }
  num_rows_ = (*index)->num_rows();
  num_entries_ = (*index)->num_entries();
  num_keys_ = (*index)->num_keys();
  partitions_ = from_fb((*index)->partitions());
  bloom_sections_ = from_fb((*index)->bloom_parts());
  // Every row must have an entry.
  if (num_rows_ != file_.num_rows() || num_entries_ != num_rows_ ||
      num_keys_ > num_entries_ || partitions_.empty()) {
    return Status::corrupt("its root has " + std::to_string(num_keys_) +
                           " keys, " + std::to_string(num_entries_) +
                           " entries, " + std::to_string(num_rows_) +
                           " rows and " + std::to_string(partitions_.size()) +
                           " partitions, but the file has " +
                           std::to_string(file_.num_rows()) + " rows");
  }
  NIMBLE_RETURN_IF_ERROR(check_sections(partitions_, "partition"));
  NIMBLE_RETURN_IF_ERROR(check_sections(bloom_sections_, "Bloom filter part"));
  for (size_t i = 0; i < bloom_sections_.size(); ++i) {
    const uint64_t size = bloom_sections_[i].size;
    const bool last = i + 1 == bloom_sections_.size();
    const uint64_t full = kBloomPartBlocks * kBloomBlockSize;
    if (size == 0 || size % kBloomBlockSize != 0 || size > full ||
        (!last && size != full)) {
      return Status::corrupt("part " + std::to_string(i) +
                             " of the Bloom filter has a wrong size, " +
                             std::to_string(size) + " bytes");
    }
    bloom_blocks_ += size / kBloomBlockSize;
  }
  views_.reset(new std::atomic<const HashPartition*>[partitions_.size()]());
  bloom_parts_.reset(new std::atomic<const uint8_t*>[bloom_sections_.size()]());
  return Status::ok();
}

Status HashIndex::check_sections(const std::vector<SectionRef>& sections,
                                 const char* what) {
  const uint64_t limit = file_.postscript().footer_offset;
  for (const SectionRef& s : sections) {
    if (!in_bounds(s.offset, s.size, limit)) {
      return Status::corrupt(
          std::string(what) + " of " + std::to_string(s.size) +
          " bytes at offset " + std::to_string(s.offset) +
          " lies outside the data of " + std::to_string(limit) + " bytes");
    }
    size_bytes_ += s.size;
  }
  return Status::ok();
}

Status HashIndex::corrupt(Status status, uint64_t partition) const {
  if (status.is_ok()) return status;
  return std::move(status).with_context(
      file_.file().name() + ": hash partition at offset " +
      std::to_string(partitions_[partition].offset));
}

// ------------------------------------------------------------- Bloom filter

Status HashIndex::verify_bloom_part(uint64_t part) const {
  const SectionRef& s = bloom_sections_[part];
  const uint8_t* data = file_.file().mapped() + s.offset;
  NIMBLE_RETURN_IF_ERROR(
      file_.check_section(s, {data, s.size}, "Bloom filter part"));
  file_.stats()->add(ReadKind::kIndex, 1, s.size);
  bloom_parts_[part].store(data, std::memory_order_release);
  return Status::ok();
}

Result<bool> HashIndex::load_bloom(uint64_t probes) const {
  if (bloom_sections_.empty()) return false;
  if (file_.file().mapped() != nullptr) return true;
  if (bloom_loaded_.load(std::memory_order_acquire)) return true;
  const uint64_t asked =
      bloom_probes_.fetch_add(probes, std::memory_order_relaxed) + probes;
  const uint64_t size = bloom_blocks_ * kBloomBlockSize;
  if (asked < size / kBytesPerAbsentHash) return false;
  const ReadLock lock(bloom_mutex_, file_.file());
  if (bloom_loaded_.load(std::memory_order_acquire)) return true;
  std::vector<uint8_t> bytes(size);
  std::vector<ReadRequest> reads;
  uint8_t* to = bytes.data();
  uint64_t end = ~uint64_t{0};
  for (const SectionRef& s : bloom_sections_) {
    if (s.offset == end) {
      reads.back().size += s.size;
    } else {
      reads.push_back({s.offset, s.size, to});
    }
    to += s.size;
    end = s.offset + s.size;
  }
  NIMBLE_RETURN_IF_ERROR(file_.file().read_many(reads));
  if (bloom_loaded_.load(std::memory_order_acquire)) return true;
  file_.stats()->add(ReadKind::kIndex, reads.size(), size);
  file_.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
  to = bytes.data();
  for (size_t i = 0; i < bloom_sections_.size(); ++i) {
    const SectionRef& s = bloom_sections_[i];
    NIMBLE_RETURN_IF_ERROR(
        file_.check_section(s, {to, s.size}, "Bloom filter part"));
    bloom_parts_[i].store(to, std::memory_order_relaxed);
    to += s.size;
  }
  bloom_bytes_ = std::move(bytes);
  file_.budget()->add_resident(size);
  bloom_loaded_.store(true, std::memory_order_release);
  return true;
}

Result<bool> HashIndex::might_contain(uint64_t hash) const {
  const uint64_t block = bloom_block(hash, bloom_blocks_);
  auto& part = bloom_parts_[block / kBloomPartBlocks];
  const uint8_t* blocks = part.load(std::memory_order_acquire);
  if (blocks == nullptr) [[unlikely]] {
    NIMBLE_RETURN_IF_ERROR(verify_bloom_part(block / kBloomPartBlocks));
    blocks = part.load(std::memory_order_acquire);
  }
  return bloom_contains(blocks + block % kBloomPartBlocks * kBloomBlockSize,
                        hash);
}

// ------------------------------------------------------------- mapped files

Result<const HashPartition*> HashIndex::verify_partition(uint64_t i) const {
  const SectionRef& s = partitions_[i];
  if (s.size == 0) return nullptr;
  const ByteSpan bytes(file_.file().mapped() + s.offset, s.size);
  NIMBLE_RETURN_IF_ERROR(file_.check_section(s, bytes, "hash partition"));
  auto opened = HashPartition::open(bytes, num_rows_);
  if (!opened) return corrupt(std::move(opened).error(), i);
  file_.stats()->add(ReadKind::kIndex, 1, s.size);
  // If another thread published its view first, that view is used.
  const auto* fresh = new HashPartition(*opened);
  const HashPartition* expected = nullptr;
  if (!views_[i].compare_exchange_strong(expected, fresh,
                                         std::memory_order_acq_rel)) {
    delete fresh;
    return expected;
  }
  return fresh;
}

Status HashIndex::find_few(std::span<const uint64_t> hashes,
                           CandidateRows* out) const {
  std::array<Probe, kFewKeys> probes;
  if (has_bloom()) {
    for (const uint64_t hash : hashes) {
      const uint64_t block = bloom_block(hash, bloom_blocks_);
      const uint8_t* part = bloom_parts_[block / kBloomPartBlocks].load(
          std::memory_order_relaxed);
      if (part != nullptr) {
        __builtin_prefetch(part + block % kBloomPartBlocks * kBloomBlockSize);
      }
    }
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (has_bloom()) {
      NIMBLE_ASSIGN_OR_RETURN(const bool maybe, might_contain(hashes[i]));
      if (!maybe) continue;
    }
    const uint64_t number =
        hash_digit(hashes[i], partitions_.size(), &probes[i].fraction);
    NIMBLE_ASSIGN_OR_RETURN(probes[i].partition, partition(number));
    if (probes[i].partition != nullptr) {
      probes[i].partition->prefetch_bucket(probes[i].fraction);
    }
  }
  for (Probe& p : std::span(probes).first(hashes.size())) {
    if (p.partition == nullptr) continue;
    p.place = p.partition->place(p.fraction);
    p.partition->prefetch_entries(p.place);
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    const Probe& p = probes[i];
    if (p.partition != nullptr) {
      if (Status s = p.partition->find(p.place, &out->rows); !s) {
        uint64_t rest;
        return corrupt(std::move(s),
                       hash_digit(hashes[i], partitions_.size(), &rest));
      }
    }
    out->ends.push_back(out->rows.size());
  }
  return Status::ok();
}

Status HashIndex::find_mapped(std::span<const uint64_t> hashes,
                              CandidateRows* out) const {
  for (size_t at = 0; at < hashes.size(); at += kFewKeys) {
    NIMBLE_RETURN_IF_ERROR(find_few(
        hashes.subspan(at, std::min(kFewKeys, hashes.size() - at)), out));
  }
  return Status::ok();
}

// -------------------------------------------------------------- other files

Status HashIndex::fetch(std::span<const uint64_t> partitions,
                        std::vector<Bytes>* out) const {
  std::vector<SectionRef> sections;
  for (const uint64_t i : partitions) sections.push_back(partitions_[i]);
  return fetch_sections(file_, sections, "hash partition", out);
}

Status HashIndex::find_fetched(std::span<const uint64_t> hashes,
                               CandidateRows* out) const {
  NIMBLE_ASSIGN_OR_RETURN(const bool filter, load_bloom(hashes.size()));
  // Sorts probes by hash, so that each partition is read once.
  std::vector<size_t> order;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (filter) {
      NIMBLE_ASSIGN_OR_RETURN(const bool maybe, might_contain(hashes[i]));
      if (!maybe) continue;
    }
    uint64_t rest;
    const uint64_t p = hash_digit(hashes[i], partitions_.size(), &rest);
    if (partitions_[p].size > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return hashes[a] < hashes[b]; });
  std::vector<uint64_t> rows, begins(hashes.size()), ends(hashes.size());
  std::vector<uint64_t> numbers;
  std::vector<Bytes> held;
  for (size_t at = 0; at < order.size();) {
    // Takes as many of the next partitions as may be held at a time.
    numbers.clear();
    uint64_t bytes = 0, fraction;
    size_t end = at;
    for (; end < order.size() && bytes < kMaxHeldBytes; ++end) {
      const uint64_t p =
          hash_digit(hashes[order[end]], partitions_.size(), &fraction);
      if (!numbers.empty() && numbers.back() == p) continue;
      numbers.push_back(p);
      bytes += partitions_[p].size;
    }
    NIMBLE_RETURN_IF_ERROR(fetch(numbers, &held));
    size_t open = 0;
    std::optional<HashPartition> partition;
    for (; at < end; ++at) {
      const size_t i = order[at];
      const uint64_t p = hash_digit(hashes[i], partitions_.size(), &fraction);
      if (!partition || numbers[open] != p) {
        while (numbers[open] != p) ++open;
        auto opened = HashPartition::open(*held[open], num_rows_);
        if (!opened) return corrupt(std::move(opened).error(), p);
        partition = std::move(opened).value();
      }
      begins[i] = rows.size();
      if (Status s = partition->find(partition->place(fraction), &rows); !s) {
        return corrupt(std::move(s), p);
      }
      ends[i] = rows.size();
    }
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto first = rows.begin() + static_cast<ptrdiff_t>(begins[i]);
    out->rows.insert(out->rows.end(), first,
                     first + static_cast<ptrdiff_t>(ends[i] - begins[i]));
    out->ends.push_back(out->rows.size());
  }
  return Status::ok();
}

// -------------------------------------------------------------------- check

Status HashIndex::check() const {
  uint64_t rows = 0;
  std::vector<Bytes> held;
  for (uint64_t i = 0; i < partitions_.size(); ++i) {
    if (partitions_[i].size == 0) continue;
    NIMBLE_RETURN_IF_ERROR(fetch({&i, 1}, &held));
    auto opened = HashPartition::open(*held[0], num_rows_);
    if (!opened) return corrupt(std::move(opened).error(), i);
    if (Status s = opened->count_rows(&rows); !s)
      return corrupt(std::move(s), i);
  }
  std::vector<uint8_t> part;
  for (const SectionRef& s : bloom_sections_) {
    NIMBLE_ASSIGN_OR_RETURN(part, file_.read_section(s, "Bloom filter part"));
  }
  if (rows == num_entries_) return Status::ok();
  return Status::corrupt(file_.file().name() + ": hash index: " +
                         std::to_string(rows) + " rows in its partitions, " +
                         std::to_string(num_entries_) + " in its root");
}

// ------------------------------------------------------------------- lookup

Status HashIndex::find(const KeyBuffer& keys, CandidateRows* out) const {
  std::vector<uint64_t> hashes(keys.size());
  for (size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = key_hash64(keys.key(i));
  return find_hashes(hashes, out);
}

Status HashIndex::find_hashes(std::span<const uint64_t> hashes,
                              CandidateRows* out) const {
  out->clear();
  out->ends.reserve(hashes.size());
  return file_.file().mapped() != nullptr ? find_mapped(hashes, out)
                                          : find_fetched(hashes, out);
}

Result<uint64_t> HashIndex::find_first(ByteSpan key, size_t enough,
                                       std::vector<uint64_t>* rows) const {
  const uint64_t hash = key_hash64(key);
  uint64_t fraction;
  const uint64_t number = hash_digit(hash, partitions_.size(), &fraction);
  const auto search = [&](const HashPartition& partition) -> Result<uint64_t> {
    uint64_t known_below = UINT64_MAX;
    NIMBLE_RETURN_IF_ERROR(
        corrupt(partition.find_first(partition.place(fraction), enough, rows,
                                     &known_below),
                number));
    return known_below;
  };
  if (file_.file().mapped() == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(const bool ask, load_bloom(1));
    if (ask) {
      NIMBLE_ASSIGN_OR_RETURN(const bool maybe, might_contain(hash));
      if (!maybe) return UINT64_MAX;
    }
    if (partitions_[number].size == 0) return UINT64_MAX;
    std::vector<Bytes> held;
    NIMBLE_RETURN_IF_ERROR(fetch({&number, 1}, &held));
    auto opened = HashPartition::open(*held[0], num_rows_);
    if (!opened) return corrupt(std::move(opened).error(), number);
    return search(*opened);
  }
  const auto* loaded = views_[number].load(std::memory_order_acquire);
  // A partition in memory answers as fast as the filter does.
  if (loaded == nullptr && has_bloom()) {
    NIMBLE_ASSIGN_OR_RETURN(const bool maybe, might_contain(hash));
    if (!maybe) return UINT64_MAX;
  }
  NIMBLE_ASSIGN_OR_RETURN(const HashPartition* p, partition(number));
  if (p == nullptr) return UINT64_MAX;
  return search(*p);
}

}  // namespace nimble
