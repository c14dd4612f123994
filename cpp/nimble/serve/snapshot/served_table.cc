#include "nimble/serve/snapshot/served_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "nimble/key/key_decoder.h"
#include "nimble/serve/snapshot/key_parts.h"
#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

std::vector<const Field*> key_fields(const Field& schema,
                                     const std::vector<KeyColumnSpec>& key) {
  std::vector<const Field*> out;
  for (const KeyColumnSpec& column : key) {
    const Field* field = &schema;
    for (const int step : column.path) {
      field = &field->children[static_cast<size_t>(step)];
    }
    if (field->layout == Layout::kDictionary) field = &field->dictionary[0];
    out.push_back(field);
  }
  return out;
}

uint64_t num_rows_of(std::span<const FileRange> ranges) {
  uint64_t n = 0;
  for (const FileRange& r : ranges) n += r.rows.size();
  return n;
}

// Keeps the first rows.
void keep_first(uint64_t limit, std::vector<RowRange>* ranges) {
  for (size_t i = 0; i < ranges->size(); ++i) {
    RowRange& r = (*ranges)[i];
    if (r.size() >= limit) {
      r.end = r.begin + limit;
      ranges->resize(limit == 0 ? i : i + 1);
      return;
    }
    limit -= r.size();
  }
}
void keep_last(uint64_t limit, std::vector<RowRange>* ranges) {
  for (size_t i = ranges->size(); i-- > 0;) {
    RowRange& r = (*ranges)[i];
    if (r.size() >= limit) {
      r.begin = r.end - limit;
      ranges->erase(
          ranges->begin(),
          ranges->begin() + static_cast<ptrdiff_t>(limit == 0 ? i + 1 : i));
      return;
    }
    limit -= r.size();
  }
}

void add_row(RowAddress at, bool reverse, std::vector<FileRange>* out) {
  if (!out->empty() && out->back().file == at.file) {
    RowRange& last = out->back().rows;
    if (!reverse && last.end == at.row) {
      ++last.end;
      return;
    }
    if (reverse && last.begin == at.row + 1) {
      --last.begin;
      return;
    }
  }
  out->push_back({at.file, {at.row, at.row + 1}});
}

}  // namespace

Result<std::shared_ptr<const ServedTable>> ServedTable::create(
    ServingManifest manifest, std::shared_ptr<OpenFiles> files) {
  std::shared_ptr<ServedTable> out(new ServedTable());
  out->manifest_ = std::move(manifest);
  out->open_files_ = std::move(files);
  const ServingManifest& m = out->manifest_;
  for (uint32_t i = 0; i < m.schema.children.size(); ++i) {
    out->all_columns_.push_back(i);
    out->names_.emplace_back(m.schema.children[i].name, i);
    out->name_bytes_ += m.schema.children[i].name.size() + kReplyValueBytes;
  }
  std::sort(out->names_.begin(), out->names_.end());
  for (const ServedFile& file : m.files) {
    const uint64_t deleted = file.deleted == nullptr ? 0 : file.deleted->size();
    if (deleted > file.rows) {
      return Status::corrupt(file.path + ": more deleted rows than rows");
    }
    out->num_rows_ += file.rows - deleted;
  }
  if (m.lookup_key) {
    NIMBLE_ASSIGN_OR_RETURN(
        KeyEncoder encoder,
        KeyEncoder::create(m.schema, m.lookup_key->columns));
    out->lookup_encoder_.emplace(std::move(encoder));
    out->lookup_fields_ = key_fields(m.schema, m.lookup_key->columns);
    out->lookup_router_ = make_router(*m.lookup_key);
  }
  if (m.cluster_key) {
    NIMBLE_ASSIGN_OR_RETURN(
        KeyEncoder encoder,
        KeyEncoder::create(m.schema, m.cluster_key->columns));
    out->cluster_encoder_.emplace(std::move(encoder));
    out->cluster_fields_ = key_fields(m.schema, m.cluster_key->columns);
    out->cluster_router_ = make_router(*m.cluster_key);
  }
  out->owners_.resize(m.files.size());
  out->opened_ =
      std::make_unique<std::atomic<const OpenedFile*>[]>(m.files.size());
  return std::shared_ptr<const ServedTable>(std::move(out));
}

