// Files of a hostile writer: all checksums match, but their contents are wrong.
// Any outcome except undefined behaviour is correct (run under sanitizers).
#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/cursor/cluster_cursor.h"
#include "nimble/format/postscript.h"
#include "nimble/scan/zone_map.h"
#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

// A parsed file: its bytes up to the footer, and the footer.
struct Forged {
  explicit Forged(const Bytes& file) {
    const auto p = Postscript::parse(ByteSpan(*file).last(kPostscriptSize),
                                     file->size(), "");
    REQUIRE(p.has_value());
    data.assign(file->begin(),
                file->begin() + static_cast<int64_t>(p->footer_offset));
    auto parsed = FileFooter::parse(
        ByteSpan(*file).subspan(p->footer_offset, p->footer_size),
        p->footer_offset);
    REQUIRE(parsed.has_value());
    footer = std::move(*parsed);
  }
  ByteSpan bytes_of(const SectionRef& s) const {
    return ByteSpan(data).subspan(s.offset, s.size);
  }
  // Writes the file again, with correct checksums of all sections.
  Bytes seal() {
    for (GroupRef& g : footer.groups)
      g.section.checksum = checksum64(bytes_of(g.section));
    for (auto* sections : {&footer.zones, &footer.dictionaries}) {
      for (NodeSection& n : *sections)
        n.section.checksum = checksum64(bytes_of(n.section));
    }
    const std::vector<uint8_t> tail = footer.serialize();
    Postscript p;
    p.footer_offset = data.size();
    p.footer_size = tail.size();
    p.footer_checksum = checksum64(tail);
    auto out = std::make_shared<std::vector<uint8_t>>(data);
    out->insert(out->end(), tail.begin(), tail.end());
    const auto last = p.serialize();
    out->insert(out->end(), last.begin(), last.end());
    return out;
  }

  std::vector<uint8_t> data;
  FileFooter footer;
};

// Reads a file in all ways. Returns true if something failed.
bool read_everything(const Bytes& bytes, bool mapped) {
  std::shared_ptr<const ReadableFile> source;
  if (mapped) {
    source = std::make_shared<MemoryFile>(*bytes, bytes);
  } else {
    source = std::make_shared<CountingFile>(bytes);
  }
  const auto opened = FileReader::open(std::move(source), {});
  if (!opened) return true;
  const Reader file = *opened;
  bool refused = false;
  const auto rows = RowReader::create_all(file);
  REQUIRE(rows.has_value());
  const uint64_t n = std::min<uint64_t>(file->num_rows(), 1000);
  for (const bool take : {false, true}) {
    Column out = (*rows)->make_output();
    const RowRange all{0, n};
    std::vector<uint64_t> some;
    for (uint64_t r = 0; r < n; r += 3) some.push_back(r);
    const Status status = take ? (*rows)->take(some, 1, &out)
                               : (*rows)->read_ranges({&all, 1}, 1, &out);
    ArrowArray array{};
    if (!status || !std::move(out).export_array(&array)) {
      refused = true;
    } else {
      // Exported arrays must be safe to access.
      const auto view = ArrayView::open((*rows)->schema(), array, "");
      if (view) CHECK_EQ(row_texts(*view).size(), take ? some.size() : n);
      array.release(&array);
    }
  }
  for (const NodeSection& z : file->footer().zones) {
    ZoneQuery q;
    q.lower = std::vector<uint8_t>{0x80, 1};
    refused |= !prune_rows(*file, z.node, q).has_value();
  }
  if (file->encoder() == nullptr || n == 0) return refused;
  ClusterCursor cursor(file->cluster());
  ByteBuffer key;
  for (uint64_t row = 0; row < n; row += 5) {
    if (!cursor.stored_key_at(row, &key) || !cursor.end_of(key.span()))
      refused = true;
  }
  return refused;
}

