#include "nimble/encoding/dictionaries/shared_dictionary.h"

#include "encoding/sample.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Sample shared_ints(const std::vector<int32_t>& values) {
  return int_sample(ValueType::signed_int(4),
                    static_cast<uint32_t>(values.size()),
                    [&](uint32_t i) { return values[i]; });
}

Sample shared_texts(const std::vector<std::string>& values) {
  return bytes_sample(static_cast<uint32_t>(values.size()),
                      [&](uint32_t i) { return values[i]; });
}

std::vector<uint32_t> add_to(const Sample& values,
                             StreamDictionary* dictionary) {
  StreamDictionary::ValueCodes value_codes = dictionary->find(values.values());
  dictionary->add(values.values(), &value_codes);
  return value_codes.codes;
}

using CodeList = std::vector<uint32_t>;

TEST(SharedDictionary, ValuesKeepTheirCodes) {
  StreamDictionary dictionary(ValueType::bytes());
  CHECK(!dictionary.exists());
  CHECK(add_to(shared_texts({"b", "a", ""}), &dictionary) ==
        CodeList({0, 1, 2}));
  CHECK(!dictionary.exists());
  dictionary.keep_additions();
  CHECK(dictionary.exists());
  CHECK(add_to(shared_texts({"", "c", "b", "c"}), &dictionary) ==
        CodeList({2, 3, 0, 3}));
  CHECK_EQ(dictionary.size(), 4u);
}

TEST(SharedDictionary, WhatIsNotKeptIsForgotten) {
  StreamDictionary dictionary(ValueType::signed_int(4));
  add_to(shared_ints({5, 7}), &dictionary);
  dictionary.drop_additions();
  CHECK_EQ(dictionary.size(), 0u);
  add_to(shared_ints({7, 8}), &dictionary);
  dictionary.keep_additions();
  std::vector<int32_t> more;
  for (int32_t i = 0; i < 5000; ++i) more.push_back(100 + i);
  add_to(shared_ints(more), &dictionary);
  CHECK(dictionary.has_additions());
  dictionary.drop_additions();
  CHECK(!dictionary.has_additions());
  const Sample again = shared_ints({8, 100, 7});
  const StreamDictionary::ValueCodes value_codes =
      dictionary.find(again.values());
  CHECK(value_codes.codes == CodeList({1, StreamDictionary::kNone, 0}));
  CHECK_EQ(value_codes.missing, 1u);
  CHECK_EQ(value_codes.missing_bytes, 4u);
  CHECK(add_to(again, &dictionary) == CodeList({1, 2, 0}));
}

TEST(SharedDictionary, RoomIsLimited) {
  StreamDictionary dictionary(ValueType::signed_int(4));
  StreamDictionary::ValueCodes value_codes;
  value_codes.missing = StreamDictionary::kMaxValues;
  value_codes.missing_bytes = StreamDictionary::kMaxBytes;
  CHECK(dictionary.has_room_for(value_codes));
  add_to(shared_ints({1}), &dictionary);
  value_codes.missing_bytes = 0;
  CHECK(!dictionary.has_room_for(value_codes));
  --value_codes.missing;
  CHECK(dictionary.has_room_for(value_codes));
  value_codes.missing_bytes = StreamDictionary::kMaxBytes - 4;
  CHECK(dictionary.has_room_for(value_codes));
  ++value_codes.missing_bytes;
  CHECK(!dictionary.has_room_for(value_codes));
}

// Encodings that are tried but not chosen must add nothing to the dictionary.
// The chosen one must pay for all its additions.
TEST(SharedDictionary, WaysThatAreNotTakenAddNothing) {
  const ValueType type = ValueType::signed_int(8);
  const uint32_t n = 60000;
  const std::vector<Sample> samples = {
      int_sample(type, n, [](uint32_t i) { return mix(i) >> mix(i + n) % 60; }),
      int_sample(type, n, [](uint32_t i) { return mix(i); }),
      int_sample(type, n, [](uint32_t i) { return mix(mix(i) % 9000); }),
      int_sample(type, n, [](uint32_t i) { return mix(mix(i / 3) % 9000); }),
      int_sample(type, n, [](uint32_t i) { return mix(mix(i / 20) % 400); }),
      int_sample(type, n, [](uint32_t i) { return mix(i % 7 == 0 ? i : 7); }),
  };
  uint32_t used = 0;
  for (const Sample& sample : samples) {
    for (const Effort effort : {Effort::kBalanced, Effort::kCompact}) {
      StreamDictionary dictionary(type);
      EncodeContext context;
      context.effort = effort;
      context.dictionary = &dictionary;
      context.may_change_shared = true;
      SegmentBuilder out;
      CHECK(encode_values(sample.values(), context, &out).is_ok());
      DecodeContext reader;
      reader.type = type;
      reader.num_values = n;
      reader.body_size = out.body.size();
      SharedUse use;
      reader.shared_use = &use;
      ByteReader head(out.head.span());
      const auto decoder = open_decoder(&head, reader);
      CHECK(decoder.has_value());
      const std::string codes =
          "shared dictionary n=" + std::to_string(dictionary.size()) + " ";
      const std::string made = (*decoder)->describe();
      CHECK(use.dictionary ? made.find(codes) != std::string::npos
                           : dictionary.size() == 0);
      used += use.dictionary ? 1 : 0;
    }
  }
  CHECK(used >= 4 && used < 2 * samples.size());
}