std::string ServedTable::version() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(manifest_.checksum));
  return text;
}

std::optional<uint32_t> ServedTable::find_column(std::string_view name) const {
  const auto at = std::lower_bound(
      names_.begin(), names_.end(), name,
      [](const auto& known, std::string_view n) { return known.first < n; });
  if (at == names_.end() || at->first != name) return std::nullopt;
  return at->second;
}

void ServedTable::open_ahead(size_t most) const {
  for (uint32_t i = 0; i < manifest_.files.size() && i < most; ++i) {
    if (!file(i)) continue;  // the first request will name the problem
  }
}

Result<const OpenedFile*> ServedTable::file(uint32_t i) const {
  const OpenedFile* opened = opened_[i].load(std::memory_order_acquire);
  if (opened != nullptr) [[likely]] {
    return opened;
  }
  const std::lock_guard lock(mutex_);
  if (owners_[i] == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        owners_[i],
        OpenedFile::open(manifest_, manifest_.files[i],
                         lookup_encoder_ ? &*lookup_encoder_ : nullptr,
                         cluster_encoder_ ? &*cluster_encoder_ : nullptr,
                         open_files_.get()));
    opened_[i].store(owners_[i].get(), std::memory_order_release);
  }
  return owners_[i].get();
}

const OpenedFile* ServedTable::find_file(uint64_t checksum,
                                         uint64_t size) const {
  for (uint32_t i = 0; i < manifest_.files.size(); ++i) {
    const OpenedFile* opened = opened_[i].load(std::memory_order_acquire);
    if (opened != nullptr && manifest_.files[i].size == size &&
        opened->reader().postscript().footer_checksum == checksum) {
      return opened;
    }
  }
  return nullptr;
}

// ---- keys

Result<bool> ServedTable::read_values(std::string_view text,
                                      const KeyEncoder& encoder,
                                      std::span<const Field* const> fields,
                                      bool is_whole, bool starts_with,
                                      TypedKey* out) const {
  out->values.clear();
  out->encoded.clear();
  out->has_null = false;
  const auto problem = [&](const std::string& what) {
    return Status::invalid_argument("key '" + std::string(text.substr(0, 100)) +
                                    "' " + what);
  };
  std::vector<std::optional<std::string>> parts;
  const bool is_plain =
      fields.size() == 1 && std::none_of(text.begin(), text.end(), [](char c) {
        return c == ':' || c == '\\';
      });
  if (!is_plain) {
    if (!split_key(text, &parts)) {
      return problem("has an escape other than \\:, \\\\ and \\N");
    }
    if (parts.size() > fields.size() ||
        (is_whole && parts.size() < fields.size())) {
      return problem("has " + std::to_string(parts.size()) +
                     " values; the key has " + std::to_string(fields.size()));
    }
  }
  const size_t count = is_plain ? 1 : parts.size();
  out->bytes.resize(fields.size());
  bool is_possible = true;
  for (size_t i = 0; i < count; ++i) {
    if (!is_plain && !parts[i]) {
      out->has_null = true;
      out->values.push_back(KeyScalar::null());
      continue;
    }
    const std::string_view part = is_plain ? text : std::string_view(*parts[i]);
    const KeyColumn& column = encoder.columns()[i];
    if (starts_with && i + 1 == count) {
      if (column.kind != KeyKind::kBytes &&
          column.kind != KeyKind::kFixedBytes) {
        return problem("begins a value of column '" + column.name + "' (" +
                       fields[i]->type_name() + "), which is not text");
      }
      out->bytes[i] = part;
      out->values.push_back(KeyScalar::from_bytes(as_bytes(out->bytes[i])));
      continue;
    }
    const TextFit fit = parse_text(*fields[i], part, &out->bytes[i]);
    if (fit == TextFit::kInvalid) {
      return problem("cannot be converted to column '" + column.name + "' (" +
                     fields[i]->type_name() + ")");
    }
    is_possible &= fit == TextFit::kExact;
    if (fit == TextFit::kExact) {
      out->values.push_back(
          KeyScalar::from_value(*fields[i], as_bytes(out->bytes[i])));
    }
  }
  if (!is_possible) return false;
  if (!starts_with) {
    NIMBLE_RETURN_IF_ERROR(encoder.encode_tuple(out->values, &out->encoded));
  }
  return true;
}

