#include "nimble/index/key_row_sorter.h"

#include <algorithm>
#include <utility>

#include "nimble/key/key_sort.h"

namespace nimble {
namespace {

// Entries that are handed on, and keys of a spilled block, at a time.
constexpr size_t kBatch = 4096;
// What sorting takes for a key besides its bytes: two items of 16 bytes for
// the radix passes and a place in the order.
constexpr uint64_t kSortBytes = 36;
constexpr uint64_t kBlockHeader = 16;

void put_entry(ByteSpan key, uint64_t row, uint32_t row_width,
               ByteBuffer* scratch, KeyBuffer* out) {
  scratch->clear();
  scratch->put_bytes(key);
  store_be(scratch->extend(row_width), row, row_width);
  out->push_back(scratch->span());
}

size_t entry_width(const KeyBuffer& keys, uint32_t row_width) {
  return keys.fixed_width() == 0 ? 0 : keys.fixed_width() + row_width;
}

}  // namespace

// One sorted run in the spill file: blocks of keys. A block is its number of
// keys, its bytes of keys, then rows, ends of keys where they have no one
// width, and the keys. The bytes are our own, of this process.
class KeyRowSorter::Run {
 public:
  Run(const SpillFile& file, uint64_t begin, uint64_t end, size_t width)
      : file_(&file), at_(begin), end_(end), width_(width) {}

  bool done() const { return place_ == rows_.size(); }
  ByteSpan key() const { return keys_.key(place_); }
  uint64_t row() const { return rows_[place_]; }
  uint64_t head() const { return head_; }

  Status next() {
    ++place_;
    if (done()) return load();
    set_head();
    return Status::ok();
  }

  Status load() {
    place_ = 0;
    rows_.clear();
    keys_.reset(width_);
    if (at_ == end_) return Status::ok();
    uint64_t header[2];
    NIMBLE_RETURN_IF_ERROR(get(header, sizeof header));
    const size_t n = header[0];
    rows_.resize(n);
    NIMBLE_RETURN_IF_ERROR(get(rows_.data(), n * 8));
    if (width_ != 0) {
      keys_.extend_fixed(n);
    } else {
      sizes_.resize(n);
      NIMBLE_RETURN_IF_ERROR(get(sizes_.data(), n * 8));
      keys_.extend_sized(sizes_.data(), n);
    }
    NIMBLE_RETURN_IF_ERROR(get(keys_.data(), header[1]));
    set_head();
    return Status::ok();
  }

 private:
  Status get(void* to, uint64_t size) {
    NIMBLE_RETURN_IF_ERROR(
        file_->read_at(at_, static_cast<uint8_t*>(to), size));
    at_ += size;
    return Status::ok();
  }
  void set_head() {
    const ByteSpan k = key();
    head_ = head_of(k.data(), k.size());
  }

