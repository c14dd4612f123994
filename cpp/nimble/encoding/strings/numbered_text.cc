#include "nimble/encoding/strings/numbered_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_set>

#include "nimble/base/compiler.h"
#include "nimble/base/hash.h"
#include "nimble/encoding/blocks/digits.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/row_numbers.h"
#include "nimble/memory/scratch.h"

namespace nimble {
namespace {

const ValueType kNumberType = ValueType::unsigned_int(8);
// Bytes below this are marks: they stand for numbers.
constexpr uint8_t kMarks = 9;
// Maximum digits of a number whose mark is its number of digits, and of other
// numbers.
constexpr uint32_t kMaxCounted = 8;
constexpr uint32_t kMaxDigits = 18;
// Maximum digits of any 8-byte number.
constexpr uint64_t kMostDigits = 20;
constexpr uint64_t kTenTo8 = 100000000;
constexpr std::array<uint64_t, kMarks> kPowers = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, kTenTo8};

// ------------------------------------------------------------------- finding

// Maximum runs of digits considered per string.
constexpr uint32_t kMaxRuns = 64;
// A word of letters and digits with more runs than this is an identifier, not a
// number.
constexpr uint32_t kMaxRunsOfWord = 2;

constexpr bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(uint8_t c) {
  return static_cast<uint8_t>((c | 32u) - 'a') < 26;
}

// The runs of digits in one string that may be stored as numbers.
class DigitRuns {
 public:
  struct Run {
    uint64_t begin;
    uint32_t digits;
    uint64_t value;
  };

  // Returns false if the string has a byte that would stand for a number.
  bool read(const ByteSlice& s) {
    count_ = 0;
    for (uint64_t i = 0; i < s.size;) {
      const uint8_t c = s.data[i];
      if (c < kMarks) return false;
      if (is_digit(c) || is_letter(c)) {
        i = read_word(s, i);
      } else {
        ++i;
      }
    }
    return true;
  }
  std::span<const Run> runs() const { return {runs_, count_}; }

 private:
  // Reads a word of letters and digits. Returns its end.
  uint64_t read_word(const ByteSlice& s, uint64_t i) {
    const uint32_t before = count_;
    uint32_t runs = 0;
    while (i < s.size) {
      if (is_letter(s.data[i])) {
        ++i;
        continue;
      }
      if (!is_digit(s.data[i])) break;
      const uint64_t begin = i;
      uint64_t value = 0;  // wraps if there are too many digits
      for (; i < s.size && is_digit(s.data[i]); ++i) {
        value = value * 10 + (s.data[i] - uint64_t{'0'});
      }
      ++runs;
      const uint64_t digits = i - begin;
      const bool has_zero = digits > 1 && s.data[begin] == '0';
      if (count_ < kMaxRuns && digits <= (has_zero ? kMaxCounted : kMaxDigits))
        runs_[count_++] = {begin, static_cast<uint32_t>(digits), value};
    }
    if (runs > kMaxRunsOfWord) count_ = before;
    return i;
  }

  Run runs_[kMaxRuns];
  uint32_t count_ = 0;
};

// Statistics of the n-th run of all strings.
struct RunStatistics {
  uint64_t rows = 0;
  uint32_t digits = 0;
  uint64_t least = 0;
  uint64_t most = 0;
  bool same_digits = true;

  void add(const DigitRuns::Run& run) {
    if (rows++ == 0) {
      digits = run.digits;
      least = most = run.value;
      return;
    }
    same_digits &= run.digits == digits;
    least = std::min(least, run.value);
    most = std::max(most, run.value);
  }
  bool differs() const { return rows > 0 && (!same_digits || least < most); }
};

}  // namespace

std::optional<NumberedText> NumberedText::find(const Values& values) {
  std::vector<RunStatistics> seen;
  DigitRuns digits;
  for (uint32_t i = 0; i < values.size; ++i) {
    if (!digits.read(values.slices[i])) return std::nullopt;
    const auto runs = digits.runs();
    if (runs.size() > seen.size()) seen.resize(runs.size());
    for (size_t k = 0; k < runs.size(); ++k) seen[k].add(runs[k]);
  }
  NumberedText out;
  for (const RunStatistics& runs : seen) {
    DigitRun run;
    run.is_number = runs.differs() && out.count_ < kMaxNumbers;
    if (runs.same_digits && runs.digits <= kMaxCounted)
      run.digits = runs.digits;
    out.count_ += run.is_number;
    out.digit_runs_.push_back(run);
  }
  if (out.count_ == 0) return std::nullopt;
  while (!out.digit_runs_.back().is_number) out.digit_runs_.pop_back();
  return out;
}

