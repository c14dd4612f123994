// Key chunks: the leaves of the cluster and sorted indexes. A chunk holds
// sorted encoded keys and finds the first one >= a target without being
// decoded. Two forms, the smaller is taken; where both are large, every n-th
// key only, the others being in the key columns. docs/format/key_chunks.md.
#pragma once

#include "nimble/base/result.h"
#include "nimble/index/key_source.h"
#include "nimble/key/key_buffer.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

enum class KeyChunkMode : uint8_t {
  kFixed = 1,    // integers around a line, bit-packed
  kPrefix = 2,   // front-coded byte strings with restart points
  kSampled = 3,  // every n-th key in one of these forms; required feature bit
};

struct KeyChunkOptions {
  uint32_t restart_interval = 16;
  bool allow_fixed = true;  // false only to test the other form
  // Of keys that take more than kMaxKeyBytes each, every n-th is stored, the
  // others are left to their columns; 0: never.
  uint32_t sample_step = 0;
};

// Bytes a key above which keys are worth sampling.
inline constexpr uint64_t kMaxKeyBytes = 3;
// A search reads up to so many keys from their columns.
inline constexpr uint32_t kMaxSampleStep = 1024;

// Appends a chunk of keys [begin, end): sorted, 1 to 2^24 of them, at most
// kMaxChunkBytes in all. True where they were sampled.
inline constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 31;
bool build_key_chunk(const KeyBuffer& keys, size_t begin, size_t end,
                     const KeyChunkOptions& options, ByteBuffer* out);

// The place of the first key that is not below a target: the number of keys
// where there is none.
struct FoundKey {
  uint32_t at = 0;
  bool is_equal = false;
};
// Keys [begin, end) of a sampled chunk: those between two stored ones. The
// answer of a search is one of them, or `end`.
struct KeyGap {
  uint32_t begin = 0;
  uint32_t end = 0;
  // So many bytes of the target both stored keys begin with, and so do all
  // between.
  size_t shared = 0;
};

// A view of a chunk's bytes, cheap to open for every lookup. Nothing in the
// bytes is trusted: whatever they hold, a call gives an answer or kCorrupt.
class KeyChunk {
 public:
  // Reads the header; `num_keys` is what the index says about the chunk. A
  // sampled chunk of file rows from `first_row` on asks `source`, which must
  // outlive it, for keys and is corrupt without one.
  static Result<KeyChunk> open(ByteSpan bytes, uint32_t num_keys,
                               const KeySource* source = nullptr,
                               uint64_t first_row = 0);
  // The checksum is verified once, when the bytes are first touched.
  static Status verify_checksum(ByteSpan bytes);

  uint32_t num_keys() const { return num_keys_; }
  // Of the stored keys: kFixed or kPrefix.
  KeyChunkMode mode() const { return mode_; }
  // Every so many keys are stored; 1: all.
  uint32_t step() const { return step_; }

  // Position of the first key >= target; num_keys() where there is none.
  Result<uint32_t> lower_bound(ByteSpan target) const {
    return lower_bound_from(0, target);
  }
  // The same, not before `start`: for targets in ascending order, `start`
  // being the answer for the previous one. Searches near `start` first.
  Result<uint32_t> lower_bound_from(uint32_t start, ByteSpan target) const;

  // Where `target` is or would be. `gap` is gap(target): a caller with other
  // things to do while the gap's bytes come asks for it earlier.
  Result<FoundKey> find(ByteSpan target, const KeyGap& gap) const {
    if (step_ > 1) return find_in_gap(gap, target);
    FoundKey out;
    NIMBLE_ASSIGN_OR_RETURN(out.at, stored_lower_bound(0, target));
    if (out.at == num_keys_) return out;
    NIMBLE_ASSIGN_OR_RETURN(out.is_equal, stored_matches(out.at, target));
    return out;
  }
  // Keys that a search for `target` has to look at and the chunk does not hold.
  Result<KeyGap> gap(ByteSpan target) const {
    return step_ == 1 ? KeyGap{} : sampled_gap(target);
  }
  // Tells the processor which of their bytes find() is about to need.
  void prefetch_gap(ByteSpan target, const KeyGap& gap) const;

  // Is key i, i < num_keys(), this one?
  Result<bool> matches(uint32_t i, ByteSpan key) const {
    return step_ == 1 ? stored_matches(i, key) : sampled_matches(i, key);
  }
  // Tells the processor which bytes lower_bound(target) is about to need.
  void prefetch(ByteSpan target) const;

