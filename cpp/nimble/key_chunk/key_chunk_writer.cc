#include "nimble/base/bit_packing.h"
#include "nimble/base/hash.h"
#include "nimble/key_chunk/key_chunk.h"

namespace nimble {
namespace {

// If the values of a fixed chunk have at most this many bits, the prefix form
// is not considered, because it takes about two bytes per key. Fixed chunks
// with wider values may be an eighth larger than the prefix form, because they
// are searched several times faster.
constexpr uint32_t kSurelySmall = 16;

void put_header(KeyChunkMode mode, size_t num_keys, ByteSpan prefix,
                ByteBuffer* out) {
  out->put<uint64_t>(0);  // the checksum is filled in last
  out->put_u8(static_cast<uint8_t>(mode));
  out->put_varint(num_keys);
  out->put_sized(prefix);
}

// The plan for the fixed form: keys as numbers near a line.
// docs/format/key_chunks.md.
struct FixedPlan {
  size_t key_size = 0;
  size_t suffix_size = 0;
  uint32_t width = 0;
  uint32_t shift = 0;
  uint64_t base = 0;
  uint64_t slope = 0;
  uint64_t least = 0;             // smallest offset, added to base
  std::vector<uint64_t> values;   // suffixes as numbers
  std::vector<uint64_t> offsets;  // from the first key and line, modulo 2^64
};

// Whether all keys have the same size. Keys are adjacent, so their offsets are
// enough to check.
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

// Chooses a horizontal line, or the line through the first and the last key.
void fit_line(FixedPlan* plan) {
  const std::vector<uint64_t>& v = plan->values;
  const size_t n = v.size();
  const uint64_t first = v[0], span = v[n - 1] - first;
  plan->base = first;
  plan->width = bit_width_of(span);
  plan->offsets.resize(n);
  // If values span less than 2^62, distances from the line fit in an int64.
  if (n > 1 && plan->width > 0 && plan->width <= 62) {
    const uint32_t shift = std::min<uint32_t>(32, 64 - plan->width);
    const uint64_t slope = (span << shift) / (n - 1);
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t d = v[i] - first - ((slope * i) >> shift);
      plan->offsets[i] = d;
      low = std::min(low, static_cast<int64_t>(d));
      high = std::max(high, static_cast<int64_t>(d));
    }
    const uint32_t width =
        bit_width_of(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
    if (width < plan->width) {
      plan->width = width;
      plan->shift = shift;
      plan->slope = slope;
      plan->least = static_cast<uint64_t>(low);
      plan->base += plan->least;
      return;
    }
  }
  for (size_t i = 0; i < n; ++i) plan->offsets[i] = v[i] - first;
}

// Returns false if keys have different sizes or differ in more than 8 bytes.
bool plan_fixed(const KeyBuffer& keys, size_t begin, size_t end, size_t shared,
                FixedPlan* plan) {
  plan->key_size = keys.key(begin).size();
  if (plan->key_size - shared > 8 || !same_size(keys, begin, end)) return false;
  plan->suffix_size = plan->key_size - shared;
  load_suffixes(keys.key(begin).data(), end - begin, plan);
  fit_line(plan);
  return true;
}

// Size of the entries in the prefix form, except for a few bytes of header.
uint64_t prefix_form_size(const FixedPlan& plan, uint32_t interval) {
  const std::vector<uint64_t>& v = plan.values;
  uint64_t size = 0;
  for (size_t i = 1; i < v.size(); ++i) {
    size += 1 + div_ceil(bit_width_of(v[i] ^ v[i - 1]), 8);
  }
  // A restart point stores its whole suffix and has an offset.
  return size + div_ceil(v.size(), interval) * (plan.suffix_size + 2);
}

// Size of the entries in the fixed form. The last entry is loaded as eight
// bytes.
uint64_t fixed_form_size(const FixedPlan& plan) {
  return packed_bytes(plan.values.size(), plan.width) + 8;
}

bool takes_fixed(const FixedPlan& plan, uint32_t interval) {
  if (plan.width <= kSurelySmall) return true;
  const uint64_t other = prefix_form_size(plan, interval);
  return fixed_form_size(plan) <= other + other / 8;
}

void put_fixed(const FixedPlan& plan, ByteBuffer* out) {
  const size_t n = plan.values.size();
  out->put_u8(static_cast<uint8_t>(plan.suffix_size));
  out->put_u8(static_cast<uint8_t>(plan.width));
  out->put_u8(static_cast<uint8_t>(plan.shift));
  out->put(plan.base);
  out->put(plan.slope);
  uint8_t* to = out->extend(fixed_form_size(plan));
  const uint32_t width = plan.width;
  if (width == 0) return;
  uint64_t word = 0;
  uint32_t filled = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t v = plan.offsets[i] - plan.least;
    word |= v << filled;
    filled += width;
    if (filled < 64) continue;
    store(to, word);
    to += 8;
    filled -= 64;
    word = filled == 0 ? 0 : v >> (width - filled);
  }
  store(to, word);  // the padding has room for it
}

// A length below 15 fits in half of the token. Larger lengths continue in a
// varint.
uint8_t half_token(size_t length) {
  return static_cast<uint8_t>(std::min<size_t>(length, 15));
}

// Writes the token, the rest of large lengths, and the suffix. Returns the end.
uint8_t* put_entry(uint8_t* to, size_t same, ByteSpan suffix) {
  const size_t size = suffix.size();
  *to++ = static_cast<uint8_t>(half_token(same) << 4 | half_token(size));
  for (const size_t length : {same, size}) {
    if (length < 15) continue;
    size_t rest = length - 15;
    for (; rest >= 0x80; rest >>= 7) *to++ = static_cast<uint8_t>(rest | 0x80);
    *to++ = static_cast<uint8_t>(rest);
  }
  if (size > 0) std::memcpy(to, suffix.data(), size);
  return to + size;
}

void put_prefix(const KeyBuffer& keys, size_t begin, size_t end, size_t shared,
                uint32_t interval, ByteBuffer* out) {
  out->put_varint(interval);
  const size_t sizes_at = out->size();
  out->extend(5);                           // sizes, filled in at the end
  constexpr size_t kMostExtra = 1 + 2 * 5;  // per entry, besides its bytes
  const size_t entries_at = out->size();
  uint8_t* const entries = out->extend(keys.offset(end) - keys.offset(begin) +
                                       (end - begin) * kMostExtra);
  uint8_t* to = entries;
  std::vector<uint32_t> restarts;
  ByteSpan last;
  for (size_t i = begin; i < end; ++i) {
    const ByteSpan key = keys.key(i).subspan(shared);
    size_t same = 0;
    if ((i - begin) % interval == 0) {
      restarts.push_back(static_cast<uint32_t>(to - entries));
    } else {
      same = shared_prefix(last, key);
    }
    to = put_entry(to, same, key.subspan(same));
    last = key;
  }
  const auto size = static_cast<uint32_t>(to - entries);
  out->resize(entries_at + size);
  const uint8_t offset_size = size <= 0xffff ? 2 : 4;
  out->data()[sizes_at] = offset_size;
  store<uint32_t>(out->data() + sizes_at + 1, size);
  for (const uint32_t offset : restarts) {
    out->put_bytes(&offset, offset_size);
  }
}

// A chunk form for keys [begin, end), with their common prefix.
struct Form {
  Form(const KeyBuffer& keys, size_t begin, size_t end,
       const KeyChunkOptions& options)
      : keys_(keys),
        begin_(begin),
        end_(end),
        shared_(shared_prefix(keys.key(begin), keys.key(end - 1))),
        interval_(std::max<uint32_t>(1, options.restart_interval)) {
    is_fixed_ = options.allow_fixed &&
                plan_fixed(keys, begin, end, shared_, &plan_) &&
                takes_fixed(plan_, interval_);
  }

