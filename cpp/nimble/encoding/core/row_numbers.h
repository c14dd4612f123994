// RowNumbers: 8-byte numbers of up to one block of rows, column by column.
// Encodings that assemble strings decode their children into it.
#pragma once

#include <algorithm>
#include <iterator>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

class RowNumbers {
 public:
  // Few rows need no heap allocation.
  RowNumbers(size_t columns, size_t rows)
      : stride_(std::min<size_t>(rows, kBlockValues) + 8), data_(few_) {
    if (columns * stride_ <= std::size(few_)) return;
    buffer_.resize(columns * stride_ * 8);
    data_ = buffer_.as<uint64_t>();
  }
  RowNumbers(const RowNumbers&) = delete;
  RowNumbers& operator=(const RowNumbers&) = delete;

  Output output(size_t column) {
    Output out;
    out.data = reinterpret_cast<uint8_t*>(data_ + column * stride_);
    return out;
  }
  // Row i of column c is data()[c * stride() + i].
  const uint64_t* data() const { return data_; }
  size_t stride() const { return stride_; }

 private:
  size_t stride_;  // 64 bytes more than the rows: children may overshoot
  uint64_t* data_;
  uint64_t few_[48];
  AlignedBuffer buffer_;
};

}  // namespace nimble
