// Small files with one of everything.
#include "fuzz/seeds.h"
#include "nimble/key_chunk/key_chunk.h"
#include "reader/columns.h"

namespace nimble::fuzz {
namespace {

using nimble::testing::every_field;
using nimble::testing::make_dictionary;
using nimble::testing::make_field;
using nimble::testing::RandomArray;
using nimble::testing::struct_of;
using nimble::testing::write_file;
using Rng = std::mt19937_64;

WriterOptions small_options() {
  WriterOptions o;
  o.stripe_rows = 12;
  o.group_rows = 24;
  o.key_chunk_rows = 5;
  o.zone_rows = 6;
  o.threads = 1;
  return o;
}

class Seeds {
 public:
  void add(const std::vector<Field>& columns, int64_t rows,
           const WriterOptions& options) {
    const Field root = struct_of(columns);
    const RandomArray array(root, rows, &rng_);
    all.push_back(*write_file(array.view(), options));
  }

  std::vector<std::vector<uint8_t>> all;

 private:
  Rng rng_{20};
};

// A struct array of ascending int64 and utf8 columns.
struct SortedRows {
  explicit SortedRows(int64_t n)
      : root(struct_of({int_field(), make_field("u")})) {
    text_ends.push_back(0);
    for (int64_t i = 0; i < n; ++i) {
      ints.push_back(i / 2 * 3);
      text += "text " + std::to_string(i % 2 * 4 + i / 2 % 4);
      text_ends.push_back(static_cast<int32_t>(text.size()));
    }
    set(&children[0], n, int_buffers, 2);
    set(&children[1], n, text_buffers, 3);
    int_buffers[1] = ints.data();
    text_buffers[1] = text_ends.data();
    text_buffers[2] = text.data();
    set(&array, n, root_buffers, 1);
    array.n_children = 2;
    array.children = pointers;
  }
  static Field int_field() {
    Field f = make_field("l");
    f.flags = 0;
    return f;
  }
  static void set(ArrowArray* a, int64_t n, const void** buffers,
                  int64_t count) {
    *a = {};
    a->length = n;
    a->n_buffers = count;
    a->buffers = buffers;
    a->release = [](ArrowArray* self) { self->release = nullptr; };
  }
  ArrayView view() const {
    auto v = ArrayView::open(root, array, "");
    FUZZ_CHECK(v.has_value());
    return *v;
  }

  Field root;
  std::vector<int64_t> ints;
  std::string text;
  std::vector<int32_t> text_ends;
  const void* int_buffers[2] = {};
  const void* text_buffers[3] = {};
  const void* root_buffers[1] = {};
  ArrowArray children[2];
  ArrowArray* pointers[2] = {&children[0], &children[1]};
  ArrowArray array;
};

IndexSpec index_on(IndexKind kind, std::vector<int> columns) {
  IndexSpec spec;
  spec.kind = kind;
  for (const int c : columns) spec.columns.push_back({{c}, {}});
  return spec;
}

void add_indexed(Seeds* seeds) {
  const SortedRows rows(30);
  WriterOptions o = small_options();
  o.statistics = false;
  const WriterOptions plain = o;
  o.cluster_by = {{{0}, {}}};
  o.cluster_bloom_bits = 8;
  seeds->all.push_back(*write_file(rows.view(), o));
  o.cluster_by = {{{0}, {}}, {{1}, {}}};
  o.cluster_bloom_bits = 0;
  const SortedRows few(8);
  seeds->all.push_back(*write_file(few.view(), o));
  for (const IndexKind kind : {IndexKind::kHash, IndexKind::kSorted}) {
    for (const auto& columns :
         {std::vector{0}, std::vector{1}, std::vector{1, 0}}) {
      o = plain;
      o.indexes = {index_on(kind, columns)};
      seeds->all.push_back(*write_file(rows.view(), o));
    }
  }
  o.cluster_by = {{{0}, {}}};
  o.indexes = {index_on(IndexKind::kHash, {1}),
               index_on(IndexKind::kSorted, {1})};
  seeds->all.push_back(*write_file(few.view(), o));
}

// Keys that are in their columns, but for every n-th.
void add_sampled(Seeds* seeds) {
  WriterOptions o = small_options();
  o.statistics = false;
  o.stripe_rows = o.group_rows = 400;
  o.key_chunk_rows = 200;
  o.cluster_by = {{{0}, {}}, {{1}, {}}};
  for (const Effort effort : {Effort::kBalanced, Effort::kCompact}) {
    o.effort = effort;
    seeds->all.push_back(*write_file(SortedRows(180).view(), o));
  }
}

// Phrases that two segments of a column share.
void add_phrases(Seeds* seeds) {
  static const char* const words[] = {"carefully ", "final ", "deposits ",
                                      "sleep ",     "the ",   "requests "};
  SortedRows rows(1200);
  rows.text.clear();
  for (uint32_t i = 0; i < 1200; ++i) {
    uint32_t mixed = i * 2654435761u;
    for (uint32_t k = 0; k < 4; ++k, mixed /= 7) rows.text += words[mixed % 6];
    rows.text_ends[i + 1] = static_cast<int32_t>(rows.text.size());
  }
  rows.text_buffers[2] = rows.text.data();
  WriterOptions o = small_options();
  o.statistics = false;
  o.stripe_rows = o.group_rows = 600;
  o.effort = Effort::kCompact;
  seeds->all.push_back(*write_file(rows.view(), o));
}

}  // namespace

const std::vector<std::vector<uint8_t>>& file_seeds() {
  static const std::vector<std::vector<uint8_t>> all = [] {
    Seeds seeds;
    WriterOptions o = small_options();
    for (const Field& f : every_field()) seeds.add({f}, 30, o);
    for (const Effort effort : {Effort::kFast, Effort::kCompact}) {
      o.effort = effort;
      o.stripe_rows = o.group_rows = 40;
      for (const char* format : {"l", "g", "u", "d:9,2"}) {
        seeds.add({make_field(format)}, 40, o);
      }
    }
    seeds.add({}, 5, o);
    seeds.add({make_field("l"), make_dictionary("c", make_field("u"))}, 0, o);
    o.metadata = {{"who", "test"}};
    o.statistics = false;
    seeds.add({make_field("l"), make_field("u"), make_field("b")}, 20, o);
    add_indexed(&seeds);
    add_sampled(&seeds);
    add_phrases(&seeds);
    return seeds.all;
  }();
  return all;
}

}  // namespace nimble::fuzz
