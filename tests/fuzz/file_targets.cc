// Whole files, read in every way there is.
#include <algorithm>

#include "fuzz/fuzz_file.h"
#include "nimble/cursor/cluster_cursor.h"
#include "nimble/lookup/open_index.h"
#include "nimble/maintain/verify.h"
#include "nimble/scan/row_filter.h"
#include "nimble/scan/zone_map.h"

namespace nimble::fuzz {
namespace {

std::shared_ptr<const RowReader> all_columns(const Reader& file) {
  auto rows = RowReader::create_all(file);
  return rows ? *rows : nullptr;
}

std::optional<ArrowRows> read(const RowReader& rows, RowRange range) {
  Column out = rows.make_output();
  if (!rows.read_ranges({&range, 1}, 1, &out)) return std::nullopt;
  return ArrowRows::make(rows, std::move(out));
}

std::optional<ArrowRows> take(const RowReader& rows,
                              const std::vector<uint64_t>& wanted) {
  Column out = rows.make_output();
  if (!rows.take(wanted, 1, &out)) return std::nullopt;
  return ArrowRows::make(rows, std::move(out));
}

// Names of up to `most` columns and of a field of the first struct.
std::vector<OutputColumn> some_columns(const Field& root, size_t most) {
  std::vector<OutputColumn> out;
  for (size_t i = 0; i < root.children.size() && out.size() < most; i += 2) {
    const Field& f = root.children[i];
    const auto top = static_cast<int>(i);
    out.push_back({{top}, f.name});
    if (f.layout == Layout::kStruct && !f.children.empty()) {
      const auto last = static_cast<int>(f.children.size()) - 1;
      out.push_back({{top, last}, f.name + "." + f.children.back().name});
    }
  }
  return out;
}

// The first rows' keys, and others beside them.
bool make_keys(const Reader& file, const KeyEncoder& encoder, KeyBuffer* keys) {
  const auto rows = all_columns(file);
  if (rows == nullptr) return false;
  const uint64_t n = std::min<uint64_t>(file->num_rows(), 40);
  const auto read_rows = read(*rows, {0, n});
  return read_rows &&
         encoder.encode(read_rows->view(), 0, static_cast<int64_t>(n), keys);
}

void ask_index(const Reader& file, const IndexLookup& index) {
  KeyBuffer keys;
  if (!make_keys(file, index.encoder(), &keys) || keys.empty()) return;
  KeyBuffer probes;  // also some that are in no row
  probes.reset(keys.fixed_width());
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<uint8_t> key(keys.key(i).begin(), keys.key(i).end());
    probes.push_back(key);
    key.back() = static_cast<uint8_t>(key.back() + 1);
    if (i % 4 == 0) probes.push_back(key);
  }
  LookupAnswer answer;
  const Status found = index.find(probes, true, nullptr, &answer);
  if (found) {
    FUZZ_CHECK(answer.ends.size() == probes.size());
    for (const RowRange& r : answer.ranges) {
      FUZZ_CHECK(r.end <= file->num_rows());
    }
  }
  LookupAnswer candidates;
  (void)index.find_candidates(probes, true, &candidates);
  for (size_t i = 0; i < probes.size(); ++i) {
    const auto first = index.find_first(probes.key(i), nullptr);
    FUZZ_CHECK(!first ||
               first->value_or(0) < std::max<uint64_t>(1, file->num_rows()));
  }
  std::vector<uint64_t> counts;
  (void)index.count(probes, true, &counts);
  (void)index.check_rows(keys, 0);
  if (file->num_rows() <= kMostFileRows) (void)index.check_order();
  if (!index.is_ordered()) return;
  std::vector<PlaceRange> places;
  const Status placed = index.find_places(probes, &places);
  for (const size_t cut : {size_t{1}, keys.key(0).size() / 2 + 1}) {
    const auto range = index.find_range(
        prefix_range(keys.key(0).first(std::min(cut, keys.key(0).size()))),
        nullptr);
    if (range) places.push_back(*range);
  }
  if (!placed) return;
  std::vector<uint64_t> rows;
  for (PlaceRange p : places) {
    p.end = std::min(p.end, p.begin + kMostFileRows);
    rows.clear();
    if (!index.rows_at({&p, 1}, &rows)) continue;
    for (const uint64_t row : rows) FUZZ_CHECK(row < file->num_rows());
  }
}

Predicate some_test(const Field& field, uint32_t variant) {
  Predicate test;
  test.type = field.value_type();
  test.negated = variant % 2 == 1;
  test.shape = Predicate::Shape::kRange;
  test.ints = {1, 20, {1, 20}};
  test.floats = {-1, 3.5, {-1, 3.5}};
  test.wides = {WideInt{1}, WideInt{100}, {WideInt{1}, WideInt{100}}};
  test.bytes.low = "a", test.bytes.high = "text 3";
  test.bytes.set = {"a", "text 3"};
  if (variant >= 2) test.shape = Predicate::Shape::kSet;
  return test;
}

void run_filter(const Reader& file, int column, FilterNode::Kind kind,
                const Predicate& test) {
  FilterNode leaf;
  leaf.kind = kind;
  leaf.path = {column};
  leaf.test = test;
  FilterNode root;
  root.kind = FilterNode::Kind::kOr;
  root.children = {leaf, leaf};
  const auto filter = RowFilter::create(file, root);
  if (!filter) return;
  RowFilter::Windows windows(*file,
                             {{0, std::min<uint64_t>(file->num_rows(), 5000)}});
  FilterWindow window;
  for (int i = 0; i < 4; ++i) {
    const auto more = windows.next(&window);
    if (!more || !*more) return;
    PassingRows passing;
    if (!(*filter)->select(window, &passing)) return;
    const std::span<const uint32_t> rows = passing.rows();
    uint64_t count = 0;
    if ((*filter)->count(window, &count)) FUZZ_CHECK(count == rows.size());
    for (const uint32_t row : rows) {
      FUZZ_CHECK(passing.first_row + row < file->num_rows());
    }
  }
}

}  // namespace

