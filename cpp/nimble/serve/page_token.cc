#include "nimble/serve/page_token.h"

#include <algorithm>

#include "nimble/base/bytes.h"
#include "nimble/base/sha256.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {
namespace {

constexpr uint8_t kTokenVersion = 1;
constexpr size_t kTokenHeader = 1 + 3 * sizeof(uint64_t);
constexpr size_t kMacBytes = 16;
constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string to_base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k <= n; ++k) {
      out.push_back(kBase64Url[bits >> (18 - 6 * k) & 63]);
    }
  }
  return out;
}

// Returns false unless `text` is what to_base64() writes.
bool from_base64(std::string_view text, std::string* out) {
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t value = kBase64Url.find(c);
    if (value == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out->push_back(static_cast<char>(bits >> held & 0xff));
    }
    bits &= (1u << held) - 1;
  }
  return held < 6 && bits == 0;
}

std::string mac_of(std::string_view bytes, std::string_view secret) {
  const Sha256 mac = hmac_sha256(as_bytes(secret), as_bytes(bytes));
  return std::string(reinterpret_cast<const char*>(mac.data()), kMacBytes);
}

// Takes the same time wherever the MACs differ.
bool same_mac(std::string_view a, std::string_view b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < kMacBytes; ++i) {
    difference |= static_cast<uint8_t>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace

std::string PageToken::seal(std::string_view secret) const {
  ByteBuffer out;
  out.put_u8(kTokenVersion);
  out.put<uint64_t>(request);
  out.put<uint64_t>(snapshot);
  out.put<uint64_t>(rows_of_key);
  out.put_bytes(as_bytes(key));
  std::string bytes(as_string(out.span()));
  bytes += mac_of(bytes, secret);
  return to_base64(bytes);
}

Result<PageToken> PageToken::open(std::string_view text,
                                  std::string_view secret) {
  std::string bytes;
  const bool is_base64 = from_base64(text, &bytes);
  if (!is_base64 || bytes.size() < kTokenHeader + kMacBytes ||
      !same_mac(
          std::string_view(bytes).substr(bytes.size() - kMacBytes),
          mac_of(std::string_view(bytes).substr(0, bytes.size() - kMacBytes),
                 secret)) ||
      bytes[0] != kTokenVersion) {
    return Status::invalid_argument(
        "page token: it is damaged, or another server made it; begin again "
        "without a token");
  }
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data()) + 1;
  PageToken out;
  out.request = load<uint64_t>(at);
  out.snapshot = load<uint64_t>(at + 8);
  out.rows_of_key = load<uint64_t>(at + 16);
  out.key = bytes.substr(kTokenHeader, bytes.size() - kTokenHeader - kMacBytes);
  return out;
}

}  // namespace nimble
