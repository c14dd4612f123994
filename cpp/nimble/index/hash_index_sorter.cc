#include "nimble/index/hash_index_sorter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

namespace nimble {
namespace {

constexpr uint32_t kMaxDigit = 11;  // bits: 2048 places to write to at once
constexpr size_t kFewPairs = 24;    // sorted by insertion
constexpr size_t kMinRunPairs = 4096;
constexpr size_t kMinWindowPairs = 256;

bool before(const HashRow& a, const HashRow& b) {
  return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
}

void sort_few(HashRow* pairs, size_t n) {
  if (n > kFewPairs) {
    // Rows of one hash arrive in order and scattering keeps it.
    if (!std::is_sorted(pairs, pairs + n, before)) {
      std::sort(pairs, pairs + n, before);
    }
    return;
  }
  for (size_t i = 1; i < n; ++i) {
    const HashRow pair = pairs[i];
    size_t at = i;
    for (; at > 0 && before(pair, pairs[at - 1]); --at)
      pairs[at] = pairs[at - 1];
    pairs[at] = pair;
  }
}

using Counts = std::array<size_t, (size_t{1} << kMaxDigit) + 1>;

// Copies pairs ordered by `digit` bits of (hash - low) above `shift`; bucket i
// ends up in [(*ends)[i - 1], (*ends)[i]), the first one begins at 0.
void scatter(const HashRow* from, size_t n, uint64_t low, uint32_t shift,
             uint32_t digit, HashRow* to, Counts* ends) {
  const uint64_t mask = (uint64_t{1} << digit) - 1;
  if (digit == 0) shift = 0;  // one bucket; `shift` may be all 64 bits
  const auto bucket = [&](const HashRow& p) {
    return static_cast<size_t>(((p.hash - low) >> shift) & mask);
  };
  std::fill_n(ends->begin(), mask + 2, size_t{0});
  for (size_t i = 0; i < n; ++i) ++(*ends)[bucket(from[i]) + 1];
  for (size_t i = 1; i <= mask; ++i) (*ends)[i] += (*ends)[i - 1];
  // (*ends)[i] is where bucket i begins now, and where it ends afterwards.
  for (size_t i = 0; i < n; ++i) to[(*ends)[bucket(from[i])]++] = from[i];
}

// Bits of a digit that leaves a few pairs a bucket, of `bits` that differ.
uint32_t digit_of(size_t n, size_t pairs_a_bucket, uint32_t bits) {
  const auto wanted = bit_width_of(n / pairs_a_bucket);
  return std::min({wanted, bits, kMaxDigit});
}

}  // namespace

void sort_hash_rows(std::vector<HashRow>* pairs,
                    std::vector<HashRow>* scratch) {
  const size_t n = pairs->size();
  if (n <= kFewPairs) return sort_few(pairs->data(), n);
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const HashRow& p : *pairs) {
    low = std::min(low, p.hash);
    high = std::max(high, p.hash);
  }
  scratch->resize(n);
  const uint32_t bits = bit_width_of(high - low);
  const uint32_t first = digit_of(n, 512, bits);
  const auto ends = std::make_unique<Counts>();
  const auto inner = std::make_unique<Counts>();
  scatter(pairs->data(), n, low, bits - first, first, scratch->data(),
          ends.get());
  size_t begin = 0;
  for (size_t i = 0; i < size_t{1} << first; ++i) {
    const size_t size = (*ends)[i] - begin;
    const uint32_t second = digit_of(size, 4, bits - first);
    HashRow* to = pairs->data() + begin;
    scatter(scratch->data() + begin, size, low, bits - first - second, second,
            to, inner.get());
    size_t at = 0;
    for (size_t j = 0; j < size_t{1} << second; ++j) {
      sort_few(to + at, (*inner)[j] - at);
      at = (*inner)[j];
    }
    begin = (*ends)[i];
  }
}

// A sorted stretch of the spill file, a window of it in memory.
struct HashRowSorter::Run {
  const SpillFile* file;
  uint64_t next, end;  // pairs of the file that are not in the window
  std::vector<HashRow> window;
  size_t at = 0;

  bool more() const { return next < end; }
  bool done() const { return at == window.size(); }
  std::span<const HashRow> rest() const {
    return std::span(window).subspan(at);
  }
  // Moves on by n pairs of the window.
  Status advance(size_t n, size_t window_pairs) {
    at += n;
    return done() ? load(window_pairs) : Status::ok();
  }
  Status load(size_t window_pairs) {
    window.resize(std::min<uint64_t>(window_pairs, end - next));
    at = 0;
    NIMBLE_RETURN_IF_ERROR(file->read_at(
        next * sizeof(HashRow), reinterpret_cast<uint8_t*>(window.data()),
        window.size() * sizeof(HashRow)));
    next += window.size();
    return Status::ok();
  }
};