  // Replaces *key by key i.
  Status key_at(uint32_t i, ByteBuffer* key) const;
  // Appends keys [begin, end). `out` must have offsets, or the keys' width.
  Status decode(uint32_t begin, uint32_t end, KeyBuffer* out) const;

 private:
  Status read(ByteSpan bytes, uint32_t num_keys, const KeySource* source,
              uint64_t first_row);
  Status open_form(uint8_t form, ByteSpan body);
  Status open_sampled(ByteSpan body, const KeySource* source,
                      uint64_t first_row);
  Result<KeyGap> sampled_gap(ByteSpan target) const;
  Result<FoundKey> find_in_gap(const KeyGap& gap, ByteSpan target) const;
  KeyGap gap_before(uint32_t sample) const;
  Result<bool> sampled_matches(uint32_t i, ByteSpan key) const;
  Result<uint32_t> sampled_lower_bound(uint32_t start, ByteSpan target) const;
  Status sampled_key_at(uint32_t i, ByteBuffer* key) const;
  // Of the stored keys. `shared`, unless null: how many bytes of the target the
  // key found and the one before it both begin with, at least; 0 where one of
  // them is missing.
  Result<uint32_t> stored_lower_bound(uint32_t start, ByteSpan target,
                                      size_t* shared = nullptr) const;
  Result<bool> stored_matches(uint32_t i, ByteSpan key) const;
  Status stored_key_at(uint32_t i, ByteBuffer* key) const;
  Status open_fixed(ByteSpan body);
  Status open_prefix(ByteSpan body);
  // Where target lies against the common prefix: -1 before all keys, 1 after
  // them, 0 when it begins with the prefix or is a part of it.
  int compare_prefix(ByteSpan* target) const;

  uint64_t fixed_at(uint64_t i) const;
  // The target, behind the common prefix, as a number to compare keys with;
  // false where it is above all that a key can be.
  bool fixed_target(ByteSpan rest, uint64_t* target) const;
  uint32_t fixed_lower_bound(uint32_t start, ByteSpan rest) const;
  // Narrows [*low, *high) around the first value >= target with the line.
  void narrow(uint64_t target, uint32_t* low, uint32_t* high) const;

  struct Entry {
    size_t shared;
    ByteSpan suffix;
  };
  // Reads the entry at *at and moves it behind; false where it is malformed.
  bool read_entry(size_t* at, Entry* entry) const;
  size_t restart_at(uint64_t i) const;
  // Sign of the key of a restart point against the target.
  bool compare_restart(uint64_t restart, ByteSpan rest, int* sign) const;
  bool find_restart(uint64_t from, ByteSpan rest, uint64_t* restart) const;
  Result<uint32_t> prefix_lower_bound(uint32_t start, ByteSpan rest,
                                      size_t* shared) const;
  Result<bool> prefix_matches(uint32_t i, ByteSpan rest) const;
  // Keys [begin, end) one after the other in *key, each appended to *out
  // where that is not null.
  Status prefix_decode(uint32_t begin, uint32_t end, ByteBuffer* key,
                       KeyBuffer* out) const;

  KeyChunkMode mode_ = KeyChunkMode::kFixed;
  uint32_t num_keys_ = 0;
  uint32_t num_stored_ = 0;
  ByteSpan prefix_;  // what all keys begin with

  // kSampled: keys 0, step, 2 * step ... are stored.
  uint32_t step_ = 1;
  const KeySource* source_ = nullptr;
  uint64_t first_row_ = 0;

  // kFixed: key i ends in base + (slope * i >> shift) + packed value i, as
  // suffix_size bytes, big-endian.
  uint32_t suffix_size_ = 0;
  uint32_t width_ = 0;
  uint32_t shift_ = 0;
  uint64_t base_ = 0;
  uint64_t slope_ = 0;
  uint64_t mask_ = 0;         // the largest packed value
  double keys_per_unit_ = 0;  // 2^shift / slope
  const uint8_t* packed_ = nullptr;

  // kPrefix
  uint32_t restart_interval_ = 1;
  uint32_t num_restarts_ = 0;
  uint32_t offset_size_ = 2;
  ByteSpan entries_;
  const uint8_t* restarts_ = nullptr;
};

}  // namespace nimble
