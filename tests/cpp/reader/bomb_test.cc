// Small files that represent very large data. Reading a few rows is cheap.
// Reading all of them is an error or std::bad_alloc (a MemoryError), and never
// hangs.
#include <new>

#include "encoding/encoding_conformance.h"
#include "nimble/base/hash.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_strings.h"
#include "nimble/format/group.h"
#include "nimble/format/postscript.h"
#include "nimble/memory/buffer_pool.h"
#include "nimble/memory/chunk_memory.h"
#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

constexpr uint64_t kManyRows = kMaxStripeRows - 1;

// A file with one stripe, built segment by segment.
class Bomb {
 public:
  Bomb(Field root, uint64_t rows) : root_(std::move(root)) {
    stripe_.rows = rows;
    data_.resize(64);
  }
  // A stream of `values` values whose segments all have the same bytes.
  Bomb& stream(uint64_t values, const SegmentBuilder& segment) {
    stripe_.values.push_back(values);
    const uint64_t offset = data_.size();
    data_.insert(data_.end(), segment.body.data(),
                 segment.body.data() + segment.body.size());
    data_.resize(round_up(data_.size(), 64));
    for (uint64_t n = div_ceil(values, kSegmentValues); n > 0; --n) {
      stripe_.segment_offsets.push_back(offset);
      stripe_.segment_sizes.push_back(segment.body.size());
      stripe_.heads.insert(stripe_.heads.end(), segment.head.data(),
                           segment.head.data() + segment.head.size());
      stripe_.head_ends.push_back(static_cast<uint32_t>(stripe_.heads.size()));
    }
    return *this;
  }
  Bomb& no_values() { return stream(0, {}); }

  Reader open() {
    FileFooter footer;
    footer.schema = root_;
    footer.num_rows = stripe_.rows;
    const std::vector<uint8_t> group = serialize_group({stripe_}, nullptr);
    footer.groups.push_back(
        {{data_.size(), group.size(), checksum64(group)}, stripe_.rows});
    data_.insert(data_.end(), group.begin(), group.end());
    data_.resize(round_up(data_.size(), 64));
    const std::vector<uint8_t> bytes = footer.serialize();
    Postscript p;
    p.footer_offset = data_.size();
    p.footer_size = bytes.size();
    p.footer_checksum = checksum64(bytes);
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    const auto last = p.serialize();
    data_.insert(data_.end(), last.begin(), last.end());
    return open_mapped(std::make_shared<std::vector<uint8_t>>(data_));
  }

 private:
  Field root_;
  StripeMeta stripe_;
  std::vector<uint8_t> data_;
};

SegmentBuilder constant_of(const Sample& sample) {
  SegmentBuilder out;
  REQUIRE(encode_constant(sample.values(), &out).is_ok());
  return out;
}
SegmentBuilder packed_ends(std::vector<uint64_t> ends) {
  SegmentBuilder out;
  const Sample sample =
      int_sample(ValueType::unsigned_int(8), static_cast<uint32_t>(ends.size()),
                 [&](uint32_t i) { return ends[i]; });
  REQUIRE(encode_bit_packed(sample.values(), &out).is_ok());
  return out;
}

Field not_null(const char* format, std::vector<Field> children = {}) {
  Field f = make_field(format, std::move(children));
  f.flags = 0;
  return f;
}

Status read(const Reader& file, RowRange range, uint32_t threads = 1) {
  const auto rows = RowReader::create_all(file);
  REQUIRE(rows.has_value());
  Column out = (*rows)->make_output();
  NIMBLE_RETURN_IF_ERROR((*rows)->read_ranges({&range, 1}, threads, &out));
  ArrowArray array{};
  NIMBLE_RETURN_IF_ERROR(std::move(out).export_array(&array));
  array.release(&array);
  return Status::ok();
}
Status take(const Reader& file, const std::vector<uint64_t>& wanted) {
  const auto rows = RowReader::create_all(file);
  REQUIRE(rows.has_value());
  Column out = (*rows)->make_output();
  return (*rows)->take(wanted, 1, &out);
}

#ifdef __linux__
TEST(Bombs, MoreRowsThanMemoryFailCleanly) {
  const ValueType wide = ValueType::fixed(256);
  const SegmentBuilder same = constant_of(
      fixed_sample(wide, 1, [](uint32_t, uint8_t* to) { *to = 7; }));
  // 2 * 512 GiB.
  const Reader file =
      Bomb(struct_of({not_null("w:256"), not_null("w:256")}), kManyRows)
          .no_values()
          .no_values()
          .stream(kManyRows, same)
          .no_values()
          .stream(kManyRows, same)
          .open();
  CHECK_EQ(file->num_rows(), kManyRows);
  CHECK(take(file, {0, 5, kManyRows - 1}).is_ok());
  CHECK(read(file, {kManyRows - 1000, kManyRows}).is_ok());
  for (const uint32_t threads : {1, 2}) {
    bool out_of_memory = false;
    try {
      (void)read(file, {0, kManyRows}, threads);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;  // also where a thread of several ran out
    }
    CHECK(out_of_memory);
  }
}

