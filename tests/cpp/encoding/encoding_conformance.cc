#include "encoding/encoding_conformance.h"

#include <algorithm>
#include <optional>

#include "encoding/filter_conformance.h"
#include "nimble/base/bitmap.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/core/side_by_side.h"
#include "testing/check.h"
#include "testing/sanitized.h"

namespace nimble::testing {
namespace {

// Values in one comparable form: the bytes of fixed widths, one byte per
// boolean, or length and bytes of strings.
using Canonical = std::vector<uint8_t>;

void add_string(std::string_view s, Canonical* out) {
  const uint64_t size = s.size();
  const auto* p = reinterpret_cast<const uint8_t*>(&size);
  out->insert(out->end(), p, p + 8);
  out->insert(out->end(), s.begin(), s.end());
}

// The values of a sample in that form, computed once.
class Expected {
 public:
  explicit Expected(const Sample& sample) {
    ends_.push_back(0);
    for (uint32_t row = 0; row < sample.size; ++row) {
      if (sample.type.kind == ValueKind::kBytes) {
        add_string(sample.strings[row], &all_);
      } else if (sample.type.kind == ValueKind::kBool) {
        all_.push_back(get_bit(sample.data.data(), row) ? 1 : 0);
      } else {
        const uint32_t width = sample.type.width;
        const uint8_t* p = sample.data.data() + uint64_t{row} * width;
        all_.insert(all_.end(), p, p + width);
      }
      ends_.push_back(all_.size());
    }
  }

  bool is_range(uint32_t begin, uint32_t end, const Canonical& got) const {
    const uint8_t* from = all_.data() + ends_[begin];
    return got.size() == ends_[end] - ends_[begin] &&
           std::equal(got.begin(), got.end(), from);
  }
  bool are_rows(const std::vector<uint32_t>& rows, const Canonical& got) const {
    size_t at = 0;
    for (const uint32_t row : rows) {
      const size_t size = ends_[row + 1] - ends_[row];
      const uint8_t* from = all_.data() + ends_[row];
      if (got.size() - at < size ||
          !std::equal(from, from + size, got.data() + at)) {
        return false;
      }
      at += size;
    }
    return at == got.size();
  }

