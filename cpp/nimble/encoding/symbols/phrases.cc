#include "nimble/encoding/symbols/phrases.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "nimble/base/bitmap.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/blocks/block_strings.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/symbols/front_test.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "nimble/encoding/symbols/phrase_training.h"

namespace nimble {
namespace {

// Up to this many codes are expanded at a time with room for the largest
// possible output. With more codes, the output size is computed first.
constexpr uint64_t kMaxTogether = 8192;
// Block sizes, as for other strings.
constexpr uint64_t kTargetBlockBytes = 8192;
constexpr uint32_t kUsualShift = 8;

constexpr uint64_t kSampleShare = 4;
constexpr uint64_t kMinSampleBytes = 64u << 10;
constexpr uint64_t kMaxSampleBytes = 512u << 10;
constexpr uint64_t kMeasuredBytes = 48u << 10;
// The first kProbeBytes of text compress to at most this multiple of the size
// with the best phrases. Measured on 42 kinds of text.
constexpr uint64_t kProbeBytes = 64u << 10;
constexpr double kProbeShare = 1.2;

class PhrasesDecoder final : public BlockStrings {
 public:
  // If `own` is not set, the phrases come from context.shared.
  PhrasesDecoder(const DecodeContext& context, std::optional<Child> own,
                 uint32_t width, const Room& room, StringBlocks blocks)
      : BlockStrings(context, std::move(blocks), room),
        own_(std::move(own)),
        shared_(context.shared),
        width_(width) {}
  ~PhrasesDecoder() override {
    if (own_) delete table_.load();
  }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    if (own_ && table_.load(std::memory_order_acquire) == nullptr) {
      own_->append_ranges(0, own_->size(), out);
    }
    BlockStrings::append_ranges(begin, end, out);
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    if (!own_) return "shared phrases " + blocks_.describe();
    return "phrases n=" + std::to_string(own_->size()) + " (" +
           own_->describe() + ") " + blocks_.describe();
  }
  size_t memory_bytes() const override {
    const size_t own = own_ ? own_->memory_bytes() + sizeof(PhraseTable) : 0;
    return sizeof *this + blocks_.memory_bytes() + own;
  }

 protected:
  Status decode_block(const SegmentBody& body, const StringBlock& block,
                      uint32_t from, uint32_t to, uint64_t at,
                      BytesSink* sink) const override;

 private:
  using PhraseTest = FrontTest<kMaxPhrases>;
  Status filter_block(const StringBlock& block, const PhraseTable& phrases,
                      const PhraseTest& test, uint64_t* selection) const;
  // Reads the ends of the strings of a block, in codes.
  Status read_ends(const StringBlock& block, uint64_t* ends) const;
  Status table(const SegmentBody& body, const PhraseTable** out) const;
  Result<std::unique_ptr<const PhraseTable>> own_table(
      const SegmentBody& body) const;
  PhraseTable::Codes codes_of(const StringBlock& block) const {
    return {block.bytes, block.size, width_};
  }

