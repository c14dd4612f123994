#include "encoding/filter_conformance.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "nimble/base/bitmap.h"
#include "testing/check.h"
#include "testing/sanitized.h"

namespace nimble::testing {
namespace {

using Selection = std::vector<uint64_t>;

// The values of a sample in a form that C++ can compare directly.
struct Comparable {
  double number = 0;  // kFloat
  WideInt wide{};     // integers and booleans, any width and sign
  std::string bytes;

  int compare(const Comparable& o, ValueKind kind) const {
    if (kind == ValueKind::kFloat) {
      return number < o.number ? -1 : number > o.number ? 1 : 0;
    }
    const auto a = static_cast<int64_t>(wide[3]);
    const auto b = static_cast<int64_t>(o.wide[3]);
    if (a != b) return a < b ? -1 : 1;
    for (const size_t w : {2, 1, 0}) {
      if (wide[w] != o.wide[w]) return wide[w] < o.wide[w] ? -1 : 1;
    }
    return bytes.compare(o.bytes);
  }
};

Comparable value_at(const Sample& s, uint32_t row) {
  Comparable out;
  const uint8_t* p = s.data.data() + uint64_t{row} * s.type.width;
  const bool is_bytes = s.type.kind == ValueKind::kFixed && !s.type.is_signed;
  if (s.type.kind == ValueKind::kBytes) {
    out.bytes = s.strings[row];
  } else if (is_bytes) {
    out.bytes.assign(p, p + s.type.width);
  } else if (s.type.kind == ValueKind::kBool) {
    out.wide[0] = get_bit(s.data.data(), row) ? 1 : 0;
  } else if (s.type.kind == ValueKind::kFloat) {
    out.number = s.type.width == 8 ? load<double>(p) : double{load<float>(p)};
  } else {
    std::memcpy(out.wide.data(), p, s.type.width);
    const bool negative = s.type.is_signed && (p[s.type.width - 1] & 0x80) != 0;
    if (negative) {
      auto* const all = reinterpret_cast<uint8_t*>(out.wide.data());
      std::memset(all + s.type.width, 0xff, 32 - s.type.width);
    }
  }
  return out;
}

bool is_nan(const Comparable& v) { return v.number != v.number; }

// Puts values into the member that the type uses.
// REQUIRES: `low` <= `high`.
Predicate test_of(const ValueType& type, std::vector<Comparable> values,
                  bool is_set) {
  Predicate out;
  out.type = type;
  out.shape = is_set ? Predicate::Shape::kSet : Predicate::Shape::kRange;
  std::sort(values.begin(), values.end(),
            [&](const Comparable& a, const Comparable& b) {
              return a.compare(b, type.kind) < 0;
            });
  const auto put = [&](auto* bounds, auto&& get) {
    bounds->low = get(values.front());
    bounds->high = get(values.back());
    for (const Comparable& v : values) bounds->set.push_back(get(v));
    if (!is_set) bounds->set.clear();
  };
  if (type.kind == ValueKind::kFloat) {
    put(&out.floats, [](const Comparable& v) { return v.number; });
  } else if (type.kind == ValueKind::kInt || type.kind == ValueKind::kBool) {
    put(&out.ints, [](const Comparable& v) { return v.wide[0]; });
  } else if (is_wide_int(type)) {
    put(&out.wides, [](const Comparable& v) { return v.wide; });
  } else if (is_set) {
    for (const Comparable& v : values) out.bytes.set.push_back(v.bytes);
  } else {
    out.bytes.low = values.front().bytes;
    out.bytes.high = values.back().bytes;
  }
  return out;
}

// Which rows are selected: all, some of all blocks, few of one block.
std::vector<Selection> selections(uint32_t size) {
  const size_t words = div_ceil(size, kBlockValues) * kSelectionWords;
  std::vector<Selection> out(4, Selection(words));
  for (uint32_t row = 0; row < size; ++row) {
    const uint64_t bit = uint64_t{1} << (row % 64);
    out[0][row / 64] |= bit;
    if (mix(row) % 3 == 0) out[1][row / 64] |= bit;
    if (row % 300 == 7) out[2][row / 64] |= bit;
    const bool last_block = row / kBlockValues == (size - 1) / kBlockValues;
    if (last_block && row % 5 == 0) out[3][row / 64] |= bit;
  }
  return out;
}

// Reads only the bytes that blocks with selected rows need.
std::vector<uint8_t> read_part(const Decoder& decoder, const SegmentBody& body,
                               const Selection& selection) {
  std::vector<ByteRange> ranges;
  for (uint32_t begin = 0; begin < decoder.size(); begin += kBlockValues) {
    const uint32_t end = std::min(begin + kBlockValues, decoder.size());
    const uint64_t* words = selection.data() + begin / 64;
    if (count_selected(words, kSelectionWords) == 0) continue;
    decoder.append_ranges(begin, end, &ranges);
  }
  std::vector<uint8_t> bytes(body.size, 0xab);
  for (const ByteRange& r : ranges) {
    std::copy(body.data + r.begin, body.data + r.end, bytes.data() + r.begin);
  }
  return bytes;
}

std::vector<Predicate> tests_for(const Sample& sample) {
  std::vector<Predicate> out;
  if (sample.size == 0 || !can_be_tested(sample.type)) return out;
  std::vector<Comparable> some;
  for (uint64_t i = 0; i < 24; ++i) {
    const Comparable v =
        value_at(sample, static_cast<uint32_t>(mix(i) % sample.size));
    if (!is_nan(v)) some.push_back(v);
  }
  if (some.empty()) return out;
  const std::vector<Comparable> one = {some[0]};
  const std::vector<Comparable> two = {some[0], some.back()};
  const std::vector<Comparable> few(
      some.begin(), some.begin() + std::min<size_t>(3, some.size()));
  out.push_back(test_of(sample.type, one, false));
  out.push_back(test_of(sample.type, two, false));
  out.push_back(test_of(sample.type, some, false));
  out.push_back(test_of(sample.type, few, true));
  out.push_back(test_of(sample.type, some, true));
  Predicate nothing;
  nothing.type = sample.type;
  out.push_back(nothing);
  if (sample.type.kind == ValueKind::kBytes) {
    Predicate open = test_of(sample.type, two, false);
    open.bytes.low_inclusive = false;
    open.bytes.high.reset();
    out.push_back(open);
    // Between values: longer and shorter values than the sample has.
    Predicate prefix = test_of(sample.type, one, false);
    prefix.bytes.low =
        prefix.bytes.low->substr(0, prefix.bytes.low->size() / 2);
    prefix.bytes.high = *prefix.bytes.low + "\x7f";
    prefix.bytes.high_inclusive = false;
    out.push_back(prefix);
    Predicate absent = test_of(sample.type, one, false);
    absent.bytes.low = absent.bytes.high = *absent.bytes.low + "?";
    out.push_back(absent);
    // The middle of a value, one of its bytes, nothing, and too much.
    const std::string& whole = some[0].bytes;
    for (const std::string& part :
         {whole.substr(whole.size() / 4, whole.size() / 2),
          whole.substr(whole.size() / 2, 1), std::string(), whole + "?"}) {
      Predicate contains;
      contains.type = sample.type;
      contains.shape = Predicate::Shape::kContains;
      contains.bytes.part = part;
      out.push_back(contains);
    }
  }
  const size_t n = out.size();
  for (size_t i = 0; i < n; ++i) {
    out.push_back(out[i]);
    out.back().negated = true;
  }
  return out;
}

// A test with its bounds in comparable form.
class PlainTest {
 public:
  PlainTest(const Predicate& test, const ValueType& type)
      : test_(test), kind_(type.kind) {
    is_bytes_ = kind_ == ValueKind::kBytes ||
                (kind_ == ValueKind::kFixed && !is_wide_int(type));
    if (is_bytes_) return;
    if (kind_ == ValueKind::kFloat) {
      take(test.floats, [](double d) { return Comparable{d, {}, {}}; });
    } else if (is_wide_int(type)) {
      take(test.wides, [](const WideInt& w) { return Comparable{0, w, {}}; });
    } else {
      take(test.ints, [&](uint64_t i) {
        const uint64_t sign =
            type.is_signed && (i >> 63) != 0 ? ~uint64_t{0} : 0;
        return Comparable{0, {i, sign, sign, sign}, {}};
      });
    }
  }

