#include "nimble/encoding/floats/alp.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "nimble/base/bytes.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/blocks/patches.h"
#include "nimble/encoding/core/decode_ranges.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {
namespace {

constexpr uint32_t kMaxExponent = 18;
constexpr double kPower[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                             1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                             1e14, 1e15, 1e16, 1e17, 1e18};
constexpr double kInverse[] = {1e-0,  1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,
                               1e-7,  1e-8,  1e-9,  1e-10, 1e-11, 1e-12, 1e-13,
                               1e-14, 1e-15, 1e-16, 1e-17, 1e-18};
// Adding 2^52 + 2^51 stores an integer below 2^51 in the low mantissa bits.
// Rounding and converting in both directions are then plain vector arithmetic.
constexpr double kMagic = 6755399441055744.0;
constexpr int64_t kMagicBits = 0x4338000000000000;
// Integers are below 2^51, or below 2^31 for floats.
template <class F>
constexpr double kMost = sizeof(F) == 8 ? 2251799813685248.0 : 2147483647.0;
constexpr uint32_t kAlpSamples = 32;

// Converts n to a float of type F. The encoder and the decoder must compute the
// same.
template <class F>
NIMBLE_ALWAYS_INLINE F value_of(int64_t n, double power, double inverse) {
  const auto exact = std::bit_cast<double>(n + kMagicBits) - kMagic;
  return static_cast<F>(exact * power * inverse);
}

// The integer nearest to a value. `*exact` tells whether it reproduces all bits
// of the value. -0.0 and NaN payloads therefore become exceptions.
template <class F>
NIMBLE_ALWAYS_INLINE int64_t nearest(F value, const AlpExponents& x,
                                     bool* exact) {
  using Bits = std::conditional_t<sizeof(F) == 8, uint64_t, uint32_t>;
  const double scaled =
      static_cast<double>(value) * kPower[x.e] * kInverse[x.f];
  const bool in_range = std::abs(scaled) < kMost<F>;  // false for NaN
  const double rounded = (in_range ? scaled : 0.0) + kMagic;
  const int64_t n = std::bit_cast<int64_t>(rounded) - kMagicBits;
  const F back = value_of<F>(n, kPower[x.f], kInverse[x.e]);
  *exact = in_range && std::bit_cast<Bits>(back) == std::bit_cast<Bits>(value);
  return n;
}

template <class F>
NIMBLE_ALWAYS_INLINE void convert(const uint8_t* __restrict ints, uint32_t n,
                                  double power, double inverse,
                                  uint8_t* __restrict out) {
  using Int = std::conditional_t<sizeof(F) == 8, int64_t, int32_t>;
  for (uint32_t i = 0; i < n; ++i) {
    // Unsigned, so that hostile integers wrap.
    const auto v = static_cast<uint64_t>(load<Int>(ints + i * sizeof(F)));
    const auto biased = v + static_cast<uint64_t>(kMagicBits);
    const double exact = std::bit_cast<double>(biased) - kMagic;
    store(out + i * sizeof(F), static_cast<F>(exact * power * inverse));
  }
}

NIMBLE_CLONES void convert_ints(const uint8_t* __restrict ints, uint32_t n,
                                uint32_t width, const AlpExponents& x,
                                uint8_t* __restrict out) {
  if (width == 8) {
    return convert<double>(ints, n, kPower[x.f], kInverse[x.e], out);
  }
  convert<float>(ints, n, kPower[x.f], kInverse[x.e], out);
}

// Converts the integers of row ranges. `ints` has the block that begins at row
// `first`. Writes whole cache lines, except at the beginning of a range, so a
// few values after a range are read and written as well. Returns the end of the
// output.
template <class F>
NIMBLE_ALWAYS_INLINE uint8_t* convert_in(const uint8_t* __restrict ints,
                                         uint64_t first,
                                         std::span<const RowRange> ranges,
                                         double power, double inverse,
                                         uint8_t* __restrict out) {
  constexpr uint64_t kLine = 64;
  constexpr uint32_t kInLine = kLine / sizeof(F);
  static_assert(kLine <= std::min(kRangeOvershoot, Scratch::kSlack));
  for (const RowRange& r : ranges) {
    const uint64_t begin = std::max(r.begin, first) - first;
    const uint64_t n = std::min<uint64_t>(r.end - first, kBlockValues) - begin;
    const uint8_t* const from = ints + begin * sizeof(F);
    convert<F>(from, kInLine, power, inverse, out);
    uint64_t done = (kLine - reinterpret_cast<uintptr_t>(out) % kLine) /
                    sizeof(F) * sizeof(F);
    for (; done < n * sizeof(F); done += kLine) {
      convert<F>(from + done, kInLine, power, inverse, out + done);
    }
    out += n * sizeof(F);
  }
  return out;
}

NIMBLE_CLONES uint8_t* convert_ranges(const uint8_t* __restrict ints,
                                      uint64_t first,
                                      std::span<const RowRange> ranges,
                                      uint32_t width, const AlpExponents& x,
                                      uint8_t* __restrict out) {
  const double power = kPower[x.f], inverse = kInverse[x.e];
  return width == 8
             ? convert_in<double>(ints, first, ranges, power, inverse, out)
             : convert_in<float>(ints, first, ranges, power, inverse, out);
}

// --------------------------------------------------------------------- encode

// Bits saved by dividing the integers by a common divisor. For example,
// multiples of 1/1024 are multiples of 9765625 when written as decimals.
template <class F>
uint32_t common_bits(std::span<const F> samples, const AlpExponents& x) {
  int64_t first = 0, low = INT64_MAX, high = INT64_MIN;
  uint64_t divisor = 0;
  for (const F sample : samples) {
    bool exact = false;
    const int64_t v = nearest(sample, x, &exact);
    if (!exact) continue;
    if (low > high) first = v;
    low = std::min(low, v);
    high = std::max(high, v);
    divisor = std::gcd(divisor, static_cast<uint64_t>(std::abs(v - first)));
  }
  if (divisor <= 1) return 0;
  const auto width = static_cast<uint64_t>(high - low);
  return bit_width_of(width) - bit_width_of(width / divisor);
}

template <class F>
AlpExponents choose(const Values& values) {
  const uint32_t n = std::min(values.size, kAlpSamples);
  F samples[kAlpSamples] = {};
  for (uint32_t i = 0; i < n; ++i) {
    // Rows at pseudo-random distances: multiples of 2^k would make counters
    // look rounder than they are.
    const uint64_t begin = uint64_t{i} * values.size / n;
    const uint64_t room = uint64_t{i + 1} * values.size / n - begin;
    const uint64_t row = begin + ((i + 1) * 0x9e3779b97f4a7c15 >> 32) % room;
    samples[i] = load<F>(values.data + row * sizeof(F));
  }
  constexpr double kExceptionBits = 8 * sizeof(F) + 16;
  AlpExponents best;
  best.bits_per_value = kExceptionBits;
  for (int e = kMaxExponent; e >= 0; --e) {
    for (int f = e; f >= 0; --f) {
      AlpExponents x{static_cast<uint8_t>(e), static_cast<uint8_t>(f), 0};
      int64_t low = INT64_MAX;
      int64_t high = INT64_MIN;
      double exceptions = 0;
      for (uint32_t i = 0; i < n; ++i) {
        bool exact = false;
        const int64_t v = nearest(samples[i], x, &exact);
        if (exact) {
          low = std::min(low, v);
          high = std::max(high, v);
        } else if ((exceptions += kExceptionBits) >= n * best.bits_per_value) {
          break;  // worse already
        }
      }
      const double bits =
          low > high ? 0 : bit_width_of(static_cast<uint64_t>(high - low));
      x.bits_per_value = bits + exceptions / std::max(n, 1u);
      if (x.bits_per_value < best.bits_per_value) best = x;
    }
  }
  best.bits_per_value -= common_bits<F>({samples, n}, best);
  return best;
}

// Converts n values to their nearest integers. wrong[i] is not 0 if the integer
// does not reproduce the value. Returns the bitwise or of `wrong`.
template <class F, class Int, class Bits>
NIMBLE_ALWAYS_INLINE Bits scale(const uint8_t* __restrict values, uint32_t n,
                                const AlpExponents& x, uint8_t* __restrict ints,
                                Bits* __restrict wrong) {
  const double up = kPower[x.e];
  const double down = kInverse[x.f];
  const double power = kPower[x.f];
  const double inverse = kInverse[x.e];
  Bits any = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const F value = load<F>(values + i * sizeof(F));
    const double scaled = static_cast<double>(value) * up * down;
    const bool in_range = std::abs(scaled) < kMost<F>;
    const double rounded = (in_range ? scaled : 0.0) + kMagic;
    const int64_t integer = std::bit_cast<int64_t>(rounded) - kMagicBits;
    const F back = value_of<F>(integer, power, inverse);
    wrong[i] = std::bit_cast<Bits>(back) ^ std::bit_cast<Bits>(value);
    any |= wrong[i];
    store(ints + i * sizeof(F), static_cast<Int>(integer));
  }
  return any;
}