  std::optional<Child> own_;
  const SharedSource* shared_;
  uint32_t width_;
  // Created on first use, then kept as long as this decoder.
  mutable std::atomic<const PhraseTable*> table_{nullptr};
};

Status PhrasesDecoder::table(const SegmentBody& body,
                             const PhraseTable** out) const {
  *out = table_.load(std::memory_order_acquire);
  if (NIMBLE_LIKELY(*out != nullptr)) return Status::ok();
  if (!own_) {
    if (shared_ == nullptr) {
      return Status::corrupt("the stream has codes of phrases but no phrases");
    }
    NIMBLE_ASSIGN_OR_RETURN(*out, shared_->phrases());
    table_.store(*out, std::memory_order_release);
    return Status::ok();
  }
  NIMBLE_ASSIGN_OR_RETURN(auto made, own_table(body));
  if (table_.compare_exchange_strong(*out, made.get(),
                                     std::memory_order_acq_rel)) {
    *out = made.release();
  }
  return Status::ok();
}

Result<std::unique_ptr<const PhraseTable>> PhrasesDecoder::own_table(
    const SegmentBody& body) const {
  BytesSink bytes;
  bytes.wide = true;
  Output to;
  to.bytes = &bytes;
  NIMBLE_RETURN_IF_ERROR(own_->decode(body, 0, own_->size(), to));
  std::vector<Phrase> phrases;
  for (uint32_t i = 0; i < own_->size(); ++i) {
    const uint64_t begin = bytes.begin_of(i);
    const uint64_t length = bytes.end_of(i) - begin;
    if (length == 0 || length > kMaxPhraseBytes) {
      return Status::corrupt("phrase " + std::to_string(i) + " of " +
                             std::to_string(length) +
                             " bytes; 1 to 16 are possible");
    }
    phrases.push_back(
        Phrase::of(bytes.data.data() + begin, static_cast<uint32_t>(length)));
  }
  return std::make_unique<const PhraseTable>(phrases);
}

// Reserves memory for the expanded codes and the overshoot of stores.
void make_room(const PhraseTable& table, const PhraseTable::Codes& codes,
               uint64_t first, uint64_t n, BytesSink* sink) {
  const uint64_t room =
      n <= kMaxTogether
          ? PhraseTable::expanded_bound(n)
          : table.expanded_size(codes, first, n) + kMaxPhraseBytes;
  sink->data.reserve(sink->data.size() + room);
}

Status PhrasesDecoder::read_ends(const StringBlock& block,
                                 uint64_t* ends) const {
  blocks_.lengths().running_ends(block.packed, block.rows, ends);
  const uint64_t all = ends[block.rows - 1];
  if (NIMBLE_UNLIKELY(div_ceil(all * width_, 8) != block.size)) {
    return Status::corrupt("block at row " + std::to_string(block.first_row) +
                           " has " + std::to_string(all) + " codes of " +
                           std::to_string(width_) + " bits in " +
                           std::to_string(block.size) + " bytes");
  }
  return Status::ok();
}

Status PhrasesDecoder::filter(const SegmentBody& body, const Predicate& test,
                              uint64_t* selection) const {
  if (!PhraseTest::can_decide(test)) {
    return filter_decoded(body, test, selection);
  }
  const PhraseTable* phrases = nullptr;
  NIMBLE_RETURN_IF_ERROR(table(body, &phrases));
  PhraseTest front(test);
  for (uint32_t c = 0; c < kMaxPhrases; ++c) {
    if (phrases->length(c) == 0) continue;
    front.set(c, {reinterpret_cast<const char*>(phrases->bytes(c)),
                  phrases->length(c)});
  }
  for (uint32_t b = 0; b < blocks_.num_blocks(); ++b) {
    const auto* bits = reinterpret_cast<const uint8_t*>(selection);
    if (count_bits(bits, blocks_.first_row(b), blocks_.rows(b)) == 0) continue;
    StringBlock block;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &block));
    NIMBLE_RETURN_IF_ERROR(filter_block(block, *phrases, front, selection));
  }
  return Status::ok();
}

Status PhrasesDecoder::filter_block(const StringBlock& block,
                                    const PhraseTable& phrases,
                                    const PhraseTest& test,
                                    uint64_t* selection) const {
  uint64_t ends[kBlockValues];
  NIMBLE_RETURN_IF_ERROR(read_ends(block, ends));
  const PhraseTable::Codes codes = codes_of(block);
  auto* const bits = reinterpret_cast<uint8_t*>(selection);
  uint8_t text[kMostDecidingBytes + kMaxPhraseBytes];
  uint64_t begin = 0;
  for (uint32_t i = 0; i < block.rows; begin = ends[i++]) {
    const uint64_t row = uint64_t{block.first_row} + i;
    if (!get_bit(bits, row)) continue;
    FrontVerdict verdict = FrontVerdict::kOpen;
    if (begin < ends[i]) verdict = test.of(PhraseTable::code_at(codes, begin));
    if (verdict == FrontVerdict::kOpen) {
      const uint64_t size = phrases.expand_front(codes, begin, ends[i] - begin,
                                                 test.num_bytes(), text);
      verdict = test.passes_front(text, std::min(size, test.num_bytes()))
                    ? FrontVerdict::kPasses
                    : FrontVerdict::kFails;
    }
    if (verdict == FrontVerdict::kFails) clear_bit(bits, row);
  }
  return Status::ok();
}

