// Speed of the numeric encodings on one segment, and of their kernels.
//
//   g++ -std=c++20 -O3 -DNIMBLE_TARGET_CLONES=1 -Icpp
//   bench/micro/encoding_bench.cc
//       cpp/nimble/encoding/*.cc cpp/nimble/base/*.cc -lxxhash -lzstd
//
// Prints the best of several rounds: the machine's noise only ever adds.
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/encoding.h"

namespace nimble {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15;

// Seconds of one call, the best of kRounds.
double seconds(int calls, const std::function<void()>& call) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double> took = Clock::now() - begin;
    best = std::min(best, took.count() / calls);
  }
  return best;
}

uint64_t mix(uint64_t i) {
  i += 0x9e3779b97f4a7c15;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
  i = (i ^ (i >> 27)) * 0x94d049bb133111eb;
  return i ^ (i >> 31);
}

void bench_kernels() {
  std::vector<uint64_t> values(kPackValues);
  std::vector<uint8_t> packed(kPackValues * 8);
  const auto print = [&](const char* name, uint32_t width, auto kernel) {
    const double s = seconds(2000, kernel);
    std::printf("%-10s w=%-3u %6.2f Gvalues/s\n", name, width,
                kPackValues / s / 1e9);
  };
  auto* v = reinterpret_cast<uint8_t*>(values.data());
  for (const uint32_t w : {1u, 7u, 12u, 21u, 31u}) {
    print("unpack32", w, [&] { unpack32(w, packed.data(), 5, v); });
  }
  for (const uint32_t w : {1u, 12u, 21u, 37u, 63u}) {
    print("unpack64", w, [&] { unpack64(w, packed.data(), 5, v); });
  }
  print("pack32", 12, [&] { pack32(12, v, 0, packed.data()); });
  print("pack64", 21, [&] { pack64(21, v, 0, packed.data()); });
}

struct Column {
  const char* name;
  ValueType type;
  std::function<void(uint64_t, uint8_t*)> make;
};

void bench_column(const Column& column, Effort effort) {
  const uint32_t width = column.type.width;
  std::vector<uint8_t> data(uint64_t{kSegmentValues} * width);
  for (uint32_t i = 0; i < kSegmentValues; ++i) {
    column.make(i, data.data() + uint64_t{i} * width);
  }
  Values values;
  values.type = column.type;
  values.size = kSegmentValues;
  values.data = data.data();
  EncodeContext context;
  context.effort = effort;
  SegmentBuilder built;
  const double encode = seconds(2, [&] {
    built = SegmentBuilder{};
    if (!encode_values(values, context, &built)) std::abort();
  });
  ByteReader head(built.head.span());
  auto decoder =
      open_decoder(&head, {column.type, values.size, built.body.size(), 0});
  if (!decoder) std::abort();
  const SegmentBody body{built.body.data(), built.body.size(), true};
  AlignedBuffer buffer(data.size());
  Output out;
  out.data = buffer.data();
  const double decode = seconds(4, [&] {
    if (!(*decoder)->decode(body, 0, values.size, out)) std::abort();
  });
  if (std::memcmp(buffer.data(), data.data(), data.size()) != 0) std::abort();
  uint64_t at = 0;
  const double get = seconds(20000, [&] {
    const auto row = static_cast<uint32_t>(mix(++at) % kSegmentValues);
    if (!(*decoder)->gather(body, &row, 1, out)) std::abort();
  });
  std::printf(
      "%-22s %6.2f bits  encode %6.0f M/s  decode %6.2f G/s  get %5.0f ns  "
      "%s\n",
      column.name,
      8.0 * double(built.body.size() + built.head.size()) / values.size,
      values.size / encode / 1e6, values.size / decode / 1e9, get * 1e9,
      (*decoder)->describe().c_str());
}

template <class T>
std::function<void(uint64_t, uint8_t*)> of(std::function<T(uint64_t)> make) {
  return [make](uint64_t i, uint8_t* p) { store(p, make(i)); };
}

void bench_columns(Effort effort) {
  const auto i64 = ValueType::signed_int(8);
  const Column columns[] = {
      {"int64 12 bits", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) % 4000; })},
      {"int64 21 bits", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) >> 43; })},
      {"int64 random", i64, of<uint64_t>(mix)},
      {"int64 sequential", i64, of<uint64_t>([](uint64_t i) { return i; })},
      {"int64 sorted", i64,
       of<uint64_t>([](uint64_t i) { return i * 1000 + mix(i) % 1000; })},
      {"int64 50 values", i64,
       of<uint64_t>([](uint64_t i) { return mix(mix(i) % 50); })},
      {"int64 quantity", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) % 50 * 100; })},
      {"int64 runs of 100", i64,
       of<uint64_t>([](uint64_t i) { return mix(i / 100); })},
      {"int64 runs of 7", i64,
       of<uint64_t>([](uint64_t i) { return mix(i / 7); })},
      {"int64 2% set", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) % 50 == 0 ? mix(i) : 0; })},
      {"int64 outliers", i64, of<uint64_t>([](uint64_t i) {
         return mix(i) % 100 == 0 ? mix(i) : mix(i) >> 40;
       })},
      {"int32 date", ValueType::signed_int(4),
       of<uint32_t>([](uint64_t i) { return uint32_t(8000 + mix(i) % 2526); })},
      {"uint8", ValueType::unsigned_int(1),
       of<uint8_t>([](uint64_t i) { return uint8_t(mix(i) % 8); })},
      {"decimal128 price", ValueType::fixed(16, true),
       of<uint64_t>([](uint64_t i) { return mix(i) % 10000000; })},
      {"decimal128 discount", ValueType::fixed(16, true),
       of<uint64_t>([](uint64_t i) { return mix(i) % 11; })},
      {"double cents", ValueType::floating(8),
       of<double>([](uint64_t i) { return double(mix(i) % 1000000) / 100; })},
      {"double uniform", ValueType::floating(8),
       of<double>([](uint64_t i) { return double(mix(i) >> 11) * 0x1p-53; })},
      {"double walk", ValueType::floating(8), of<double>([](uint64_t i) {
         return 100 + double(i) / 7 + double(mix(i) % 1000) / 3;
       })},
      {"float cents", ValueType::floating(4),
       of<float>([](uint64_t i) { return float(mix(i) % 100000) / 100; })},
      {"uuid", ValueType::fixed(16),
       [](uint64_t i, uint8_t* p) { store(p, mix(i)), store(p + 8, mix(~i)); }},
  };
  for (const Column& column : columns) bench_column(column, effort);
}

}  // namespace
}  // namespace nimble

int main(int argc, char** argv) {
  nimble::bench_kernels();
  const std::string effort = argc > 1 ? argv[1] : "balanced";
  nimble::bench_columns(effort == "fast"      ? nimble::Effort::kFast
                        : effort == "compact" ? nimble::Effort::kCompact
                                              : nimble::Effort::kBalanced);
}