NIMBLE_CLONES bool scale_doubles(const uint8_t* __restrict values, uint32_t n,
                                 const AlpExponents& x,
                                 uint8_t* __restrict ints,
                                 uint64_t* __restrict wrong) {
  return scale<double, int64_t, uint64_t>(values, n, x, ints, wrong) != 0;
}
NIMBLE_CLONES bool scale_floats(const uint8_t* __restrict values, uint32_t n,
                                const AlpExponents& x, uint8_t* __restrict ints,
                                uint32_t* __restrict wrong) {
  return scale<float, int32_t, uint32_t>(values, n, x, ints, wrong) != 0;
}

// Converts all values and collects the rows of exceptions. Returns false if
// there are too many.
template <class Int, class Bits>
bool to_ints(const Values& values, const AlpExponents& x,
             std::vector<uint8_t>* ints, std::vector<uint32_t>* rows) {
  constexpr uint32_t kWidth = sizeof(Int);
  ints->resize(values.size * kWidth);
  Int before = 0;  // for exceptions, to keep the width small
  for (uint32_t b = 0; b < num_blocks_of(values.size); ++b) {
    const uint32_t n = block_rows(b, values.size);
    const uint32_t first = b * kBlockValues;
    const uint8_t* data = values.data + uint64_t{first} * kWidth;
    uint8_t* to = ints->data() + uint64_t{first} * kWidth;
    Bits wrong[kBlockValues];
    bool any = false;
    if constexpr (kWidth == 8) {
      any = scale_doubles(data, n, x, to, wrong);
    } else {
      any = scale_floats(data, n, x, to, wrong);
    }
    for (uint32_t i = 0; any && i < n; ++i) {
      if (wrong[i] == 0) {
        before = load<Int>(to + i * kWidth);
        continue;
      }
      rows->push_back(first + i);
      store(to + i * kWidth, before);
    }
    before = load<Int>(to + (n - 1) * kWidth);
    if (rows->size() > values.size / 8) return false;
  }
  // Exceptions before the first exact value repeat that value.
  uint32_t leading = 0;
  while (leading < rows->size() && (*rows)[leading] == leading) ++leading;
  for (uint32_t i = 0; i < leading && leading < values.size; ++i) {
    std::memcpy(ints->data() + i * kWidth, ints->data() + leading * kWidth,
                kWidth);
  }
  return true;
}

