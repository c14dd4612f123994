// CodedValues: the values of a dictionary, looked up by code. A few values are
// read from their encoded form. If many are needed, all are decoded and kept.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble {

// Fixed-width values wider than this are not stored in dictionaries or runs.
inline constexpr uint32_t kMaxNestedWidth = 256;

// Codes are unsigned integers of 1, 2 or 4 bytes, each the index of a value in
// `values`. Thread-safe.
// REQUIRES: codes are below size(), which the caller has checked; `body` is the
// body of `values`.
class CodedValues {
 public:
  // Borrows `values`. `what` describes the values in errors. If it is empty,
  // the caller adds the context. Fails instead of decoding more than
  // `max_bytes` of values.
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
  // Estimated heap bytes that the values take when decoded.
  size_t decoded_bytes() const;

  Status decode_all(const SegmentBody& body) const;
  // Decodes the values and reserves memory in `out`, for a scan that will look
  // up `rows` of them.
  Status prepare(const SegmentBody& body, uint32_t rows,
                 const Output& out) const;
  // Looks up n codes of `width` bytes. Writes the values to `to`, or appends
  // strings to `out.bytes`.
  Status look_up(const SegmentBody& body, const uint8_t* codes, uint32_t width,
                 uint32_t n, const Output& out, uint8_t* to) const;
  // Like look_up(), but reads single values without decoding the others. For
  // few codes per call.
  Status look_up_few(const SegmentBody& body, const uint8_t* codes,
                     uint32_t width, uint32_t n, const Output& out,
                     uint8_t* to) const;
  // Returns the cheaper of look_up() and look_up_few() for this many rows.
  // Decoding a whole dictionary may cost more than reading single values.
  auto way_to_look_up(uint64_t rows) const {
    return are_few(rows) ? &CodedValues::look_up_few : &CodedValues::look_up;
  }
  // Reads one value as raw bits.
  // REQUIRES: values have a fixed width of at most 8 bytes.
  Status value(const SegmentBody& body, uint32_t code, uint64_t* out) const;
  // Translates `test`, applied to the first `count` values, into a test of
  // codes.
  Status test_of_codes(const SegmentBody& body, const Predicate& test,
                       const ValueType& codes, uint32_t count,
                       Predicate* out) const;

 private:
  struct Decoded;

  // Whether `rows` more rows are too few to make decoding all values
  // worthwhile. Always false if the values are decoded already.
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
  // Decoded on first use, and then kept.
  mutable std::atomic<const Decoded*> decoded_{nullptr};
  mutable std::atomic<uint64_t> taken_{0};  // values read before decoding
};

}  // namespace nimble
