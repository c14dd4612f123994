#include "nimble/encoding/symbols/shared_phrases.h"

#include <algorithm>
#include <cstring>

#include "nimble/base/byte_reader.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {
namespace {

constexpr uint32_t kMaxWait = 64;

struct PhraseBytes {
  explicit PhraseBytes(const Phrase& p) : size(p.length) {
    store(data, p.low);
    store(data + 8, p.high);
  }
  uint8_t data[kMaxPhraseBytes];
  uint32_t size;
};

uint32_t shared_bytes(const PhraseBytes& a, const PhraseBytes& b) {
  const uint32_t most = std::min(a.size, b.size);
  uint32_t n = 0;
  while (n < most && a.data[n] == b.data[n]) ++n;
  return n;
}

}  // namespace

void StreamPhrases::next_stripe() {
  are_looked_for_ = --left_ == 0;
  if (are_looked_for_) left_ = wait_ = std::min(2 * wait_, kMaxWait);
}

void StreamPhrases::begin(std::vector<Phrase> phrases, double share) {
  phrases_ = std::move(phrases);
  matcher_ = std::make_unique<const PhraseMatcher>(phrases_);
  share_ = share;
  paid();
}

bool StreamPhrases::have_bytes_of(const Values& strings) const {
  std::bitset<256> bytes;
  for (const Phrase& p : phrases_) {
    if (p.length == 1) bytes.set(p.low);
  }
  return bytes.all() || (bytes_of(strings) & ~bytes).none();
}

std::bitset<256> bytes_of(const Values& strings) {
  bool met[256] = {};
  for (uint32_t i = 0; i < strings.size; ++i) {
    const ByteSlice& s = strings.slices[i];
    for (uint64_t k = 0; k < s.size; ++k) met[s.data[k]] = true;
  }
  std::bitset<256> bytes;
  for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = met[b];
  return bytes;
}

void sort_phrases(std::vector<Phrase>* phrases) {
  std::sort(phrases->begin(), phrases->end(),
            [](const Phrase& a, const Phrase& b) {
              const int order = std::memcmp(
                  PhraseBytes(a).data, PhraseBytes(b).data, kMaxPhraseBytes);
              return order != 0 ? order < 0 : a.length < b.length;
            });
}

std::vector<uint8_t> serialize_phrases(const std::vector<Phrase>& phrases) {
  ByteBuffer out;
  out.put_varint(phrases.size());
  PhraseBytes before{Phrase{}};
  for (const Phrase& p : phrases) {
    const PhraseBytes bytes(p);
    const uint32_t shared = shared_bytes(before, bytes);
    out.put_u8(static_cast<uint8_t>(shared << 4 | (bytes.size - 1)));
    out.put_bytes({bytes.data + shared, bytes.size - shared});
    before = bytes;
  }
  return {out.data(), out.data() + out.size()};
}

Result<std::vector<Phrase>> parse_phrases(ByteSpan bytes) {
  ByteReader reader(bytes);
  const uint64_t count = reader.get_varint();
  if (count > kMaxPhrases) {
    return Status::corrupt(std::to_string(count) +
                           " phrases; at most 4096 are possible");
  }
  std::vector<Phrase> phrases;
  uint8_t last[kMaxPhraseBytes] = {};
  uint32_t last_size = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t sizes = reader.get_u8();
    const uint32_t shared = sizes >> 4;
    const uint32_t size = (sizes & 15) + 1;
    if (shared > last_size || shared >= size) {
      return Status::corrupt("phrase " + std::to_string(i) + " of " +
                             std::to_string(size) + " bytes begins with " +
                             std::to_string(shared) + " of the " +
                             std::to_string(last_size) + " before it");
    }
    const ByteSpan rest = reader.get_bytes(size - shared);
    NIMBLE_RETURN_IF_ERROR(reader.status("phrases"));
    std::copy(rest.begin(), rest.end(), last + shared);
    last_size = size;
    phrases.push_back(Phrase::of(last, size));
  }
  NIMBLE_RETURN_IF_ERROR(reader.status("phrases"));
  if (reader.remaining() > 0) {
    return Status::corrupt(std::to_string(reader.remaining()) +
                           " unexpected bytes after the last phrase");
  }
  return phrases;
}

}  // namespace nimble
