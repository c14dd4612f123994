// The front-coded form of key chunks (KeyChunkMode::kPrefix).
#include "nimble/key_chunk/key_chunk.h"

namespace nimble {
namespace {

Status malformed(uint64_t i) {
  return Status::corrupt("key chunk: entry " + std::to_string(i) +
                         " is malformed");
}

// Adds the varint at *at to *length. Returns false if it is not complete or if
// the sum is above 2^32 - 1.
bool add_varint(ByteSpan bytes, size_t* at, size_t* length) {
  uint64_t v = 0;
  for (uint32_t shift = 0; shift < 35; shift += 7) {
    if (*at >= bytes.size()) return false;
    const uint8_t b = bytes[(*at)++];
    v |= static_cast<uint64_t>(b & 0x7f) << shift;
    if (b < 0x80) {
      *length += v;
      return v <= UINT32_MAX;
    }
  }
  return false;
}

// Returns the number of leading bytes that a key shares with the target. Its
// predecessor shares `matched` bytes, and `suffix` follows these bytes in the
// key.
size_t match(ByteSpan suffix, ByteSpan target, size_t matched) {
  return matched + shared_prefix(suffix, target.subspan(matched));
}

}  // namespace

inline bool KeyChunk::read_entry(size_t* at, Entry* entry) const {
  size_t p = *at;
  if (p >= entries_.size()) return false;
  const uint8_t token = entries_[p++];
  size_t shared = token >> 4, size = token & 15;
  if (shared == 15 && !add_varint(entries_, &p, &shared)) return false;
  if (size == 15 && !add_varint(entries_, &p, &size)) return false;
  if (size > entries_.size() - p) return false;
  entry->shared = shared;
  entry->suffix = {entries_.data() + p, size};
  *at = p + size;
  return true;
}

inline size_t KeyChunk::restart_at(uint64_t i) const {
  return offset_size_ == 2 ? load<uint16_t>(restarts_ + 2 * i)
                           : load<uint32_t>(restarts_ + 4 * i);
}

bool KeyChunk::compare_restart(uint64_t restart, ByteSpan rest,
                               int* sign) const {
  size_t at = restart_at(restart);
  Entry entry;
  if (!read_entry(&at, &entry) || entry.shared != 0) return false;
  *sign = compare_bytes(entry.suffix, rest);
  return true;
}

bool KeyChunk::find_restart(uint64_t from, ByteSpan rest,
                            uint64_t* restart) const {
  uint64_t low = from, high = num_restarts_;
  int sign = 0;
  if (from > 0) {  // targets ascend, so the result is probably near
    for (uint64_t step = 1; low < high; step *= 2) {
      const uint64_t probe = std::min<uint64_t>(from + step - 1, high - 1);
      if (!compare_restart(probe, rest, &sign)) return false;
      if (sign >= 0) {
        high = probe;
        break;
      }
      low = probe + 1;
    }
  }
  while (low < high) {
    const uint64_t mid = low + (high - low) / 2;
    if (!compare_restart(mid, rest, &sign)) return false;
    if (sign < 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  *restart = low;
  return true;
}

Result<uint32_t> KeyChunk::prefix_lower_bound(uint32_t start, ByteSpan rest,
                                              size_t* shared) const {
  const uint64_t from = start / restart_interval_;
  uint64_t restart = 0;
  if (!find_restart(from, rest, &restart)) return malformed(start);
  if (restart == from) return start;
  // The previous restart is below the target, so the scan starts there.
  // Compares the length that a key shares with its predecessor to the length
  // that the predecessor shares with the target. If they differ, the order is
  // known without comparing bytes.
  uint64_t i = (restart - 1) * restart_interval_;
  const uint64_t end = std::min<uint64_t>(num_stored_, i + restart_interval_);
  size_t at = restart_at(restart - 1);
  // number of bytes of the target that the predecessor and key i begin with
  size_t matched = 0, equal_bytes = 0;
  for (; i < end; ++i) {
    Entry entry;
    if (!read_entry(&at, &entry)) return malformed(i);
    if (entry.shared > matched) continue;  // still below the target
    equal_bytes = entry.shared;
    if (entry.shared < matched) break;  // above the target
    equal_bytes = match(entry.suffix, rest, matched);
    const size_t used = equal_bytes - matched;
    if (equal_bytes == rest.size()) break;  // begins with the target
    if (used < entry.suffix.size() && entry.suffix[used] > rest[equal_bytes])
      break;
    matched = equal_bytes;
  }
  if (shared != nullptr) {
    if (i == end && restart < num_restarts_) {
      at = restart_at(restart);
      Entry entry;
      if (!read_entry(&at, &entry)) return malformed(i);
      equal_bytes = shared_prefix(entry.suffix, rest);
    }
    *shared = std::min(matched, equal_bytes);
  }
  return std::max(start, static_cast<uint32_t>(i));
}

Result<bool> KeyChunk::prefix_matches(uint32_t i, ByteSpan rest) const {
  const uint64_t restart = i / restart_interval_;
  size_t at = restart_at(restart);
  // The size of the last key, and the number of bytes it shares with `rest`.
  size_t matched = 0, size = 0;
  for (uint64_t k = restart * restart_interval_; k <= i; ++k) {
    Entry entry;
    if (!read_entry(&at, &entry) || entry.shared > size) return malformed(k);
    size = entry.shared + entry.suffix.size();
    if (entry.shared > matched) continue;
    matched = match(entry.suffix, rest, entry.shared);
  }
  return size == rest.size() && matched == size;
}

Status KeyChunk::prefix_decode(uint32_t begin, uint32_t end, ByteBuffer* key,
                               KeyBuffer* out) const {
  const uint64_t restart = begin / restart_interval_;
  size_t at = restart_at(restart);
  key->clear();
  key->put_bytes(prefix_);
  for (uint64_t i = restart * restart_interval_; i < end; ++i) {
    Entry entry;
    if (!read_entry(&at, &entry) ||
        entry.shared > key->size() - prefix_.size()) {
      return malformed(i);
    }
    key->resize(prefix_.size() + entry.shared);
    key->put_bytes(entry.suffix);
    if (out == nullptr || i < begin) continue;
    if (out->fixed_width() != 0 && out->fixed_width() != key->size()) {
      return malformed(i);
    }
    out->push_back(key->span());
  }
  return Status::ok();
}

}  // namespace nimble
