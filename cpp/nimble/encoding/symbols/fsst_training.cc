#include "nimble/encoding/symbols/fsst_training.h"

#include <algorithm>

#include "nimble/encoding/symbols/fsst_compressor.h"

namespace nimble {
namespace {

// The paper uses five rounds with growing samples. Three more rounds make files
// 3-5 % smaller here.
constexpr uint32_t kRounds = 8;
// Longer strings are sampled in pieces, so that one string cannot fill the
// sample.
constexpr uint64_t kPieceBytes = 512;
constexpr uint64_t kWindowBytes = 1024;
// Symbols that occur less often than this do not get a code.
constexpr uint32_t kMinCount = 3;
// Number of candidates that are sorted in each round. At most 255 become
// symbols.
constexpr size_t kMaxSorted = 1024;

// Ids while counting: 0-255 are escaped bytes, 256 + c is symbol c.
constexpr uint32_t kIds = 256 + kFsstMaxSymbols;
constexpr size_t kPairRow = 512;

struct Counts {
  std::vector<uint32_t> single = std::vector<uint32_t>(kIds);
  std::vector<uint16_t> pair = std::vector<uint16_t>(size_t{kIds} * kPairRow);

  void add_pair(uint32_t a, uint32_t b) {
    uint16_t& n = pair[size_t{a} * kPairRow + b];
    if (n != UINT16_MAX) ++n;
  }
  void clear() {
    std::fill(single.begin(), single.end(), 0);
    std::fill(pair.begin(), pair.end(), uint16_t{0});
  }
};

struct Candidate {
  FsstSymbol symbol;
  uint64_t gain = 0;
};

// Candidates by symbol, with open addressing; grows by doubling.
class CandidateSet {
 public:
  void add(const FsstSymbol& symbol, uint64_t gain) {
    if (2 * used_ >= slots_.size()) grow();
    Candidate& c = find(symbol);
    if (c.gain == 0) {
      c.symbol = symbol;
      ++used_;
    }
    c.gain += gain;
  }
  // The best candidates first. Ties have a fixed order, because files must be
  // reproducible.
  std::vector<Candidate> sorted() const {
    std::vector<Candidate> out;
    for (const Candidate& c : slots_) {
      if (c.gain > 0) out.push_back(c);
    }
    const size_t keep = std::min(out.size(), kMaxSorted);
    const auto middle = out.begin() + static_cast<std::ptrdiff_t>(keep);
    std::partial_sort(out.begin(), middle, out.end(), is_better);
    out.resize(keep);
    return out;
  }

 private:
  static bool is_better(const Candidate& a, const Candidate& b) {
    if (a.gain != b.gain) return a.gain > b.gain;
    if (a.symbol.length != b.symbol.length) {
      return a.symbol.length > b.symbol.length;
    }
    return a.symbol.bytes < b.symbol.bytes;
  }
  Candidate& find(const FsstSymbol& symbol) {
    uint64_t i = (symbol.bytes + symbol.length) * 0x9E3779B97F4A7C15u >> 32;
    for (;; ++i) {
      Candidate& c = slots_[i & (slots_.size() - 1)];
      if (c.gain == 0 || c.symbol == symbol) return c;
    }
  }
  void grow() {
    std::vector<Candidate> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Candidate& c : old) {
      if (c.gain > 0) find(c.symbol) = c;
    }
  }