// --------------------------------------------------------------------- decode

// Returns the smallest integer in [-most, most] whose value is >= `bound`, or >
// `bound` if `above`. Returns most + 1 if there is no such integer. Values
// increase with their integers, so a binary search works.
template <class F>
int64_t first_int(F bound, bool above, const AlpExponents& x) {
  const auto most = static_cast<int64_t>(kMost<F>);
  int64_t low = -most;
  int64_t high = most + 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const F v = value_of<F>(middle, kPower[x.f], kInverse[x.e]);
    if (above ? v > bound : v >= bound) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The range of integers whose values are in a range of floats. Except for
// exceptions, encoded integers are always in [-most, most].
template <class F>
void set_int_range(const Bounds<double>& floats, const AlpExponents& x,
                   Predicate* out) {
  const int64_t low = first_int(static_cast<F>(floats.low), false, x);
  const int64_t high = first_int(static_cast<F>(floats.high), true, x) - 1;
  if (low > high) return;
  out->shape = Predicate::Shape::kRange;
  out->ints.low = static_cast<uint64_t>(low);
  out->ints.high = static_cast<uint64_t>(high);
}

Predicate int_range(const Predicate& test, const AlpExponents& x) {
  const uint32_t width = test.type.width;
  Predicate out = test.derived(ValueType::signed_int(width));
  if (width == 8) {
    set_int_range<double>(test.floats, x, &out);
  } else {
    set_int_range<float>(test.floats, x, &out);
  }
  return out;
}

class AlpDecoder final : public Decoder {
 public:
  AlpDecoder(const DecodeContext& context, const AlpExponents& x, Child ints,
             std::optional<Patches> patches)
      : Decoder(context.type, context.num_values),
        exponents_(x),
        ints_(std::move(ints)),
        patches_(std::move(patches)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    ints_.append_ranges(begin, end, out);
    if (patches_) patches_->append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    Scratch scratch;
    const auto decode_block = [&](uint32_t block, uint32_t from,
                                  uint32_t until) -> Status {
      const uint32_t first = block * kBlockValues;
      NIMBLE_RETURN_IF_ERROR(
          ints_.decode(body, first + from, first + until, scratch.output()));
      convert_ints(scratch.as<uint8_t>(), until - from, type().width,
                   exponents_,
                   out.data + uint64_t{first + from - begin} * type().width);
      return Status::ok();
    };
    NIMBLE_RETURN_IF_ERROR(for_blocks(begin, end, decode_block));
    if (!patches_) return Status::ok();
    return patches_->apply(body, begin, end, out.data);
  }
  Status decode_ranges(const SegmentBody& body,
                       std::span<const RowRange> ranges,
                       const Output& out) const override {
    if (patches_) return Decoder::decode_ranges(body, ranges, out);
    Scratch scratch;
    RangeOutput to(*this, body, out);
    return to.decode(ranges, [&](uint64_t first, auto some, uint8_t** at) {
      NIMBLE_RETURN_IF_ERROR(ints_.decode(
          body, static_cast<uint32_t>(first),
          static_cast<uint32_t>(first + kBlockValues), scratch.output()));
      *at = convert_ranges(scratch.as<uint8_t>(), first, some, type().width,
                           exponents_, *at);
      return Status::ok();
    });
  }

  // ---------------------------------------------------------------- gather

  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    Scratch scratch;
    const auto gather_chunk = [&](size_t first, uint32_t n) -> Status {
      NIMBLE_RETURN_IF_ERROR(
          ints_.gather(body, rows + first, n, scratch.output()));
      convert_ints(scratch.as<uint8_t>(), n, type().width, exponents_,
                   out.data + first * type().width);
      return Status::ok();
    };
    NIMBLE_RETURN_IF_ERROR(for_chunks(count, gather_chunk));
    if (!patches_) return Status::ok();
    return patches_->apply_gather(body, rows, count, out.data);
  }
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint64_t number = 0;
    NIMBLE_RETURN_IF_ERROR(ints_.value(body, row, &number));
    convert_ints(reinterpret_cast<const uint8_t*>(&number), 1, type().width,
                 exponents_, reinterpret_cast<uint8_t*>(out));
    return patches_ ? patches_->apply_one(body, row, out) : Status::ok();
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    ints_.prefetch(body, row);
    if (patches_) patches_->prefetch(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override {
    if (test.shape != Predicate::Shape::kRange) {
      return filter_decoded(body, test, selection);
    }
    const size_t words = num_blocks_of(size()) * kSelectionWords;
    const std::vector<uint64_t> before(selection,
                                       selection + (patches_ ? words : 0));
    NIMBLE_RETURN_IF_ERROR(
        ints_.filter(body, int_range(test, exponents_), selection));
    if (!patches_) return Status::ok();
    return patches_->apply_filter(body, test, before.data(), selection);
  }
  std::string describe() const override {
    std::string text = "alp e=" + std::to_string(exponents_.e) +
                       " f=" + std::to_string(exponents_.f);
    if (patches_) text += " patches=" + std::to_string(patches_->count());
    return text + " (" + ints_.describe() + ")";
  }
  size_t memory_bytes() const override {
    return sizeof *this + ints_.memory_bytes() +
           (patches_ ? patches_->memory_bytes() : 0);
  }

 private:
  AlpExponents exponents_;
  Child ints_;
  std::optional<Patches> patches_;
};

}  // namespace