 private:
  Canonical all_;
  std::vector<size_t> ends_;
};

using Call = std::function<Status(const Output&)>;

// Runs one decoder call that returns n values. Returns nullopt if it fails.
std::optional<Canonical> run(const ValueType& type, size_t n, const Call& call,
                             Status* status) {
  constexpr uint64_t kBitOffset = 3;
  constexpr uint64_t kBehind = 16;
  AlignedBuffer data(n * type.width + n / 8 + kBehind);
  std::memset(data.data(), 0x55, data.size());
  BytesSink sink;
  sink.wide = n % 2 == 0;
  sink.data.append("before", 6);
  sink.add_values(1);
  sink.set_end(0, 6);
  Output out;
  out.data = data.data();
  out.bit_offset = kBitOffset;
  out.bytes = &sink;
  *status = call(out);
  if (!status->is_ok()) return std::nullopt;
  Canonical result;
  if (type.kind == ValueKind::kBytes) {
    CHECK_EQ(sink.count, n + 1);
    uint64_t begin = 6;
    for (uint64_t i = 1; i <= n; ++i) {
      const uint64_t end = sink.end_of(i);
      if (end < begin || end > sink.data.size()) {
        fail(__FILE__, __LINE__, "string ends are not ascending");
        return std::nullopt;
      }
      add_string({sink.data.as<char>() + begin, end - begin}, &result);
      begin = end;
    }
    CHECK_EQ(begin, sink.data.size());
  } else if (type.kind == ValueKind::kBool) {
    for (uint64_t i = 0; i < n; ++i) {
      result.push_back(get_bit(data.data(), kBitOffset + i) ? 1 : 0);
    }
    // Bits outside the result must not change.
    for (uint64_t i = 0; i < kBitOffset; ++i) {
      CHECK_EQ(get_bit(data.data(), i), i % 2 == 0);
    }
    CHECK_EQ(get_bit(data.data(), kBitOffset + n), (kBitOffset + n) % 2 == 0);
  } else {
    result.assign(data.data(), data.data() + n * type.width);
    // The bytes after the result may belong to another row of the same column.
    for (uint64_t i = 0; i < kBehind; ++i) {
      CHECK_EQ(data.data()[n * type.width + i], 0x55);
    }
  }
  return result;
}

std::optional<Canonical> decode(const Decoder& decoder, const SegmentBody& body,
                                uint32_t begin, uint32_t end, Status* status) {
  return run(
      decoder.type(), end - begin,
      [&](const Output& out) { return decoder.decode(body, begin, end, out); },
      status);
}

std::optional<Canonical> gather(const Decoder& decoder, const SegmentBody& body,
                                const std::vector<uint32_t>& rows,
                                Status* status) {
  return run(
      decoder.type(), rows.size(),
      [&](const Output& out) {
        return decoder.gather(body, rows.data(), rows.size(), out);
      },
      status);
}

// Reads the same rows one by one, with value(). Returns nullopt for types that
// do not support it.
std::optional<Canonical> each_value(const Decoder& decoder,
                                    const SegmentBody& body,
                                    const std::vector<uint32_t>& rows,
                                    Status* status) {
  Canonical out;
  for (const uint32_t row : rows) {
    uint64_t bits = ~uint64_t{0};
    *status = decoder.value(body, row, &bits);
    if (!*status) return std::nullopt;
    if (decoder.type().kind == ValueKind::kBool) bits &= 1;
    const auto* p = reinterpret_cast<const uint8_t*>(&bits);
    const bool is_bool = decoder.type().kind == ValueKind::kBool;
    out.insert(out.end(), p, p + (is_bool ? 1 : decoder.type().width));
  }
  return out;
}

bool has_values(const ValueType& type) {
  return type.kind != ValueKind::kBytes && type.width <= 8;
}

void report(const std::string& what, const Status& status) {
  fail(__FILE__, __LINE__,
       what + (status.is_ok() ? ": wrong values"
                              : ": " + std::string(status.message())));
}

// Sub-ranges that begin or end at or beside a block boundary.
std::vector<std::pair<uint32_t, uint32_t>> sub_ranges(uint32_t size) {
  std::vector<uint32_t> edges = {0, size};
  for (uint32_t at : {1u, 500u, 1023u, 1024u, 1025u, 2047u, 2048u, 2049u,
                      65535u, 65537u, 131071u, size - 1, size / 2}) {
    if (at < size) edges.push_back(at);
  }
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (const uint32_t a : edges) {
    for (const uint32_t b : edges) {
      // Long ranges of large samples: only from and to the edges of the middle.
      const bool from = a <= 1 || a == 65537, to = b + 1 >= size || b == 65535;
      const bool long_one = size <= 5000 ? a == 0 || b == size : from && to;
      if (a <= b && (b - a < 5000 || long_one)) ranges.push_back({a, b});
    }
  }
  return ranges;
}

std::vector<std::vector<uint32_t>> row_patterns(uint32_t size) {
  std::vector<std::vector<uint32_t>> patterns(1);
  if (size == 0) return patterns;
  patterns.push_back({0});
  patterns.push_back({size - 1});
  patterns.push_back({size / 2, size / 2, size / 2});
  for (const uint32_t step : {1u, 7u, 100u, 129u, 1500u, 40000u}) {
    std::vector<uint32_t> rows;
    const uint32_t last = step == 1 ? std::min(size, 3000u) : size;
    for (uint32_t i = step / 3; i < last; i += step) rows.push_back(i);
    patterns.push_back(rows);
  }
  return patterns;
}

// Ranges that remain after deletes: one row in `step`, some adjacent, with all
// or none of the first rows.
std::vector<std::vector<RowRange>> holes(const Sample& sample) {
  std::vector<std::vector<RowRange>> patterns;
  if (sample.type.kind == ValueKind::kBytes) return patterns;
  for (const uint32_t step : {2u, 11u, 64u, 333u, 1024u, 1500u, 5000u}) {
    for (const uint32_t first : {0u, 31u}) {
      std::vector<RowRange> ranges;
      for (uint64_t row = first; row < sample.size;) {
        const uint64_t end =
            std::min<uint64_t>(row + 1 + mix(row) % step, sample.size);
        ranges.push_back({row, end});
        row = end + 1 + mix(end) % 3;
      }
      patterns.push_back(ranges);
    }
  }
  // Without single rows around the ends of blocks, without whole blocks, and
  // with little else.
  for (const uint32_t gone : {1u, 2u, 3u, 700u, kBlockValues, 2500u}) {
    for (const uint32_t from : {0u, 1u, kBlockValues - 1, kBlockValues}) {
      std::vector<RowRange> ranges;
      for (uint64_t row = 0; row < sample.size;) {
        const uint64_t hole = (row / 3000) * 3000 + from;
        const uint64_t end = row < hole ? hole : hole + 3000;
        const uint64_t begin = row < hole ? row : hole + gone;
        const RowRange kept{begin, std::min<uint64_t>(end, sample.size)};
        if (!kept.empty()) ranges.push_back(kept);
        row = end;
      }
      patterns.push_back(ranges);
    }
  }
  return patterns;
}

// A body with only some of its ranges filled in.
class PartialBody {
 public:
  explicit PartialBody(const SegmentBody& body)
      : body_(body), bytes_(body.size, kPoison) {}

