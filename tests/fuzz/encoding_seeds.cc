// Segments of every encoding.
#include <cmath>

#include "encoding/encoding_conformance.h"
#include "fuzz/encoding_input.h"
#include "fuzz/seeds.h"
#include "nimble/base/bitmap.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/bools/sparse_bits.h"
#include "nimble/encoding/core/side_by_side.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/differences.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/split_int.h"
#include "nimble/encoding/strings/front_coded.h"
#include "nimble/encoding/strings/numbered_text.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/strings/present.h"
#include "nimble/encoding/symbols/phrases.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_strings.h"

namespace nimble::fuzz {
namespace {

using namespace nimble::testing;

class Seeds {
 public:
  void add(const Sample& sample, const Encode& encode) {
    SegmentBuilder builder;
    if (!encode(sample.values(), &builder)) return;
    ByteBuffer out;
    for (size_t i = 0; i < std::size(kEncodingTypes); ++i) {
      if (kEncodingTypes[i] == sample.type) out.put_u8(static_cast<uint8_t>(i));
    }
    FUZZ_CHECK(out.size() == 1);
    out.put(static_cast<uint16_t>(sample.size));
    out.put_u8(static_cast<uint8_t>(sample.size >> 16));
    out.put(static_cast<uint16_t>(builder.head.size()));
    out.put_bytes(builder.head.span());
    out.put_bytes(builder.body.span());
    if (out.size() <= 16384) all.push_back(out.take());
  }
  void add(const Sample& sample) {
    for (const Effort effort :
         {Effort::kBalanced, Effort::kFast, Effort::kCompact}) {
      EncodeContext context;
      context.effort = effort;
      add(sample, [&](const Values& v, SegmentBuilder* out) {
        return encode_values(v, context, out);
      });
    }
  }

  std::vector<std::vector<uint8_t>> all;
};

Status zstd(const Values& v, SegmentBuilder* out) {
  return v.type.kind == ValueKind::kBytes
             ? encode_zstd_strings(v, {}, Effort::kBalanced, out)
             : encode_zstd_blocks(v, {}, out);
}
Status fronts(const Values& v, SegmentBuilder* out) {
  return encode_front_coded(v, {}, out);
}
Status present(const Values& v, SegmentBuilder* out) {
  return encode_present(v, {}, out);
}
Status numbered(const Values& v, SegmentBuilder* out) {
  const std::optional<NumberedText> text = NumberedText::find(v);
  return text ? encode_numbered_text(v, *text, {}, out)
              : encode_plain_bytes(v, out);
}
Status split(const Values& v, SegmentBuilder* out) {
  return encode_split_int(v, 9, {}, out);
}
Status shared(const Values& v, SegmentBuilder* out) {
  StreamDictionary dictionary(v.type);
  DistinctValues distinct;
  return distinct.build(v, {})
             ? encode_shared_dictionary(distinct, &dictionary, {}, out)
             : encode_plain(v, out);
}
Status of_phrases(const Values& v, SegmentBuilder* out) {
  return encode_phrases(v, train_phrases(v), out);
}
// The first string does as a dictionary.
Status zstd_with_dictionary(const Values& v, SegmentBuilder* out) {
  return encode_zstd_strings(v, {v.slices[0].data, v.slices[0].size},
                             Effort::kBalanced, out);
}
Status packed(const Values& v, SegmentBuilder* out) {
  return encode_bit_packed(v, out);
}
Status runs(const Values& v, SegmentBuilder* out) {
  return encode_run_length(v, run_ends(v, v.size), {}, out);
}

Status differences(const Values& v, SegmentBuilder* out) {
  return encode_differences(v, {}, out);
}
Status threes(const Values& v, SegmentBuilder* out) {
  return encode_scaled(v, {0, 0, 3}, {}, out);
}
Status even(const Values& v, SegmentBuilder* out) {
  return encode_even(v, {}, out);
}
// In pieces between those of the validity.
Status beside(const Values& v, SegmentBuilder* out) {
  std::vector<uint8_t> other((v.size + 63) / 64 * 8, 0xA5);
  ByteBuffer validity;
  NIMBLE_RETURN_IF_ERROR(
      encode_present_values(v, v.data, other.data(), {}, out, &validity));
  const std::vector<SegmentHead> heads{
      {&out->head, v.type, v.size, 0, out->body.size()}};
  auto laid = lay_side_by_side(heads, &out->body, 512);
  FUZZ_CHECK(laid.has_value() && *laid);
  return Status::ok();
}
// Every third row.
Status present_values(const Values& v, SegmentBuilder* out) {
  std::vector<uint8_t> other((v.size + 63) / 64 * 8);
  for (uint32_t i = 0; i < v.size; i += 3) set_bit(other.data(), i);
  return encode_present_values(v, v.data, other.data(), {}, out, nullptr);
}

void add_ints(Seeds* seeds) {
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const bool is_signed : {false, true}) {
      const ValueType type{ValueKind::kInt, width, is_signed};
      const Sample ramp =
          int_sample(type, 300, [](uint32_t i) { return i * 3; });
      seeds->add(ramp, packed);
      seeds->add(ramp, encode_delta);
      seeds->add(ramp, encode_plain);
      seeds->add(ramp, differences);
      seeds->add(ramp, threes);
      seeds->add(ramp, even);
      seeds->add(ramp, present_values);
      if (width >= 4) seeds->add(ramp, split);
      const Sample few = int_sample(type, 1300, [](uint32_t i) {
        return mix(i) % 5 * 0x0123456789abcdef;
      });
      seeds->add(few);
      seeds->add(few, zstd);
      seeds->add(few, shared);
      seeds->add(int_sample(type, 200, [](uint32_t i) { return i / 40; }),
                 runs);
      seeds->add(int_sample(type, 500, [](uint32_t i) {  // exceptions
        return i % 97 == 5 ? mix(i) : 7 + i % 3;
      }));
    }
  }
  const ValueType wide = ValueType::signed_int(8);
  seeds->add(int_sample(wide, 5000, [](uint32_t i) { return i / 900; }));
  seeds->add(int_sample(wide, 131072, [](uint32_t) { return 5; }));
  seeds->add(int_sample(wide, 131072, [](uint32_t i) { return i; }));
  seeds->add(int_sample(wide, 0, [](uint32_t i) { return i; }));
  seeds->add(int_sample(ValueType::signed_int(1), 5000, mix), beside);
}

