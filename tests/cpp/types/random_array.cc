#include "types/random_array.h"

#include "testing/check.h"

namespace nimble::testing {

Field make_field(const std::string& format, std::vector<Field> children,
                 const std::string& name) {
  Field f;
  f.name = name;
  f.format = format;
  for (size_t i = 0; i < children.size(); ++i) {
    if (children[i].name == "x")
      children[i].name = std::string(1, static_cast<char>('a' + i));
  }
  f.children = std::move(children);
  REQUIRE(f.resolve(name).is_ok());
  return f;
}

Field make_dictionary(const std::string& codes, Field values) {
  Field f;
  f.name = "x";
  f.format = codes;
  f.dictionary.push_back(std::move(values));
  REQUIRE(f.resolve("x").is_ok());
  return f;
}

namespace {

Field runs(const std::string& ends, Field values) {
  Field e = make_field(ends, {}, "run_ends");
  e.flags = 0;
  return make_field("+r", {std::move(e), std::move(values)});
}

}  // namespace

std::vector<Field> every_field() {
  const auto leaf = [](const char* format) { return make_field(format); };
  std::vector<Field> out;
  for (const char* format : {"n",          "b",
                             "c",          "C",
                             "s",          "S",
                             "i",          "I",
                             "l",          "L",
                             "e",          "f",
                             "g",          "d:7,2,32",
                             "d:12,3,64",  "d:20,5",
                             "d:50,5,256", "w:0",
                             "w:1",        "w:5",
                             "tdD",        "tdm",
                             "tts",        "ttn",
                             "tsu:",       "tsn:Europe/Paris",
                             "tDm",        "tiM",
                             "tiD",        "tin",
                             "u",          "U",
                             "vu",         "z",
                             "Z",          "vz"}) {
    out.push_back(leaf(format));
  }
  const auto point = [&] { return make_field("+s", {leaf("i"), leaf("u")}); };
  out.push_back(make_field("+l", {leaf("i")}));
  out.push_back(make_field("+L", {leaf("u")}));
  out.push_back(make_field("+vl", {leaf("b")}));
  out.push_back(make_field("+vL", {leaf("z")}));
  out.push_back(make_field("+w:3", {leaf("b")}));
  out.push_back(make_field("+w:0", {leaf("i")}));
  out.push_back(make_field("+m", {point()}));
  out.push_back(point());
  out.push_back(make_field("+s", {}));
  out.push_back(make_field("+l", {make_field("+l", {point()})}));
  out.push_back(make_field("+s", {make_field("+w:2", {point()}), leaf("b")}));
  out.push_back(make_dictionary("c", leaf("u")));
  out.push_back(make_dictionary("L", leaf("i")));
  out.push_back(make_dictionary("s", make_field("+l", {leaf("u")})));
  out.push_back(make_field("+l", {make_dictionary("i", leaf("vu"))}));
  out.push_back(runs("i", leaf("u")));
  out.push_back(runs("s", leaf("n")));
  out.push_back(runs("l", make_field("+l", {leaf("c")})));
  out.push_back(make_field("+us:0,5", {leaf("i"), leaf("u")}));
  out.push_back(make_field("+ud:7,0,2", {leaf("i"), leaf("n"), point()}));
  out.push_back(
      make_field("+l", {make_field("+ud:1,2", {leaf("g"), leaf("b")})}));
  out.push_back(make_field("+s", {runs("i", leaf("l"))}));
  return out;
}

Field struct_of(std::vector<Field> columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].name = "c" + std::to_string(i);
  }
  Field root = make_field("+s", std::move(columns), "");
  root.flags = 0;
  return root;
}

struct RandomArray::Node {
  ArrowArray array{};
  std::vector<std::unique_ptr<uint8_t[]>> buffers;
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<Node>> children;
  std::vector<ArrowArray*> child_pointers;
  std::unique_ptr<Node> dictionary;

  uint8_t* add(size_t size) {
    buffers.emplace_back(new uint8_t[size]());
    pointers.push_back(buffers.back().get());
    return buffers.back().get();
  }
};

class RandomArray::Maker {
 public:
  explicit Maker(Rng* rng) : rng_(*rng) {}

  std::unique_ptr<Node> make(const Field& f, int64_t rows) {
    auto n = std::make_unique<Node>();
    const int64_t junk = below(4), total = junk + rows + below(3);
    n->array.offset = junk;
    n->array.length = rows;
    if (f.has_validity()) add_validity(f, total, n.get());
    fill(f, static_cast<size_t>(total), n.get());
    for (const auto& c : n->children) n->child_pointers.push_back(&c->array);
    n->array.n_buffers = static_cast<int64_t>(n->pointers.size());
    n->array.buffers = n->pointers.data();
    n->array.n_children = static_cast<int64_t>(n->children.size());
    n->array.children = n->child_pointers.data();
    if (n->dictionary) n->array.dictionary = &n->dictionary->array;
    return n;
  }