Result<bool> ServedTable::read_key(std::string_view text, TypedKey* out) const {
  if (!lookup_encoder_) {
    return Status::unsupported(manifest_.name +
                               ": it has no primary key and no cluster key");
  }
  return read_values(text, *lookup_encoder_, lookup_fields_, true, false, out);
}

Result<bool> ServedTable::read_cluster_key(std::string_view text,
                                           bool starts_with,
                                           TypedKey* out) const {
  if (!cluster_encoder_) {
    return Status::unsupported(manifest_.name + ": it has no cluster key");
  }
  return read_values(text, *cluster_encoder_, cluster_fields_, false,
                     starts_with, out);
}

// ---- which files

ServedTable::Router ServedTable::make_router(const ServedKey& key) {
  Router out;
  out.order.resize(key.lower.size());
  std::iota(out.order.begin(), out.order.end(), 0u);
  std::stable_sort(
      out.order.begin(), out.order.end(), [&](uint32_t a, uint32_t b) {
        return compare_bytes(as_bytes(key.lower[a]), as_bytes(key.lower[b])) <
               0;
      });
  for (const uint32_t i : out.order) {
    const std::string& upper = key.upper[i];
    const bool is_above =
        out.reach.empty() ||
        compare_bytes(as_bytes(out.reach.back()), as_bytes(upper)) < 0;
    out.reach.push_back(is_above ? upper : out.reach.back());
  }
  return out;
}

void ServedTable::route(const ServedKey& key, const Router& router,
                        ByteSpan first, ByteSpan end,
                        std::vector<uint32_t>* out) {
  const auto begin = std::partition_point(
      router.reach.begin(), router.reach.end(), [&](const std::string& reach) {
        return compare_bytes(as_bytes(reach), first) < 0;
      });
  for (auto i = static_cast<size_t>(begin - router.reach.begin());
       i < router.order.size(); ++i) {
    const uint32_t file = router.order[i];
    if (!end.empty() && compare_bytes(as_bytes(key.lower[file]), end) >= 0) {
      break;
    }
    if (compare_bytes(as_bytes(key.upper[file]), first) >= 0) {
      out->push_back(file);
    }
  }
  std::sort(out->begin(), out->end());
}

// ---- rows by key

Result<std::optional<uint64_t>> ServedTable::find_in(
    const OpenedFile& file, const ServedIndex& index,
    const TypedKey& key) const {
  const IndexLookup& lookup = *index.lookup;
  ByteBuffer own;
  ByteSpan encoded = key.encoded.span();
  if (!index.same_keys) {
    std::vector<KeyScalar> values;
    for (size_t i = 0; i < index.places.size(); ++i) {
      const KeyScalar& value = key.values[index.places[i]];
      if (fit_of(lookup.encoder().columns()[i], value) != ScalarFit::kExact) {
        return std::optional<uint64_t>();  // this file cannot contain the value
      }
      values.push_back(value);
    }
    NIMBLE_RETURN_IF_ERROR(lookup.encoder().encode_tuple(values, &own));
    encoded = own.span();
  }
  if (index.is_whole) {
    return file.deleted() == nullptr
               ? lookup.find_first(encoded, nullptr)
               : find_first_live(lookup, encoded, nullptr, *file.deleted());
  }
  KeyBuffer keys;
  keys.push_back(encoded);
  LookupAnswer answer;
  NIMBLE_RETURN_IF_ERROR(lookup.find(keys, false, nullptr, &answer));
  std::optional<uint64_t> first;
  std::vector<RowRange> live;
  for (const RowRange& r : answer.ranges) {
    if (r.empty()) continue;
    live.clear();
    if (file.deleted() == nullptr) {
      live.push_back(r);
    } else {
      file.deleted()->append_absent(r, &live);
    }
    if (!live.empty() && (!first || live[0].begin < *first)) {
      first = live[0].begin;
    }
  }
  return first;
}

