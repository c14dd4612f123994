#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {
namespace {

// Whether one of the bytes of `codes` is 0xff.
template <class Word>
bool has_escape(Word codes) {
  constexpr Word kOnes = static_cast<Word>(0x0101010101010101ull);
  return ((~codes - kOnes) & codes & (kOnes << 7)) != 0;
}

}  // namespace

void FsstTable::write(ByteBuffer* head) const {
  std::array<uint8_t, 8> of_length{};
  for (uint32_t c = 0; c < count_; ++c) ++of_length[lengths_[c] - 1u];
  head->put_bytes(of_length.data(), of_length.size());
  for (uint32_t c = 0; c < count_; ++c) {
    uint8_t symbol[8];
    store(symbol, bytes_[c]);
    head->put_bytes(symbol, lengths_[c]);
  }
}

Result<FsstTable> FsstTable::open(ByteReader* head) {
  FsstTable out;
  const ByteSpan of_length = head->get_bytes(8);
  NIMBLE_RETURN_IF_ERROR(head->status("symbol table"));
  uint32_t count = 0;
  for (const uint8_t n : of_length) count += n;
  if (count > kFsstMaxSymbols) {
    return Status::corrupt("symbol table of " + std::to_string(count) +
                           " symbols; at most 255 are possible");
  }
  for (uint32_t length = 1; length <= 8; ++length) {
    for (uint32_t i = 0; i < of_length[length - 1]; ++i) {
      const ByteSpan bytes = head->get_bytes(length);
      if (!head->ok()) return head->status("symbol table");
      FsstSymbol symbol{0, length};
      std::memcpy(&symbol.bytes, bytes.data(), length);
      out.add(symbol);
    }
  }
  return out;
}

uint64_t FsstTable::written_size() const {
  uint64_t size = 8;
  for (uint32_t c = 0; c < count_; ++c) size += lengths_[c];
  return size;
}

uint8_t* FsstTable::decompress(const uint8_t* codes, const uint8_t* end,
                               uint8_t* out) const {
  const uint64_t* const bytes = bytes_.data();
  const uint8_t* const lengths = lengths_.data();
  const auto put = [&](uint32_t code) {
    store(out, bytes[code]);
    out += lengths[code];
  };
  while (end - codes >= 4) {
    const uint32_t four = load<uint32_t>(codes);
    if (has_escape(four)) {
      // Decodes up to and including the first escape, which may be the fourth
      // code.
      while (*codes != kFsstEscape) put(*codes++);
      if (end - codes < 2) return nullptr;
      *out++ = codes[1];
      codes += 2;
      continue;
    }
    put(four & 0xff);
    put((four >> 8) & 0xff);
    put((four >> 16) & 0xff);
    put(four >> 24);
    codes += 4;
  }
  while (codes < end) {
    if (*codes != kFsstEscape) {
      put(*codes++);
      continue;
    }
    if (end - codes < 2) return nullptr;
    *out++ = codes[1];
    codes += 2;
  }
  return out;
}

bool FsstTable::decompress_together(const uint8_t* codes, uint64_t n,
                                    uint8_t* out, uint32_t* positions) const {
  const uint64_t* const bytes = bytes_.data();
  const uint8_t* const lengths = lengths_.data();
  uint64_t at = 0;
  const auto put = [&](uint64_t i, uint64_t code) {
    positions[i] = static_cast<uint32_t>(at);
    store(out + at, bytes[code]);
    at += lengths[code];
  };
  for (uint64_t i = 0; i < n;) {
    if (n - i >= 8) {
      const uint64_t eight = load<uint64_t>(codes + i);
      if (!has_escape(eight)) {
        for (uint32_t k = 0; k < 8; ++k) put(i + k, (eight >> (8 * k)) & 0xff);
        i += 8;
        continue;
      }
    }
    // Decodes up to the next escape, or to the end.
    for (; i < n && codes[i] != kFsstEscape; ++i) put(i, codes[i]);
    if (i == n) break;
    if (n - i < 2) return false;
    positions[i] = static_cast<uint32_t>(at);
    positions[i + 1] = kInEscape;
    out[at++] = codes[i + 1];
    i += 2;
  }
  positions[n] = static_cast<uint32_t>(at);
  return true;
}

uint64_t FsstTable::decompress_plain(const uint8_t* codes, uint64_t n,
                                     uint8_t* out, uint32_t* fourths) const {
  const uint64_t* const bytes = bytes_.data();
  const uint8_t* const lengths = lengths_.data();
  uint8_t* to = out;
  const auto put = [&](uint64_t code) {
    store(to, bytes[code]);
    to += lengths[code];
  };
  const auto mark = [&](uint64_t i) {
    fourths[i / 4] = static_cast<uint32_t>(to - out);
  };
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t eight = load<uint64_t>(codes + i);
    mark(i);
    for (uint32_t k = 0; k < 4; ++k) put((eight >> (8 * k)) & 0xff);
    mark(i + 4);
    for (uint32_t k = 4; k < 8; ++k) put((eight >> (8 * k)) & 0xff);
  }
  for (; i < n; ++i) {
    if (i % 4 == 0) mark(i);
    put(codes[i]);
  }
  if (n % 4 == 0) mark(n);
  return static_cast<uint64_t>(to - out);
}

uint64_t FsstTable::decompressed_size(const uint8_t* codes,
                                      const uint8_t* end) const {
  uint64_t size = 0;
  while (codes < end) {
    const bool escape = *codes == kFsstEscape;
    size += escape ? 1 : lengths_[*codes];
    codes += escape ? 2 : 1;
  }
  return size;
}

}  // namespace nimble
