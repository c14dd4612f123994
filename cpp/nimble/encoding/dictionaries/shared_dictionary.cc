#include "nimble/encoding/dictionaries/shared_dictionary.h"

#include <algorithm>
#include <bit>

#include "nimble/base/hash.h"
#include "nimble/encoding/dictionaries/distinct_values.h"

namespace nimble {

// ----------------------------------------------------------------------- read

Result<std::unique_ptr<SharedDictionary>> SharedDictionary::open(
    const ValueType& type, uint32_t count, ByteSpan head, SegmentBody body,
    const std::string& what) {
  DecodeContext context;
  context.type = type;
  context.num_values = count;
  context.body_size = body.size;
  context.depth = 1;
  ByteReader reader(head);
  NIMBLE_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                          open_decoder(&reader, context));
  if (reader.remaining() > 0) {
    return Status::corrupt(
        std::to_string(reader.remaining()) +
        " unexpected bytes after the head of a shared dictionary");
  }
  return std::unique_ptr<SharedDictionary>(
      new SharedDictionary(std::move(decoder), body, what));
}

// ---------------------------------------------------------------------- write

namespace {

constexpr size_t kMinSlots = 1024;

}  // namespace

size_t StreamDictionary::slot_of(ByteSpan wanted) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = checksum64(wanted) & mask;
  while (slots_[slot] != kNone && !same_bytes(wanted, value(slots_[slot]))) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void StreamDictionary::index(uint32_t min_slots) {
  slots_.assign(std::max(std::bit_ceil(size_t{min_slots}), kMinSlots), kNone);
  for (uint32_t code = 0; code < size(); ++code) {
    slots_[slot_of(value(code))] = code;
  }
}

StreamDictionary::ValueCodes StreamDictionary::find(
    const Values& values) const {
  ValueCodes value_codes;
  value_codes.codes.assign(values.size, kNone);
  for (uint32_t i = 0; i < values.size; ++i) {
    const ByteSpan v = value_bytes(values, i);
    if (!slots_.empty()) value_codes.codes[i] = slots_[slot_of(v)];
    if (value_codes.codes[i] != kNone) continue;
    ++value_codes.missing;
    value_codes.missing_bytes += v.size();
  }
  return value_codes;
}

void StreamDictionary::add(const Values& values, ValueCodes* value_codes) {
  if (value_codes->missing == 0) return;
  const uint32_t slots = 2 * (size() + value_codes->missing);
  if (slots > slots_.size()) index(slots);
  for (uint32_t i = 0; i < values.size; ++i) {
    if (value_codes->codes[i] != kNone) continue;
    const ByteSpan v = value_bytes(values, i);
    const size_t slot = slot_of(v);
    if (slots_[slot] == kNone) {
      slots_[slot] = size();
      bytes_.insert(bytes_.end(), v.begin(), v.end());
      ends_.push_back(bytes_.size());
    }
    value_codes->codes[i] = slots_[slot];
  }
}

void StreamDictionary::drop_from(uint32_t code) {
  // Removing values in reverse order of insertion never breaks another value's
  // probe sequence.
  while (size() > code) {
    slots_[slot_of(value(size() - 1))] = kNone;
    ends_.pop_back();
    bytes_.resize(ends_.empty() ? 0 : ends_.back());
  }
}

Status StreamDictionary::encode(Effort effort, SegmentBuilder* out) const {
  Values values;
  values.type = type_;
  values.size = size();
  std::vector<ByteSlice> slices;
  if (type_.kind == ValueKind::kBytes) {
    for (uint32_t code = 0; code < size(); ++code) {
      slices.push_back({value(code).data(), value(code).size()});
    }
    values.slices = slices.data();
  } else {
    values.data = bytes_.data();
  }
  EncodeContext context;
  context.effort = effort;
  context.depth = 1;
  return encode_values(values, context, out);
}

}  // namespace nimble