  // Fills in only these ranges, until the next call.
  SegmentBody keep(std::vector<ByteRange> ranges, const std::string& what) {
    for (const ByteRange& r : kept_) {
      std::fill(bytes_.data() + r.begin, bytes_.data() + r.end, kPoison);
    }
    std::erase_if(ranges, [&](const ByteRange& r) {
      const bool outside = r.begin > r.end || r.end > body_.size;
      if (outside) fail(__FILE__, __LINE__, what + ": range outside the body");
      return outside;
    });
    for (const ByteRange& r : ranges) {
      std::copy(body_.data + r.begin, body_.data + r.end,
                bytes_.data() + r.begin);
    }
    kept_ = std::move(ranges);
    // A segment without requested ranges has no memory.
    return {kept_.empty() ? nullptr : bytes_.data(), bytes_.size(), false};
  }

 private:
  static constexpr uint8_t kPoison = 0xab;
  const SegmentBody& body_;
  std::vector<uint8_t> bytes_;
  std::vector<ByteRange> kept_;
};

void check_values(const std::string& what, const Sample& sample,
                  const Expected& expected, const Decoder& decoder,
                  const SegmentBody& body) {
  Status status;
  PartialBody partial(body);
  for (const auto& [begin, end] : sub_ranges(sample.size)) {
    std::vector<ByteRange> ranges;
    decoder.append_ranges(begin, end, &ranges);
    const SegmentBody part = partial.keep(std::move(ranges), what);
    const bool all = begin == 0 && end == sample.size;
    const auto got = decode(decoder, all ? body : part, begin, end, &status);
    if (!got || !expected.is_range(begin, end, *got)) {
      report(what + " decode [" + std::to_string(begin) + ", " +
                 std::to_string(end) + ")",
             status);
    }
  }
  for (const std::vector<uint32_t>& rows : row_patterns(sample.size)) {
    std::vector<ByteRange> ranges;
    for (const uint32_t row : rows)
      decoder.append_ranges(row, row + 1, &ranges);
    const SegmentBody part = partial.keep(std::move(ranges), what);
    const auto got = gather(decoder, part, rows, &status);
    const auto again = gather(decoder, body, rows, &status);
    if (!got || !expected.are_rows(rows, *got) || !again ||
        !expected.are_rows(rows, *again)) {
      report(what + " gather of " + std::to_string(rows.size()), status);
    }
    if (!has_values(decoder.type())) continue;
    for (const SegmentBody& from : {part, body}) {
      const auto each = each_value(decoder, from, rows, &status);
      if (!each || !expected.are_rows(rows, *each)) {
        report(what + " values of " + std::to_string(rows.size()), status);
      }
    }
  }
  for (const std::vector<RowRange>& ranges : holes(sample)) {
    std::vector<uint32_t> rows;
    for (const RowRange& r : ranges) {
      for (uint64_t row = r.begin; row < r.end; ++row) {
        rows.push_back(static_cast<uint32_t>(row));
      }
    }
    const auto got = run(
        decoder.type(), rows.size(),
        [&](const Output& out) {
          return decoder.decode_ranges(body, ranges, out);
        },
        &status);
    if (!got || !expected.are_rows(rows, *got)) {
      report(what + " decode " + std::to_string(ranges.size()) + " ranges",
             status);
    }
  }
  const auto view = decoder.view(body, 0, sample.size);
  CHECK(view.has_value());
  if (view && *view != nullptr && sample.size > 0) {
    CHECK(std::memcmp(*view, sample.data.data(), sample.data.size()) == 0);
  }
}

struct Encoded {
  std::vector<uint8_t> head;
  std::vector<uint8_t> body;
};

std::unique_ptr<Decoder> open(const Sample& sample, const Encoded& encoded,
                              Status* status) {
  DecodeContext context;
  context.type = sample.type;
  context.num_values = sample.size;
  context.body_size = encoded.body.size();
  ByteReader head(encoded.head);
  auto decoder = open_decoder(&head, context);
  *status = Status::ok();
  if (!decoder) {
    *status = std::move(decoder).error();
    return nullptr;
  }
  return std::move(decoder).value();
}

// Damages every kStep-th position under sanitizers, where reading takes seven
// times as long and CI runs these tests. ./dev fuzz has more time.
constexpr uint64_t kStep = kSanitized ? 3 : 1;

// Damages a segment in many ways. All bytes must give an error or values.
class DamageCheck {
 public:
  DamageCheck(const std::string& what, const Sample& sample,
              const Expected& expected, const Encoded& encoded)
      : what_(what),
        sample_(sample),
        expected_(expected),
        encoded_(encoded),
        questions_(questions_for(sample, 5)) {}