Result<std::optional<RowAddress>> ServedTable::find_first(
    const TypedKey& key) const {
  if (key.has_null) return std::optional<RowAddress>();
  const ByteSpan encoded = key.encoded.span();
  const auto search =
      [&](uint32_t number) -> Result<std::optional<RowAddress>> {
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, file(number));
    NIMBLE_ASSIGN_OR_RETURN(const ServedIndex* index, opened->lookup_index());
    NIMBLE_ASSIGN_OR_RETURN(const std::optional<uint64_t> row,
                            find_in(*opened, *index, key));
    if (!row) return std::optional<RowAddress>();
    return std::optional<RowAddress>(RowAddress{number, *row});
  };
  if (manifest_.files.size() == 1) return search(0);
  const ServedKey& bounds = *manifest_.lookup_key;
  std::vector<uint32_t> files;
  ByteBuffer end;
  end.put_bytes(encoded);
  end.put_u8(0);  // the least key above this one
  route(bounds, lookup_router_, encoded, end.span(), &files);
  for (const uint32_t number : files) {
    NIMBLE_ASSIGN_OR_RETURN(const std::optional<RowAddress> row,
                            search(number));
    if (row) return row;
  }
  return std::optional<RowAddress>();
}

Result<LocatedRows> ServedTable::find(std::span<const std::string_view> texts,
                                      TypedKey* scratch) const {
  // The indexes of the keys that can match.
  std::vector<uint64_t> numbers;
  KeyBuffer encoded(lookup_encoder_ ? lookup_encoder_->fixed_width() : 0);
  for (size_t i = 0; i < texts.size(); ++i) {
    NIMBLE_ASSIGN_OR_RETURN(const bool possible, read_key(texts[i], scratch));
    if (!possible || scratch->has_null) continue;
    numbers.push_back(i);
    encoded.push_back(scratch->encoded.span());
  }
  if (numbers.empty()) return LocatedRows();
  const ServedKey& bounds = *manifest_.lookup_key;
  const KeyProbes probes(encoded);
  std::vector<FileProbes> asked;
  LocatedRows others;  // in files whose keys are encoded differently
  std::vector<std::pair<uint64_t, size_t>> by_rank;
  for (uint32_t i = 0; i < manifest_.files.size(); ++i) {
    const ProbeSpan span =
        probes.between(as_bytes(bounds.lower[i]), as_bytes(bounds.upper[i]));
    if (span.numbers.empty()) continue;
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, file(i));
    NIMBLE_ASSIGN_OR_RETURN(const ServedIndex* index, opened->lookup_index());
    if (index->same_keys) {
      asked.push_back(
          {i, index->lookup, index->is_whole, span, opened->deleted()});
      continue;
    }
    const KeyEncoder& encoder = index->lookup->encoder();
    std::vector<uint64_t> of;
    KeyBuffer own(index->is_whole ? encoder.fixed_width() : 0);
    for (const uint64_t at : span.numbers) {
      NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const bool possible,
                              read_key(texts[numbers[at]], scratch));
      std::vector<KeyScalar> values;
      bool fits = true;
      for (size_t c = 0; c < index->places.size(); ++c) {
        values.push_back(scratch->values[index->places[c]]);
        fits &=
            fit_of(encoder.columns()[c], values.back()) == ScalarFit::kExact;
      }
      if (!fits) continue;
      ByteBuffer key;
      NIMBLE_RETURN_IF_ERROR(encoder.encode_tuple(values, &key));
      own.push_back(key.span());
      of.push_back(at);
    }
    const KeyProbes own_probes(own);
    const FileProbes one{i, index->lookup, index->is_whole,
                         own_probes.part(0, own_probes.num_distinct()),
                         opened->deleted()};
    NIMBLE_ASSIGN_OR_RETURN(const LocatedRows rows,
                            locate(own_probes, {&one, 1}));
    // `span` has distinct keys. Equal keys get the same rows.
    if (by_rank.empty()) {
      for (size_t k = 0; k < encoded.size(); ++k) {
        by_rank.emplace_back(probes.rank(k), k);
      }
      std::sort(by_rank.begin(), by_rank.end());
    }
    for (size_t r = 0; r < rows.keys.size(); ++r) {
      const uint64_t rank = probes.rank(of[rows.keys[r]]);
      for (auto k = std::lower_bound(by_rank.begin(), by_rank.end(),
                                     std::pair(rank, size_t{0}));
           k != by_rank.end() && k->first == rank; ++k) {
        others.keys.push_back(k->second);
        others.files.push_back(i);
        others.ranges.push_back(rows.ranges[r]);
      }
    }
  }
  NIMBLE_ASSIGN_OR_RETURN(LocatedRows out, locate(probes, asked));
  if (!others.keys.empty()) {
    out.keys.insert(out.keys.end(), others.keys.begin(), others.keys.end());
    out.files.insert(out.files.end(), others.files.begin(), others.files.end());
    out.ranges.insert(out.ranges.end(), others.ranges.begin(),
                      others.ranges.end());
    std::vector<size_t> order(out.keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(out.keys[a], out.files[a]) <
             std::pair(out.keys[b], out.files[b]);
    });
    LocatedRows sorted;
    for (const size_t i : order) {
      sorted.keys.push_back(out.keys[i]);
      sorted.files.push_back(out.files[i]);
      sorted.ranges.push_back(out.ranges[i]);
    }
    out = std::move(sorted);
  }
  for (uint64_t& key : out.keys) key = numbers[key];
  return out;
}

