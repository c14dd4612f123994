// Every decoder: heads and bodies of any encoding of any type.
//
// An input: u8 which type, u24 number of values, u16 size of the head, the
// head; what is left is the body. seeds.cc writes them.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/encoding_input.h"
#include "fuzz/target.h"
#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"

namespace nimble::fuzz {
namespace {

constexpr uint32_t kMostRows = 2100;  // decoded at once: two blocks and more

// Memory for n decoded values of a type, just as large as decoders may need.
class Room {
 public:
  Room(const ValueType& type, uint64_t n)
      : data_(n * type.width + n / 8 + 1 + AlignedBuffer::kSlack) {
    sink_.wide = n % 2 == 0;
    out_.data = data_.data();
    out_.bytes = &sink_;
  }
  const Output& output() const { return out_; }
  // Byte strings must lie in the data, one after the other.
  void check(const ValueType& type, uint64_t n) const {
    if (type.kind != ValueKind::kBytes) return;
    FUZZ_CHECK(sink_.count == n);
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; ++i) {
      FUZZ_CHECK(sink_.begin_of(i) == at && sink_.end_of(i) >= at);
      at = sink_.end_of(i);
    }
    FUZZ_CHECK(at == sink_.data.size());
  }

 private:
  std::vector<uint8_t> data_;
  BytesSink sink_;
  Output out_;
};

void decode(const Decoder& d, const SegmentBody& body, uint32_t begin,
            uint32_t end) {
  if (uint64_t{end - begin} * d.type().width > 1 << 22) return;
  std::vector<ByteRange> ranges;
  d.append_ranges(begin, end, &ranges);
  for (const ByteRange& r : ranges) {
    FUZZ_CHECK(r.begin <= r.end && r.end <= body.size);
  }
  Room room(d.type(), end - begin);
  if (d.decode(body, begin, end, room.output())) {
    room.check(d.type(), end - begin);
  }
}

void gather(const Decoder& d, const SegmentBody& body,
            const std::vector<uint32_t>& rows) {
  if (rows.size() * d.type().width > 1 << 22) return;
  if (body.stable) d.prefetch(body, rows.front());
  Room room(d.type(), rows.size());
  const bool gathered =
      d.gather(body, rows.data(), rows.size(), room.output()).is_ok();
  if (gathered) room.check(d.type(), rows.size());
  if (d.type().kind == ValueKind::kBytes || d.type().width > 8) return;
  uint64_t bits = 0;
  if (!d.value(body, rows.front(), &bits) || !gathered) return;
  // Many rows are found otherwise than one where damaged ends do not ascend.
  if (rows.size() > 1) return;
  const uint8_t* const first = room.output().data;
  if (d.type().kind == ValueKind::kBool) {
    FUZZ_CHECK((*first & 1) == (bits & 1));
  } else {
    FUZZ_CHECK(std::memcmp(first, &bits, d.type().width) == 0);
  }
}

Predicate test_of(const ValueType& type, bool is_set, ByteSpan bytes) {
  Predicate test;
  test.type = type;
  test.shape = is_set ? Predicate::Shape::kSet : Predicate::Shape::kRange;
  test.negated = bytes.size() % 2 == 1;
  const auto number = [&](size_t i) -> uint64_t {
    return bytes.size() < 8 * i + 8 ? i : load<uint64_t>(bytes.data() + 8 * i);
  };
  test.ints.set = {number(0), number(1)};
  std::sort(test.ints.set.begin(), test.ints.set.end());
  test.ints.low = test.ints.set[0], test.ints.high = test.ints.set[1];
  test.floats.set = {-1.5, 1000};
  test.floats.low = -1.5, test.floats.high = 1000;
  test.wides.set = {WideInt{number(0) >> 32, 0, 0, 0},
                    WideInt{~uint64_t{0} >> 1, 0, 0, 0}};
  test.wides.low = test.wides.set[0], test.wides.high = test.wides.set[1];
  test.bytes.set = {"", "text 1"};
  test.bytes.low = "a";
  if (number(2) % 2 == 0) test.bytes.high = number(2) % 3 == 0 ? "a" : "tf";
  return test;
}

void filter(const Decoder& d, const SegmentBody& body, ByteSpan bytes) {
  if (!can_be_tested(d.type()) || d.size() == 0) return;
  const uint32_t blocks = num_blocks_of(d.size());
  for (const bool is_set : {false, true}) {
    std::vector<uint64_t> selection(uint64_t{blocks} * kSelectionWords);
    auto* const bits = reinterpret_cast<uint8_t*>(selection.data());
    fill_bits(bits, 0, std::min(d.size(), kMostRows), true);
    const uint32_t last = (blocks - 1) * kBlockValues;
    fill_bits(bits, last, d.size() - last, true);
    const std::vector<uint64_t> before = selection;
    if (!d.filter(body, test_of(d.type(), is_set, bytes), selection.data())) {
      continue;
    }
    for (size_t i = 0; i < selection.size(); ++i) {
      FUZZ_CHECK((selection[i] & ~before[i]) == 0);
    }
  }
}

void read_everything(const Decoder& d, const SegmentBody& body,
                     ByteSpan bytes) {
  const uint32_t n = d.size();
  decode(d, body, 0, std::min(n, kMostRows));
  decode(d, body, n - std::min(n, 1000u), n);
  if (n > 3000) decode(d, body, n / 2, n / 2 + 700);
  if (n == 0) return;
  gather(d, body, {0});
  gather(d, body, {n - 1});
  std::vector<uint32_t> rows;
  for (uint32_t row = n / 7; row < n; row += n / 60 + 1) rows.push_back(row);
  gather(d, body, rows);
  rows.clear();
  for (uint32_t row = 0; row < std::min(n, 900u); ++row) {
    rows.insert(rows.end(), row % 3, row);
  }
  if (!rows.empty()) gather(d, body, rows);
  filter(d, body, bytes);
  const auto view = d.view(body, n / 2, n);
  if (view && *view != nullptr) {
    const uint64_t size = uint64_t{n - n / 2} * d.type().width;
    FUZZ_CHECK(*view >= body.data && size <= body.size &&
               static_cast<uint64_t>(*view - body.data) <= body.size - size);
  }
}

}  // namespace

FUZZ_TARGET(encoding) {
  ByteReader reader(input);
  const uint32_t which = reader.get_u8();
  uint32_t count = reader.get<uint16_t>();
  count |= uint32_t{reader.get_u8()} << 16;
  const uint32_t head_size = reader.get<uint16_t>();
  const ByteSpan head = reader.get_bytes(head_size);
  if (!reader.ok()) return;
  // Bodies of their own: what is read past their end is noticed.
  const ByteSpan rest = reader.get_bytes(reader.remaining());
  const std::vector<uint8_t> bytes(rest.begin(), rest.end());
  DecodeContext context;
  context.type = kEncodingTypes[which % std::size(kEncodingTypes)];
  context.num_values = count % (kSegmentValues + 1);
  context.body_size = bytes.size();
  for (const bool stable : {true, false}) {
    ByteReader at(head);
    const auto decoder = open_decoder(&at, context);
    if (!decoder) return;
    FUZZ_CHECK((*decoder)->size() == context.num_values);
    (void)(*decoder)->describe();
    read_everything(**decoder, {bytes.data(), bytes.size(), stable}, bytes);
    FUZZ_CHECK((*decoder)->memory_bytes() < uint64_t{1} << 30);
  }
}

}  // namespace nimble::fuzz