  void cut() const {
    const size_t head_step = encoded_.head.size() / 64 + 1;
    for (size_t n = 0; n < encoded_.head.size(); n += head_step) {
      Encoded cut = encoded_;
      cut.head.resize(n);
      Status status;
      if (open(sample_, cut, &status)) {
        report(what_ + " opens a cut head", status);
      }
    }
    for (size_t n = 0; n < encoded_.body.size();
         n += encoded_.body.size() / 8 + 1) {
      Encoded cut = encoded_;
      cut.body.resize(n);
      cut.body.shrink_to_fit();
      read(cut, true);
    }
  }
  void flip() const {
    for (uint64_t i = 0; i < 150 && !encoded_.head.empty(); i += kStep) {
      Encoded bad = encoded_;
      const uint64_t bit = i < 100 ? i : mix(i);
      bad.head[bit / 8 % bad.head.size()] ^=
          static_cast<uint8_t>(1u << bit % 8);
      read(bad, false);
    }
    for (uint64_t i = 0; i < 60 && !encoded_.body.empty(); i += kStep) {
      Encoded bad = encoded_;
      const uint64_t bit = mix(i + 1000);
      bad.body[bit / 8 % bad.body.size()] ^=
          static_cast<uint8_t>(1u << bit % 8);
      read(bad, true);
    }
  }

 private:
  // If `exact`, values must be correct if there are any.
  void read(const Encoded& bad, bool exact) const {
    Status status;
    const std::unique_ptr<Decoder> decoder = open(sample_, bad, &status);
    if (!decoder) return;
    const SegmentBody body{bad.body.data(), bad.body.size(), true};
    PartialBody partial(body);
    std::vector<ByteRange> ranges;
    decoder->append_ranges(0, sample_.size, &ranges);
    decode(*decoder, partial.keep(ranges, what_ + " damaged"), 0, sample_.size,
           &status);
    const auto got = decode(*decoder, body, 0, sample_.size, &status);
    if (exact && got && !expected_.is_range(0, sample_.size, *got)) {
      report(what_ + " damaged body", status);
    }
    const std::vector<uint32_t> rows = row_patterns(sample_.size).back();
    ranges.clear();
    for (const uint32_t row : rows) {
      decoder->append_ranges(row, row + 1, &ranges);
    }
    gather(*decoder, partial.keep(ranges, what_ + " damaged"), rows, &status);
    const auto some = gather(*decoder, body, rows, &status);
    if (exact && some && !expected_.are_rows(rows, *some)) {
      report(what_ + " damaged body, gather", status);
    }
    if (has_values(decoder->type())) {
      const auto each = each_value(*decoder, body, rows, &status);
      if (exact && each && !expected_.are_rows(rows, *each)) {
        report(what_ + " damaged body, values", status);
      }
    }
    for (const Question& q : questions_) {
      std::vector<uint64_t> selection(q.passing.size());
      fill_bits(reinterpret_cast<uint8_t*>(selection.data()), 0, sample_.size,
                true);
      status = decoder->filter(body, q.test, selection.data());
      if (exact && status.is_ok() && selection != q.passing) {
        report(what_ + " damaged body, filter", status);
      }
    }
  }