void add_others(Seeds* seeds) {
  for (const uint32_t n : {1u, 100u, 3000u}) {
    seeds->add(double_sample(n, [](uint32_t i) { return i * 0.25; }));
    seeds->add(
        double_sample(n / 4 + 1, [](uint32_t i) { return std::sin(i); }));
    seeds->add(float_sample(
        n / 2 + 1, [](uint32_t i) { return static_cast<float>(i) / 3; }));
    const Sample bits = bool_sample(n, [](uint32_t i) { return i % 90 == 3; });
    seeds->add(bits);
    seeds->add(bits, encode_bitmap);
    seeds->add(bits, encode_sparse_bits);
    seeds->add(bits, runs);
  }
  for (const ValueType& type : kEncodingTypes) {
    if (type.kind != ValueKind::kFixed) continue;
    const uint32_t n = type.width > 100 ? 20 : 150;
    const auto small = [&](uint32_t i, uint8_t* to) {
      to[0] = static_cast<uint8_t>(i / 3);
      if (type.width > 4) to[3] = static_cast<uint8_t>(mix(i) % 3);
    };
    const auto wide = [&](uint32_t i, uint8_t* to) {
      for (uint32_t b = 0; b < type.width; ++b) {
        to[b] = static_cast<uint8_t>(mix(i) >> (b % 64));
      }
    };
    seeds->add(fixed_sample(type, n, small));
    seeds->add(fixed_sample(type, n, wide));
    seeds->add(fixed_sample(type, n, small), zstd);
  }
}

void add_strings(Seeds* seeds) {
  const auto add = [&](uint32_t n,
                       const std::function<std::string(uint32_t)>& f) {
    const Sample sample = bytes_sample(n, f);
    seeds->add(sample);
    seeds->add(sample, zstd);
    seeds->add(sample, encode_plain_bytes);
    seeds->add(sample, runs);
    seeds->add(sample, fronts);
    seeds->add(sample, present);
    seeds->add(sample, zstd_with_dictionary);
    seeds->add(sample, numbered);
    seeds->add(sample, of_phrases);
  };
  const char* const words[] = {"the ",   "quick ", "brown ", "fox ",
                               "jumps ", "over ",  "lazy ",  "dog "};
  add(200, [](uint32_t i) {
    return "Clerk#00000" + std::to_string(1000 + mix(i) % 9000);
  });
  add(1100, [](uint32_t i) {
    return std::string("city") + std::to_string(mix(i) % 9);
  });
  add(120, [&](uint32_t i) {
    std::string s;
    for (uint32_t k = 0; k < 3 + i % 5; ++k) s += words[mix(i * 9 + k) % 8];
    return s;
  });
  add(30, [](uint32_t i) {
    return std::string(i * i % 83, static_cast<char>('a' + i));
  });
  add(300, [](uint32_t i) {
    return "10.0." + std::to_string(i % 7) + "." +
           std::to_string(mix(i) % 256) + " took 0" +
           std::to_string(mix(i + 1) % 100) + " ms";
  });
  add(40, [](uint32_t) { return std::string("same"); });
  add(60, [](uint32_t i) {
    std::string s(i % 9, '\0');
    for (char& c : s) c = static_cast<char>(mix(i++));
    return s;
  });
}

}  // namespace

std::vector<std::vector<uint8_t>> encoding_seeds() {
  Seeds seeds;
  add_ints(&seeds);
  add_others(&seeds);
  add_strings(&seeds);
  return std::move(seeds.all);
}

}  // namespace nimble::fuzz
