// CodedValues: the values of a dictionary, looked up by their codes. A few are
// taken from where they are stored; all are decoded where many are wanted, and
// kept.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {

// Wider fixed values are not put in dictionaries or runs.
inline constexpr uint32_t kMaxNestedWidth = 256;

// Codes are unsigned integers of 1, 2 or 4 bytes, checked: each is a value's
// place among `values`, which must outlive this. `body` is that of `values`.
// Safe to share between threads.
class CodedValues {
 public:
  // `what` they are is told where they are damaged; empty: the caller tells.
  // More than `max_bytes` of values are not decoded, but refused.
  explicit CodedValues(const Decoder& values, std::string what = {},
                       uint64_t max_bytes = UINT64_MAX)
      : values_(values), what_(std::move(what)), max_bytes_(max_bytes) {}
  ~CodedValues();
  CodedValues(const CodedValues&) = delete;
  CodedValues& operator=(const CodedValues&) = delete;

  const Decoder& decoder() const { return values_; }
  uint32_t size() const { return values_.size(); }
  bool are_decoded() const {
    return decoded_.load(std::memory_order_acquire) != nullptr;
  }
  // Heap bytes that they take once they are decoded, by a guess.
  size_t decoded_bytes() const;

  Status decode_all(const SegmentBody& body) const;
  // Decodes them for a scan that is about to look `rows` of them up.
  Status prepare(const SegmentBody& body, uint32_t rows,
                 const Output& out) const;
  // The values of n codes of `width` bytes, to `to` or appended to `out.bytes`.
  Status look_up(const SegmentBody& body, const uint8_t* codes, uint32_t width,
                 uint32_t n, const Output& out, uint8_t* to) const;
  // The same without decoding the rest, where the codes of a call are few.
  Status look_up_few(const SegmentBody& body, const uint8_t* codes,
                     uint32_t width, uint32_t n, const Output& out,
                     uint8_t* to) const;
  // Whichever of them costs less for so many rows: decoding all of a dictionary
  // may cost more than they do.
  auto way_to_look_up(uint64_t rows) const {
    return are_few(rows) ? &CodedValues::look_up_few : &CodedValues::look_up;
  }
  // The bits of one value of a fixed width of up to 8 bytes.
  Status value(const SegmentBody& body, uint32_t code, uint64_t* out) const;
  // The test of codes that `test` of the first `count` values comes down to.
  Status test_of_codes(const SegmentBody& body, const Predicate& test,
                       const ValueType& codes, uint32_t count,
                       Predicate* out) const;

 private:
  struct Decoded;

  // Of values that are not decoded: are so many more still too few to decode
  // them all for?
  bool are_few(uint64_t rows) const;
  Status decode_into(const SegmentBody& body, Decoded* out) const;
  Status too_large(uint64_t bytes) const;
  Status load(const SegmentBody& body, const Decoded** out) const;
  Status told(Status status) const {
    if (status || what_.empty()) return status;
    return std::move(status).with_context(what_);
  }

  const Decoder& values_;
  const std::string what_;
  const uint64_t max_bytes_;
  // Decoded when first needed, kept as long as this.
  mutable std::atomic<const Decoded*> decoded_{nullptr};
  mutable std::atomic<uint64_t> taken_{0};  // values, before that
};

}  // namespace nimble