  KeyChunkMode mode() const {
    return is_fixed_ ? KeyChunkMode::kFixed : KeyChunkMode::kPrefix;
  }
  ByteSpan prefix() const { return keys_.key(begin_).first(shared_); }
  void put_body(ByteBuffer* out) const {
    if (is_fixed_) return put_fixed(plan_, out);
    put_prefix(keys_, begin_, end_, shared_, interval_, out);
  }

 private:
  const KeyBuffer& keys_;
  size_t begin_, end_;
  size_t shared_;
  uint32_t interval_;
  FixedPlan plan_;
  bool is_fixed_ = false;
};

void put_sampled(const KeyBuffer& keys, size_t begin, size_t end,
                 const KeyChunkOptions& options, ByteBuffer* out) {
  KeyBuffer samples(keys.fixed_width());
  for (size_t i = begin; i < end; i += options.sample_step) {
    samples.push_back(keys.key(i));
  }
  const Form form(samples, 0, samples.size(), options);
  put_header(KeyChunkMode::kSampled, end - begin, form.prefix(), out);
  out->put_varint(options.sample_step);
  out->put_u8(static_cast<uint8_t>(form.mode()));
  form.put_body(out);
}

// With fewer stored keys than this, reading keys from columns is not
// worthwhile.
constexpr size_t kMinSamples = 4;

}  // namespace

bool build_key_chunk(const KeyBuffer& keys, size_t begin, size_t end,
                     const KeyChunkOptions& options, ByteBuffer* out) {
  const size_t at = out->size();
  const size_t n = end - begin;
  {
    const Form form(keys, begin, end, options);
    put_header(form.mode(), n, form.prefix(), out);
    form.put_body(out);
  }
  const bool sampled = options.sample_step > 1 &&
                       n >= kMinSamples * options.sample_step &&
                       out->size() - at > n * kMaxKeyBytes;
  if (sampled) {
    out->resize(at);
    put_sampled(keys, begin, end, options, out);
  }
  const ByteSpan body = out->span().subspan(at + 8);
  store(out->data() + at, checksum64(body));
  return sampled;
}

}  // namespace nimble