FUZZ_FILE_TARGET(open) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr) return;
    for (size_t i = 0; i < file->footer().indexes.size(); ++i) {
      (void)file->index(i);
    }
    (void)file->footer().schema.type_name();
    FUZZ_CHECK(!file->footer().serialize().empty());
    (void)file->budget()->used();
  }
}

FUZZ_FILE_TARGET(scan) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr) return;
    const auto rows = all_columns(file);
    if (rows == nullptr) return;
    const uint64_t n = file->num_rows();
    const auto first = read(*rows, {0, std::min(n, kMostFileRows)});
    if (first) (void)first->digest();
    if (n <= kMostFileRows) continue;
    const auto last = read(*rows, {n - 50, n});
    if (last) (void)last->digest();
  }
}

FUZZ_FILE_TARGET(projection) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr || file->num_rows() == 0) return;
    const uint64_t n = file->num_rows();
    const auto rows =
        RowReader::create(file, some_columns(file->footer().schema, 6));
    if (!rows) return;
    std::vector<uint64_t> wanted = {n - 1, 0, n / 2, n / 2};
    const auto few = take(**rows, wanted);
    if (few) (void)few->digest();
    wanted.clear();
    for (uint64_t r = 0; r < std::min(n, kMostFileRows); r += 3) {
      wanted.push_back(r);
    }
    const auto many = take(**rows, wanted);
    if (many) (void)many->digest();
  }
}

FUZZ_FILE_TARGET(lookup) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr || file->encoder() == nullptr) return;
    ask_index(file, *open_cluster_lookup(file->cluster()));
    const uint64_t n = std::min<uint64_t>(file->num_rows(), 60);
    ClusterCursor cursor(file->cluster());
    ByteBuffer key;
    for (uint64_t row = 0; row < n; row += 7) {
      const auto stored = cursor.stored_key_at(row, &key);
      if (!stored || !*stored) continue;
      (void)cursor.find_first(key.span());
      (void)cursor.end_of(key.span());
    }
  }
}

FUZZ_FILE_TARGET(index) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr) return;
    const size_t n = std::min<size_t>(file->footer().indexes.size(), 3);
    for (size_t i = 0; i < n; ++i) {
      const auto index = file->index(i);
      if (index) ask_index(file, **index);
    }
  }
}

FUZZ_FILE_TARGET(filter) {
  for (const bool mapped : {true, false}) {
    const Reader file = open_input(input, mapped);
    if (file == nullptr) return;
    uint32_t variant = 0;
    for (const Field& f : file->footer().schema.children) {
      const auto column = static_cast<int>(variant);
      if (++variant > 8) break;
      run_filter(file, column, FilterNode::Kind::kNull, {});
      const Field* tested = RowFilter::tested_field(f);
      if (tested == nullptr) continue;
      run_filter(file, column, FilterNode::Kind::kTest,
                 some_test(*tested, variant % 4));
    }
    size_t zones = 0;
    for (const NodeSection& z : file->footer().zones) {
      if (++zones > 8) break;
      ZoneQuery q;
      q.lower = std::vector<uint8_t>{0x80, 1};
      (void)prune_rows(*file, z.node, q);
      q.kind = ZoneQuery::Kind::kNull;
      (void)prune_rows(*file, z.node, q);
    }
  }
}

FUZZ_FILE_TARGET(verify) {
  const Reader file = open_input(input, true);
  if (file != nullptr && file->num_rows() < 3000) (void)verify_file(*file);
}

}  // namespace nimble::fuzz