HashRowSorter::HashRowSorter(uint64_t memory_bytes, std::string directory)
    : memory_bytes_(memory_bytes),
      directory_(std::move(directory)),
      // A run and the scratch memory that it is sorted with.
      run_pairs_(std::max<uint64_t>(kMinRunPairs,
                                    memory_bytes / 2 / sizeof(HashRow))) {}

namespace {

void release(std::vector<HashRow>* pairs) {
  std::vector<HashRow>().swap(*pairs);
}

}  // namespace

Status HashRowSorter::make_room() {
  if (pairs_.size() == run_pairs_) return spill();
  // A run at most: a capacity that doubles might be twice that.
  pairs_.reserve(std::clamp(2 * pairs_.size(), kMinRunPairs, run_pairs_));
  return Status::ok();
}

Status HashRowSorter::spill() {
  if (file_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(file_, SpillFile::create(directory_));
  }
  sort_hash_rows(&pairs_, &scratch_);
  NIMBLE_RETURN_IF_ERROR(
      file_->append({reinterpret_cast<const uint8_t*>(pairs_.data()),
                     pairs_.size() * sizeof(HashRow)}));
  spilled_ += pairs_.size();
  run_ends_.push_back(spilled_);
  pairs_.clear();
  return Status::ok();
}

Status HashRowSorter::finish(const Take& take) {
  if (file_ == nullptr) {
    sort_hash_rows(&pairs_, &scratch_);
    release(&scratch_);
    return take(pairs_);
  }
  if (!pairs_.empty()) NIMBLE_RETURN_IF_ERROR(spill());
  release(&pairs_);
  release(&scratch_);
  return merge(take);
}

namespace {

// Below the last hash of every window that its run goes on after, all pairs
// are in windows. None: all pairs are.
template <class Runs>
std::optional<uint64_t> complete_below(const Runs& runs) {
  std::optional<uint64_t> bound;
  for (const auto& r : runs) {
    if (!r.more()) continue;
    bound =
        std::min(bound.value_or(r.window.back().hash), r.window.back().hash);
  }
  return bound;
}

// Moves the pairs of all windows that are below `bound` to `batch`.
template <class Runs>
Status collect(std::optional<uint64_t> bound, size_t window, Runs* runs,
               std::vector<HashRow>* batch) {
  for (auto& r : *runs) {
    const auto rest = r.rest();
    const auto end = std::partition_point(
        rest.begin(), rest.end(),
        [&](const HashRow& p) { return !bound || p.hash < *bound; });
    batch->insert(batch->end(), rest.begin(), end);
    NIMBLE_RETURN_IF_ERROR(
        r.advance(static_cast<size_t>(end - rest.begin()), window));
  }
  return Status::ok();
}

// A hash that fills a window is taken run by run, as runs ascend by row.
template <class Runs>
Status take_equal(uint64_t hash, size_t window, Runs* runs,
                  const HashRowSorter::Take& take) {
  for (auto& r : *runs) {
    while (!r.done() && r.rest().front().hash == hash) {
      const auto rest = r.rest();
      const auto end = std::partition_point(
          rest.begin(), rest.end(),
          [&](const HashRow& p) { return p.hash == hash; });
      const auto n = static_cast<size_t>(end - rest.begin());
      NIMBLE_RETURN_IF_ERROR(take(rest.first(n)));
      NIMBLE_RETURN_IF_ERROR(r.advance(n, window));
    }
  }
  return Status::ok();
}

}  // namespace

Status HashRowSorter::merge(const Take& take) {
  // A third of the memory each: windows, a batch of them, scratch to sort it.
  const size_t window = std::max<uint64_t>(
      kMinWindowPairs, memory_bytes_ / 3 / sizeof(HashRow) / run_ends_.size());
  std::vector<Run> runs;
  uint64_t begin = 0;
  for (const uint64_t end : run_ends_) {
    runs.push_back({file_.get(), begin, end, {}});
    NIMBLE_RETURN_IF_ERROR(runs.back().load(window));
    begin = end;
  }
  std::vector<HashRow> batch;
  batch.reserve(window * runs.size());
  const auto done = [](const Run& r) { return r.done(); };
  while (!std::all_of(runs.begin(), runs.end(), done)) {
    const std::optional<uint64_t> bound = complete_below(runs);
    batch.clear();
    NIMBLE_RETURN_IF_ERROR(collect(bound, window, &runs, &batch));
    if (batch.empty()) {
      NIMBLE_RETURN_IF_ERROR(take_equal(*bound, window, &runs, take));
      continue;
    }
    sort_hash_rows(&batch, &scratch_);
    NIMBLE_RETURN_IF_ERROR(take(batch));
  }
  return Status::ok();
}

}  // namespace nimble