// ---- rows in order

namespace {

// The largest value of a float column that is at most `v`, which is finite.
double round_down(const KeyColumn& column, double v) {
  const bool is_half = column.width == 2;
  const double max = is_half ? 65504.0 : std::numeric_limits<float>::max();
  if (v > max) return max;
  if (v < -max) return -std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(v, &exponent);
  const int unit =
      std::max(exponent - (is_half ? 11 : 24), is_half ? -24 : -149);
  return std::ldexp(std::floor(std::ldexp(v, -unit)), unit);
}

// Returns key_order_range() for values of the table's types. The columns of
// `encoder` may be narrower floats. A bound between two of their values is then
// replaced by a bound at the value below it.
Result<KeyRange> range_between(const KeyEncoder& encoder, KeyBound lower,
                               KeyBound upper) {
  for (KeyBound* const bound : {&lower, &upper}) {
    for (size_t i = 0; i < bound->values.size(); ++i) {
      const KeyColumn& column = encoder.columns()[i];
      if (fit_of(column, bound->values[i]) != ScalarFit::kInexact) continue;
      bound->values.resize(i + 1);
      KeyScalar& value = bound->values[i];
      value = KeyScalar::from_double(round_down(column, value.f));
      // Rows with the value below sort before the bound, unless the column is
      // descending.
      bound->inclusive = (bound == &lower) == column.order.descending;
    }
  }
  return key_order_range(encoder, lower, upper);
}

Result<KeyRange> range_without_resume(const KeyEncoder& encoder,
                                      const OrderedRows& rows) {
  if (rows.is_prefix) {
    return equal_range(encoder, rows.lower.values, rows.starts_with);
  }
  KeyBound lower, upper;
  if (rows.has_lower) lower = {rows.lower.values, rows.lower_inclusive};
  if (rows.has_upper) upper = {rows.upper.values, rows.upper_inclusive};
  return range_between(encoder, std::move(lower), std::move(upper));
}

Result<KeyRange> range_with(const KeyEncoder& encoder,
                            const OrderedRows& rows) {
  NIMBLE_ASSIGN_OR_RETURN(KeyRange out, range_without_resume(encoder, rows));
  if (rows.resume == nullptr) return out;
  const KeyBound at{rows.resume->values, rows.is_resume_key};
  const bool has_lower = rows.is_resume_key || !rows.reverse;
  const bool has_upper = rows.is_resume_key || rows.reverse;
  NIMBLE_ASSIGN_OR_RETURN(KeyRange part,
                          range_between(encoder, has_lower ? at : KeyBound(),
                                        has_upper ? at : KeyBound()));
  if (part.lower && (!out.lower || compare_bytes(out.lower->span(),
                                                 part.lower->span()) < 0)) {
    out.lower = std::move(part.lower);
  }
  if (part.upper && (!out.upper || compare_bytes(part.upper->span(),
                                                 out.upper->span()) < 0)) {
    out.upper = std::move(part.upper);
  }
  return out;
}

}  // namespace

