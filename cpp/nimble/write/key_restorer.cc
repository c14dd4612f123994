#include "nimble/write/key_restorer.h"

#include "nimble/key/key_decoder.h"
#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

// Number of rows whose keys are read again for each column. They fit in the
// cache.
constexpr size_t kRestoredRows = 1024;

// The unread parts of the keys of some rows.
struct UnreadKeys {
  const uint8_t* at[kRestoredRows];
  const uint8_t* ends[kRestoredRows];
  size_t count = 0;
};

Status malformed(const KeyColumn& c) {
  return Status::corrupt("key column '" + c.name + "': malformed key");
}

// Reads the null markers, and appends them to the validity of `out`.
Status read_markers(const KeyColumn& c, UnreadKeys* keys, Column* out) {
  const uint8_t valid = c.value_marker();
  uint64_t nulls = 0;
  uint8_t markers = 0;
  for (size_t i = 0; i < keys->count; ++i) {
    if (keys->at[i] == keys->ends[i]) return malformed(c);
    markers |= *keys->at[i];
    nulls += *keys->at[i] != valid;
  }
  if (markers > 1) return malformed(c);
  if (nulls > 0) out->ensure_validity();
  if (out->validity.size() > 0) {
    out->validity.resize((out->length() + keys->count) / 8 + 1);
    for (size_t i = 0; i < keys->count; ++i) {
      put_bit(out->validity.data(), out->length() + i, *keys->at[i] == valid);
    }
  }
  out->add_nulls(nulls);
  for (size_t i = 0; i < keys->count; ++i) ++keys->at[i];
  return Status::ok();
}

// Reads an escaped string and its terminator from *at, which is below `end`.
// Reads and writes words, which may extend past both ends. Returns false if the
// string has no terminator.
bool read_string(uint8_t inversion, const uint8_t** at, const uint8_t* end,
                 uint8_t** out) {
  const uint64_t inversions = inversion != 0 ? ~uint64_t{0} : 0;
  const uint8_t* from = *at;
  uint8_t* to = *out;
  while (from < end) {
    const uint64_t word = load<uint64_t>(from) ^ inversions;
    store<uint64_t>(to, word);
    const uint64_t low = low_bytes(word);
    const size_t plain =
        low == 0 ? sizeof word : static_cast<size_t>(std::countr_zero(low)) / 8;
    from += plain;
    to += plain;
    if (low == 0) continue;
    if (from >= end) return false;
    if (*from++ == inversion) {
      *at = from;
      *out = to;
      return true;
    }
    *to++ = *from++ ^ inversion;
  }
  return false;
}

Status read_strings(const KeyColumn& c, UnreadKeys* keys, Column* out) {
  uint64_t most = 0;
  for (size_t i = 0; i < keys->count; ++i) {
    most += static_cast<uint64_t>(keys->ends[i] - keys->at[i]);
  }
  const uint64_t first = out->bytes.add_values(keys->count);
  const uint64_t before = out->bytes.data.size();
  out->bytes.data.reserve(before + most + sizeof(uint64_t));
  uint8_t* const base = out->bytes.data.data();
  uint8_t* to = base + before;
  for (size_t i = 0; i < keys->count; ++i) {
    if (out->is_valid(out->length() + i) &&
        !read_string(c.inversion(), &keys->at[i], keys->ends[i], &to)) {
      return malformed(c);
    }
    out->bytes.set_end(first + i, static_cast<uint64_t>(to - base));
  }
  out->bytes.data.resize(static_cast<size_t>(to - base));
  return Status::ok();
}

Status check_width(const KeyColumn& c, const UnreadKeys& keys) {
  for (size_t i = 0; i < keys.count; ++i) {
    if (keys.ends[i] - keys.at[i] < static_cast<std::ptrdiff_t>(c.width)) {
      return malformed(c);
    }
  }
  return Status::ok();
}