TEST(Bombs, MemoryThatIsNotThereIsNotGivenOut) {
  CHECK(available_bytes() > kHugePage);
  CHECK(available_bytes() < size_t{1} << 50);
  size_t size = size_t{1} << 50;
  CHECK(allocate_buffer(&size) == nullptr);
}
#endif

TEST(Bombs, ListsOfMoreItemsThanThereAre) {
  for (const char* items : {"n", "l", "u", "b"}) {
    for (const uint64_t end :
         {uint64_t{1} << 33, uint64_t{1} << 40, UINT64_MAX - 1}) {
      Field item = make_field(items);
      Bomb bomb(struct_of({not_null("+L", {item})}), 3);
      bomb.no_values().no_values().stream(3, packed_ends({1, 2, end}));
      if (item.layout != Layout::kNull) bomb.no_values().no_values();
      const Reader file = bomb.open();
      CHECK(!read(file, {0, 3}));
      CHECK(!take(file, {0, 2}));
      const bool first = take(file, {0}).is_ok();
      CHECK_EQ(first, item.layout == Layout::kNull);
    }
  }
}

TEST(Bombs, ListsOfMoreItemsThanEndsCanSay) {
  constexpr uint64_t kMost = INT64_MAX;
  const Field lists = not_null("+L", {make_field("n")});
  const Reader file = Bomb(struct_of({lists}), 3)
                          .no_values()
                          .no_values()
                          .stream(3, packed_ends({kMost, kMost + 3, 2 * kMost}))
                          .open();
  CHECK(!read(file, {0, 3}));
  CHECK(!take(file, {0, 1}));
  CHECK(!take(file, {2}));
}