Status ServedTable::ordered_in(uint32_t number, const OrderedRows& rows,
                               uint64_t limit,
                               std::vector<FileRange>* out) const {
  NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, file(number));
  NIMBLE_ASSIGN_OR_RETURN(const ServedIndex* index, opened->cluster_index());
  NIMBLE_ASSIGN_OR_RETURN(const KeyRange range,
                          range_with(index->lookup->encoder(), rows));
  NIMBLE_ASSIGN_OR_RETURN(const RowRange places,
                          index->lookup->find_range(range, nullptr));
  if (places.empty()) return Status::ok();
  std::vector<RowRange> live;
  if (opened->deleted() == nullptr) {
    live.push_back(places);
  } else {
    opened->deleted()->append_absent(places, &live);
  }
  if (rows.reverse) {
    keep_last(limit, &live);
    std::reverse(live.begin(), live.end());
  } else {
    keep_first(limit, &live);
  }
  for (const RowRange& r : live) out->push_back({number, r});
  return Status::ok();
}

Result<std::vector<FileRange>> ServedTable::find_ordered(
    const OrderedRows& rows) const {
  const uint64_t limit = rows.limit == UINT64_MAX ? rows.limit : rows.limit + 1;
  std::vector<FileRange> out;
  if (rows.is_prefix && rows.lower.has_null) return out;
  const ServedKey& bounds = *manifest_.cluster_key;
  NIMBLE_ASSIGN_OR_RETURN(const KeyRange range,
                          range_with(*cluster_encoder_, rows));
  if (range.empty()) return out;
  std::vector<uint32_t> files;
  route(bounds, cluster_router_, range.lower ? range.lower->span() : ByteSpan(),
        range.upper ? range.upper->span() : ByteSpan(), &files);
  bool is_disjoint = true;
  for (size_t i = 1; i < files.size(); ++i) {
    is_disjoint &= compare_bytes(as_bytes(bounds.upper[files[i - 1]]),
                                 as_bytes(bounds.lower[files[i]])) < 0;
  }
  if (rows.reverse) std::reverse(files.begin(), files.end());
  if (is_disjoint) {
    uint64_t left = limit;
    for (const uint32_t number : files) {
      if (left == 0) break;
      const size_t before = out.size();
      NIMBLE_RETURN_IF_ERROR(ordered_in(number, rows, left, &out));
      left -= num_rows_of(std::span(out).subspan(before));
    }
    return out;
  }
  std::vector<std::vector<FileRange>> parts;
  for (const uint32_t number : files) {
    std::vector<FileRange> part;
    NIMBLE_RETURN_IF_ERROR(ordered_in(number, rows, limit, &part));
    if (!part.empty()) parts.push_back(std::move(part));
  }
  if (parts.size() < 2) return parts.empty() ? out : std::move(parts[0]);
  return merge_ordered(parts, rows, limit);
}

// ---- keys of rows

namespace {

// Encodes the cluster keys of rows of one read, in the types of the table. The
// files may have narrower types.
class KeyRows {
 public:
  static Result<KeyRows> create(const ServedTable& table,
                                std::span<const FileRange> rows) {
    // The top-level columns that contain the key, and the key's paths in them.
    std::vector<uint32_t> columns;
    std::vector<KeyColumnSpec> here;
    for (KeyColumnSpec spec : table.manifest().cluster_key->columns) {
      const auto top = static_cast<uint32_t>(spec.path[0]);
      const auto at = std::find(columns.begin(), columns.end(), top);
      spec.path[0] = static_cast<int>(at - columns.begin());
      if (at == columns.end()) columns.push_back(top);
      here.push_back(std::move(spec));
    }
    NIMBLE_ASSIGN_OR_RETURN(TableRows reader,
                            TableRows::create(table, rows, columns));
    NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder,
                            KeyEncoder::create(reader.schema(), here));
    return KeyRows(std::move(reader), std::move(encoder));
  }

  // Replaces *out by the keys of rows, in the order of the read.
  Status encode(std::span<const FileRange> rows, bool reverse,
                KeyBuffer* out) const {
    Column column = reader_.make_output();
    NIMBLE_RETURN_IF_ERROR(reader_.append(rows, reverse, &column));
    ArrowArray array{};
    NIMBLE_RETURN_IF_ERROR(std::move(column).export_array(&array));
    const auto encode = [&]() -> Status {
      NIMBLE_ASSIGN_OR_RETURN(const ArrayView view,
                              ArrayView::open(reader_.schema(), array, ""));
      out->reset(encoder_.fixed_width());
      return encoder_.encode(view, 0, view.length(), out);
    };
    Status status = encode();
    array.release(&array);
    return status;
  }