double estimate_numbered_text(const Values& values) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  constexpr uint64_t kWindows = 64;
  constexpr uint64_t kWindowRows = 32;
  constexpr uint64_t kMaxLength = 4096;
  constexpr uint64_t kRowsOfShape = 3;
  std::unordered_set<uint64_t> shapes;
  std::vector<RunStatistics> seen;
  DigitRuns digits;
  std::vector<uint8_t> shape;
  uint64_t rows = 0, shape_bytes = 0, next = 0;
  for (uint64_t w = 0; w < kWindows; ++w) {
    uint64_t row = std::max(next, w * values.size / kWindows);
    next = std::min<uint64_t>(values.size, row + kWindowRows);
    for (; row < next; ++row) {
      const ByteSlice& s = values.slices[row];
      if (s.size > kMaxLength || !digits.read(s)) return kNone;
      const auto runs = digits.runs();
      if (runs.size() > seen.size()) seen.resize(runs.size());
      shape.clear();
      uint64_t from = 0;
      for (size_t k = 0; k < runs.size(); ++k) {
        seen[k].add(runs[k]);
        shape.insert(shape.end(), s.data + from, s.data + runs[k].begin);
        shape.push_back(0);
        from = runs[k].begin + runs[k].digits;
      }
      shape.insert(shape.end(), s.data + from, s.data + s.size);
      ++rows;
      if (shapes.insert(checksum64(shape)).second) shape_bytes += shape.size();
    }
  }
  if (rows == 0 || shapes.size() * kRowsOfShape > rows) return kNone;
  double bits = std::log2(static_cast<double>(shapes.size()));
  bool has_numbers = false;
  for (const RunStatistics& runs : seen) {
    if (!runs.differs()) continue;
    has_numbers = true;
    bits += bit_width_of(runs.most - runs.least);
  }
  if (!has_numbers) return kNone;
  return values.size * bits / 8 + static_cast<double>(shape_bytes);
}

// ------------------------------------------------------------------ encoding

namespace {

// The mark that replaces a run, or nullopt if the run remains text.
std::optional<uint8_t> mark_of(const NumberedText& text, size_t k,
                               const DigitRuns::Run& run,
                               const ByteSlice& string) {
  if (k >= text.digit_runs().size() || !text.digit_runs()[k].is_number)
    return std::nullopt;
  if (text.digit_runs()[k].digits > 0)
    return static_cast<uint8_t>(text.digit_runs()[k].digits);
  const bool has_zero = run.digits > 1 && string.data[run.begin] == '0';
  return static_cast<uint8_t>(has_zero ? run.digits : 0);
}

}  // namespace

Status encode_numbered_text(const Values& values, const NumberedText& text,
                            const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t count = text.count();
  std::vector<std::vector<uint64_t>> numbers(count);
  for (auto& column : numbers) column.resize(values.size);
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends(values.size);
  DigitRuns digits;
  for (uint32_t i = 0; i < values.size; ++i) {
    const ByteSlice& s = values.slices[i];
    digits.read(s);
    uint64_t from = 0;
    size_t n = 0;
    for (size_t k = 0; k < digits.runs().size(); ++k) {
      const DigitRuns::Run& run = digits.runs()[k];
      const std::optional<uint8_t> mark = mark_of(text, k, run, s);
      if (!mark) continue;
      bytes.insert(bytes.end(), s.data + from, s.data + run.begin);
      bytes.push_back(*mark);
      numbers[n++][i] = run.value;
      from = run.begin + run.digits;
    }
    // A row without this number repeats the previous row's, which encodes
    // cheaply.
    for (; n < count; ++n) numbers[n][i] = i > 0 ? numbers[n][i - 1] : 0;
    if (s.size > from)
      bytes.insert(bytes.end(), s.data + from, s.data + s.size);
    ends[i] = bytes.size();
  }
  std::vector<ByteSlice> slices(values.size);
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint64_t begin = i > 0 ? ends[i - 1] : 0;
    slices[i] = {bytes.data() + begin, ends[i] - begin};
  }
  put_encoding_id(EncodingId::kNumberedText, out);
  out->head.put_u8(static_cast<uint8_t>(count));
  Values shapes = values;
  shapes.slices = slices.data();
  NIMBLE_RETURN_IF_ERROR(encode_child(shapes, context, 0, out));
  for (const std::vector<uint64_t>& column : numbers) {
    Values child;
    child.type = kNumberType;
    child.size = values.size;
    child.data = reinterpret_cast<const uint8_t*>(column.data());
    NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
  }
  return Status::ok();
}

