// Sorting with little memory: any number of passes, stable order, and memory
// bounded in bytes.
#include "nimble/io/external_sorter.h"

#include <map>
#include <random>

#include "io/temp_dir.h"
#include "testing/check.h"

namespace nimble {
namespace {

using testing::TempDir;
using Entry = std::pair<std::string, uint64_t>;  // sorted by the first

// Bytes that batches hold now, and the maximum.
struct Held {
  uint64_t now = 0;
  uint64_t most = 0;
};

class Texts {
 public:
  explicit Texts(Held* held) : held_(held) {}
  Texts(Texts&& o) noexcept
      : held_(o.held_),
        bytes_(std::exchange(o.bytes_, 0)),
        entries_(std::move(o.entries_)) {}
  Texts& operator=(Texts&& o) noexcept {
    clear();
    bytes_ = std::exchange(o.bytes_, 0);
    entries_ = std::move(o.entries_);
    return *this;
  }
  ~Texts() { clear(); }

  void add(Entry entry) {
    const uint64_t size = entry.first.size() + 8;
    bytes_ += size;
    held_->now += size;
    held_->most = std::max(held_->most, held_->now);
    entries_.push_back(std::move(entry));
  }
  const std::vector<Entry>& entries() const { return entries_; }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void clear() {
    held_->now -= bytes_;
    bytes_ = 0;
    entries_.clear();
  }
  uint64_t memory_bytes() const { return bytes_; }
  Texts fresh() const { return Texts(held_); }
  void sort() {
    std::stable_sort(
        entries_.begin(), entries_.end(),
        [](const Entry& a, const Entry& b) { return a.first < b.first; });
  }
  int compare(size_t i, const Texts& other, size_t j) const {
    return entries_[i].first.compare(other.entries_[j].first);
  }
  void append(const Texts& other, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) add(other.entries_[i]);
  }
  void store(size_t begin, size_t end, ByteBuffer* out) const {
    for (size_t i = begin; i < end; ++i) {
      out->put<uint64_t>(entries_[i].first.size());
      out->put<uint64_t>(entries_[i].second);
      out->put_bytes(as_bytes(entries_[i].first));
    }
  }
  void load(ByteSpan block) {
    for (size_t at = 0; at < block.size();) {
      const auto size = nimble::load<uint64_t>(block.data() + at);
      const auto number = nimble::load<uint64_t>(block.data() + at + 8);
      add({std::string(as_string(block.subspan(at + 16, size))), number});
      at += 16 + size;
    }
  }

 private:
  Held* held_;
  uint64_t bytes_ = 0;
  std::vector<Entry> entries_;
};

struct Sorted {
  std::vector<Entry> entries;
  uint64_t spilled = 0;
  uint64_t most = 0;  // bytes held at a time
};

Sorted sort(const std::vector<Entry>& entries, uint64_t memory) {
  const TempDir dir;
  Held held;
  Sorted out;
  ExternalSorter<Texts> sorter(memory, dir.path(""), Texts(&held));
  for (const Entry& e : entries) {
    sorter.batch().add(e);
    CHECK(sorter.added());
  }
  CHECK(sorter.finish([&](const Texts& sorted) {
    for (const Entry& e : sorted.entries()) out.entries.push_back(e);
    return Status::ok();
  }));
  CHECK(dir.names().empty());
  out.spilled = sorter.num_spilled();
  out.most = held.most;
  return out;
}

std::vector<Entry> expected(std::vector<Entry> entries) {
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.first < b.first; });
  return entries;
}

TEST(ExternalSorter, IsAStableSortInAnyNumberOfPasses) {
  std::mt19937_64 rng(1);
  for (const uint64_t different : {1, 3, 100, 100000}) {
    std::vector<Entry> entries;
    for (uint64_t i = 0; i < 6000; ++i) {
      entries.emplace_back(std::to_string(rng() % different), i);
    }
    const auto want = expected(entries);
    CHECK_EQ(sort(entries, uint64_t{1} << 30).spilled, 0);
    uint64_t most_spilled = 0;
    for (const uint64_t memory : {1000, 5000, 20000, 40000}) {
      const Sorted got = sort(entries, memory);
      CHECK(got.entries == want);
      CHECK(got.spilled >= entries.size());
      most_spilled = std::max(most_spilled, got.spilled);
    }
    CHECK(most_spilled >= 3 * entries.size());  // several passes
  }
  CHECK(sort({}, 1).entries.empty());
}

// Regression: with a fixed number of entries per run, entries of 20 KB used as
// much memory as the input.
TEST(ExternalSorter, LargeEntriesStayWithinTheBudget) {
  std::mt19937_64 rng(2);
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < 500; ++i) {
    const bool small = rng() % 4 == 0;
    entries.emplace_back(
        std::to_string(rng()) + std::string(small ? 1 : 20000, 'x'), i);
  }
  const uint64_t budget = 400'000;
  const Sorted got = sort(entries, budget);
  CHECK(got.entries == expected(entries));
  CHECK(got.most <= budget + 20'100);
}

// Small entries first, so the size of later blocks cannot be predicted from
// them.
TEST(ExternalSorter, LargeEntriesAmongSmallOnesStayWithinTheBudget) {
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const bool large = i % 1000 < 10;  // adjacent in the order, too
    entries.emplace_back((large ? "b" : "a") + std::to_string(i % 977) +
                             std::string(large ? 5000 : 0, 'x'),
                         i);
  }
  const uint64_t budget = 100'000;
  const Sorted got = sort(entries, budget);
  CHECK(got.entries == expected(entries));
  CHECK(got.most <= budget + 20'000);
}

// Regression: a merge did not check for signals until it ended.
TEST(ExternalSorter, PollEndsSpillsMergesAndSorts) {
  for (const uint64_t memory : {uint64_t{1}, uint64_t{1} << 20}) {
    int polls = 0, last = 0;
    const auto run = [&](int most) {
      Held held;
      const TempDir dir;
      polls = 0;
      ExternalSorter<Texts> sorter(memory, dir.path(""), Texts(&held), [&] {
        return polls++ < most ? Status::ok() : Status::io_error("ended", 4);
      });
      for (uint64_t i = 0; i < 10; ++i) {
        sorter.batch().add({"a", i});
        Status added = sorter.added();
        if (!added) return added;
      }
      return sorter.finish([](const Texts&) { return Status::ok(); });
    };
    CHECK(run(1 << 20));
    last = polls;
    CHECK(last >= (memory == 1 ? 20 : 1));
    for (int most = 0; most < last; ++most) {
      CHECK_EQ(run(most).os_error(), 4);
      CHECK_EQ(polls, most + 1);
    }
  }
}

TEST(ExternalSorter, FailuresAreTold) {
  Held held;
  {
    ExternalSorter<Texts> nowhere(1, "/nonexistent-directory", Texts(&held));
    nowhere.batch().add({"a", 1});
    CHECK(nowhere.added().code() == StatusCode::kIoError);
  }
  for (const uint64_t memory : {uint64_t{1}, uint64_t{1} << 20}) {
    const TempDir dir;
    ExternalSorter<Texts> sorter(memory, dir.path(""), Texts(&held));
    for (uint64_t i = 0; i < 10; ++i) {
      sorter.batch().add({"a", i});
      CHECK(sorter.added());
    }
    const Status s = sorter.finish(
        [](const Texts&) { return Status::io_error("full", 28); });
    CHECK_EQ(s.os_error(), 28);
  }
}

}  // namespace
}  // namespace nimble