  bool passes(const Comparable& v) const {
    bool pass = false;
    if (test_.shape != Predicate::Shape::kNothing && !is_nan(v)) {
      pass = is_bytes_ ? is_string_inside(v.bytes) : is_inside(v);
    }
    return pass != test_.negated;
  }

 private:
  template <class Bounds, class Get>
  void take(const Bounds& bounds, const Get& comparable) {
    low_ = comparable(bounds.low);
    high_ = comparable(bounds.high);
    for (const auto& member : bounds.set) set_.push_back(comparable(member));
  }
  bool is_inside(const Comparable& v) const {
    bool pass = false;
    if (test_.shape == Predicate::Shape::kRange) {
      pass = low_.compare(v, kind_) <= 0 && v.compare(high_, kind_) <= 0;
    }
    for (const Comparable& m : set_) pass |= v.compare(m, kind_) == 0;
    return pass;
  }
  bool is_string_inside(const std::string& v) const {
    const ByteBounds& b = test_.bytes;
    if (test_.shape == Predicate::Shape::kContains) {
      return v.find(b.part) != std::string::npos;
    }
    bool pass = b.set.empty();
    for (const std::string& s : b.set) pass |= s == v;
    if (b.low) pass &= b.low_inclusive ? v >= *b.low : v > *b.low;
    if (b.high) pass &= b.high_inclusive ? v <= *b.high : v < *b.high;
    return pass;
  }