// ------------------------------------------------------------------ decoding

namespace {

// Number of decimal digits of v, below 10^8. It is not computed from the
// digits: the position of the next piece of text then does not wait for them.
NIMBLE_ALWAYS_INLINE uint32_t decimal_length(uint64_t v) {
  const uint64_t w = v | 1;
  const uint32_t least = (bit_width_of(w) * 1233) >> 12;  // log10(2)
  return least + (w >= kPowers[least]);
}

uint8_t* put_large_number(uint64_t v, uint8_t* to);

// Writes v without leading zeros. May write up to 7 bytes more. Returns the
// end.
NIMBLE_ALWAYS_INLINE uint8_t* put_number(uint64_t v, uint8_t* to) {
  if (NIMBLE_UNLIKELY(v >= kTenTo8)) return put_large_number(v, to);
  const uint32_t length = decimal_length(v);
  store(to, decimal_digits(v) >> (8 * (kMaxCounted - length)));
  return to + length;
}

uint8_t* put_large_number(uint64_t v, uint8_t* to) {
  to = put_number(v / kTenTo8, to);
  store(to, decimal_digits(v % kTenTo8));
  return to + 8;
}

struct Shapes {
  BytesSink sink;

  Shapes() { sink.wide = true; }
  size_t size() const { return sink.data.size(); }
  void clear() {
    sink.data.clear();
    sink.offsets.clear();
    sink.count = 0;
    sink.data.reserve(1);  // read 8 bytes at a time
  }
  Output output() {
    Output out;
    out.bytes = &sink;
    return out;
  }
};

class NumberedTextDecoder final : public Decoder {
 public:
  NumberedTextDecoder(const DecodeContext& context, Child shapes,
                      std::vector<Child> numbers)
      : Decoder(context.type, context.num_values),
        shapes_(std::move(shapes)),
        numbers_(std::move(numbers)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    shapes_.append_ranges(begin, end, out);
    for (const Child& c : numbers_) c.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    shapes_.prefetch(body, row);
    for (const Child& c : numbers_) c.prefetch(body, row);
  }
  std::string describe() const override {
    std::string out = "text (" + shapes_.describe() + ") with ";
    for (size_t k = 0; k < numbers_.size(); ++k) {
      out += (k > 0 ? ", " : "") + numbers_[k].describe();
    }
    return out;
  }
  size_t memory_bytes() const override {
    size_t sum = sizeof *this + shapes_.memory_bytes();
    for (const Child& c : numbers_) sum += c.memory_bytes();
    return sum;
  }

 private:
  Status append(const BytesSink& shapes, const RowNumbers& numbers, size_t n,
                uint64_t at, BytesSink* sink) const;