 private:
  int64_t below(uint64_t n) { return static_cast<int64_t>(rng_() % n); }
  bool valid(const Node& n, size_t i) const {
    const auto* bits = static_cast<const uint8_t*>(n.pointers[0]);
    return bits == nullptr || ((bits[i / 8] >> (i % 8)) & 1) != 0;
  }

  void add_validity(const Field& f, int64_t total, Node* n) {
    if (!f.nullable() || below(4) == 0) {
      n->pointers.push_back(nullptr);
      return;
    }
    n->array.null_count = -1;
    const auto bytes = static_cast<size_t>((total + 7) / 8);
    uint8_t* bits = n->add(bytes);
    const bool many = below(2) == 0;
    for (size_t i = 0; i < bytes; ++i) {
      bits[i] = static_cast<uint8_t>(many ? rng_() : rng_() | rng_() | rng_());
    }
  }

  // Few distinct values, so that rows repeat, with all bit patterns.
  void put_value(uint8_t* to, size_t width) {
    const uint64_t kind = rng_() % 12;
    for (size_t i = 0; i < width; ++i) {
      to[i] = static_cast<uint8_t>(kind < 8    ? (i == 0 ? kind : 0)
                                   : kind < 10 ? 0xff
                                               : rng_());
    }
  }

  // Ends of random sizes. `*sum` becomes the size of the child.
  std::vector<int64_t> sizes(size_t total, uint64_t limit, int64_t* sum) {
    std::vector<int64_t> out(total);
    *sum = 0;
    for (int64_t& s : out) *sum += s = below(limit);
    return out;
  }
  static void put_int(uint8_t* to, int64_t v, size_t width) {
    std::memcpy(to, &v, width);
  }
  void add_offsets(const std::vector<int64_t>& lengths, size_t width, Node* n) {
    uint8_t* to = n->add((lengths.size() + 1) * width);
    int64_t at = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      put_int(to + (i + 1) * width, at += lengths[i], width);
    }
  }
  void fill_text(uint8_t* to, size_t n) {
    for (size_t i = 0; i < n; ++i)
      to[i] = static_cast<uint8_t>("ab\0z"[below(4)]);
  }

  void add_strings(const Field& f, size_t total, Node* n) {
    int64_t sum = 0;
    auto lengths = sizes(total, 20, &sum);
    for (int64_t& s : lengths) {  // many short ones
      if (below(2) == 0) s = below(3);
    }
    if (!f.is_view) {
      add_offsets(lengths, f.wide_offsets ? 8 : 4, n);
      sum = 0;
      for (const int64_t s : lengths) sum += s;
      fill_text(n->add(static_cast<size_t>(sum)), static_cast<size_t>(sum));
      return;
    }
    uint8_t* views = n->add(total * 16);
    constexpr size_t kBuffer = 300;
    uint8_t* data[2] = {n->add(kBuffer), n->add(kBuffer)};
    fill_text(data[0], kBuffer);
    fill_text(data[1], kBuffer);
    for (size_t i = 0; i < total; ++i, views += 16) {
      put_int(views, lengths[i], 4);
      if (lengths[i] <= 12) {
        fill_text(views + 4, static_cast<size_t>(lengths[i]));
        continue;
      }
      const int64_t which = below(2), at = below(kBuffer - 20);
      std::memcpy(views + 4, data[which] + at, 4);
      put_int(views + 8, which, 4);
      put_int(views + 12, at, 4);
    }
    int64_t buffer_sizes[2] = {kBuffer, kBuffer};
    std::memcpy(n->add(16), buffer_sizes, 16);
  }

  void add_lists(const Field& f, size_t total, Node* n) {
    const size_t width = f.wide_offsets ? 8 : 4;
    int64_t sum = 0;
    const auto lengths = sizes(total, 4, &sum);
    if (!f.is_view) {
      add_offsets(lengths, width, n);
    } else {  // anywhere in the child, overlapping
      sum = sum / 2 + 4;
      uint8_t* at = n->add(total * width);
      uint8_t* size = n->add(total * width);
      for (size_t i = 0; i < total; ++i) {
        put_int(at + i * width, below(static_cast<uint64_t>(sum - 3)), width);
        put_int(size + i * width, lengths[i], width);
      }
    }
    n->children.push_back(make(f.children[0], sum));
  }

  void add_runs(const Field& f, size_t total, Node* n) {
    std::vector<int64_t> ends;
    for (int64_t at = 0; at < static_cast<int64_t>(total);) {
      ends.push_back(at += 1 + below(6));
    }
    auto e = make(f.children[0], static_cast<int64_t>(ends.size()));
    const size_t width = f.children[0].width;
    for (size_t i = 0; i < ends.size(); ++i) {
      put_int(e->buffers.back().get() +
                  (static_cast<size_t>(e->array.offset) + i) * width,
              ends[i], width);
    }
    n->children.push_back(std::move(e));
    n->children.push_back(
        make(f.children[1], static_cast<int64_t>(ends.size())));
  }

  void add_union(const Field& f, size_t total, Node* n) {
    uint8_t* ids = n->add(total);
    uint8_t* rows = f.is_dense_union ? n->add(total * 4) : nullptr;
    std::vector<int64_t> used(f.children.size());
    for (size_t i = 0; i < total; ++i) {
      const auto c = static_cast<size_t>(below(f.children.size()));
      ids[i] = static_cast<uint8_t>(f.type_ids[c]);
      if (rows == nullptr) continue;
      used[c] += below(2);  // skip rows of the child
      put_int(rows + i * 4, used[c]++, 4);
    }
    for (size_t c = 0; c < used.size(); ++c) {
      n->children.push_back(
          make(f.children[c],
               rows != nullptr ? used[c] : static_cast<int64_t>(total)));
    }
  }

  void fill(const Field& f, size_t total, Node* n) {
    const auto count = static_cast<int64_t>(total);
    switch (f.layout) {
      case Layout::kNull:
        break;
      case Layout::kBool: {
        uint8_t* bits = n->add((total + 7) / 8);
        for (size_t i = 0; i < (total + 7) / 8; ++i)
          bits[i] = static_cast<uint8_t>(rng_());
        break;
      }
      case Layout::kFixed: {
        uint8_t* to = n->add(total * f.width);
        for (size_t i = 0; i < total; ++i) put_value(to + i * f.width, f.width);
        break;
      }
      case Layout::kDictionary: {
        const int64_t size = 1 + below(9);
        uint8_t* to = n->add(total * f.width);
        for (size_t i = 0; i < total; ++i) {
          // Null slots may have any code.
          put_int(to + i * f.width,
                  valid(*n, i) ? below(static_cast<uint64_t>(size)) : -91,
                  f.width);
        }
        n->dictionary = make(f.dictionary[0], size);
        break;
      }
      case Layout::kBytes:
        return add_strings(f, total, n);
      case Layout::kList:
        return add_lists(f, total, n);
      case Layout::kFixedList:
        n->children.push_back(make(f.children[0], count * f.list_size));
        break;
      case Layout::kStruct:
        for (const Field& c : f.children) n->children.push_back(make(c, count));
        break;
      case Layout::kRunEnd:
        return add_runs(f, total, n);
      case Layout::kUnion:
        return add_union(f, total, n);
    }
  }

  Rng& rng_;
};