  const SpillFile* file_;
  uint64_t at_;
  uint64_t end_;
  size_t width_;
  size_t place_ = 0;
  uint64_t head_ = 0;
  std::vector<uint64_t> rows_, sizes_;
  KeyBuffer keys_;
};

KeyRowSorter::KeyRowSorter(uint64_t memory_bytes, std::string directory)
    : memory_bytes_(memory_bytes), directory_(std::move(directory)) {}

bool KeyRowSorter::full() const {
  // Buffers grow by doubling: they may take twice what they hold.
  const uint64_t each = kSortBytes + (keys_.fixed_width() == 0 ? 16 : 0);
  return 2 * keys_.num_bytes() + keys_.size() * each >= memory_bytes_ ||
         keys_.size() >= UINT32_MAX - kBatch;
}

Status KeyRowSorter::add(const KeyBuffer& keys, size_t begin, size_t end) {
  while (begin < end) {
    if (keys_.empty()) keys_.reset(keys.fixed_width());
    const size_t to = std::min(end, begin + kBatch);
    keys_.append(keys, begin, to);
    begin = to;
    if (full()) NIMBLE_RETURN_IF_ERROR(spill());
  }
  return Status::ok();
}

Status KeyRowSorter::spill() {
  if (file_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(file_, SpillFile::create(directory_));
  }
  std::vector<uint32_t> order;
  sort_keys(keys_, &order);
  run_begins_.push_back(file_->size());
  KeyBuffer sorted;
  for (size_t at = 0; at < order.size(); at += kBatch) {
    const size_t n = std::min(kBatch, order.size() - at);
    sorted.reset(keys_.fixed_width());
    block_.clear();
    block_.extend(kBlockHeader);
    for (size_t i = at; i < at + n; ++i) {
      block_.put<uint64_t>(run_first_row_ + order[i]);
      sorted.push_back(keys_.key(order[i]));
    }
    for (size_t i = 0; i < n && keys_.fixed_width() == 0; ++i) {
      block_.put<uint64_t>(sorted.key(i).size());
    }
    store<uint64_t>(block_.data(), n);
    store<uint64_t>(block_.data() + 8, sorted.num_bytes());
    block_.put_bytes(sorted.data(), sorted.num_bytes());
    NIMBLE_RETURN_IF_ERROR(file_->append(block_.span()));
  }
  run_first_row_ += keys_.size();
  keys_.clear();
  return Status::ok();
}

Status KeyRowSorter::take_sorted(uint32_t row_width, const Take& take) {
  std::vector<uint32_t> order;
  sort_keys(keys_, &order);
  KeyBuffer entries(entry_width(keys_, row_width));
  ByteBuffer scratch;
  for (const uint32_t i : order) {
    put_entry(keys_.key(i), run_first_row_ + i, row_width, &scratch, &entries);
    if (entries.size() < kBatch) continue;
    NIMBLE_RETURN_IF_ERROR(take(entries));
    entries.clear();
  }
  return entries.empty() ? Status::ok() : take(entries);
}

Status KeyRowSorter::merge(uint32_t row_width, const Take& take) {
  std::vector<Run> runs;
  for (size_t i = 0; i < run_begins_.size(); ++i) {
    const uint64_t end =
        i + 1 < run_begins_.size() ? run_begins_[i + 1] : file_->size();
    runs.emplace_back(*file_, run_begins_[i], end, keys_.fixed_width());
    NIMBLE_RETURN_IF_ERROR(runs.back().load());
  }
  // A heap of runs, the smallest key on top; of equal keys the earlier run's
  // rows are lower.
  const auto after = [&runs](size_t a, size_t b) {
    if (runs[a].head() != runs[b].head())
      return runs[a].head() > runs[b].head();
    const int c = compare_bytes(runs[a].key(), runs[b].key());
    return c != 0 ? c > 0 : a > b;
  };
  std::vector<size_t> heap(runs.size());
  for (size_t i = 0; i < heap.size(); ++i) heap[i] = i;
  std::make_heap(heap.begin(), heap.end(), after);
  KeyBuffer entries(entry_width(keys_, row_width));
  ByteBuffer scratch;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    Run& run = runs[heap.back()];
    do {  // as long as it stays the smallest, no heap is needed
      put_entry(run.key(), run.row(), row_width, &scratch, &entries);
      if (entries.size() == kBatch) {
        NIMBLE_RETURN_IF_ERROR(take(entries));
        entries.clear();
      }
      NIMBLE_RETURN_IF_ERROR(run.next());
    } while (!run.done() &&
             (heap.size() == 1 || !after(heap.back(), heap.front())));
    if (run.done()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), after);
    }
  }
  return entries.empty() ? Status::ok() : take(entries);
}

Status KeyRowSorter::finish(uint32_t row_width, const Take& take) {
  if (run_begins_.empty()) return take_sorted(row_width, take);
  if (!keys_.empty()) NIMBLE_RETURN_IF_ERROR(spill());
  keys_ = KeyBuffer(keys_.fixed_width());  // its memory is the merge's now
  return merge(row_width, take);
}

}  // namespace nimble
