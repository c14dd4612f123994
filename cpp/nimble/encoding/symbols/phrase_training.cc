#include "nimble/encoding/symbols/phrase_training.h"

#include <algorithm>
#include <bit>

namespace nimble {
namespace {

// Adjacent phrases that occur together this often become a phrase.
constexpr uint32_t kMeetings = 3;
// Number of candidates for each phrase of the final table.
constexpr uint32_t kTried = 4;
// Number of times that the worst candidates are removed.
constexpr uint32_t kCuts = 2;
constexpr uint32_t kMinUses = 3;

// Counts how often two phrases are adjacent, with open addressing; grows by
// doubling.
class PairCounts {
 public:
  uint32_t add(uint32_t a, uint32_t b) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = find(uint64_t{a} << 32 | b);
    if (slot.count == 0) {
      slot.pair = uint64_t{a} << 32 | b;
      ++used_;
    }
    return ++slot.count;
  }

 private:
  struct Slot {
    uint64_t pair = 0;
    uint32_t count = 0;
  };
  Slot& find(uint64_t pair) {
    const size_t mask = slots_.size() - 1;
    for (size_t i = pair * 0x9E3779B97F4A7C15u >> 32;; ++i) {
      Slot& slot = slots_[i & mask];
      if (slot.count == 0 || slot.pair == pair) return slot;
    }
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.count > 0) find(slot.pair) = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << 14);
  size_t used_ = 0;
};

// The pieces of the sample one after the other, with padding at the end.
struct Text {
  explicit Text(const std::vector<ByteSlice>& sample) {
    uint64_t size = 0;
    for (const ByteSlice& s : sample) size += s.size;
    bytes.resize(size + kMaxPhraseBytes);
    uint64_t at = 0;
    for (const ByteSlice& s : sample) {
      std::copy_n(s.data, s.size, bytes.data() + at);
      at += s.size;
      ends.push_back(at);
    }
  }
  template <class F>
  void each(F&& f) const {
    uint64_t at = 0;
    for (const uint64_t end : ends) {
      f(bytes.data() + at, end - at);
      at = end;
    }
  }

  uint64_t size() const { return bytes.size() - kMaxPhraseBytes; }

  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends;
};

struct Parts {
  uint32_t first;
  uint32_t second;
};

// Reads the text once and merges phrases that are often adjacent. `parts`
// receives the two parts of each phrase longer than one byte.
std::vector<Phrase> grown_phrases(const Text& text, uint32_t most,
                                  std::vector<Parts>* parts) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Phrase> phrases;
  for (uint32_t b = 0; b < 256; ++b) phrases.push_back({b, 0, 1});
  PhraseMatcher matcher(phrases);
  PairCounts pairs;
  text.each([&](const uint8_t* string, uint64_t size) {
    uint32_t before = kNone;
    for_phrases(matcher, string, size, [&](uint32_t id, uint32_t length) {
      const uint32_t last = before;
      before = id;
      if (last == kNone || phrases[last].length + length > kMaxPhraseBytes ||
          phrases.size() >= most || pairs.add(last, id) < kMeetings) {
        return;
      }
      const Phrase both = concatenate(phrases[last], phrases[id]);
      const auto next = static_cast<uint32_t>(phrases.size());
      if (!matcher.add(both, next)) return;
      phrases.push_back(both);
      parts->push_back({last, id});
      before = next;
    });
  });
  return phrases;
}

// Counts how often each phrase is used.
std::vector<uint64_t> uses_of(const std::vector<Phrase>& phrases,
                              const Text& text) {
  const PhraseMatcher matcher(phrases);
  std::vector<uint64_t> uses(phrases.size());
  text.each([&](const uint8_t* string, uint64_t size) {
    for_phrases(matcher, string, size,
                [&](uint32_t id, uint32_t) { ++uses[id]; });
  });
  return uses;
}

// Whether a phrase with this many uses is worth its space in the table.
bool pays(const Phrase& phrase, uint64_t uses, double weight) {
  constexpr double kCodeBytes = kMaxPhraseBits / 8.0;
  return uses >= kMinUses &&
         static_cast<double>(uses) * weight * kCodeBytes > phrase.length + 1;
}

// If a phrase is not worth its space, its parts are used instead. So this
// function adds the uses of the phrase to its parts. Then these may be worth
// their space.
void pass_on_uses(const std::vector<Phrase>& phrases,
                  const std::vector<Parts>& parts, double weight,
                  std::vector<uint64_t>* uses) {
  const size_t bytes = phrases.size() - parts.size();
  for (size_t i = phrases.size(); i-- > bytes;) {
    const uint64_t n = (*uses)[i];
    if (pays(phrases[i], n, weight)) continue;
    (*uses)[parts[i - bytes].first] += n;
    (*uses)[parts[i - bytes].second] += n;
    (*uses)[i] = 0;
  }
}

// Keeps the single bytes, and the most frequent phrases that save more than
// they take in the table. Returns at most `most` phrases.
std::vector<Phrase> best_phrases(const std::vector<Phrase>& phrases,
                                 const std::vector<uint64_t>& uses,
                                 const std::bitset<256>& bytes, double weight,
                                 size_t most) {
  const auto is_byte = [&](uint32_t i) { return phrases[i].length == 1; };
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < phrases.size(); ++i) {
    const bool stays = is_byte(i) ? bytes.test(phrases[i].low)
                                  : pays(phrases[i], uses[i], weight);
    if (stays) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (is_byte(a) != is_byte(b)) return is_byte(a);
    return uses[a] != uses[b] ? uses[a] > uses[b] : a < b;
  });
  if (order.size() > most) order.resize(most);
  std::vector<Phrase> out;
  for (const uint32_t i : order) out.push_back(phrases[i]);
  return out;
}

}  // namespace

std::vector<Phrase> train_phrases(const std::vector<ByteSlice>& sample,
                                  const std::bitset<256>& bytes,
                                  uint64_t total) {
  const Text text(sample);
  const double weight = static_cast<double>(total) /
                        static_cast<double>(std::max<uint64_t>(text.size(), 1));
  std::vector<Parts> parts;
  std::vector<Phrase> phrases =
      grown_phrases(text, kMaxPhrases * kTried, &parts);
  for (uint32_t left = kCuts; left-- > 0;) {
    std::vector<uint64_t> uses = uses_of(phrases, text);
    if (left + 1 == kCuts) pass_on_uses(phrases, parts, weight, &uses);
    // Keeps fewer candidates each time. Shorter phrases then match the text of
    // removed phrases, which changes how often they are used.
    const uint32_t more = kMaxPhrases * left * (kTried - 1) / (2 * kCuts);
    phrases = best_phrases(phrases, uses, bytes, weight, kMaxPhrases + more);
  }
  return phrases;
}

PhraseSizes measure_phrases(const PhraseMatcher& matcher,
                            const std::vector<ByteSlice>& strings) {
  PhraseSizes sizes;
  const Text text(strings);
  sizes.raw = text.size();
  text.each([&](const uint8_t* string, uint64_t size) {
    for_phrases(matcher, string, size,
                [&](uint32_t, uint32_t) { ++sizes.codes; });
  });
  return sizes;
}

}  // namespace nimble
