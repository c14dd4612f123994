// ClusterIndexWriter: takes the encoded keys of all rows in file order,
// verifies that order, and cuts them into key chunks and groups.
#pragma once

#include <functional>
#include <string>

#include "nimble/index/key_chunk.h"

namespace nimble {

struct ClusterIndexOptions {
  // A chunk ends with the key that fills either of these.
  uint32_t chunk_keys = 1024;
  uint64_t chunk_bytes = 256 << 10;  // of keys as they are
  KeyChunkOptions chunk;
  bool unique = false;
  // A key as text for messages; hex where there is none.
  std::function<std::string(ByteSpan)> describe;
};

struct KeyChunkInfo {
  uint64_t size = 0;  // bytes, without gaps between chunks
  uint32_t num_keys = 0;
};

// What one index group is made of.
struct GroupKeys {
  std::vector<KeyChunkInfo> chunks;
  ByteBuffer blob;  // the chunks, back to back
  // max(chunk i) <= boundaries[i] < min(chunk i + 1), or equal to both where
  // these are: chunk i may hold a target t only if t <= boundaries[i]. As short
  // as possible; the last one is the last key.
  KeyBuffer boundaries;
  ByteBuffer first_key;
  ByteBuffer last_key;
  uint64_t num_keys = 0;
  bool has_samples = false;  // a chunk does not hold all its keys
};

inline constexpr uint64_t kMaxKeySize = uint64_t{1} << 30;

class ClusterIndexWriter {
 public:
  explicit ClusterIndexWriter(ClusterIndexOptions options);

  // Keys [begin, end) belong to the next rows. Fails with kKeyOrder or
  // kDuplicateKey, naming both rows and keys, or kInvalidArgument where a key
  // is longer than kMaxKeySize; the writer is of no use then.
  Status add(const KeyBuffer& keys, size_t begin, size_t end);
  // Ends the group. Without keys since the last one: a group of no chunks.
  GroupKeys finish_group();

  uint64_t num_rows() const { return num_rows_; }

 private:
  Status check_sizes(const KeyBuffer& keys, size_t begin, size_t end) const;
  Status check_order(const KeyBuffer& keys, size_t begin, size_t end) const;
  Status order_error(uint64_t row, ByteSpan before, ByteSpan key) const;
  // End of the keys from `begin` on that the current chunk takes.
  size_t fill(const KeyBuffer& keys, size_t begin, size_t end,
              bool* full) const;
  void cut(const KeyBuffer& keys, size_t begin, size_t end);

  ClusterIndexOptions options_;
  uint64_t num_rows_ = 0;
  bool any_ = false;
  ByteBuffer last_;    // key of the last row of the file so far
  KeyBuffer pending_;  // keys of the chunk being filled
  GroupKeys group_;
};

// The shortest byte string s with a <= s < b, or a where a == b.
void separator(ByteSpan a, ByteSpan b, ByteBuffer* s);

// First i in (begin, end) whose key is below the one before it (with `strict`:
// not above it); end where there is none.
size_t find_disorder(const KeyBuffer& keys, size_t begin, size_t end,
                     bool strict);

}  // namespace nimble