// The reader's side, with a source that the test creates.
class TestSource final : public SharedSource {
 public:
  TestSource(const StreamDictionary& dictionary, const ValueType& type,
             uint32_t count) {
    CHECK(dictionary.encode(Effort::kBalanced, &segment_).is_ok());
    SegmentBody body{segment_.body.data(), segment_.body.size(), true, nullptr};
    auto opened = SharedDictionary::open(type, count, segment_.head.span(),
                                         body, "the dictionary");
    CHECK(opened.has_value());
    dictionary_ = std::move(opened).value();
  }
  Result<const PhraseTable*> phrases() const override {
    return Status::corrupt("none");
  }
  Result<const SharedDictionary*> dictionary() const override {
    return dictionary_.get();
  }

 private:
  SegmentBuilder segment_;
  std::unique_ptr<SharedDictionary> dictionary_;
};

Status decoded_with(const SegmentBuilder& segment, const ValueType& type,
                    uint32_t rows, const SharedSource* source,
                    std::vector<int32_t>* out) {
  DecodeContext context;
  context.type = type;
  context.num_values = rows;
  context.body_size = segment.body.size();
  context.shared = source;
  SharedUse use;
  context.shared_use = &use;
  ByteReader head(segment.head.span());
  NIMBLE_ASSIGN_OR_RETURN(const auto decoder, open_decoder(&head, context));
  CHECK(use.dictionary && !use.phrases);
  AlignedBuffer to(rows * 4);
  Output output;
  output.data = to.data();
  const SegmentBody body{segment.body.data(), segment.body.size(), true,
                         nullptr};
  NIMBLE_RETURN_IF_ERROR(decoder->decode(body, 0, rows, output));
  out->assign(to.as<int32_t>(), to.as<int32_t>() + rows);
  for (uint32_t row = 0; row < rows; ++row) {
    uint64_t one = 0;
    NIMBLE_RETURN_IF_ERROR(decoder->value(body, row, &one));
    CHECK_EQ(static_cast<int32_t>(one), (*out)[row]);
  }
  return Status::ok();
}

SegmentBuilder coded_with(const Sample& sample, StreamDictionary* dictionary) {
  DistinctValues distinct;
  CHECK(distinct.build(sample.values(), {}));
  SegmentBuilder out;
  CHECK(encode_shared_dictionary(distinct, dictionary, {}, &out).is_ok());
  return out;
}

TEST(SharedDictionary, OthersThanTheSegmentWasMadeWithAreRefused) {
  StreamDictionary dictionary(ValueType::signed_int(4));
  const ValueType type = ValueType::signed_int(4);
  const SegmentBuilder segment =
      coded_with(shared_ints({4, 9, 4, -3}), &dictionary);
  std::vector<int32_t> out;
  const TestSource source(dictionary, type, 3);
  CHECK(decoded_with(segment, type, 4, &source, &out).is_ok());
  CHECK(out == std::vector<int32_t>({4, 9, 4, -3}));
  CHECK(!decoded_with(segment, type, 4, nullptr, &out).is_ok());
  CHECK(!decoded_with(segment, ValueType::unsigned_int(4), 4, &source, &out)
             .is_ok());
  StreamDictionary small(ValueType::signed_int(4));
  add_to(shared_ints({4, 9}), &small);
  const TestSource too_small(small, type, 2);
  CHECK(!decoded_with(segment, type, 4, &too_small, &out).is_ok());
}

TEST(SharedDictionary, OneInsideAnotherIsAnError) {
  StreamDictionary dictionary(ValueType::signed_int(4));
  const SegmentBuilder segment =
      coded_with(shared_ints({4, 9, 4, -3}), &dictionary);
  const SegmentBody body{segment.body.data(), segment.body.size(), true,
                         nullptr};
  const auto opened = SharedDictionary::open(
      ValueType::signed_int(4), 4, segment.head.span(), body, "the dictionary");
  CHECK(opened.has_value());
  const Status status = (*opened)->values().decode_all(body);
  CHECK(!status.is_ok());
  CHECK(std::string(status.message()).starts_with("the dictionary: "));
}

}  // namespace
}  // namespace nimble::testing
