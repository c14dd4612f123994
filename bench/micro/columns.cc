// Encodings: a segment decoded from end to end, and rows gathered from it.
//
// Each column has the shape that its encoding is made for; what the encoder
// chose is checked, so that a kernel keeps measuring what its name says.
#include <cstdio>
#include <cstring>

#include "kernels.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble::micro {
namespace {

constexpr uint32_t kRows = 16384;  // of a segment's 131072: quick to prepare
constexpr uint32_t kGathered = 256;

using Number = std::function<void(uint64_t, uint8_t*)>;

struct Column {
  std::string name;
  std::string encoding;  // what describe() must begin with
  ValueType type;
  Number number;                              // writes value i, or:
  std::function<std::string(uint64_t)> text;  // where the type is bytes
  Effort effort = Effort::kBalanced;
};

template <class T>
Number of(std::function<T(uint64_t)> make) {
  return [make](uint64_t i, uint8_t* p) { store(p, make(i)); };
}

// An encoded segment with its decoder and room for what comes out.
class Segment {
 public:
  explicit Segment(const Column& c) : column(c), room(0) {
    fill();
    encode();
    for (uint32_t i = 0; i < kGathered; ++i) {
      rows.push_back(i * (kRows / kGathered) + mix(i) % (kRows / kGathered));
    }
  }

  void decode() {
    if (!decoder->decode(body, 0, kRows, output())) fail(column.name);
  }
  void gather() {
    if (!decoder->gather(body, rows.data(), rows.size(), output())) {
      fail(column.name);
    }
  }

 private:
  bool is_text() const { return column.type.kind == ValueKind::kBytes; }

  void fill() {
    for (uint32_t i = 0; is_text() && i < kRows; ++i) {
      texts.push_back(column.text(i));
    }
    for (const std::string& t : texts) {
      slices.push_back({reinterpret_cast<const uint8_t*>(t.data()), t.size()});
    }
    data.resize(uint64_t{kRows} * column.type.width);
    for (uint32_t i = 0; !is_text() && i < kRows; ++i) {
      column.number(i, data.data() + uint64_t{i} * column.type.width);
    }
    room.resize(data.size());
  }

  void encode() {
    Values values;
    values.type = column.type;
    values.size = kRows;
    values.data = data.data();
    values.slices = is_text() ? slices.data() : nullptr;
    EncodeContext context;
    context.effort = column.effort;
    if (!encode_values(values, context, &built)) fail(column.name);
    ByteReader head(built.head.span());
    auto opened =
        open_decoder(&head, {column.type, kRows, built.body.size(), 0});
    if (!opened) fail(column.name);
    decoder = std::move(*opened);
    if (!decoder->describe().starts_with(column.encoding)) {
      fail(column.name + " is " + decoder->describe());
    }
    body = {built.body.data(), built.body.size(), true};
  }

  Output output() {
    Output out;
    out.data = room.data();
    if (is_text()) {
      strings.data.clear();
      strings.offsets.clear();
      strings.count = 0;
      out.bytes = &strings;
    }
    return out;
  }

  Column column;
  std::vector<std::string> texts;
  std::vector<ByteSlice> slices;
  std::vector<uint8_t> data;
  SegmentBuilder built;
  std::unique_ptr<Decoder> decoder;
  SegmentBody body;
  AlignedBuffer room;
  BytesSink strings;
  std::vector<uint32_t> rows;
};

const char* const kWords[] = {"carefully", "final",   "deposits", "sleep",
                              "furiously", "ironic",  "packages", "about",
                              "the",       "quickly", "regular",  "accounts"};

std::string comment(uint64_t i) {
  std::string out;
  for (uint64_t k = 0; k < 4 + mix(i) % 5; ++k) {
    out += (k ? " " : "") + std::string(kWords[mix(i * 16 + k) % 12]);
  }
  return out;
}

std::string clerk(uint64_t i) {
  char text[32];
  std::snprintf(text, sizeof text, "Clerk#%09u", unsigned(mix(i) % 1000));
  return text;
}

std::string hex(uint64_t i) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx",
                static_cast<unsigned long long>(mix(i)),
                static_cast<unsigned long long>(mix(~i)));
  return text;
}

void price(uint64_t i, uint8_t* p) {
  store(p, mix(i) % 10000000);
  store(p + 8, uint64_t{0});
}

std::vector<Column> columns() {
  const auto i64 = ValueType::signed_int(8);
  const auto f64 = ValueType::floating(8);
  const auto text = ValueType::bytes();
  return {
      {"bit_packed", "bit-packed", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) >> 43; }), nullptr},
      {"bit_packed32", "bit-packed", ValueType::signed_int(4),
       of<uint32_t>([](uint64_t i) { return uint32_t(8000 + mix(i) % 2526); }),
       nullptr},
      {"delta", "delta", i64,
       of<uint64_t>([](uint64_t i) { return i * 1000 + mix(i) % 7; }), nullptr,
       Effort::kCompact},
      {"run_length", "run length", i64,
       of<uint64_t>([](uint64_t i) { return mix(i / 100); }), nullptr},
      {"dictionary", "dictionary", i64,
       of<uint64_t>([](uint64_t i) { return mix(mix(i) % 50); }), nullptr},
      {"sparse", "sparse", i64,
       of<uint64_t>([](uint64_t i) { return mix(i) % 50 ? 0 : mix(i); }),
       nullptr},
      {"alp", "alp", f64,
       of<double>([](uint64_t i) { return double(mix(i) % 1000000) / 100; }),
       nullptr},
      {"split_float", "split", f64,
       of<double>([](uint64_t i) { return double(mix(i) >> 11) * 0x1p-53; }),
       nullptr},
      {"decimal", "narrow", ValueType::fixed(16, true), price, nullptr},
      {"fsst", "fsst", text, nullptr, comment},
      {"template", "template", text, nullptr, clerk},
      {"hex", "template", text, nullptr, hex},
      {"zstd", "zstd", text, nullptr, comment, Effort::kCompact},
  };
}

Kernel kernel(const std::string& name, const Column& column, uint64_t elements,
              void (Segment::*call)()) {
  const auto prepare = [column, elements, call] {
    auto segment = std::make_shared<Segment>(column);
    return Ready{elements, [segment, call] { (segment.get()->*call)(); }};
  };
  return {name, "value", prepare};
}

}  // namespace

std::vector<Kernel> column_kernels() {
  std::vector<Kernel> out;
  for (const Column& column : columns()) {
    out.push_back(
        kernel("decode." + column.name, column, kRows, &Segment::decode));
    out.push_back(
        kernel("gather." + column.name, column, kGathered, &Segment::gather));
  }
  return out;
}

}  // namespace nimble::micro
