#include "encoding/text_samples.h"

#include <iterator>

namespace nimble::testing {

std::string comment(uint64_t i) {
  static constexpr const char* kWords[] = {
      "packages",  "requests", "accounts",     "deposits",    "foxes",
      "ideas",     "express",  "theodolites",  "pinto beans", "instructions",
      "sleep",     "wake",     "cajole",       "haggle",      "nag",
      "furiously", "slyly",    "carefully",    "blithely",    "quickly",
      "about the", "above",    "according to", "across",      "after the",
      "even",      "regular",  "final",        "ironic",      "pending"};
  const uint64_t size = 19 + mix(i) % 60;
  std::string out;
  for (uint64_t k = 1; out.size() < size; ++k) {
    out += kWords[mix(i * 64 + k) % std::size(kWords)];
    out += k % 7 == 0 ? ". " : " ";
  }
  out.resize(size);
  return out;
}

std::string uuid(uint64_t i) {
  std::string out = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (uint64_t p = 0; p < out.size(); ++p) {
    const uint64_t random = mix(i * 64 + p);
    if (out[p] == 'x') out[p] = "0123456789abcdef"[random % 16];
    if (out[p] == 'y') out[p] = "89ab"[random % 4];
  }
  return out;
}

std::string noise(uint64_t i, uint64_t size) {
  std::string out(size, '\0');
  for (uint64_t p = 0; p < size; ++p) {
    out[p] = static_cast<char>(mix(i * 4096 + p));
  }
  return out;
}

std::string hex(ByteSpan bytes) {
  std::string out;
  for (const uint8_t b : bytes) {
    if (!out.empty()) out += ' ';
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

std::vector<NamedSample> nasty_samples() {
  std::vector<NamedSample> out;
  const auto add = [&](const char* name, uint32_t n, auto&& make) {
    out.push_back({name, bytes_sample(n, make)});
  };
  add("none", 0, [](uint32_t) { return std::string(); });
  add("one", 1, [](uint32_t) { return std::string("x"); });
  add("empty", 1025, [](uint32_t) { return std::string(); });
  add("equal", 2049, [](uint32_t) { return std::string("the same"); });
  add("mostly empty", 3000, [](uint32_t i) {
    return i % 100 == 99 ? std::string("now and then") : std::string();
  });
  add("nul and ff", 2000, [](uint32_t i) {
    return std::string(i % 9, '\0') + std::string(i % 5, '\xff');
  });
  add("all ff", 1000, [](uint32_t i) { return std::string(i % 40, '\xff'); });
  add("noise", 2000, [](uint32_t i) { return noise(i, mix(i) % 30); });
  add("comments", 4000, [](uint32_t i) { return comment(i); });
  add("uuids", 2500, [](uint32_t i) { return uuid(i); });
  add("one byte", 5000,
      [](uint32_t i) { return std::string(1, "abc"[i % 3]); });
  add("some long", 300,
      [](uint32_t i) { return i % 50 == 7 ? noise(i, 9000) : comment(i); });
  add("20 KB each", 9, [](uint32_t i) {
    std::string s;
    while (s.size() < 20000 + i) s += comment(s.size() + i);
    return s;
  });
  return out;
}

std::vector<NamedSample> large_samples() {
  std::vector<NamedSample> out;
  out.push_back({"131072 comments", bytes_sample(131072, comment)});
  out.push_back({"1 MB", bytes_sample(5, [](uint32_t i) {
                   std::string s;
                   while (i > 0 && s.size() < 1000000)
                     s += comment(s.size() + i);
                   return s;
                 })});
  return out;
}

}  // namespace nimble::testing