  const std::string& what_;
  const Sample& sample_;
  const Expected& expected_;
  const Encoded& encoded_;
  const std::vector<Question> questions_;
};

// Large values take too long for all checks; small values run the same code.
constexpr uint64_t kMostFiltered = uint64_t{24} << 20;
constexpr uint64_t kMostDamaged = uint64_t{1} << 20;

}  // namespace

namespace {

void check_encoded(const std::string& what, const Sample& sample,
                   const Encoded& encoded) {
  Status opened;
  const std::unique_ptr<Decoder> decoder = open(sample, encoded, &opened);
  if (!decoder) return report(what + " open", opened);
  CHECK(decoder->memory_bytes() > 0);
  CHECK(!decoder->describe().empty());
  const SegmentBody body{encoded.body.data(), encoded.body.size(), true};
  const Expected expected(sample);
  check_values(what + " (" + decoder->describe() +
                   ", n=" + std::to_string(sample.size) + ")",
               sample, expected, *decoder, body);
  uint64_t bytes = sample.data.size();
  for (const std::string& t : sample.strings) bytes += t.size();
  if (bytes <= kMostFiltered) {
    check_filters(what + " (" + decoder->describe() + ")", sample, *decoder,
                  body);
  }
  if (sample.size <= 5000 && bytes <= kMostDamaged) {
    const DamageCheck damage(what, sample, expected, encoded);
    damage.cut();
    damage.flip();
  }
}

// Interleaves the segment's parts with pieces of a bitmap, if it has any parts.
void check_in_pieces(const std::string& what, const Sample& sample,
                     SegmentBuilder* segment) {
  const std::vector<uint8_t> bits((sample.size + 63) / 64 * 8, 0xA5);
  const Values beside{ValueType::boolean(), sample.size, bits.data()};
  SegmentBuilder bitmap;
  CHECK(encode_bitmap(beside, &bitmap).is_ok());
  const uint64_t begin = segment->body.size();
  segment->body.align(8);
  const uint64_t at = segment->body.size();
  segment->body.put_bytes(bitmap.body.span());
  const std::vector<SegmentHead> heads{
      {&segment->head, sample.type, sample.size, 0, begin},
      {&bitmap.head, beside.type, sample.size, at, segment->body.size()}};
  auto laid = lay_side_by_side(heads, &segment->body, 512);
  if (!laid) return report(what + " side by side", std::move(laid).error());
  if (!*laid) return;
  check_encoded(what + " in pieces", sample,
                {segment->head.take(), segment->body.take()});
}

}  // namespace

void check_encoding(const std::string& what, const Sample& sample,
                    const Encode& encode) {
  SegmentBuilder builder;
  builder.body.put(uint64_t{0});  // parts need not begin at 0
  const Status status = encode(sample.values(), &builder);
  if (!status.is_ok()) return report(what + " encode", status);
  const ByteSpan head = builder.head.span(), body = builder.body.span();
  check_encoded(what, sample,
                {{head.begin(), head.end()}, {body.begin(), body.end()}});
  check_in_pieces(what, sample, &builder);
}

void check_selection(const std::string& what, const Sample& sample) {
  for (const Effort effort :
       {Effort::kBalanced, Effort::kFast, Effort::kCompact}) {
    EncodeContext context;
    context.effort = effort;
    check_encoding(what, sample, [&](const Values& v, SegmentBuilder* out) {
      return encode_values(v, context, out);
    });
  }
  EncodeContext positions;
  positions.random_access_only = true;
  check_encoding(what, sample, [&](const Values& v, SegmentBuilder* out) {
    return encode_values(v, positions, out);
  });
}

std::string chosen(const Sample& sample, Effort effort) {
  EncodeContext context;
  context.effort = effort;
  SegmentBuilder builder;
  const Status encoded = encode_values(sample.values(), context, &builder);
  if (!encoded.is_ok()) return std::string(encoded.message());
  Status status;
  const auto decoder =
      open(sample, {builder.head.take(), builder.body.take()}, &status);
  return decoder ? decoder->describe() : std::string(status.message());
}

uint64_t encoded_bytes(const Sample& sample, const Encode& encode) {
  SegmentBuilder builder;
  const Status status = encode(sample.values(), &builder);
  return status.is_ok() ? builder.head.size() + builder.body.size() : 0;
}

}  // namespace nimble::testing