Status PhrasesDecoder::decode_block(const SegmentBody& body,
                                    const StringBlock& block, uint32_t from,
                                    uint32_t to, uint64_t at,
                                    BytesSink* sink) const {
  const PhraseTable* phrases = nullptr;
  NIMBLE_RETURN_IF_ERROR(table(body, &phrases));
  uint64_t ends[kBlockValues];
  NIMBLE_RETURN_IF_ERROR(read_ends(block, ends));
  const PhraseTable::Codes codes = codes_of(block);
  const uint64_t first = from > 0 ? ends[from - 1] : 0;
  const uint64_t n = ends[to - 1] - first;
  make_room(*phrases, codes, first, n, sink);
  uint8_t* const start = sink->data.data() + sink->data.size();
  if (n <= kMaxTogether) {
    uint32_t positions[kMaxTogether + 1];
    phrases->expand(codes, first, n, start, positions);
    for (uint32_t i = from; i < to; ++i) ends[i] = positions[ends[i] - first];
  } else {
    uint64_t begin = first, size = 0;
    for (uint32_t i = from; i < to; ++i) {
      const uint64_t end = ends[i];
      size += phrases->expand(codes, begin, end - begin, start + size);
      ends[i] = size;
      begin = end;
    }
  }
  append_offsets(ends + from, to - from, sink->data.size(), at, sink);
  sink->data.resize(sink->data.size() + ends[to - 1]);
  return Status::ok();
}

Status PhrasesDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                              size_t count, const Output& out) const {
  if (count == 0) return Status::ok();
  const PhraseTable* phrases = nullptr;
  NIMBLE_RETURN_IF_ERROR(table(body, &phrases));
  BytesSink* sink = out.bytes;
  const auto expand = [&](const StringBlock& block, uint64_t first,
                          uint64_t n) -> Status {
    const PhraseTable::Codes codes = codes_of(block);
    if (NIMBLE_UNLIKELY(!in_bounds(first, n, block.size * 8 / width_))) {
      return Status::corrupt("codes " + std::to_string(first) + " to " +
                             std::to_string(first + n) +
                             " are outside a block with " +
                             std::to_string(block.size) + " bytes of codes");
    }
    make_room(*phrases, codes, first, n, sink);
    const size_t before = sink->data.size();
    const uint64_t size =
        phrases->expand(codes, first, n, sink->data.data() + before);
    sink->data.resize(before + size);
    return Status::ok();
  };
  return blocks_.gather_codes(body, rows, count, sink, expand);
}

// ------------------------------------------------------------------- encoding

uint32_t width_of(size_t phrases) {
  return phrases < 2 ? 1 : bit_width_of(phrases - 1);
}

uint32_t block_shift(uint64_t rows, uint64_t codes, uint32_t width) {
  return choose_block_shift(rows, codes * width / 8, kTargetBlockBytes,
                            kUsualShift);
}

std::vector<Phrase> train_with(const std::bitset<256>& bytes,
                               const Values& strings) {
  const uint64_t total = total_bytes(strings);
  const uint64_t wanted =
      std::clamp(total / kSampleShare, kMinSampleBytes, kMaxSampleBytes);
  return train_phrases(sample_strings(strings, wanted), bytes, total);
}

}  // namespace