 private:
  KeyRows(TableRows reader, KeyEncoder encoder)
      : reader_(std::move(reader)), encoder_(std::move(encoder)) {}

  TableRows reader_;
  KeyEncoder encoder_;
};

// The rows of one file in a merge. Encodes their keys in growing pieces,
// because most merges end long before the last row.
class MergedRows {
 public:
  static Result<MergedRows> create(const ServedTable& table,
                                   std::span<const FileRange> rows,
                                   bool reverse) {
    NIMBLE_ASSIGN_OR_RETURN(KeyRows reader, KeyRows::create(table, rows));
    MergedRows out(rows, reverse, std::move(reader));
    NIMBLE_RETURN_IF_ERROR(out.read());
    return out;
  }

  bool is_done() const { return at_ == rows_.size(); }
  ByteSpan key() const { return keys_.key(at_); }
  RowAddress row() const { return rows_[at_]; }
  Status advance() {
    ++at_;
    return is_done() && !slices_.is_done() ? read() : Status::ok();
  }

 private:
  static constexpr uint64_t kFirstRows = 16;
  static constexpr uint64_t kMostRows = 16384;

  MergedRows(std::span<const FileRange> rows, bool reverse, KeyRows reader)
      : slices_(rows, reverse), reverse_(reverse), reader_(std::move(reader)) {}

  Status read() {
    const std::vector<FileRange> slice = slices_.next(size_);
    size_ = std::min(2 * size_, kMostRows);
    at_ = 0;
    rows_.clear();
    for (const FileRange& r : slice) {
      for (uint64_t i = 0; i < r.rows.size(); ++i) {
        rows_.push_back(
            {r.file, reverse_ ? r.rows.end - 1 - i : r.rows.begin + i});
      }
    }
    return reader_.encode(slice, reverse_, &keys_);
  }

  RowSlices slices_;
  bool reverse_;
  KeyRows reader_;
  uint64_t size_ = kFirstRows;
  std::vector<RowAddress> rows_;
  KeyBuffer keys_;
  size_t at_ = 0;
};

}  // namespace

Status ServedTable::append_cluster_key(RowAddress row, std::string* out) const {
  const FileRange range{row.file, {row.row, row.row + 1}};
  NIMBLE_ASSIGN_OR_RETURN(const KeyRows reader,
                          KeyRows::create(*this, {&range, 1}));
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(reader.encode({&range, 1}, false, &keys));
  std::vector<DecodedColumn> values;
  const KeyDecoder decoder(*cluster_encoder_);
  NIMBLE_RETURN_IF_ERROR(decoder.decode(keys.key(0), &values));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].validity[0] == 0) {
      if (i > 0) out->push_back(':');
      out->append("\\N");
      continue;
    }
    std::string text;
    append_text(*cluster_fields_[i], values[i].value(decoder.columns()[i], 0),
                &text);
    append_key_part(text, i == 0, out);
  }
  return Status::ok();
}

Result<std::vector<FileRange>> ServedTable::merge_ordered(
    const std::vector<std::vector<FileRange>>& files, const OrderedRows& rows,
    uint64_t limit) const {
  std::vector<MergedRows> parts;
  for (const std::vector<FileRange>& file : files) {
    NIMBLE_ASSIGN_OR_RETURN(MergedRows part,
                            MergedRows::create(*this, file, rows.reverse));
    parts.push_back(std::move(part));
  }
  std::vector<FileRange> out;
  // A heap of parts, ordered by their next key. Equal keys are ordered by file,
  // in the wanted direction.
  const auto is_later = [&](size_t a, size_t b) {
    const int c = compare_bytes(parts[a].key(), parts[b].key());
    if (c != 0) return rows.reverse ? c < 0 : c > 0;
    return a > b;  // parts are in the wanted order of their files
  };
  std::vector<size_t> heap(parts.size());
  std::iota(heap.begin(), heap.end(), size_t{0});
  std::make_heap(heap.begin(), heap.end(), is_later);
  for (uint64_t n = 0; n < limit && !heap.empty(); ++n) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    MergedRows& part = parts[heap.back()];
    add_row(part.row(), rows.reverse, &out);
    NIMBLE_RETURN_IF_ERROR(part.advance());
    if (part.is_done()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), is_later);
    }
  }
  return out;
}

}  // namespace nimble