  Child shapes_;
  std::vector<Child> numbers_;
};

Status NumberedTextDecoder::append(const BytesSink& shapes,
                                   const RowNumbers& numbers, size_t n,
                                   uint64_t at, BytesSink* sink) const {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const uint64_t before = sink->data.size();
  sink->data.reserve(before + shapes.data.size() +
                     n * numbers_.size() * kMostDigits);
  uint8_t* const start = sink->data.data();
  uint8_t* to = start + before;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* from = shapes.data.data() + shapes.begin_of(i);
    const uint8_t* const end = shapes.data.data() + shapes.end_of(i);
    uint32_t number = 0;
    while (from < end) {
      // Sets the top bit of each byte that is a mark. Only the lowest set bit
      // is reliable.
      const auto bytes = load<uint64_t>(from);
      const uint64_t marks = (bytes - kOnes * kMarks) & ~bytes & (kOnes * 0x80);
      const auto text =
          static_cast<uint64_t>(std::countr_zero(marks)) / 8;  // 8: no mark
      const uint64_t step = std::min(text, static_cast<uint64_t>(end - from));
      store(to, bytes);
      to += step;
      from += step;
      if (step == 8 || from == end) continue;
      const uint8_t mark = *from++;
      if (NIMBLE_UNLIKELY(number == numbers_.size())) {
        return Status::corrupt("a text has more than " +
                               std::to_string(number) + " numbers");
      }
      const uint64_t v = numbers.data()[number++ * numbers.stride() + i];
      if (mark == 0) {
        to = put_number(v, to);
        continue;
      }
      if (NIMBLE_UNLIKELY(v >= kPowers[mark])) {
        return Status::corrupt("number " + std::to_string(v) +
                               " of a text does not fit in " +
                               std::to_string(mark) + " digits");
      }
      store(to, decimal_digits(v) >> (8 * (kMaxCounted - mark)));
      to += mark;
    }
    sink->set_end(at + i, static_cast<uint64_t>(to - start));
  }
  sink->data.resize(static_cast<size_t>(to - start));
  return Status::ok();
}

Status NumberedTextDecoder::decode(const SegmentBody& body, uint32_t begin,
                                   uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const uint64_t at = out.bytes->add_values(end - begin);
  ThreadScratch<Shapes, NumberedTextDecoder> shapes;
  RowNumbers numbers(numbers_.size(), end - begin);
  return for_blocks(
      begin, end, [&](uint32_t block, uint32_t from, uint32_t to) -> Status {
        const uint32_t row = block * kBlockValues + from;
        const uint32_t stop = block * kBlockValues + to;
        shapes->clear();
        NIMBLE_RETURN_IF_ERROR(
            shapes_.decode(body, row, stop, shapes->output()));
        for (size_t k = 0; k < numbers_.size(); ++k) {
          NIMBLE_RETURN_IF_ERROR(
              numbers_[k].decode(body, row, stop, numbers.output(k)));
        }
        return append(shapes->sink, numbers, stop - row, at + (row - begin),
                      out.bytes);
      });
}

Status NumberedTextDecoder::gather(const SegmentBody& body,
                                   const uint32_t* rows, size_t count,
                                   const Output& out) const {
  if (count == 0) return Status::ok();
  const uint64_t at = out.bytes->add_values(count);
  ThreadScratch<Shapes, NumberedTextDecoder> shapes;
  RowNumbers numbers(numbers_.size(), count);
  return for_chunks(count, [&](size_t first, uint32_t n) -> Status {
    shapes->clear();
    NIMBLE_RETURN_IF_ERROR(
        shapes_.gather(body, rows + first, n, shapes->output()));
    for (size_t k = 0; k < numbers_.size(); ++k) {
      NIMBLE_RETURN_IF_ERROR(
          numbers_[k].gather(body, rows + first, n, numbers.output(k)));
    }
    return append(shapes->sink, numbers, n, at + first, out.bytes);
  });
}

}  // namespace

Result<std::unique_ptr<Decoder>> open_numbered_text(
    ByteReader* head, const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("numbered text holds strings only");
  }
  const uint32_t count = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("numbered text"));
  if (count == 0 || count > kMaxNumbers) {
    return Status::corrupt("text with " + std::to_string(count) +
                           " numbers; 1 to 16 are possible");
  }
  NIMBLE_ASSIGN_OR_RETURN(Child shapes, Child::open(head, context, context.type,
                                                    context.num_values));
  std::vector<Child> numbers;
  for (uint32_t k = 0; k < count; ++k) {
    NIMBLE_ASSIGN_OR_RETURN(
        Child number,
        Child::open(head, context, kNumberType, context.num_values));
    numbers.push_back(std::move(number));
  }
  return std::unique_ptr<Decoder>(std::make_unique<NumberedTextDecoder>(
      context, std::move(shapes), std::move(numbers)));
}

}  // namespace nimble