std::vector<Phrase> train_phrases(const Values& strings) {
  return train_with(bytes_of(strings), strings);
}

std::vector<Phrase> train_shared_phrases(const Values& strings) {
  std::vector<Phrase> phrases = train_with(std::bitset<256>().set(), strings);
  // Adds bytes that have not occurred yet, unless this would make codes wider.
  if (width_of(phrases.size()) > width_of(phrases.size() - 256)) {
    const std::bitset<256> bytes = bytes_of(strings);
    std::vector<Phrase> met = phrases;
    std::erase_if(met, [&](const Phrase& p) {
      return p.length == 1 && !bytes.test(p.low);
    });
    if (width_of(met.size()) < width_of(phrases.size())) {
      phrases = std::move(met);
    }
  }
  sort_phrases(&phrases);
  return phrases;
}

namespace {

void encode_codes(const Values& values, const std::vector<Phrase>& phrases,
                  const PhraseMatcher& matcher, SegmentBuilder* out) {
  const uint32_t width = width_of(phrases.size());
  out->head.put_u8(static_cast<uint8_t>(width));
  out->head.put_varint(total_bytes(values));
  AlignedBuffer codes;  // two bytes each
  std::vector<uint64_t> lengths(values.size);
  PaddedText padded;
  for (uint32_t i = 0; i < values.size; ++i) {
    const ByteSlice& s = values.slices[i];
    codes.reserve(codes.size() + 2 * s.size);
    uint8_t* const begin = codes.data() + codes.size();
    uint8_t* end = begin;
    for_phrases(matcher, padded.of(s), s.size, [&](uint32_t id, uint32_t) {
      store(end, static_cast<uint16_t>(id));
      end += 2;
    });
    const auto size = static_cast<size_t>(end - begin);
    codes.resize(codes.size() + size);
    lengths[i] = size / 2;
  }
  // write_packed_blocks() appends rows once and in order, so codes are read
  // sequentially.
  const uint8_t* next = codes.data();
  std::vector<uint64_t> block;
  const auto append = [&](uint32_t begin, uint32_t end) {
    uint64_t n = 0;
    for (uint32_t i = begin; i < end; ++i) n += lengths[i];
    block.resize(n);
    for (uint64_t& code : block) {
      code = load<uint16_t>(next);
      next += 2;
    }
    pack_sequential(block, width, out->body.extend(div_ceil(n * width, 8)));
    return Status::ok();
  };
  // Packing cannot fail.
  static_cast<void>(write_packed_blocks(
      lengths, block_shift(values.size, codes.size() / 2, width), append, out));
}

}  // namespace

Status encode_phrases(const Values& values, const std::vector<Phrase>& phrases,
                      SegmentBuilder* out) {
  std::vector<uint8_t> text;
  std::vector<ByteSlice> slices;
  text.reserve(phrases.size() * kMaxPhraseBytes);
  for (const Phrase& p : phrases) {
    uint8_t bytes[kMaxPhraseBytes];
    store(bytes, p.low);
    store(bytes + 8, p.high);
    slices.push_back({text.data() + text.size(), p.length});
    text.insert(text.end(), bytes, bytes + p.length);
  }
  put_encoding_id(EncodingId::kPhrases, out);
  Values child;
  child.type = values.type;
  child.size = static_cast<uint32_t>(slices.size());
  child.slices = slices.data();
  out->head.put_varint(child.size);
  NIMBLE_RETURN_IF_ERROR(encode_child_with(
      [&](SegmentBuilder* to) { return encode_plain_bytes(child, to); },
      kInlineBytes, out));
  encode_codes(values, phrases, PhraseMatcher(phrases), out);
  return Status::ok();
}

Status encode_shared_phrases(const Values& values, const StreamPhrases& phrases,
                             SegmentBuilder* out) {
  put_encoding_id(EncodingId::kSharedPhrases, out);
  encode_codes(values, phrases.phrases(), phrases.matcher(), out);
  return Status::ok();
}