void mutate(uint8_t* p, uint64_t size, Rng* rng) {
  for (uint64_t n = 1 + (*rng)() % 3; n > 0; --n) {
    uint8_t& b = p[(*rng)() % size];
    const uint8_t values[] = {0,
                              1,
                              2,
                              8,
                              0x7f,
                              0x80,
                              0xff,
                              static_cast<uint8_t>(b ^ (1 << (*rng)() % 8)),
                              static_cast<uint8_t>(b + 1),
                              static_cast<uint8_t>(b - 1)};
    b = values[(*rng)() % std::size(values)];
  }
}

WriterOptions options() {
  WriterOptions o;
  o.stripe_rows = 40;
  o.group_rows = 80;
  o.key_chunk_rows = 8;
  o.zone_rows = 16;
  o.threads = 1;
  return o;
}

void attack(const Field& root, const WriterOptions& o, int rounds, Rng* rng) {
  const RandomArray rows(root, 120, rng);
  const Bytes good = write_file(rows.view(), o);
  CHECK(!read_everything(Forged(good).seal(), true));
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    Forged f(good);
    std::vector<SectionRef> sections;
    for (const GroupRef& g : f.footer.groups) sections.push_back(g.section);
    for (const NodeSection& z : f.footer.zones) sections.push_back(z.section);
    for (const NodeSection& d : f.footer.dictionaries)
      sections.push_back(d.section);
    if (round % 4 == 0) {
      mutate(f.data.data(), f.data.size(), rng);
    } else {
      const SectionRef& s = sections[(*rng)() % sections.size()];
      if (s.size == 0) continue;
      mutate(f.data.data() + s.offset, s.size, rng);
    }
    refused += read_everything(f.seal(), round % 2 == 0);
  }
  CHECK(refused > 0);
}

TEST(Hostile, EveryFieldAlone) {
  Rng rng(35);
  for (const Field& f : every_field()) {
    if (f.layout == Layout::kNull) continue;
    attack(struct_of({f}), options(), 60, &rng);
  }
}

TEST(Hostile, ManyEncodings) {
  Rng rng(36);
  const Field root = struct_of(
      {make_field("l"), make_field("u"), make_field("g"), make_field("d:9,2"),
       make_field("b"), make_dictionary("c", make_field("u"))});
  for (const Effort effort :
       {Effort::kFast, Effort::kBalanced, Effort::kCompact}) {
    WriterOptions o = options();
    o.effort = effort;
    attack(root, o, 200, &rng);
  }
}

// Regression: code 0 was accepted for an empty dictionary.
TEST(Hostile, CodesOfAnEmptyDictionary) {
  Rng rng(38);
  Field root = struct_of({make_dictionary("c", make_field("u"))});
  root.children[0].flags = 0;  // no nulls
  for (int i = 0; i < 20; ++i) {
    const RandomArray row(root, 1, &rng);
    Forged f(write_file(row.view(), options()));
    REQUIRE(f.footer.dictionaries.size() == 1);
    f.footer.dictionaries[0].rows = 0;
    CHECK(read_everything(f.seal(), i % 2 == 0));
  }
}

TEST(Hostile, OneOffsetForSegmentsOfDifferentSizes) {
  Rng rng(37);
  const Field root =
      struct_of({make_field("u"), make_field("w:5"), make_field("l")});
  const RandomArray rows(root, 120, &rng);
  Forged f(write_file(rows.view(), options()));
  // All offsets in the file are replaced by the first ones.
  for (const GroupRef& g : f.footer.groups) {
    for (uint64_t at = g.section.offset;
         at + 8 <= g.section.offset + g.section.size; at += 4) {
      const auto v = load<uint64_t>(f.data.data() + at);
      if (v >= 64 && v < g.section.offset && v % 64 == 0) {
        store(f.data.data() + at, uint64_t{64});
      }
    }
  }
  for (const bool mapped : {false, true}) read_everything(f.seal(), mapped);
}

}  // namespace
}  // namespace nimble
