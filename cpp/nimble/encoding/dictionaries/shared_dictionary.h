// A dictionary that all segments of a stream share. It is stored once, before
// the footer, and each segment has codes. The first segment that becomes
// smaller with a dictionary starts it. Later segments append values that are
// missing.
#pragma once

#include <memory>
#include <vector>

#include "nimble/encoding/dictionaries/coded_values.h"

namespace nimble {

// Maximum size of all values. A scan keeps them decoded, and the writer keeps
// them until the end.
inline constexpr uint64_t kMaxSharedBytes = 8u << 20;

// The reader's side. Thread-safe.
class SharedDictionary {
 public:
  // Opens a dictionary of `count` values of `type`. `what` describes it in
  // errors.
  // REQUIRES: `body` is stable and outlives the dictionary.
  static Result<std::unique_ptr<SharedDictionary>> open(
      const ValueType& type, uint32_t count, ByteSpan head, SegmentBody body,
      const std::string& what);

  const CodedValues& values() const { return values_; }
  const SegmentBody& body() const { return body_; }

 private:
  SharedDictionary(std::unique_ptr<Decoder> decoder, SegmentBody body,
                   const std::string& what)
      : decoder_(std::move(decoder)),
        values_(*decoder_, what, kMaxSharedBytes),
        body_(body) {}

  std::unique_ptr<Decoder> decoder_;
  CodedValues values_;
  SegmentBody body_;
};

// The writer's side. Values that were added for a segment are dropped unless
// the segment keeps this encoding. Not thread-safe.
class StreamDictionary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kMaxBytes = kMaxSharedBytes;
  static constexpr uint32_t kMaxValues = kSegmentValues;

  // `max_bytes` limits the total size of the values.
  explicit StreamDictionary(ValueType type, uint64_t max_bytes = kMaxBytes)
      : type_(type), max_bytes_(max_bytes) {}

  // Only values of this type can use the dictionary.
  const ValueType& type() const { return type_; }
  bool exists() const { return kept_ > 0; }
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // The code of each value, or kNone if the dictionary lacks it. Also the
  // number of missing values and their total size.
  struct ValueCodes {
    std::vector<uint32_t> codes;
    uint32_t missing = 0;
    uint64_t missing_bytes = 0;
  };
  ValueCodes find(const Values& values) const;
  bool has_room_for(const ValueCodes& value_codes) const {
    return value_codes.missing <= kMaxValues - size() &&
           value_codes.missing_bytes <= max_bytes_ - bytes_.size();
  }
  // Appends the missing values and sets their codes in *value_codes.
  void add(const Values& values, ValueCodes* value_codes);
  bool has_additions() const { return size() > kept_; }
  void keep_additions() { kept_ = size(); }
  void drop_additions() { drop_from(kept_); }
  // Drops all values from this code on.
  // REQUIRES: they are additions, not kept values.
  void drop_from(uint32_t code);

  // Encodes all values, in the order of their codes, as one segment.
  Status encode(Effort effort, SegmentBuilder* out) const;

 private:
  ByteSpan value(uint32_t code) const {
    const uint64_t begin = code == 0 ? 0 : ends_[code - 1];
    return {bytes_.data() + begin, static_cast<size_t>(ends_[code] - begin)};
  }
  // Returns the slot that has the value, or the free slot where it belongs.
  size_t slot_of(ByteSpan value) const;
  void index(uint32_t min_slots);

  ValueType type_;
  uint64_t max_bytes_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> ends_;   // of each value, in bytes_
  std::vector<uint32_t> slots_;  // codes, kNone if free
  uint32_t kept_ = 0;
};

}  // namespace nimble