AlpExponents choose_alp_exponents(const Values& values) {
  return values.type.width == 8 ? choose<double>(values)
                                : choose<float>(values);
}

Result<bool> encode_alp(const Values& values, const AlpExponents& exponents,
                        const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint8_t> ints;
  std::vector<uint32_t> rows;
  const bool fits =
      width == 8 ? to_ints<int64_t, uint64_t>(values, exponents, &ints, &rows)
                 : to_ints<int32_t, uint32_t>(values, exponents, &ints, &rows);
  if (!fits) return false;
  put_encoding_id(EncodingId::kAlp, out);
  out->head.put_u8(exponents.e);
  out->head.put_u8(exponents.f);
  Values child;
  child.type = ValueType::signed_int(width);
  child.size = values.size;
  child.data = ints.data();
  NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
  out->head.put_u8(rows.empty() ? 0 : 1);
  if (rows.empty()) return true;
  std::vector<uint8_t> exceptions(rows.size() * width);
  pick_values(values.data, width, rows.data(), rows.size(), 0,
              exceptions.data());
  Values rest = values;
  rest.size = static_cast<uint32_t>(rows.size());
  rest.data = exceptions.data();
  NIMBLE_RETURN_IF_ERROR(Patches::write(rows, rest, values.size, context, out));
  return true;
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_alp(ByteReader* head,
                                          const DecodeContext& context) {
  AlpExponents x;
  x.e = head->get_u8();
  x.f = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("alp head"));
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kFloat || (width != 4 && width != 8) ||
      x.e > kMaxExponent || x.f > x.e) {
    return Status::corrupt("alp exponents " + std::to_string(x.e) + " and " +
                           std::to_string(x.f) + " are not possible for " +
                           std::to_string(width) + "-byte values");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child ints, Child::open(head, context, ValueType::signed_int(width),
                              context.num_values));
  const uint8_t has_patches = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("alp head"));
  if (has_patches > 1) return Status::corrupt("the head of alp is damaged");
  std::optional<Patches> patches;
  if (has_patches == 1) {
    NIMBLE_ASSIGN_OR_RETURN(Patches opened, Patches::open(head, context));
    patches = std::move(opened);
  }
  return std::unique_ptr<Decoder>(std::make_unique<AlpDecoder>(
      context, x, std::move(ints), std::move(patches)));
}

}  // namespace nimble
