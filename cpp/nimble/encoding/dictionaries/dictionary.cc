#include "nimble/encoding/dictionaries/dictionary.h"

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/shared_source.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"

namespace nimble {

// --------------------------------------------------------------------- encode

namespace {

Status encode_codes(const Values& codes, bool by_frequency,
                    const EncodeContext& context, SegmentBuilder* out) {
  EncodeContext nested = context;
  nested.random_access_only |=
      context.effort != Effort::kCompact && !by_frequency;
  return encode_child(codes, nested, 0, out);
}

}  // namespace

Status encode_dictionary(const DistinctValues& distinct,
                         const EncodeContext& context, SegmentBuilder* out) {
  put_encoding_id(EncodingId::kDictionary, out);
  out->head.put_varint(distinct.count());
  NIMBLE_RETURN_IF_ERROR(
      encode_codes(distinct.codes(), distinct.is_by_frequency(), context, out));
  return encode_child(distinct.distinct(), context, kInlineBytes, out);
}

Status encode_shared_dictionary(const DistinctValues& distinct,
                                StreamDictionary* dictionary,
                                const EncodeContext& context,
                                SegmentBuilder* out) {
  StreamDictionary::ValueCodes value_codes =
      dictionary->find(distinct.distinct());
  dictionary->add(distinct.distinct(), &value_codes);
  put_encoding_id(EncodingId::kSharedDictionary, out);
  out->head.put_varint(dictionary->size());
  std::vector<uint8_t> data;
  const Values codes = distinct.renumbered(
      value_codes.codes, code_width(dictionary->size()), &data);
  return encode_codes(codes, false, context, out);
}

// --------------------------------------------------------------------- decode

namespace {

class DictionaryDecoder final : public Decoder {
 public:
  // Codes are below `count`. If `own` is not set, they refer to the dictionary
  // of context.shared.
  DictionaryDecoder(const DecodeContext& context, Child codes, uint32_t count,
                    std::optional<Child> own)
      : Decoder(context.type, context.num_values),
        codes_(std::move(codes)),
        count_(count),
        own_(std::move(own)),
        shared_(context.shared) {
    if (own_) own_values_.emplace(own_->decoder());
  }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    codes_.append_ranges(begin, end, out);
    if (own_ && !own_values_->are_decoded()) {
      own_->append_ranges(0, own_->size(), out);
    }
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    codes_.prefetch(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return (own_ ? "dictionary n=" : "shared dictionary n=") +
           std::to_string(count_) +
           (own_ ? " (" + own_->describe() + ")" : "") + " of " +
           codes_.describe();
  }
  // Caches call this once, when the decoder is opened. The result therefore
  // includes the memory of own values that are decoded later.
  size_t memory_bytes() const override {
    return sizeof *this + codes_.memory_bytes() +
           (own_ ? own_->memory_bytes() + own_values_->decoded_bytes() : 0);
  }

 private:
  // The values, and the body that contains them.
  struct Dictionary {
    const CodedValues* values;
    SegmentBody body;
  };
  Result<Dictionary> dictionary(const SegmentBody& body) const;
  uint32_t code_bytes() const { return codes_.decoder().type().width; }
  Status check_codes(const Scratch& codes, uint32_t n) const {
    return check_code(
        min_max(codes_.decoder().type(), codes.as<uint8_t>(), n).max);
  }
  Status check_code(uint64_t max) const {
    if (max < count_) return Status::ok();
    return Status::corrupt("code " + std::to_string(max) +
                           " is outside a dictionary of " +
                           std::to_string(count_));
  }

