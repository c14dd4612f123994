// PageValues: the values of a Parquet page by position, without nulls.
// Dictionary codes and bit-packed values are decoded when they are read. Delta
// encodings are decoded when the page is opened. Immutable.
#pragma once

#include <memory>
#include <vector>

#include "nimble/memory/aligned_buffer.h"
#include "nimble/parquet/level_runs.h"
#include "nimble/parquet/metadata.h"

namespace nimble::parquet {

// How values are stored, and how they become Arrow values.
struct ValueSpec {
  Physical physical = Physical::kInt32;
  uint32_t width = 0;  // stored bytes of fixed-width values
};

class PageValues {
 public:
  // Opens `count` values. `bytes` belong to memory that the caller keeps, and
  // are followed by 64 readable bytes. Codes refer to `dictionary`, which may
  // be null. Fails with kUnsupported for encodings that another reader must
  // decode.
  static Result<PageValues> open(PageEncoding encoding, const ValueSpec& spec,
                                 ByteSpan bytes, uint64_t count,
                                 std::shared_ptr<const PageValues> dictionary);

  uint64_t size() const { return count_; }
  uint64_t memory_bytes() const;

  // Reads values at ascending positions.
  class Cursor {
   public:
    explicit Cursor(const PageValues& values)
        : values_(&values), runs_(values.runs_) {}
    // REQUIRES for all functions: position < size(). It is not below the
    // position of the previous call.
    bool get_bool(uint64_t position);
    // Returns false if a code is outside the dictionary.
    bool get_bytes(uint64_t position, ByteSpan* out);
    // Copies `width` bytes to `out`. Returns false if a code is outside the
    // dictionary.
    bool get_fixed(uint64_t position, uint8_t* out);

   private:
    const PageValues* values_;
    LevelRuns::Cursor runs_;
  };

 private:
  enum class Kind : uint8_t {
    kFixed,     // values at base_, width_ apart
    kBits,      // bits at base_
    kSplit,     // byte i of all values at base_ + i * count_
    kPrefixed,  // byte strings after their lengths, at starts_
    kStrings,   // byte strings from starts_[i] to starts_[i + 1]
    kCodes,     // runs_ into dictionary_
    kRuns,      // booleans in runs_
  };

  Status open_plain(ByteSpan bytes);
  Status open_prefixed(ByteSpan bytes);
  Status open_codes(ByteSpan bytes);
  Status open_deltas(ByteSpan bytes);
  Status open_delta_lengths(ByteSpan bytes);
  Status open_delta_strings(ByteSpan bytes);
  bool is_bytes() const {
    return spec_.physical == Physical::kByteArray ||
           spec_.physical == Physical::kFixedByteArray;
  }
  ByteSpan string_at(uint64_t i) const;

  ValueSpec spec_;
  Kind kind_ = Kind::kFixed;
  uint64_t count_ = 0;
  const uint8_t* base_ = nullptr;
  std::vector<uint32_t> starts_;
  LevelRuns runs_;
  std::shared_ptr<const PageValues> dictionary_;
  AlignedBuffer decoded_;
};

}  // namespace nimble::parquet
