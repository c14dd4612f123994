#include "nimble/base/hash.h"
#include "nimble/index/key_chunk.h"

namespace nimble {
namespace {

// Fixed chunks this narrow are taken without trying the other form, which
// needs about two bytes a key; wider ones must not be more than an eighth
// larger: they are searched several times faster.
constexpr uint32_t kSurelySmall = 16;

void put_header(KeyChunkMode mode, size_t num_keys, ByteSpan prefix,
                ByteBuffer* out) {
  out->put<uint64_t>(0);  // the checksum comes last
  out->put_u8(static_cast<uint8_t>(mode));
  out->put_varint(num_keys);
  out->put_sized(prefix);
}

// The keys as numbers near a line; see KeyChunk::fixed_at.
struct FixedPlan {
  size_t key_size = 0;
  size_t suffix_size = 0;
  uint32_t width = 0;
  uint32_t shift = 0;
  uint64_t base = 0;
  uint64_t slope = 0;
  std::vector<uint64_t> values;

  uint64_t line(size_t i) const { return (slope * i) >> shift; }
};

// Do all keys have one size? They are back to back, so a size is a stride.
bool same_size(const KeyBuffer& keys, size_t begin, size_t end) {
  if (keys.fixed_width() != 0) return true;
  const uint64_t size = keys.key(begin).size();
  for (size_t i = begin; i < end; ++i) {
    if (keys.offset(i + 1) - keys.offset(i) != size) return false;
  }
  return true;
}

void load_suffixes(const uint8_t* keys, size_t n, FixedPlan* plan) {
  plan->values.resize(n);
  const size_t size = plan->key_size, suffix = plan->suffix_size;
  if (suffix == 0) return;
  if (size >= 8) {
    const uint64_t mask = ~uint64_t{0} >> (64 - 8 * suffix);
    const uint8_t* p = keys + size - 8;
    for (size_t i = 0; i < n; ++i) {
      plan->values[i] = load_be64(p + i * size) & mask;
    }
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* p = keys + i * size + size - suffix;
    plan->values[i] = head_of(p, suffix) >> (64 - 8 * suffix);
  }
}

// Chooses the horizontal line or the one through the first and last key.
void fit_line(FixedPlan* plan) {
  const std::vector<uint64_t>& v = plan->values;
  const size_t n = v.size();
  const uint64_t span = v[n - 1] - v[0];
  plan->base = v[0];
  plan->width = bit_width_of(span);
  // Below 2^62 the distances from the line fit an int64.
  if (n < 2 || plan->width == 0 || plan->width > 62) return;
  FixedPlan sloped;
  sloped.shift = std::min<uint32_t>(32, 64 - plan->width);
  sloped.slope = (span << sloped.shift) / (n - 1);
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto d = static_cast<int64_t>(v[i] - v[0] - sloped.line(i));
    low = std::min(low, d);
    high = std::max(high, d);
  }
  const uint32_t width =
      bit_width_of(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  if (width >= plan->width) return;
  plan->width = width;
  plan->shift = sloped.shift;
  plan->slope = sloped.slope;
  plan->base += static_cast<uint64_t>(low);
}

// False where the keys are not of one size or differ in more than 8 bytes.
bool plan_fixed(const KeyBuffer& keys, size_t begin, size_t end, size_t shared,
                FixedPlan* plan) {
  plan->key_size = keys.key(begin).size();
  if (plan->key_size - shared > 8 || !same_size(keys, begin, end)) return false;
  plan->suffix_size = plan->key_size - shared;
  load_suffixes(keys.key(begin).data(), end - begin, plan);
  fit_line(plan);
  return true;
}

uint64_t packed_size(uint64_t num_keys, uint64_t width) {
  return div_ceil(num_keys * width, 8) + 8;
}

void put_fixed(const FixedPlan& plan, ByteSpan prefix, ByteBuffer* out) {
  const size_t n = plan.values.size();
  put_header(KeyChunkMode::kFixed, n, prefix, out);
  out->put_u8(static_cast<uint8_t>(plan.suffix_size));
  out->put_u8(static_cast<uint8_t>(plan.width));
  out->put_u8(static_cast<uint8_t>(plan.shift));
  out->put(plan.base);
  out->put(plan.slope);
  uint8_t* to = out->extend(packed_size(n, plan.width));
  const uint32_t width = plan.width;
  if (width == 0) return;
  uint64_t word = 0;
  uint32_t filled = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t v = plan.values[i] - plan.base - plan.line(i);
    word |= v << filled;
    filled += width;
    if (filled < 64) continue;
    store(to, word);
    to += 8;
    filled -= 64;
    word = filled == 0 ? 0 : v >> (width - filled);
  }
  store(to, word);  // the padding leaves room
}

// A length below 15 fits its half of the token; the rest follows as varint.
uint8_t half_token(size_t length) {
  return static_cast<uint8_t>(std::min<size_t>(length, 15));
}

void put_prefix(const KeyBuffer& keys, size_t begin, size_t end, size_t shared,
                uint32_t interval, ByteBuffer* out) {
  put_header(KeyChunkMode::kPrefix, end - begin,
             keys.key(begin).first(shared), out);
  ByteBuffer entries;
  entries.reserve((end - begin) * 16);
  std::vector<uint64_t> restarts;
  ByteSpan last;
  for (size_t i = begin; i < end; ++i) {
    const ByteSpan key = keys.key(i).subspan(shared);
    size_t same = 0;
    if ((i - begin) % interval == 0) {
      restarts.push_back(entries.size());
    } else {
      same = shared_prefix(last, key);
    }
    const ByteSpan suffix = key.subspan(same);
    entries.put_u8(static_cast<uint8_t>(half_token(same) << 4 |
                                        half_token(suffix.size())));
    if (same >= 15) entries.put_varint(same - 15);
    if (suffix.size() >= 15) entries.put_varint(suffix.size() - 15);
    entries.put_bytes(suffix);
    last = key;
  }
  const uint8_t offset_size = entries.size() <= 0xffff ? 2 : 4;
  out->put_varint(interval);
  out->put_u8(offset_size);
  out->put_sized(entries.span());
  for (const uint64_t offset : restarts) {
    if (offset_size == 2) {
      out->put(static_cast<uint16_t>(offset));
    } else {
      out->put(static_cast<uint32_t>(offset));
    }
  }
}

}  // namespace

void build_key_chunk(const KeyBuffer& keys, size_t begin, size_t end,
                     const KeyChunkOptions& options, ByteBuffer* out) {
  const size_t at = out->size();
  const uint32_t interval = std::max<uint32_t>(1, options.restart_interval);
  const ByteSpan first = keys.key(begin);
  const size_t shared = shared_prefix(first, keys.key(end - 1));
  FixedPlan plan;
  const bool fixed = options.allow_fixed &&
                     plan_fixed(keys, begin, end, shared, &plan);
  if (fixed && plan.width <= kSurelySmall) {
    put_fixed(plan, first.first(shared), out);
  } else {
    put_prefix(keys, begin, end, shared, interval, out);
    const uint64_t size = out->size() - at;
    if (fixed && packed_size(end - begin, plan.width) <= size + size / 8) {
      out->resize(at);
      put_fixed(plan, first.first(shared), out);
    }
  }
  const ByteSpan body = out->span().subspan(at + 8);
  store(out->data() + at, checksum64(body));
}

}  // namespace nimble