  Child codes_;
  uint32_t count_;
  std::optional<Child> own_;
  std::optional<CodedValues> own_values_;
  const SharedSource* shared_;
};

Result<DictionaryDecoder::Dictionary> DictionaryDecoder::dictionary(
    const SegmentBody& body) const {
  if (own_) return Dictionary{&*own_values_, own_->body(body)};
  if (shared_ == nullptr) {
    return Status::corrupt("the stream has codes but no shared dictionary");
  }
  NIMBLE_ASSIGN_OR_RETURN(const SharedDictionary* dictionary,
                          shared_->dictionary());
  const CodedValues& values = dictionary->values();
  if (!(values.decoder().type() == type()) || count_ > values.size()) {
    return Status::corrupt("codes for " + std::to_string(count_) +
                           " values do not fit the shared dictionary of " +
                           std::to_string(values.size()) +
                           " values: it has another type or fewer values");
  }
  return Dictionary{&values, dictionary->body()};
}

Status DictionaryDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(const Dictionary dictionary, this->dictionary(body));
  // In a decoded dictionary, adjacent rows are cheaper to look up than
  // scattered rows. So fewer adjacent rows make decoding all values worthwhile.
  constexpr uint64_t kRowsOfRange = 8;
  const auto look_up =
      dictionary.values->way_to_look_up((end - begin) * kRowsOfRange);
  if (look_up == &CodedValues::look_up) {
    NIMBLE_RETURN_IF_ERROR(
        dictionary.values->prepare(dictionary.body, end - begin, out));
  }
  const bool is_text = type().kind == ValueKind::kBytes;
  const uint64_t before = is_text ? out.bytes->data.size() : 0;
  Scratch codes;
  return for_blocks(
      begin, end, [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
        const uint32_t first = block * kBlockValues;
        NIMBLE_RETURN_IF_ERROR(
            codes_.decode(body, first + from, first + until, codes.output()));
        NIMBLE_RETURN_IF_ERROR(check_codes(codes, until - from));
        NIMBLE_RETURN_IF_ERROR((dictionary.values->*look_up)(
            dictionary.body, codes.as<uint8_t>(), code_bytes(), until - from,
            out, out.data + uint64_t{first + from - begin} * type().width));
        if (is_text && first + from == begin) {
          const uint32_t stop = first + until;
          out.bytes->reserve_alike(before, stop - begin, end - stop);
        }
        return Status::ok();
      });
}

Status DictionaryDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  if (count == 0) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(const Dictionary dictionary, this->dictionary(body));
  const auto look_up = dictionary.values->way_to_look_up(count);
  Scratch codes;
  return for_chunks(count, [&](size_t first, uint32_t n) -> Status {
    NIMBLE_RETURN_IF_ERROR(
        codes_.gather(body, rows + first, n, codes.output()));
    NIMBLE_RETURN_IF_ERROR(check_codes(codes, n));
    return (dictionary.values->*look_up)(dictionary.body, codes.as<uint8_t>(),
                                         code_bytes(), n, out,
                                         out.data + first * type().width);
  });
}

Status DictionaryDecoder::value(const SegmentBody& body, uint32_t row,
                                uint64_t* out) const {
  uint64_t code = 0;
  NIMBLE_RETURN_IF_ERROR(codes_.value(body, row, &code));
  code &= low_bits(8 * code_bytes());
  NIMBLE_RETURN_IF_ERROR(check_code(code));
  NIMBLE_ASSIGN_OR_RETURN(const Dictionary dictionary, this->dictionary(body));
  return dictionary.values->value(dictionary.body, static_cast<uint32_t>(code),
                                  out);
}

Status DictionaryDecoder::filter(const SegmentBody& body, const Predicate& test,
                                 uint64_t* selection) const {
  const uint32_t wanted =
      count_selected(selection, num_blocks_of(size()) * kSelectionWords);
  if (wanted == 0) return Status::ok();
  // If few rows are selected, testing their values costs less than testing
  // every value of the dictionary.
  if (wanted < count_ / 8) return filter_decoded(body, test, selection);
  NIMBLE_ASSIGN_OR_RETURN(const Dictionary dictionary, this->dictionary(body));
  Predicate of_codes;
  NIMBLE_RETURN_IF_ERROR(dictionary.values->test_of_codes(
      dictionary.body, test, codes_.decoder().type(), count_, &of_codes));
  return codes_.filter(body, of_codes, selection);
}

// ----------------------------------------------------------------------- open

Status check_type(const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBool &&
      context.type.width <= kMaxNestedWidth) {
    return Status::ok();
  }
  return Status::corrupt("a dictionary cannot hold values of this type");
}

Result<Child> open_codes(ByteReader* head, const DecodeContext& context,
                         uint64_t count) {
  return Child::open(head, context, ValueType::unsigned_int(code_width(count)),
                     context.num_values);
}

}  // namespace

Result<std::unique_ptr<Decoder>> open_dictionary(ByteReader* head,
                                                 const DecodeContext& context) {
  NIMBLE_RETURN_IF_ERROR(check_type(context));
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("dictionary head"));
  if (count > context.num_values) {
    return Status::corrupt("a dictionary has " + std::to_string(count) +
                           " values, more than its " +
                           std::to_string(context.num_values) + " rows");
  }
  const auto n = static_cast<uint32_t>(count);
  NIMBLE_ASSIGN_OR_RETURN(Child codes, open_codes(head, context, n));
  NIMBLE_ASSIGN_OR_RETURN(Child values,
                          Child::open(head, context, context.type, n));
  return std::unique_ptr<Decoder>(std::make_unique<DictionaryDecoder>(
      context, std::move(codes), n, std::move(values)));
}

Result<std::unique_ptr<Decoder>> open_shared_dictionary(
    ByteReader* head, const DecodeContext& context) {
  NIMBLE_RETURN_IF_ERROR(check_type(context));
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("shared dictionary head"));
  if (count > kSegmentValues) {
    return Status::corrupt("shared dictionary of " + std::to_string(count) +
                           " values; at most " +
                           std::to_string(kSegmentValues) + " are possible");
  }
  if (context.shared_use != nullptr) context.shared_use->dictionary = true;
  const auto n = static_cast<uint32_t>(count);
  NIMBLE_ASSIGN_OR_RETURN(Child codes, open_codes(head, context, n));
  return std::unique_ptr<Decoder>(std::make_unique<DictionaryDecoder>(
      context, std::move(codes), n, std::nullopt));
}

}  // namespace nimble
