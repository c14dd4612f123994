#include "nimble/encoding/strings/template_text.h"

#include <algorithm>

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/encoding/core/row_numbers.h"

namespace nimble {
namespace {

const ValueType kLimbType = ValueType::unsigned_int(8);

class TemplateDecoder final : public Decoder {
 public:
  TemplateDecoder(const DecodeContext& context, const TemplatePattern& pattern,
                  std::vector<Child> limbs)
      : Decoder(context.type, context.num_values),
        pattern_(pattern),
        length_(pattern.length),
        formatter_(pattern),
        limbs_(std::move(limbs)),
        shape_(shape_of(pattern)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    for (const Child& limb : limbs_) limb.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    if (begin >= end) return Status::ok();
    const uint64_t first = start(end - begin, out.bytes);
    RowNumbers values(limbs_.size(), end - begin);
    const auto some = [&](uint32_t block, uint32_t from, uint32_t to) {
      const uint32_t row = block * kBlockValues;
      for (size_t k = 0; k < limbs_.size(); ++k) {
        NIMBLE_RETURN_IF_ERROR(
            limbs_[k].decode(body, row + from, row + to, values.output(k)));
      }
      return append(values, to - from, first + row + from - begin, out.bytes);
    };
    return for_blocks(begin, end, some);
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    if (count == 0) return Status::ok();
    const uint64_t first = start(count, out.bytes);
    RowNumbers values(limbs_.size(), count);
    for (size_t i = 0; i < count; i += kBlockValues) {
      const size_t n = std::min<size_t>(count - i, kBlockValues);
      for (size_t k = 0; k < limbs_.size(); ++k) {
        uint8_t* const to = values.output(k).data;
        uint64_t one = 0;
        NIMBLE_RETURN_IF_ERROR(
            n == 1 ? limbs_[k].value(body, rows[i], &one)
                   : limbs_[k].gather(body, rows + i, n, values.output(k)));
        if (n == 1) store(to, one);
      }
      NIMBLE_RETURN_IF_ERROR(append(values, n, first + i, out.bytes));
    }
    return Status::ok();
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    for (const Child& limb : limbs_) limb.prefetch(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override;
  size_t memory_bytes() const override {
    size_t sum = sizeof *this;
    for (const Child& limb : limbs_) sum += limb.memory_bytes();
    return sum;
  }

 private:
  uint64_t start(uint64_t rows, BytesSink* sink) const {
    // kSlack covers the formatter's overshoot.
    sink->data.reserve(sink->data.size() + rows * length_);
    return sink->add_values(rows);
  }
  Status append(const RowNumbers& values, size_t n, uint64_t index,
                BytesSink* sink) const;
  static std::string shape_of(const TemplatePattern& pattern);

  TemplatePattern pattern_;
  uint32_t length_;
  TemplateFormatter formatter_;
  std::vector<Child> limbs_;
  std::string shape_;
};

Status TemplateDecoder::append(const RowNumbers& values, size_t n,
                               uint64_t index, BytesSink* sink) const {
  const size_t at = sink->data.size();
  sink->data.resize(at + n * length_);
  if (!formatter_.format(values.data(), values.stride(), n,
                         sink->data.data() + at)) {
    return Status::corrupt("a value of " + shape_ +
                           " has more digits than its limb");
  }
  sink->set_ends(index, n, at, length_);
  return Status::ok();
}

// Two strings of a pattern are equal if all their limbs are equal.
Status TemplateDecoder::filter(const SegmentBody& body, const Predicate& test,
                               uint64_t* selection) const {
  const ByteBounds& b = test.bytes;
  const bool is_equality = test.shape == Predicate::Shape::kRange && b.low &&
                           b.high && *b.low == *b.high && b.low_inclusive &&
                           b.high_inclusive;
  if (!is_equality || test.negated) {
    return filter_decoded(body, test, selection);
  }
  const std::string& wanted = *b.low;
  const auto* bytes = reinterpret_cast<const uint8_t*>(wanted.data());
  if (!pattern_.fits({bytes, wanted.size()})) {
    std::memset(selection, 0, num_blocks_of(size()) * kSelectionWords * 8);
    return Status::ok();
  }
  uint64_t values[kMaxTemplateLength] = {};
  TemplateParser(pattern_).parse(bytes, values);
  for (size_t k = 0; k < limbs_.size(); ++k) {
    Predicate limb = test.derived(kLimbType);
    limb.shape = Predicate::Shape::kRange;
    limb.ints.low = limb.ints.high = values[k];
    NIMBLE_RETURN_IF_ERROR(limbs_[k].filter(body, limb, selection));
  }
  return Status::ok();
}

// Returns text like "Clerk#000000###". # is a decimal and x or X a hexadecimal
// digit.
std::string TemplateDecoder::shape_of(const TemplatePattern& pattern) {
  std::string out(pattern.length, '?');
  for (uint32_t p = 0; p < pattern.length; ++p) {
    const uint8_t c = pattern.literals[p];
    if (c >= 0x20 && c < 0x7f) out[p] = static_cast<char>(c);
  }
  const uint8_t* position = pattern.digit_positions.data();
  for (const TemplateLimb& limb : pattern.limbs) {
    const char digit = "#xX"[static_cast<int>(limb.kind)];
    for (uint32_t d = 0; d < limb.digits; ++d) out[*position++] = digit;
  }
  return out;
}

std::string TemplateDecoder::describe() const {
  std::string out = "template \"" + shape_ + "\" of ";
  for (size_t k = 0; k < limbs_.size(); ++k) {
    out += (k > 0 ? ", " : "") + limbs_[k].describe();
  }
  return out;
}

}  // namespace

Result<bool> encode_template(const Values& values,
                             const TemplatePattern& pattern,
                             const EncodeContext& context,
                             SegmentBuilder* out) {
  const size_t n = values.size;
  const size_t num_limbs = pattern.limbs.size();
  std::vector<std::vector<uint64_t>> limbs(num_limbs, std::vector<uint64_t>(n));
  const TemplateParser parser(pattern);
  uint64_t row[kMaxTemplateLength] = {};
  size_t i = 0;
  while (i < n && values.slices[i].size == 0) ++i;
  if (i < n) parser.parse(values.slices[i].data, row);
  for (i = 0; i < n; ++i) {
    const ByteSlice& s = values.slices[i];
    if (s.size > 0) parser.parse(s.data, row);
    for (size_t k = 0; k < num_limbs; ++k) limbs[k][i] = row[k];
  }
  put_encoding_id(EncodingId::kTemplate, out);
  pattern.write(&out->head);
  bool has_dictionary = false;
  for (const std::vector<uint64_t>& limb : limbs) {
    Values child;
    child.type = kLimbType;
    child.size = values.size;
    child.data = reinterpret_cast<const uint8_t*>(limb.data());
    // The child's head begins with its location, then its encoding.
    const size_t at = out->head.size() + 1;
    NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
    has_dictionary |=
        out->head.data()[at] == static_cast<uint8_t>(EncodingId::kDictionary);
  }
  return has_dictionary;
}

Result<std::unique_ptr<Decoder>> open_template(ByteReader* head,
                                               const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("templates hold strings only");
  }
  NIMBLE_ASSIGN_OR_RETURN(const TemplatePattern pattern,
                          TemplatePattern::open(head));
  std::vector<Child> limbs;
  for (size_t k = 0; k < pattern.limbs.size(); ++k) {
    NIMBLE_ASSIGN_OR_RETURN(
        Child limb, Child::open(head, context, kLimbType, context.num_values));
    limbs.push_back(std::move(limb));
  }
  return std::unique_ptr<Decoder>(
      std::make_unique<TemplateDecoder>(context, pattern, std::move(limbs)));
}

}  // namespace nimble
