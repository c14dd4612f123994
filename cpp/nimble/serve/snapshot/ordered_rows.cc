// The functions of ServedTable that read in key order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nimble/key/key_decoder.h"
#include "nimble/serve/snapshot/key_parts.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/served_table.h"
#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

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
  NIMBLE_ASSIGN_OR_RETURN(const KeyRange part,
                          range_between(encoder, has_lower ? at : KeyBound(),
                                        has_upper ? at : KeyBound()));
  if (part.lower && (!out.lower || compare_bytes(out.lower->span(),
                                                 part.lower->span()) < 0)) {
    out.lower = part.lower;
  }
  if (part.upper && (!out.upper || compare_bytes(part.upper->span(),
                                                 out.upper->span()) < 0)) {
    out.upper = part.upper;
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
class ClusterKeys {
 public:
  static Result<ClusterKeys> create(const ServedTable& table,
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
    return ClusterKeys(std::move(reader), std::move(encoder));
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
  ClusterKeys(TableRows reader, KeyEncoder encoder)
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
    NIMBLE_ASSIGN_OR_RETURN(ClusterKeys reader,
                            ClusterKeys::create(table, rows));
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

  MergedRows(std::span<const FileRange> rows, bool reverse, ClusterKeys reader)
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
  ClusterKeys reader_;
  uint64_t size_ = kFirstRows;
  std::vector<RowAddress> rows_;
  KeyBuffer keys_;
  size_t at_ = 0;
};

}  // namespace

Status ServedTable::append_cluster_key(RowAddress row, std::string* out) const {
  const FileRange range{row.file, {row.row, row.row + 1}};
  NIMBLE_ASSIGN_OR_RETURN(const ClusterKeys reader,
                          ClusterKeys::create(*this, {&range, 1}));
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
