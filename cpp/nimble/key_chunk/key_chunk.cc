#include "nimble/key_chunk/key_chunk.h"

#include "nimble/base/byte_reader.h"
#include "nimble/base/hash.h"

namespace nimble {
namespace {

constexpr size_t kChecksumSize = 8;

Status broken(const std::string& what) {
  return Status::corrupt("key chunk: " + what);
}

}  // namespace

Status KeyChunk::verify_checksum(ByteSpan bytes) {
  if (bytes.size() < kChecksumSize ||
      load<uint64_t>(bytes.data()) !=
          checksum64(bytes.subspan(kChecksumSize))) {
    return broken("checksum mismatch");
  }
  return Status::ok();
}

Result<KeyChunk> KeyChunk::open(ByteSpan bytes, uint32_t num_keys,
                                const KeySource* source, uint64_t first_row) {
  Result<KeyChunk> chunk{KeyChunk()};
  Status status = chunk->read(bytes, num_keys, source, first_row);
  if (!status) chunk = std::move(status);
  return chunk;
}

Status KeyChunk::read(ByteSpan bytes, uint32_t num_keys,
                      const KeySource* source, uint64_t first_row) {
  ByteReader in(bytes);
  in.get<uint64_t>();
  const uint8_t mode = in.get_u8();
  const uint64_t count = in.get_varint();
  prefix_ = in.get_sized();
  NIMBLE_RETURN_IF_ERROR(in.status("key chunk header"));
  if (count == 0 || count != num_keys) {
    return broken("it holds " + std::to_string(count) + " keys where " +
                  std::to_string(num_keys) + " are expected");
  }
  num_keys_ = num_stored_ = num_keys;
  const ByteSpan body = bytes.subspan(in.position());
  if (mode == static_cast<uint8_t>(KeyChunkMode::kSampled)) {
    return open_sampled(body, source, first_row);
  }
  return open_form(mode, body);
}

Status KeyChunk::open_form(uint8_t form, ByteSpan body) {
  if (form == static_cast<uint8_t>(KeyChunkMode::kFixed)) {
    mode_ = KeyChunkMode::kFixed;
    return open_fixed(body);
  }
  if (form == static_cast<uint8_t>(KeyChunkMode::kPrefix)) {
    mode_ = KeyChunkMode::kPrefix;
    return open_prefix(body);
  }
  return broken("unknown mode " + std::to_string(form));
}

Status KeyChunk::open_fixed(ByteSpan body) {
  ByteReader in(body);
  suffix_size_ = in.get_u8();
  width_ = in.get_u8();
  shift_ = in.get_u8();
  base_ = in.get<uint64_t>();
  slope_ = in.get<uint64_t>();
  NIMBLE_RETURN_IF_ERROR(in.status("fixed key chunk"));
  if (suffix_size_ > 8 || width_ > 64 || shift_ > 63) {
    return broken("a suffix of " + std::to_string(suffix_size_) +
                  " bytes, width " + std::to_string(width_) + ", shift " +
                  std::to_string(shift_));
  }
  // At most 2^32 * 64 bits, so this cannot overflow.
  if (in.remaining() != div_ceil(uint64_t{num_stored_} * width_, 8) + 8) {
    return broken("the packed values have the wrong size");
  }
  mask_ = width_ == 0 ? 0 : ~uint64_t{0} >> (64 - width_);
  if (slope_ != 0) {
    keys_per_unit_ = static_cast<double>(uint64_t{1} << shift_) /
                     static_cast<double>(slope_);
  }
  packed_ = body.data() + in.position();
  return Status::ok();
}

Status KeyChunk::open_prefix(ByteSpan body) {
  ByteReader in(body);
  const uint64_t interval = in.get_varint();
  offset_size_ = in.get_u8();
  entries_ = in.get_bytes(in.get<uint32_t>());
  NIMBLE_RETURN_IF_ERROR(in.status("prefix key chunk"));
  if (interval == 0 || interval > UINT32_MAX ||
      (offset_size_ != 2 && offset_size_ != 4)) {
    return broken("restart interval " + std::to_string(interval) +
                  ", offsets of " + std::to_string(offset_size_) + " bytes");
  }
  restart_interval_ = static_cast<uint32_t>(interval);
  num_restarts_ = static_cast<uint32_t>(div_ceil(num_stored_, interval));
  if (in.remaining() != uint64_t{num_restarts_} * offset_size_) {
    return broken("the restart offsets have the wrong size");
  }
  restarts_ = body.data() + in.position();
  return Status::ok();
}

int KeyChunk::compare_prefix(ByteSpan* target) const {
  const size_t n = std::min(target->size(), prefix_.size());
  const int c = n == 0 ? 0 : std::memcmp(target->data(), prefix_.data(), n);
  if (c != 0) return c;
  if (target->size() < prefix_.size()) return -1;
  *target = target->subspan(n);
  return 0;
}

Result<uint32_t> KeyChunk::lower_bound_from(uint32_t start,
                                            ByteSpan target) const {
  return step_ == 1 ? stored_lower_bound(start, target)
                    : sampled_lower_bound(start, target);
}

Result<uint32_t> KeyChunk::stored_lower_bound(uint32_t start, ByteSpan target,
                                              size_t* shared) const {
  if (start >= num_stored_) return num_stored_;
  const int c = compare_prefix(&target);
  if (c != 0) return c < 0 ? start : num_stored_;
  size_t more = 0;  // after the prefix
  uint32_t lower_bound = 0;
  if (mode_ == KeyChunkMode::kFixed) {
    lower_bound = fixed_lower_bound(start, target);
  } else {
    NIMBLE_ASSIGN_OR_RETURN(
        lower_bound,
        prefix_lower_bound(start, target, shared == nullptr ? nullptr : &more));
  }
  if (shared != nullptr && lower_bound > 0 && lower_bound < num_stored_) {
    *shared = prefix_.size() + more;
  }
  return lower_bound;
}

inline uint64_t KeyChunk::fixed_at(uint64_t i) const {
  const uint64_t bit = i * width_;
  const uint8_t* p = packed_ + bit / 8;
  const uint32_t skip = bit % 8;
  uint64_t v = load<uint64_t>(p) >> skip;
  // A value of more than 57 bits may extend into a ninth byte.
  if (width_ > 57) v |= static_cast<uint64_t>(p[8]) << 1 << (63 - skip);
  return base_ + ((slope_ * i) >> shift_) + (v & mask_);
}

void KeyChunk::narrow(uint64_t target, uint32_t* low, uint32_t* high) const {
  // Key i is in [line(i), line(i) + mask_] above base_. Widening by one key on
  // each side is enough, because the rounding error of the quotients is far
  // less than one key.
  const uint64_t x = target - base_;
  const double n = num_stored_;
  const double last = std::min(n, static_cast<double>(x) * keys_per_unit_ + 2);
  *high = std::min(*high, static_cast<uint32_t>(last));
  if (x > mask_) {
    const double first = static_cast<double>(x - mask_) * keys_per_unit_ - 1;
    if (first > 0) {
      *low = std::max(*low, static_cast<uint32_t>(std::min(n, first)));
    }
  }
}

bool KeyChunk::fixed_target(ByteSpan rest, uint64_t* target) const {
  const size_t have = std::min<size_t>(rest.size(), suffix_size_);
  const uint32_t unused = 64 - 8 * suffix_size_;
  *target = suffix_size_ > 0 ? head_of(rest.data(), have) >> unused : 0;
  if (rest.size() <= suffix_size_) return true;
  // The target is longer than the keys. Keys that are prefixes of the target
  // are below it, so the search looks for the next number.
  const uint64_t top = suffix_size_ == 0 ? 0 : ~uint64_t{0} >> unused;
  return (*target)++ != top;
}

uint32_t KeyChunk::fixed_lower_bound(uint32_t start, ByteSpan rest) const {
  uint64_t target = 0;
  if (!fixed_target(rest, &target)) return num_stored_;
  if (fixed_at(start) >= target) return start;
  if (fixed_at(num_stored_ - 1) < target) return num_stored_;
  uint32_t low = start + 1, high = num_stored_;
  if (slope_ != 0) {
    narrow(target, &low, &high);
  } else if (start > 0) {
    for (uint64_t step = 1; start + step < num_stored_; step *= 2) {
      if (fixed_at(start + step) >= target) {
        high = static_cast<uint32_t>(start + step);
        break;
      }
      low = static_cast<uint32_t>(start + step + 1);
    }
  }
  // Branchless: the number of steps depends on low and high, not on the keys.
  for (uint32_t n = high > low ? high - low : 0; n > 0;) {
    const uint32_t half = n - n / 2;
    low = fixed_at(low + half - 1) < target ? low + half : low;
    n -= half;
  }
  return low;
}

Result<bool> KeyChunk::stored_matches(uint32_t i, ByteSpan key) const {
  if (compare_prefix(&key) != 0) return false;
  if (mode_ == KeyChunkMode::kPrefix) return prefix_matches(i, key);
  uint64_t target = 0;
  if (key.size() != suffix_size_) return false;
  if (suffix_size_ == 0) return true;
  fixed_target(key, &target);
  return (fixed_at(i) ^ target) << (64 - 8 * suffix_size_) == 0;
}

void KeyChunk::prefetch(ByteSpan target) const {
  if (mode_ == KeyChunkMode::kPrefix) {
    // The search starts in the middle of the restarts. Typical chunks have two
    // cache lines of restarts.
    const uint64_t size = uint64_t{num_restarts_} * offset_size_;
    __builtin_prefetch(restarts_ + size / 4);
    __builtin_prefetch(restarts_ + size / 2);
    __builtin_prefetch(restarts_ + size / 4 * 3);
    return;
  }
  uint64_t number = 0;
  if (compare_prefix(&target) != 0 || !fixed_target(target, &number)) return;
  uint32_t low = 0, high = num_stored_;
  if (slope_ != 0) narrow(number, &low, &high);
  const uint8_t* first = packed_ + uint64_t{low} * width_ / 8;
  const uint8_t* last = packed_ + uint64_t{std::max(low, high)} * width_ / 8;
  __builtin_prefetch(first);
  if (last - first >= 64) __builtin_prefetch(first + (last - first) / 2);
  __builtin_prefetch(last);
}

Status KeyChunk::key_at(uint32_t i, ByteBuffer* key) const {
  if (i >= num_keys_) {
    return Status::invalid_argument("key " + std::to_string(i) +
                                    " of a chunk of " +
                                    std::to_string(num_keys_));
  }
  return step_ == 1 ? stored_key_at(i, key) : sampled_key_at(i, key);
}

Status KeyChunk::stored_key_at(uint32_t i, ByteBuffer* key) const {
  if (mode_ == KeyChunkMode::kPrefix) {
    return prefix_decode(i, i + 1, key, nullptr);
  }
  key->clear();
  key->put_bytes(prefix_);
  store_be(key->extend(suffix_size_), fixed_at(i), suffix_size_);
  return Status::ok();
}

Status KeyChunk::decode(uint32_t begin, uint32_t end, KeyBuffer* out) const {
  if (begin > end || end > num_keys_) {
    return Status::invalid_argument("the keys are outside the chunk");
  }
  if (begin == end) return Status::ok();
  if (step_ != 1) {
    return source_->read_keys(first_row_ + begin, first_row_ + end, out);
  }
  if (mode_ == KeyChunkMode::kPrefix) {
    ByteBuffer key;
    return prefix_decode(begin, end, &key, out);
  }
  const size_t size = prefix_.size() + suffix_size_;
  const size_t n = end - begin;
  if (out->fixed_width() == 0) {
    out->extend_sized(std::vector<uint64_t>(n, size).data(), n);
  } else if (out->fixed_width() == size) {
    out->extend_fixed(n);
  } else {
    return broken("its keys have " + std::to_string(size) +
                  " bytes instead of " + std::to_string(out->fixed_width()));
  }
  uint8_t* to = out->data() + out->num_bytes() - n * size;
  for (uint32_t i = begin; i < end; ++i, to += size) {
    if (size >= 8) {  // the prefix then overwrites the excess bytes
      store(to + size - 8, swap_bytes(fixed_at(i)));
    } else {
      store_be(to + prefix_.size(), fixed_at(i), suffix_size_);
    }
    if (!prefix_.empty()) std::memcpy(to, prefix_.data(), prefix_.size());
  }
  return Status::ok();
}

}  // namespace nimble
