// ClusterIndexWriter: receives the encoded keys of all rows in file order,
// verifies the order, and cuts the keys into key chunks and groups. Not
// thread-safe.
#pragma once

#include <functional>
#include <string>

#include "nimble/key_chunk/key_chunk.h"

namespace nimble {

// Options of a ClusterIndexWriter.
struct ClusterIndexOptions {
  // A chunk ends with the key that reaches one of these limits.
  uint32_t chunk_keys = 1024;
  uint64_t chunk_bytes = 256 << 10;  // of unencoded keys
  KeyChunkOptions chunk;
  bool unique = false;
  // Formats a key for error messages. If empty, keys are shown in hex.
  std::function<std::string(ByteSpan)> describe;
};

// Size and number of keys of a chunk.
struct KeyChunkInfo {
  uint64_t size = 0;  // bytes, without gaps between chunks
  uint32_t num_keys = 0;
};

// The keys of one index group.
struct GroupKeys {
  std::vector<KeyChunkInfo> chunks;
  ByteBuffer blob;  // the chunks, one after the other
  // max(chunk i) <= boundaries[i] < min(chunk i + 1), or all three are equal.
  // Chunk i may hold a target t only if t <= boundaries[i]. Boundaries are as
  // short as possible; the last boundary is the last key.
  KeyBuffer boundaries;
  ByteBuffer first_key;
  ByteBuffer last_key;
  uint64_t num_keys = 0;
  bool has_samples = false;  // some chunk stores only sampled keys
};

inline constexpr uint64_t kMaxKeySize = uint64_t{1} << 30;

class ClusterIndexWriter {
 public:
  explicit ClusterIndexWriter(ClusterIndexOptions options);

  // Adds keys [begin, end), which belong to the next rows. Fails with kKeyOrder
  // or kDuplicateKey, naming both rows and keys, or with kInvalidArgument if a
  // key is longer than kMaxKeySize. The writer cannot be used after an error.
  Status add(const KeyBuffer& keys, size_t begin, size_t end);
  // Ends the group and returns it. Without new keys, the group has no chunks.
  GroupKeys finish_group();

  uint64_t num_rows() const { return num_rows_; }

 private:
  Status check_sizes(const KeyBuffer& keys, size_t begin, size_t end) const;
  Status check_order(const KeyBuffer& keys, size_t begin, size_t end) const;
  Status order_error(uint64_t row, ByteSpan before, ByteSpan key) const;
  // Returns the end of the keys from `begin` on that fit in the current chunk.
  size_t fill(const KeyBuffer& keys, size_t begin, size_t end,
              bool* full) const;
  void cut(const KeyBuffer& keys, size_t begin, size_t end);

  ClusterIndexOptions options_;
  uint64_t num_rows_ = 0;
  bool any_ = false;
  ByteBuffer last_;    // the file's last key so far
  KeyBuffer pending_;  // keys of the unfinished chunk
  GroupKeys group_;
};

// The shortest byte string s with a <= s < b, or a if a == b.
// REQUIRES: a <= b.
void separator(ByteSpan a, ByteSpan b, ByteBuffer* s);

// Returns the first i in (begin, end) whose key is below its predecessor or, if
// `strict`, equal to it. Returns end if the keys are in order.
size_t find_disorder(const KeyBuffer& keys, size_t begin, size_t end,
                     bool strict);

}  // namespace nimble