template <class U>
void read_integers(const KeyColumn& c, UnreadKeys* keys, uint8_t* out) {
  const U sign = c.kind == KeyKind::kSigned ? kSignBit<U> : U{0};
  const U flip = c.order.descending ? static_cast<U>(~sign) : sign;
  for (size_t i = 0; i < keys->count; ++i) {
    const U bits = swap_bytes(load<U>(keys->at[i]));
    store<U>(out + i * sizeof(U), static_cast<U>(bits ^ flip));
    keys->at[i] += sizeof(U);
  }
}

// Null slots repeat the previous value, like those of Column::append().
void repeat_at_nulls(const Column& column, size_t count, uint8_t* values) {
  const uint32_t width = column.field().width;
  for (size_t i = 0; i < count; ++i) {
    if (column.is_valid(column.length() + i)) continue;
    uint8_t* const value = values + i * width;
    if (i == 0 && column.length() == 0) {
      std::memset(value, 0, width);
    } else {
      std::memcpy(value, value - width, width);
    }
  }
}

Status read_fixed(const KeyColumn& c, UnreadKeys* keys, Column* out) {
  NIMBLE_RETURN_IF_ERROR(check_width(c, *keys));
  const uint64_t row = out->length();
  if (c.kind == KeyKind::kBool) {
    uint8_t* const bits = out->extend_bits(keys->count);
    for (size_t i = 0; i < keys->count; ++i) {
      uint8_t value = 0;
      if (out->is_valid(row + i)) {
        NIMBLE_RETURN_IF_ERROR(decode_fixed(c, keys->at[i], &value));
      }
      put_bit(bits, row + i, value != 0);
      ++keys->at[i];
    }
    return Status::ok();
  }
  uint8_t* const values = out->extend_values(keys->count);
  const bool is_integer =
      c.kind == KeyKind::kSigned || c.kind == KeyKind::kUnsigned;
  if (is_integer && c.width == 8) {
    read_integers<uint64_t>(c, keys, values);
  } else if (is_integer && c.width == 4) {
    read_integers<uint32_t>(c, keys, values);
  } else {
    for (size_t i = 0; i < keys->count; ++i) {
      if (out->is_valid(row + i)) {
        NIMBLE_RETURN_IF_ERROR(
            decode_fixed(c, keys->at[i], values + i * c.width));
      }
      keys->at[i] += c.width;
    }
  }
  if (out->validity.size() > 0) repeat_at_nulls(*out, keys->count, values);
  return Status::ok();
}

}  // namespace

std::optional<KeyRestorer> KeyRestorer::create(const Field& schema,
                                               const KeyEncoder& encoder) {
  if (encoder.columns().size() != schema.children.size()) return std::nullopt;
  for (const KeyColumn& c : encoder.columns()) {
    if (c.path.size() != 1 || c.kind == KeyKind::kFloat) return std::nullopt;
    const Field& field = schema.children[static_cast<size_t>(c.path.front())];
    const bool is_plain =
        c.kind == KeyKind::kBytes ? field.layout == Layout::kBytes
        : c.kind == KeyKind::kBool
            ? field.layout == Layout::kBool
            : field.layout == Layout::kFixed && field.width == c.width;
    if (!is_plain) return std::nullopt;
  }
  KeyRestorer out;
  out.columns_ = encoder.columns();
  return out;
}

Status KeyRestorer::append(const KeyBuffer& keys, size_t begin, size_t end,
                           Column* root) const {
  UnreadKeys unread;
  for (size_t at = begin; at < end; at += unread.count) {
    unread.count = std::min(kRestoredRows, end - at);
    for (size_t i = 0; i < unread.count; ++i) {
      const ByteSpan key = keys.key(at + i);
      unread.at[i] = key.data();
      unread.ends[i] = key.data() + key.size();
    }
    for (const KeyColumn& c : columns_) {
      Column* const out = &root->children[static_cast<size_t>(c.path.front())];
      NIMBLE_RETURN_IF_ERROR(read_markers(c, &unread, out));
      NIMBLE_RETURN_IF_ERROR(c.is_fixed() ? read_fixed(c, &unread, out)
                                          : read_strings(c, &unread, out));
      out->add_rows(unread.count);
    }
  }
  root->add_rows(end - begin);
  return Status::ok();
}

}  // namespace nimble
