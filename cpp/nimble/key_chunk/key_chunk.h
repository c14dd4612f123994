// Key chunks: the leaves of the cluster and sorted indexes. A chunk has sorted
// encoded keys and finds the first key >= a target without decoding all keys. A
// chunk has the smaller one of two forms. If both are large, the chunk stores
// only every n-th key. The other keys are read from the key columns.
// docs/format/key_chunks.md.
#pragma once

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"
#include "nimble/key_chunk/key_source.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

enum class KeyChunkMode : uint8_t {
  kFixed = 1,   // integers near a line, bit-packed
  kPrefix = 2,  // front-coded strings with restart points
  // every n-th key, in one of the forms above; sets a required feature bit
  kSampled = 3,
};

// Options of build_key_chunk().
struct KeyChunkOptions {
  uint32_t restart_interval = 16;
  bool allow_fixed = true;  // false only for tests of the other form
  // If keys take more than kMaxKeyBytes each, only every sample_step-th key is
  // stored. If 0, all keys are stored.
  uint32_t sample_step = 0;
};

// Keys larger than this, in bytes, are worth sampling.
inline constexpr uint64_t kMaxKeyBytes = 3;
// Maximum step. A search reads up to this many keys from their columns.
inline constexpr uint32_t kMaxSampleStep = 1024;

// Appends a chunk of keys [begin, end) to `out`. Returns true if the keys were
// sampled.
// REQUIRES: the keys are sorted; there are 1 to 2^24 keys, with at most
// kMaxChunkBytes in total.
inline constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 31;
bool build_key_chunk(const KeyBuffer& keys, size_t begin, size_t end,
                     const KeyChunkOptions& options, ByteBuffer* out);

// The position of the first key >= a target, or the number of keys if all keys
// are below the target.
struct FoundKey {
  uint32_t at = 0;
  bool is_equal = false;
};
// Keys [begin, end) of a sampled chunk, which are between two stored keys. The
// result of a search is the position of one of them, or `end`.
struct KeyGap {
  uint32_t begin = 0;
  uint32_t end = 0;
  // All keys of the gap begin with the first `shared` bytes of the target,
  // because both stored keys do.
  size_t shared = 0;
};

// A view of a chunk's bytes, cheap to open for each lookup. Damaged bytes cause
// a wrong result or kCorrupt, but not an invalid access. Thread-safe. Sampled
// chunks may block on a read of their source.
class KeyChunk {
 public:
  // Reads the header. `num_keys` is the number of keys according to the index.
  // A sampled chunk reads keys that it does not store from `source`, which must
  // outlive it. Its first key is the key of file row `first_row`. A sampled
  // chunk without a source is corrupt.
  static Result<KeyChunk> open(ByteSpan bytes, uint32_t num_keys,
                               const KeySource* source = nullptr,
                               uint64_t first_row = 0);
  // Verifies the checksum. Callers do this once, when the bytes are first
  // accessed.
  static Status verify_checksum(ByteSpan bytes);

  uint32_t num_keys() const { return num_keys_; }
  // The form of the stored keys: kFixed or kPrefix.
  KeyChunkMode mode() const { return mode_; }
  // Every step-th key is stored; 1: all keys.
  uint32_t step() const { return step_; }

  // Returns the position of the first key >= target, or num_keys() if all keys
  // are below the target.
  Result<uint32_t> lower_bound(ByteSpan target) const {
    return lower_bound_from(0, target);
  }
  // Like lower_bound(), but the result is at least `start`, and the search
  // begins near `start`. For ascending targets: `start` is the result for the
  // previous target.
  Result<uint32_t> lower_bound_from(uint32_t start, ByteSpan target) const;

