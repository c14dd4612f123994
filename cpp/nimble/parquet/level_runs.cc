#include "nimble/parquet/level_runs.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/base/byte_reader.h"

namespace nimble::parquet {

Result<LevelRuns> LevelRuns::parse(ByteSpan bytes, uint32_t width,
                                   uint64_t count, uint32_t counted) {
  if (width == 0) return constant(0, count, counted);
  LevelRuns out;
  out.width_ = width;
  out.count_ = count;
  out.counted_value_ = counted;
  ByteReader in(bytes);
  uint64_t done = 0;
  while (done < count) {
    const uint64_t head = in.get_varint();
    Run run{done, out.num_counted_, nullptr, 0};
    uint64_t length = head >> 1;
    if ((head & 1) == 0) {
      length = std::min(length, count - done);
      const ByteSpan value = in.get_bytes((width + 7) / 8);
      for (size_t i = 0; i < value.size(); ++i) {
        run.value |= static_cast<uint32_t>(value[i]) << (8 * i);
      }
      if (run.value == counted) out.num_counted_ += length;
    } else {
      // A run has groups of 8 values. Some writers end the last group early.
      if (length > (count - done) / 8 + 1) length = (count - done) / 8 + 1;
      const uint64_t groups = length;
      length = std::min(8 * groups, count - done);
      run.packed = bytes.data() + in.position();
      const uint64_t size = std::min<uint64_t>(groups * width, in.remaining());
      if (size < div_ceil(length * width, 8)) in.fail();
      in.get_bytes(size);
      if (in.ok()) {
        out.num_counted_ += out.count_packed(run.packed, 0, length);
      }
    }
    if (!in.ok() || length == 0) {
      return Status::corrupt("Parquet levels end after " +
                             std::to_string(done) + " of " +
                             std::to_string(count) + " values");
    }
    if (out.runs_.size() == kMaxRuns) {
      return Status::unsupported("Parquet page: more than " +
                                 std::to_string(kMaxRuns) +
                                 " runs of levels or codes");
    }
    out.runs_.push_back(run);
    done += length;
  }
  return out;
}

LevelRuns LevelRuns::constant(uint32_t value, uint64_t count,
                              uint32_t counted) {
  LevelRuns out;
  out.count_ = count;
  out.counted_value_ = counted;
  out.num_counted_ = value == counted ? count : 0;
  if (count > 0) out.runs_.push_back({0, 0, nullptr, value});
  return out;
}

uint64_t LevelRuns::count_packed(const uint8_t* packed, uint64_t begin,
                                 uint64_t end) const {
  if (begin >= end || uint64_t{counted_value_} >> width_ != 0) return 0;
  if (width_ == 1 && counted_value_ <= 1) {
    const uint64_t ones = count_bits(packed, begin, end - begin);
    return counted_value_ == 1 ? ones : end - begin - ones;
  }
  uint64_t n = 0;
  for (uint64_t i = begin; i < end; ++i) {
    n += packed_value(packed, i) == counted_value_ ? 1 : 0;
  }
  return n;
}

size_t LevelRuns::Cursor::seek(uint64_t position) {
  const auto& runs = runs_->runs_;
  for (int step = 0; step < 4; ++step) {
    if (position < runs_->end_of(run_)) return run_;
    ++run_;
  }
  const auto after = std::upper_bound(
      runs.begin() + static_cast<std::ptrdiff_t>(run_), runs.end(), position,
      [](uint64_t p, const Run& r) { return p < r.first; });
  run_ = static_cast<size_t>(after - runs.begin()) - 1;
  return run_;
}

LevelRuns::Found LevelRuns::Cursor::find(uint64_t position) {
  const size_t at = seek(position);
  const Run& run = runs_->runs_[at];
  const uint64_t within = position - run.first;
  if (run.packed == nullptr) {
    const bool counts = run.value == runs_->counted_value_;
    return {run.value, run.rank + (counts ? within : 0)};
  }
  if (counted_run_ != at) {
    counted_run_ = at;
    counted_to_ = counted_ = 0;
  }
  counted_ += runs_->count_packed(run.packed, counted_to_, within);
  counted_to_ = within;
  return {runs_->packed_value(run.packed, within), run.rank + counted_};
}

}  // namespace nimble::parquet