TEST(Bombs, BillionsOfNothingAreCheap) {
  Bomb bomb(struct_of({not_null("+L", {make_field("n")})}), 3);
  const Reader file = bomb.no_values()
                          .no_values()
                          .stream(3, packed_ends({1, 2, 2'000'000'000}))
                          .open();
  CHECK(read(file, {0, 3}).is_ok());
  CHECK(take(file, {0, 2}).is_ok());
}

TEST(Bombs, FixedListsOfFixedLists) {
  const char* const most = "+w:2147483647";
  const Field inner = not_null(most, {not_null(most, {make_field("n")})});
  const Reader file =
      Bomb(struct_of({inner}), 100).no_values().no_values().no_values().open();
  CHECK(!read(file, {0, 100}));
  CHECK(!take(file, {0, 7, 9}));
}

TEST(Bombs, WideValuesThatAreNotThere) {
  SegmentBuilder little = constant_of(
      fixed_sample(ValueType::fixed(8), 1, [](uint32_t, uint8_t*) {}));
  const Reader file = Bomb(struct_of({not_null("w:2000000000")}), 100)
                          .no_values()
                          .no_values()
                          .stream(100, little)
                          .open();
  CHECK(!read(file, {0, 100}));
  CHECK(!take(file, {0, 99}));
}

TEST(Bombs, VectorsThatAreNotThere) {
  // Two rows would take 32 GB.
  const Field vectors = not_null("+w:2000000000", {not_null("g")});
  const SegmentBuilder same = constant_of(
      fixed_sample(ValueType::floating(8), 1, [](uint32_t, uint8_t*) {}));
  const Reader file = Bomb(struct_of({vectors}), 100)
                          .no_values()
                          .no_values()
                          .no_values()
                          .stream(100, same)
                          .open();
  CHECK(!take(file, {0, 99}));
  CHECK(!take(file, {99, 0}));
  CHECK(!read(file, {0, 100}));
}

// ---- run-end encoded arrays

Field runs_of(const char* ends, Field values) {
  Field e = make_field(ends, {}, "run_ends");
  e.flags = 0;
  return make_field("+r", {std::move(e), std::move(values)});
}

TEST(Bombs, MoreRunsThanRows) {
  // All run ends are equal, so decoding the runs would be useless work.
  constexpr uint64_t kRuns = uint64_t{1} << 31;
  const Sample one =
      int_sample(ValueType::unsigned_int(8), 1, [](uint32_t) { return 1000; });
  const Reader file = Bomb(struct_of({runs_of("l", make_field("n"))}), 1000)
                          .no_values()
                          .stream(kRuns, constant_of(one))
                          .open();
  CHECK(take(file, {3}).is_ok());
  CHECK(read(file, {0, 1000}).is_ok());
}

TEST(Bombs, OneRunOfBillionsOfRows) {
  SegmentBuilder end = packed_ends({kManyRows});
  const Reader file =
      Bomb(struct_of({runs_of("l", make_field("n"))}), kManyRows)
          .no_values()
          .stream(1, end)
          .open();
  CHECK(read(file, {0, kManyRows}).is_ok());
  CHECK(take(file, {5, kManyRows - 1}).is_ok());
}

// ---- segments

Status decode_all(const SegmentBuilder& segment, const ValueType& type,
                  uint32_t n) {
  DecodeContext context;
  context.type = type;
  context.num_values = n;
  context.body_size = segment.body.size();
  ByteReader head(segment.head.span());
  NIMBLE_ASSIGN_OR_RETURN(const auto decoder, open_decoder(&head, context));
  BytesSink sink;
  AlignedBuffer values(uint64_t{n} * type.width);
  Output out;
  out.data = values.data();
  out.bytes = &sink;
  return decoder->decode({segment.body.data(), segment.body.size(), true}, 0, n,
                         out);
}

// One string in zstd, with its length replaced.
SegmentBuilder zstd_string(uint64_t length) {
  const Sample sample =
      bytes_sample(1, [](uint32_t) { return std::string(100, 'a'); });
  SegmentBuilder good;
  REQUIRE(encode_zstd_strings(sample.values(), {}, Effort::kBalanced, &good)
              .is_ok());
  REQUIRE(decode_all(good, sample.type, 1).is_ok());
  SegmentBuilder bad;
  bad.body = good.body;
  // The id, no dictionary, 100 bytes, blocks of 2^k rows, width 0: one length
  // for all.
  bad.head.put_bytes(good.head.span().first(5));
  bad.head.put_varint(length);
  bad.head.put_bytes(good.head.span().subspan(6));
  return bad;
}

TEST(Bombs, ZstdThatClaimsGigabytes) {
  CHECK(decode_all(zstd_string(100), ValueType::bytes(), 1).is_ok());
  for (const uint64_t length :
       {uint64_t{1} << 34, uint64_t{16} << 20, uint64_t{99}, uint64_t{101}}) {
    CHECK(!decode_all(zstd_string(length), ValueType::bytes(), 1));
  }
  const Status refused =
      decode_all(zstd_string(1 << 30), ValueType::bytes(), 1);
  CHECK(refused.message().find("at most 16 MiB") != std::string_view::npos);
}

TEST(Bombs, ZstdAtItsBestIsNoBomb) {
  // The largest expansion that zstd can achieve.
  const Sample sample = bytes_sample(
      1, [](uint32_t) { return std::string(kMaxZstdBlockBytes, 'a'); });
  SegmentBuilder segment;
  REQUIRE(encode_zstd_strings(sample.values(), {}, Effort::kBalanced, &segment)
              .is_ok());
  CHECK(segment.body.size() < 4096);
  CHECK(decode_all(segment, sample.type, 1).is_ok());
}

TEST(Bombs, EncodingsInsideEachOther) {
  const ValueType type = ValueType::signed_int(8);
  for (const int depth : {3, 5, 6, 100, 20000}) {
    SegmentBuilder nested;
    for (int i = 0; i < depth; ++i) {
      nested.head.put_bytes("\x03\x01", 2);      // a dictionary of one value:
      nested.head.put_bytes("\x00\x01\x00", 3);  // its codes, all 0,
      nested.head.put_u8(0);                     // and its values:
    }
    nested.head.put_u8(1);  // a constant
    nested.head.put(uint64_t{5});
    CHECK_EQ(decode_all(nested, type, 1).is_ok(), depth < kMaxEncodingDepth);
  }
}

TEST(Bombs, TypesInsideEachOther) {
  for (const int depth : {1, 30, 200, 2000}) {
    FileFooter footer;
    Field f = make_field("l");
    for (int i = 0; i < depth; ++i) {
      Field list;
      list.format = "+l";
      list.name = "x";
      list.children.push_back(std::move(f));
      f = std::move(list);
    }
    footer.schema.format = "+s";
    footer.schema.children.push_back(std::move(f));
    const auto parsed = FileFooter::parse(footer.serialize(), 64);
    CHECK_EQ(parsed.has_value(), depth <= 30);
  }
}

}  // namespace
}  // namespace nimble
