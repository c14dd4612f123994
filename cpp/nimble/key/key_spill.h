// Stores encoded keys in a format for temporary files. Only this process can
// read it.
#pragma once

#include <vector>

#include "nimble/base/byte_reader.h"
#include "nimble/key/key_buffer.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

// Appends the keys of the given rows.
inline void store_keys(const KeyBuffer& keys, const uint64_t* rows,
                       size_t count, ByteBuffer* out) {
  out->put<uint64_t>(keys.fixed_width());
  out->put<uint64_t>(count);
  for (size_t i = 0; i < count && keys.fixed_width() == 0; ++i) {
    out->put<uint64_t>(keys.key(rows[i]).size());
  }
  KeyBuffer stored(keys.fixed_width());
  stored.append_rows(keys, rows, count);
  out->put_bytes(stored.data(), stored.num_bytes());
}

// Appends stored keys.
// REQUIRES: `keys` is empty or has the same layout.
inline void load_keys(ByteReader* in, KeyBuffer* keys) {
  const auto width = static_cast<size_t>(in->get<uint64_t>());
  const auto count = static_cast<size_t>(in->get<uint64_t>());
  if (keys->empty()) keys->reset(width);
  const size_t at = keys->num_bytes();
  if (width != 0) {
    keys->extend_fixed(count);
  } else {
    std::vector<uint64_t> sizes(count);
    for (uint64_t& size : sizes) size = in->get<uint64_t>();
    keys->extend_sized(sizes.data(), count);
  }
  const ByteSpan bytes = in->get_bytes(keys->num_bytes() - at);
  if (!bytes.empty()) {
    std::memcpy(keys->data() + at, bytes.data(), bytes.size());
  }
}

}  // namespace nimble