PhrasesEstimate estimate_codes(const Values& values,
                               const std::vector<Phrase>& phrases,
                               const PhraseMatcher& matcher) {
  // This sample has other positions than the training sample, so that the
  // estimate is not too optimistic.
  const PhraseSizes sizes =
      measure_phrases(matcher, sample_strings(values, kMeasuredBytes));
  const double share = static_cast<double>(sizes.codes) /
                       static_cast<double>(std::max<uint64_t>(sizes.raw, 1));
  const double codes = share * static_cast<double>(total_bytes(values));
  uint64_t longest = 0;
  for (uint32_t i = 0; i < values.size; ++i) {
    longest = std::max(longest, values.slices[i].size);
  }
  const double most = share * static_cast<double>(longest);
  const uint32_t length_bits = bit_width_of(static_cast<uint64_t>(most));
  const double code_bytes = width_of(phrases.size()) / 8.0;
  return {share * code_bytes, static_cast<uint64_t>(codes * code_bytes) +
                                  uint64_t{values.size} * length_bits / 8};
}

uint64_t estimate_phrases(const Values& values,
                          const std::vector<Phrase>& phrases) {
  uint64_t bytes = 0;
  for (const Phrase& p : phrases) bytes += p.length + 1;
  return bytes + estimate_codes(values, phrases, PhraseMatcher(phrases)).bytes;
}

bool phrases_may_reach(const Values& strings, double limit) {
  const uint64_t total = total_bytes(strings);
  if (total < 2 * kProbeBytes * kSampleShare) return true;
  const std::vector<Phrase> phrases = train_phrases(
      sample_strings(strings, kProbeBytes), std::bitset<256>().set(), total);
  const PhrasesEstimate estimate =
      estimate_codes(strings, phrases, PhraseMatcher(phrases));
  return static_cast<double>(estimate.bytes) < limit * kProbeShare;
}

namespace {

// Reads the part of the head after the phrases.
Result<std::unique_ptr<Decoder>> open_codes(ByteReader* head,
                                            const DecodeContext& context,
                                            std::optional<Child> own) {
  const uint32_t width = head->get_u8();
  const uint64_t raw_size = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("phrases"));
  if (width == 0 || width > kMaxPhraseBits) {
    return Status::corrupt("codes of phrases of " + std::to_string(width) +
                           " bits; 1 to 12 are possible");
  }
  NIMBLE_ASSIGN_OR_RETURN(StringBlocks blocks,
                          StringBlocks::open(head, context, false));
  const BlockStrings::Room room{
      raw_size, PhraseTable::expanded_bound(blocks.part_size() * 8 / width),
      PhraseTable::expanded_bound(kMaxTogether)};
  return std::unique_ptr<Decoder>(std::make_unique<PhrasesDecoder>(
      context, std::move(own), width, room, std::move(blocks)));
}

Status check_type(const DecodeContext& context) {
  if (context.type.kind == ValueKind::kBytes) return Status::ok();
  return Status::corrupt("phrases hold strings only");
}

}  // namespace

Result<std::unique_ptr<Decoder>> open_phrases(ByteReader* head,
                                              const DecodeContext& context) {
  NIMBLE_RETURN_IF_ERROR(check_type(context));
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("phrases"));
  if (count > kMaxPhrases) {
    return Status::corrupt(std::to_string(count) +
                           " phrases; at most 4096 are possible");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child phrases,
      Child::open(head, context, context.type, static_cast<uint32_t>(count)));
  return open_codes(head, context, std::move(phrases));
}

Result<std::unique_ptr<Decoder>> open_shared_phrases(
    ByteReader* head, const DecodeContext& context) {
  NIMBLE_RETURN_IF_ERROR(check_type(context));
  if (context.shared_use != nullptr) context.shared_use->phrases = true;
  return open_codes(head, context, std::nullopt);
}

}  // namespace nimble