  std::vector<Candidate> slots_ = std::vector<Candidate>(4096);
  size_t used_ = 0;
};

FsstSymbol symbol_of(const FsstTable& table, uint32_t id) {
  if (id < 256) return {id, 1};
  return table.symbol(id - 256);
}

FsstSymbol concatenate(const FsstSymbol& a, const FsstSymbol& b) {
  const uint32_t length = std::min(8u, a.length + b.length);
  return {low_bytes(a.bytes | b.bytes << (8 * a.length), length), length};
}

// Counts the symbols and pairs of a string. Returns the size of its codes.
uint64_t count_string(const FsstMatcher& matcher, const ByteSlice& s,
                      Counts* counts) {
  uint32_t previous = UINT32_MAX;
  uint64_t size = 0;
  for (uint64_t at = 0; at < s.size;) {
    const uint64_t remaining = s.size - at;
    const uint64_t word = load_tail(s.data + at, remaining);
    const FsstMatch match = matcher.match(word, remaining);
    const uint32_t first = static_cast<uint32_t>(word & 0xff);
    const bool escaped = match.code() == kFsstEscape;
    const uint32_t id = escaped ? first : 256u + match.code();
    ++counts->single[id];
    // The first byte is counted as well, so that single bytes remain candidates
    // while symbols grow.
    if (match.length() > 1) ++counts->single[first];
    if (previous != UINT32_MAX) {
      counts->add_pair(previous, id);
      if (match.length() > 1) counts->add_pair(previous, first);
    }
    previous = id;
    at += match.length();
    size += match.written();
  }
  return size;
}

void add_pairs(const FsstTable& table, const Counts& counts, uint32_t a,
               CandidateSet* out) {
  const FsstSymbol first = symbol_of(table, a);
  if (first.length == 8) return;
  const uint16_t* row = counts.pair.data() + size_t{a} * kPairRow;
  for (uint32_t from = 0; from < kPairRow; from += 4) {
    uint64_t four;  // most pairs never occur
    std::memcpy(&four, row + from, sizeof four);
    for (uint32_t b = from; four != 0 && b < from + 4; ++b) {
      if (row[b] < kMinCount) continue;
      const FsstSymbol both = concatenate(first, symbol_of(table, b));
      out->add(both, uint64_t{row[b]} * both.length);
    }
  }
}

std::vector<Candidate> candidates(const FsstTable& table, const Counts& counts,
                                  uint32_t round) {
  CandidateSet set;
  for (uint32_t id = 0; id < 256 + table.size(); ++id) {
    const uint64_t n = counts.single[id];
    if (n < kMinCount) continue;
    const FsstSymbol symbol = symbol_of(table, id);
    // Without a code, a byte takes two: an escape and itself. Single bytes get
    // eight times the weight, so that frequent ones keep a code.
    set.add(symbol, n * symbol.length * (symbol.length == 1 ? 8 : 1));
    if (round + 1 < kRounds) add_pairs(table, counts, id, &set);
  }
  return set.sorted();
}

FsstTable best_table(const std::vector<Candidate>& sorted) {
  FsstMatcher matcher;
  std::vector<FsstSymbol> chosen;
  for (const Candidate& c : sorted) {
    if (chosen.size() == kFsstMaxSymbols) break;
    if (matcher.add(c.symbol, 0)) chosen.push_back(c.symbol);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const FsstSymbol& a, const FsstSymbol& b) {
              if (a.length != b.length) return a.length < b.length;
              return a.bytes < b.bytes;
            });
  FsstTable table;
  for (const FsstSymbol& s : chosen) table.add(s);
  return table;
}

}  // namespace

std::vector<ByteSlice> sample_strings(const Values& values,
                                      uint64_t max_bytes) {
  std::vector<ByteSlice> out;
  const uint64_t windows = std::max<uint64_t>(1, max_bytes / kWindowBytes);
  uint64_t next = 0;
  for (uint64_t w = 0; w < windows; ++w) {
    uint64_t row = std::max(next, w * values.size / windows);
    const uint64_t end = (w + 1) * values.size / windows;
    uint64_t taken = 0;
    for (; row < end && taken < kWindowBytes; ++row) {
      const ByteSlice& s = values.slices[row];
      const uint64_t size = std::min(s.size, kPieceBytes);
      if (size == 0) continue;
      // The position within long strings varies, because beginnings are often
      // similar.
      const uint64_t at = (s.size - size) * (w % 8) / 8;
      out.push_back({s.data + at, size});
      taken += size;
    }
    next = row;
  }
  return out;
}

FsstTable train_fsst(const std::vector<ByteSlice>& sample) {
  FsstTable table;
  FsstTable best;
  uint64_t best_size = UINT64_MAX;
  Counts counts;
  for (uint32_t round = 0; round <= kRounds; ++round) {
    // A round may make the table worse. So the last tables, which are measured
    // on the whole sample, are compared.
    const bool whole = round + 2 >= kRounds;
    const FsstMatcher matcher(table);
    counts.clear();
    uint64_t size = 0;
    for (size_t i = 0; i < sample.size(); ++i) {
      if (!whole && i % kRounds > round) continue;
      size += count_string(matcher, sample[i], &counts);
    }
    if (whole && size < best_size) {
      best_size = size;
      best = table;
    }
    if (round < kRounds) table = best_table(candidates(table, counts, round));
  }
  return best;
}

FsstSizes measure_fsst(const FsstTable& table,
                       const std::vector<ByteSlice>& strings) {
  const FsstMatcher matcher(table);
  FsstSizes sizes;
  AlignedBuffer codes;
  std::vector<uint64_t> lengths(strings.size());
  matcher.compress(strings, &codes, lengths.data());
  sizes.compressed = codes.size();
  for (const ByteSlice& s : strings) sizes.raw += s.size;
  return sizes;
}

}  // namespace nimble
