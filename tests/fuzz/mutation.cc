#include "fuzz/mutation.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "nimble/base/hash.h"
#include "nimble/format/footer.h"
#include "nimble/format/postscript.h"

namespace nimble::fuzz {
namespace {

// Numbers at which sizes, counts and widths go wrong.
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 7,
                                 8,
                                 15,
                                 16,
                                 32,
                                 48,
                                 56,
                                 57,
                                 63,
                                 64,
                                 127,
                                 128,
                                 255,
                                 256,
                                 1023,
                                 1024,
                                 1025,
                                 4095,
                                 4096,
                                 32767,
                                 65535,
                                 65536,
                                 131071,
                                 131072,
                                 131073,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xffffffffffffffff,
                                 0xfffffffffffffff8};

void put_number(uint8_t* p, size_t size, Rng* rng) {
  uint64_t v = kNumbers[(*rng)() % std::size(kNumbers)];
  const size_t width = std::min<size_t>(size, size_t{1} << (*rng)() % 4);
  if ((*rng)() % 4 == 0) {  // near what is there
    v = 0;
    std::memcpy(&v, p, width);
    v += (*rng)() % 17 - 8;
  }
  std::memcpy(p, &v, width);
}

// One edit of `size` bytes at p, at least one. `all` is the whole input.
void edit(uint8_t* p, size_t size, const std::vector<uint8_t>& all, Rng* rng,
          const BaseMutation& base) {
  const size_t at = (*rng)() % size;
  const size_t rest = size - at;
  const size_t n = 1 + (*rng)() % std::min<size_t>(rest, 16);
  switch ((*rng)() % 8) {
    case 0:
      p[at] ^= static_cast<uint8_t>(1u << (*rng)() % 8);
      return;
    case 1:
      p[at] = static_cast<uint8_t>((*rng)());
      return;
    case 2:
    case 3:
      return put_number(p + at, rest, rng);
    case 4: {  // bytes of elsewhere
      const size_t from = (*rng)() % (all.size() - n + 1);
      std::memmove(p + at, all.data() + from, n);
      return;
    }
    case 5:
      std::memset(p + at, (*rng)() % 2 == 0 ? 0 : 0xff, n);
      return;
    case 6:  // all after it one place on: other heads and varints
      std::memmove(p + at + 1, p + at, rest - 1);
      return;
    default:
      if (base) {
        (void)base(p + at, std::min<size_t>(rest, 64));
      } else {
        std::memmove(p + at, p + at + 1, rest - 1);
      }
  }
}

Field* any_field(Field* root, Rng* rng) {
  Field* f = root;
  while (!f->children.empty() && (f == root || (*rng)() % 3 == 0)) {
    f = &f->children[(*rng)() % f->children.size()];
  }
  if (!f->dictionary.empty() && (*rng)() % 2 == 0) f = &f->dictionary[0];
  return f;
}

std::vector<SectionRef*> sections_of(FileFooter* f) {
  std::vector<SectionRef*> out;
  for (GroupRef& g : f->groups) out.push_back(&g.section);
  for (NodeSection& z : f->zones) out.push_back(&z.section);
  for (NodeSection& d : f->dictionaries) out.push_back(&d.section);
  for (SecondaryIndexRef& i : f->indexes) out.push_back(&i.root);
  for (OptionalSection& o : f->optional_sections) out.push_back(&o.section);
  if (f->cluster) out.push_back(&f->cluster->bloom);
  return out;
}

void change_schema(FileFooter* f, Rng* rng) {
  static const char* const kFormats[] = {
      "n",      "b",      "c",    "C",    "s",          "S",        "i",
      "I",      "l",      "L",    "e",    "f",          "g",        "z",
      "Z",      "u",      "U",    "vu",   "vz",         "w:1",      "w:42",
      "w:1000", "d:9,2",  "tdD",  "tdm",  "tts",        "ttu",      "tsn:UTC",
      "tDs",    "tiM",    "tiD",  "tin",  "d:40,2,256", "d:5,2,32", "+l",
      "+L",     "+vl",    "+w:0", "+w:3", "+s",         "+m",       "+r",
      "+us:0",  "+ud:0,1"};
  Field* field = any_field(&f->schema, rng);
  switch ((*rng)() % 4) {
    case 0:
      field->flags = static_cast<int64_t>((*rng)() % 8);
      return;
    case 1:
      if (!f->schema.children.empty()) {
        field->children.push_back(*any_field(&f->schema, rng));
      }
      return;
    default:
      field->format = kFormats[(*rng)() % std::size(kFormats)];
  }
}

void change_footer(FileFooter* f, Rng* rng) {
  const std::vector<SectionRef*> sections = sections_of(f);
  switch ((*rng)() % 7) {
    case 0:
    case 1:
      return change_schema(f, rng);
    case 2:  // one section for another
      if (sections.size() > 1) {
        *sections[(*rng)() % sections.size()] =
            *sections[(*rng)() % sections.size()];
      }
      return;
    case 3:
      for (NodeSection& d : f->dictionaries) {
        d.rows = kNumbers[(*rng)() % std::size(kNumbers)];
      }
      return;
    case 4:  // all rows in one group less or more
      if (!f->groups.empty()) {
        const GroupRef g = f->groups[(*rng)() % f->groups.size()];
        f->num_rows += g.end_row;
        f->groups.push_back({g.section, f->num_rows});
      }
      return;
    case 5:
      for (auto* nodes : {&f->zones, &f->dictionaries}) {
        for (NodeSection& n : *nodes) {
          if ((*rng)() % 2 == 0) n.node = static_cast<uint32_t>((*rng)() % 8);
        }
      }
      return;
    default:
      if (!f->groups.empty()) {
        f->num_rows = kNumbers[(*rng)() % std::size(kNumbers)];
        f->groups.back().end_row = f->num_rows;
      }
  }
}

}  // namespace

void mutate(const std::vector<ChecksumEdge>& edges, Rng* rng,
            const BaseMutation& base, std::vector<uint8_t>* input) {
  if (input->empty()) return;
  for (uint64_t n = 1 + (*rng)() % 4; n > 0; --n) {
    size_t begin = 0, size = input->size();
    if (!edges.empty() && (*rng)() % 8 != 0) {
      const ChecksumEdge& e = edges[(*rng)() % edges.size()];
      if (e.begin + e.size <= input->size()) begin = e.begin, size = e.size;
    }
    edit(input->data() + begin, size, *input, rng, base);
  }
  if ((*rng)() % 32 != 0) seal(edges, input);
}

std::vector<uint8_t> with_other_footer(ByteSpan file, Rng* rng) {
  std::vector<uint8_t> out(file.begin(), file.end());
  if (file.size() < kPostscriptSize) return out;
  const auto p = Postscript::parse(file.last(kPostscriptSize), file.size(), "");
  if (!p) return out;
  auto footer = FileFooter::parse(
      file.subspan(p->footer_offset, p->footer_size), p->footer_offset);
  if (!footer) return out;
  for (uint64_t n = 1 + (*rng)() % 2; n > 0; --n) change_footer(&*footer, rng);
  const std::vector<uint8_t> bytes = footer->serialize();
  Postscript changed = *p;
  changed.footer_size = bytes.size();
  changed.footer_checksum = checksum64(bytes);
  out.resize(p->footer_offset);
  out.insert(out.end(), bytes.begin(), bytes.end());
  const auto last = changed.serialize();
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

}  // namespace nimble::fuzz