  const Predicate& test_;
  ValueKind kind_;
  bool is_bytes_ = false;
  Comparable low_, high_;
  std::vector<Comparable> set_;
};

// A selection, and a body with only the bytes that its blocks need.
struct Asked {
  Selection selection;
  std::vector<uint8_t> bytes;
};

uint32_t count_wrong(const Decoder& decoder, const SegmentBody& body,
                     const Question& question, const Selection& asked,
                     Status* status) {
  Selection got = asked;
  *status = decoder.filter(body, question.test, got.data());
  uint32_t wrong = 0;
  for (size_t w = 0; w < got.size(); ++w) {
    wrong += static_cast<uint32_t>(
        std::popcount(got[w] ^ (asked[w] & question.passing[w])));
  }
  return wrong;
}

}  // namespace

std::vector<Question> questions_for(const Sample& sample, size_t step) {
  std::vector<Comparable> values;
  for (uint32_t i = 0; i < sample.size; ++i) {
    values.push_back(value_at(sample, i));
  }
  std::vector<Question> out;
  const std::vector<Predicate> tests = tests_for(sample);
  for (size_t t = 0; t < tests.size(); t += step) {
    const PlainTest plain(tests[t], sample.type);
    Selection passing(div_ceil(sample.size, kBlockValues) * kSelectionWords);
    for (uint32_t i = 0; i < sample.size; ++i) {
      passing[i / 64] |= uint64_t{plain.passes(values[i])} << (i % 64);
    }
    out.push_back({tests[t], std::move(passing)});
  }
  return out;
}

void check_filters(const std::string& what, const Sample& sample,
                   const Decoder& decoder, const SegmentBody& body) {
  // Large samples: fewer questions.
  constexpr size_t kStep = kSanitized ? 5 : 3;
  const std::vector<Question> questions =
      questions_for(sample, sample.size > 5000 ? kStep : 1);
  if (questions.empty()) return;
  std::vector<Asked> asked;
  for (Selection& s : selections(sample.size)) {
    std::vector<uint8_t> bytes = read_part(decoder, body, s);
    asked.push_back({std::move(s), std::move(bytes)});
  }
  for (const Question& q : questions) {
    for (const Asked& a : asked) {
      const SegmentBody part{a.bytes.data(), a.bytes.size(), false};
      for (const SegmentBody& b : {body, part}) {
        Status status;
        const uint32_t wrong = count_wrong(decoder, b, q, a.selection, &status);
        if (status.is_ok() && wrong == 0) continue;
        fail(__FILE__, __LINE__,
             what + " filter " + std::to_string(&q - questions.data()) + ": " +
                 std::to_string(wrong) + " rows are wrong; " +
                 std::string(status.message()));
      }
    }
  }
}

}  // namespace nimble::testing