RandomArray::RandomArray(const Field& field, int64_t rows, Rng* rng)
    : field_(field), root_(Maker(rng).make(field, rows)) {}
RandomArray::~RandomArray() = default;

ArrayView RandomArray::view() const {
  auto view = ArrayView::open(field_, root_->array, "test");
  REQUIRE(view.has_value());
  return *view;
}

namespace {

void put_text(const ArrayView& v, int64_t row, std::string* out) {
  const Field& f = v.field();
  if (f.layout == Layout::kNull || !v.is_valid(row)) {
    *out += "null";
    return;
  }
  const auto children = [&](size_t c, int64_t begin, int64_t n) {
    *out += '[';
    for (int64_t i = 0; i < n; ++i) {
      put_text(v.children()[c], begin + i, out);
      *out += ',';
    }
    *out += ']';
  };
  switch (f.layout) {
    case Layout::kNull:
      break;
    case Layout::kBool:
      *out += v.bool_at(row) ? "true" : "false";
      break;
    case Layout::kFixed:
      out->append(reinterpret_cast<const char*>(v.values()) +
                      static_cast<size_t>(row) * f.width,
                  f.width);
      break;
    case Layout::kBytes:
      *out += '"' + std::string(v.bytes_at(row)) + '"';
      break;
    case Layout::kList: {
      int64_t begin = 0, n = 0;
      v.list_at(row, &begin, &n);
      children(0, begin, n);
      break;
    }
    case Layout::kFixedList:
      children(0, v.child_row(row), f.list_size);
      break;
    case Layout::kStruct:
      for (size_t c = 0; c < f.children.size(); ++c)
        children(c, v.child_row(row), 1);
      break;
    case Layout::kDictionary:
      put_text(v.dictionary(), v.code_at(row), out);
      break;
    case Layout::kRunEnd:
      put_text(v.children()[1], v.run_of(row), out);
      break;
    case Layout::kUnion: {
      const int c = v.union_child(row);
      REQUIRE(c >= 0);
      *out += std::to_string(c) + ":";
      children(static_cast<size_t>(c), v.union_row(row), 1);
      break;
    }
  }
}

}  // namespace

std::vector<std::string> row_texts(const ArrayView& view) {
  std::vector<std::string> out(static_cast<size_t>(view.length()));
  for (size_t i = 0; i < out.size(); ++i)
    put_text(view, static_cast<int64_t>(i), &out[i]);
  return out;
}

}  // namespace nimble::testing
