// LevelRuns: random access to Parquet's hybrid of run-length and bit-packed
// integers, which stores levels, booleans and dictionary codes. Keeps a
// directory of the runs, not the values. Borrows the bytes. Immutable.
#pragma once

#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble::parquet {

class LevelRuns {
 public:
  static constexpr size_t kMaxRuns = 1u << 22;

  LevelRuns() = default;
  // Parses `count` values of `width` bits. `counted` is the value that rank()
  // counts. Fails with kUnsupported for more than kMaxRuns runs, because these
  // are short and need a large directory.
  // REQUIRES: width <= 32. 8 bytes after `bytes` are readable; they may be read
  // but are not used.
  static Result<LevelRuns> parse(ByteSpan bytes, uint32_t width, uint64_t count,
                                 uint32_t counted);
  // Returns `count` values that all equal `value`.
  static LevelRuns constant(uint32_t value, uint64_t count, uint32_t counted);

  uint64_t size() const { return count_; }
  // Number of values that equal `counted`.
  uint64_t num_counted() const { return num_counted_; }
  uint64_t memory_bytes() const { return runs_.capacity() * sizeof(Run); }

  struct Found {
    uint32_t value;
    uint64_t rank;  // how many values before this one equal `counted`
  };
  // A cursor over ascending positions.
  class Cursor {
   public:
    explicit Cursor(const LevelRuns& runs) : runs_(&runs) {}
    // REQUIRES: position < size(). It is not below the position of the previous
    // call.
    uint32_t value_at(uint64_t position) {
      return runs_->value_in(seek(position), position);
    }
    Found find(uint64_t position);

   private:
    size_t seek(uint64_t position);

    const LevelRuns* runs_;
    size_t run_ = 0;
    uint64_t counted_to_ = 0;  // end of the values of run run_ that are counted
    uint64_t counted_ = 0;     // number of these values that equal `counted`
    size_t counted_run_ = SIZE_MAX;
  };

 private:
  struct Run {
    uint64_t first;         // position of its first value
    uint64_t rank;          // values before it that equal `counted`
    const uint8_t* packed;  // null: all values are `value`
    uint32_t value;
  };

  uint64_t end_of(size_t run) const {
    return run + 1 < runs_.size() ? runs_[run + 1].first : count_;
  }
  uint32_t packed_value(const uint8_t* packed, uint64_t i) const {
    const uint64_t bit = i * width_;
    return static_cast<uint32_t>(
        (load<uint64_t>(packed + bit / 8) >> (bit % 8)) &
        ((uint64_t{1} << width_) - 1));
  }
  uint32_t value_in(size_t run, uint64_t position) const {
    const Run& r = runs_[run];
    return r.packed == nullptr ? r.value
                               : packed_value(r.packed, position - r.first);
  }
  // Returns how many of values [begin, end) of a packed run equal `counted`.
  uint64_t count_packed(const uint8_t* packed, uint64_t begin,
                        uint64_t end) const;

  std::vector<Run> runs_;
  uint64_t count_ = 0;
  uint64_t num_counted_ = 0;
  uint32_t width_ = 0;
  uint32_t counted_value_ = 0;
};

}  // namespace nimble::parquet
