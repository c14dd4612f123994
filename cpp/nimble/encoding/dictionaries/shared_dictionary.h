// A dictionary that segments of a stream share: values of the column, stored
// once before the footer, of which each segment has codes. The first segment
// that gains by one begins it, later ones add what it lacks.
#pragma once

#include <memory>
#include <vector>

#include "nimble/encoding/dictionaries/coded_values.h"

namespace nimble {

// Of all values. A scan keeps them decoded, and the writer to the end.
inline constexpr uint64_t kMaxSharedBytes = 8u << 20;

// As a reader has it.
class SharedDictionary {
 public:
  // Of `count` values of `type`. `body` is stable, and as good as this; `what`
  // is told where it is damaged.
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

// As the writer of a stream has it. What a segment adds is dropped again unless
// the segment is kept.
class StreamDictionary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kMaxBytes = kMaxSharedBytes;
  static constexpr uint32_t kMaxValues = kSegmentValues;

  // Of at most `max_bytes` of values.
  explicit StreamDictionary(ValueType type, uint64_t max_bytes = kMaxBytes)
      : type_(type), max_bytes_(max_bytes) {}

  // What a segment's values must be of to be its values.
  const ValueType& type() const { return type_; }
  bool exists() const { return kept_ > 0; }
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // The code of each value, kNone for those that it lacks; how many these are
  // and their bytes.
  struct Found {
    std::vector<uint32_t> codes;
    uint32_t missing = 0;
    uint64_t missing_bytes = 0;
  };
  Found find(const Values& values) const;
  bool has_room_for(const Found& found) const {
    return found.missing <= kMaxValues - size() &&
           found.missing_bytes <= max_bytes_ - bytes_.size();
  }
  // Gives the values that it lacks their codes.
  void add(const Values& values, Found* found);
  bool has_additions() const { return size() > kept_; }
  void keep_additions() { kept_ = size(); }
  void drop_additions() { drop_from(kept_); }
  // Those from this code on, all of which are additions.
  void drop_from(uint32_t code);

  // All values, by their codes, as one segment.
  Status encode(Effort effort, SegmentBuilder* out) const;

 private:
  ByteSpan value(uint32_t code) const {
    const uint64_t begin = code == 0 ? 0 : ends_[code - 1];
    return {bytes_.data() + begin, static_cast<size_t>(ends_[code] - begin)};
  }
  // Where the value is or belongs.
  size_t slot_of(ByteSpan value) const;
  void index(uint32_t min_slots);

  ValueType type_;
  uint64_t max_bytes_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> ends_;   // of each value
  std::vector<uint32_t> slots_;  // codes, kNone where free
  uint32_t kept_ = 0;
};

}  // namespace nimble