  // Returns the position of `target`, or the position where it would be. `gap`
  // is gap(target). A caller may compute the gap earlier, and do other work
  // while the gap's bytes are prefetched.
  Result<FoundKey> find(ByteSpan target, const KeyGap& gap) const {
    if (step_ > 1) return find_in_gap(gap, target);
    FoundKey out;
    NIMBLE_ASSIGN_OR_RETURN(out.at, stored_lower_bound(0, target));
    if (out.at == num_keys_) return out;
    NIMBLE_ASSIGN_OR_RETURN(out.is_equal, stored_matches(out.at, target));
    return out;
  }
  // Returns the keys that a search for `target` needs and that the chunk does
  // not store.
  Result<KeyGap> gap(ByteSpan target) const {
    return step_ == 1 ? KeyGap{} : sampled_gap(target);
  }
  // Prefetches the bytes of the gap's keys that find() accesses first.
  void prefetch_gap(ByteSpan target, const KeyGap& gap) const;

  // Whether key i equals `key`.
  // REQUIRES: i < num_keys().
  Result<bool> matches(uint32_t i, ByteSpan key) const {
    return step_ == 1 ? stored_matches(i, key) : sampled_matches(i, key);
  }
  // Prefetches the bytes that lower_bound(target) accesses first.
  void prefetch(ByteSpan target) const;

  // Replaces *key by key i.
  Status key_at(uint32_t i, ByteBuffer* key) const;
  // Appends keys [begin, end).
  // REQUIRES: `out` has offsets, or the keys' width.
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
  // These functions use stored keys only. If `shared` is not null, it receives
  // a number of bytes of the target: both the key found and its predecessor
  // begin with at least these bytes. It receives 0 if one of the two keys does
  // not exist.
  Result<uint32_t> stored_lower_bound(uint32_t start, ByteSpan target,
                                      size_t* shared = nullptr) const;
  Result<bool> stored_matches(uint32_t i, ByteSpan key) const;
  Status stored_key_at(uint32_t i, ByteBuffer* key) const;
  Status open_fixed(ByteSpan body);
  Status open_prefix(ByteSpan body);
  // Compares the target with the common prefix. Returns -1 if the target is
  // before all keys and 1 if it is after all keys. Returns 0 if the target
  // begins with the prefix or is a prefix of it.
  int compare_prefix(ByteSpan* target) const;

  uint64_t fixed_at(uint64_t i) const;
  // Converts the part of the target after the common prefix to a number that
  // can be compared with the keys' numbers. Returns false if all possible keys
  // are below the target.
  bool fixed_target(ByteSpan rest, uint64_t* target) const;
  uint32_t fixed_lower_bound(uint32_t start, ByteSpan rest) const;
  // Narrows [*low, *high) around the first value >= target. The line gives the
  // approximate position.
  void narrow(uint64_t target, uint32_t* low, uint32_t* high) const;

  struct Entry {
    size_t shared;
    ByteSpan suffix;
  };
  // Reads the entry at *at and advances *at. Returns false if the entry is
  // malformed.
  bool read_entry(size_t* at, Entry* entry) const;
  size_t restart_at(uint64_t i) const;
  // Compares the key of a restart point with the target.
  bool compare_restart(uint64_t restart, ByteSpan rest, int* sign) const;
  bool find_restart(uint64_t from, ByteSpan rest, uint64_t* restart) const;
  Result<uint32_t> prefix_lower_bound(uint32_t start, ByteSpan rest,
                                      size_t* shared) const;
  Result<bool> prefix_matches(uint32_t i, ByteSpan rest) const;
  // Decodes keys [begin, end) one after the other in *key. If `out` is not
  // null, appends each key to it.
  Status prefix_decode(uint32_t begin, uint32_t end, ByteBuffer* key,
                       KeyBuffer* out) const;

  KeyChunkMode mode_ = KeyChunkMode::kFixed;
  uint32_t num_keys_ = 0;
  uint32_t num_stored_ = 0;
  ByteSpan prefix_;  // common to all keys

  // kSampled: keys 0, step, 2 * step, ... are stored.
  uint32_t step_ = 1;
  const KeySource* source_ = nullptr;
  uint64_t first_row_ = 0;

  // kFixed: the suffix of key i is base + (slope * i >> shift) + packed value
  // i, as suffix_size big-endian bytes.
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
