// Sorted sets of keys for the tests of chunks, directories and writers.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "nimble/key/key_buffer.h"

namespace nimble::testing {

using Keys = std::vector<std::string>;

inline std::string big_endian(uint64_t v, size_t size = 8) {
  std::string s(size, '\0');
  store_be(reinterpret_cast<uint8_t*>(s.data()), v, size);
  return s;
}

inline KeyBuffer to_buffer(const Keys& keys, bool fixed = false) {
  KeyBuffer out(fixed ? keys.at(0).size() : 0);
  for (const std::string& k : keys) out.push_back(as_bytes(k));
  return out;
}

struct NamedKeys {
  std::string name;
  Keys keys;
};

inline Keys sorted(Keys keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

template <class Make>
Keys generate(size_t n, Make make) {
  Keys out;
  for (size_t i = 0; i < n; ++i) out.push_back(make(i));
  return sorted(std::move(out));
}

// Kinds of keys that real columns contain, and some unusual ones.
inline std::vector<NamedKeys> nasty_key_sets(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto text = [&rng](size_t most, int letters, char first) {
    std::string s(rng() % (most + 1), ' ');
    for (char& c : s)
      c = static_cast<char>(first + static_cast<int>(rng() % letters));
    return s;
  };
  const auto marked = [](uint64_t v) {
    return std::string(1, '\0') + big_endian(v ^ (uint64_t{1} << 63));
  };
  std::vector<NamedKeys> sets;
  const auto add = [&](const char* name, auto make) {
    sets.push_back({name, generate(n, make)});
  };
  add("sequential", [&](size_t i) { return marked(i); });
  add("negative", [&](size_t i) { return marked(i * 3 - 1000); });
  add("sparse", [&](size_t i) { return marked(i / 8 * 32 + i % 8); });
  add("runs", [&](size_t i) { return marked(i / 7); });
  add("equal", [&](size_t) { return marked(42); });
  add("random64", [&](size_t) { return marked(rng()); });
  add("random40", [&](size_t) { return marked(rng() >> 24); });
  add("extremes", [&](size_t i) { return marked(i % 2 ? 0 : ~uint64_t{0}); });
  add("jump",
      [&](size_t i) { return marked(i < n / 2 ? i : i + (1ull << 40)); });
  add("jump62",
      [&](size_t i) { return marked(i < n / 2 ? i : i + (3ull << 61)); });
  add("bytes1", [&](size_t) { return big_endian(rng() & 255, 1); });
  add("bytes3", [&](size_t) { return big_endian(rng() & 0xffffff, 3); });
  add("bytes0", [&](size_t) { return std::string(); });
  add("wide", [&](size_t) { return marked(rng() % 9) + marked(rng() % 5); });
  add("walk", [&, v = uint64_t{0}](size_t) mutable {
    return marked(v += rng() % 100);
  });
  add("text", [&](size_t) { return text(12, 3, 'a'); });
  add("long text", [&](size_t) { return "common/" + text(70, 2, 'a'); });
  add("text of ff", [&](size_t) { return text(5, 2, '\xfe'); });
  add("text of 00", [&](size_t) { return text(5, 2, '\0'); });
  add("huge", [&](size_t i) {
    return std::string(300, 'x') + text(3, 2, 'a') + std::string(i % 40, 'y');
  });
  add("prefixes", [&](size_t i) { return std::string(i % 50, '\0'); });
  add("hex", [&](size_t) {
    return std::string(1, '\0') + text(0, 1, 'a') + big_endian(rng()) +
           big_endian(rng());
  });
  return sets;
}

// Keys, their neighbours in byte order, prefixes, extensions and extremes.
inline Keys probes_for(const Keys& keys, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Keys out = {"", std::string(1, '\0'), std::string(20, '\xff')};
  const size_t n = std::min<size_t>(keys.size(), 150);
  for (size_t i = 0; i < n; ++i) {
    const std::string& k = keys[rng() % keys.size()];
    out.push_back(k);
    out.push_back(k + '\0');
    out.push_back(k + '\xff');
    if (k.empty()) continue;
    out.push_back(k.substr(0, rng() % k.size()));
    std::string changed = k;
    changed[rng() % k.size()] += static_cast<char>(1 + rng() % 255);
    out.push_back(changed);
    changed = k;
    changed.back() = static_cast<char>(changed.back() + (rng() % 2 ? 1 : -1));
    out.push_back(changed);
  }
  return out;
}

inline uint32_t expected_lower_bound(const Keys& keys, const std::string& t) {
  return static_cast<uint32_t>(std::lower_bound(keys.begin(), keys.end(), t) -
                               keys.begin());
}

}  // namespace nimble::testing
