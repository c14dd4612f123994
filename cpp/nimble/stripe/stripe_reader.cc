#include "nimble/stripe/stripe_reader.h"

#include <algorithm>
#include <span>

#include "nimble/base/compiler.h"
#include "nimble/base/row_range.h"

// The layouts of StripeReader. stripe_reader_streams.cc has the streams.
namespace nimble {
namespace {

// Lists with at least this many items on average are read one by one.
constexpr uint64_t kLongList = 64;

}  // namespace

namespace {

NIMBLE_CLONES bool go_down(const uint64_t* ends, uint64_t n) {
  uint64_t down = 0;
  for (uint64_t i = 1; i < n; ++i) down |= ends[i] < ends[i - 1] ? 1 : 0;
  return down != 0;
}

NIMBLE_CLONES void add_ends(const uint64_t* __restrict ends, uint64_t n,
                            uint64_t base, int64_t* __restrict to) {
  for (uint64_t i = 0; i < n; ++i) to[i] = static_cast<int64_t>(base + ends[i]);
}

}  // namespace

Result<AlignedBuffer> StripeReader::ends_of(uint32_t stream, uint64_t begin,
                                            uint64_t end) const {
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  AlignedBuffer out((end - begin) * sizeof(uint64_t));
  Output to;
  to.data = out.data();
  NIMBLE_RETURN_IF_ERROR(decode_values(stream, begin, end, to));
  const auto* ends = out.as<uint64_t>();
  if (!go_down(ends, end - begin)) return out;
  const auto* at = std::is_sorted_until(ends, ends + (end - begin));
  return Status::corrupt(
      "stream " + std::to_string(stream) + ": ends descend at " +
      std::to_string(begin + static_cast<uint64_t>(at - ends)));
}

// The rows of a child that contain the items of several lists.
struct StripeReader::ItemRows {
  std::vector<RowRange> runs;  // neither empty nor neighbours
  uint64_t count = 0;

  void add(uint64_t begin, uint64_t end) {
    if (begin == end) return;
    if (!runs.empty() && runs.back().end == begin) {
      runs.back().end = end;
    } else {
      runs.push_back({begin, end});
    }
    count += end - begin;
  }
  std::vector<uint64_t> rows() const {
    std::vector<uint64_t> out;
    out.reserve(count);
    for (const RowRange& r : runs) {
      for (uint64_t row = r.begin; row < r.end; ++row) out.push_back(row);
    }
    return out;
  }
};

Status StripeReader::read_items(uint32_t child, const ItemRows& items,
                                Column* out) const {
  if (items.count == 0) return Status::ok();
  if (file_.file().mapped() == nullptr) {
    // Requests the streams of all children, so that reading the first child
    // fetches them in one round.
    for (const RowRange& r : items.runs) {
      NIMBLE_RETURN_IF_ERROR(want_range(child, r.begin, r.end));
    }
  }
  if (items.runs.size() == 1) {
    return read(child, nullptr, items.runs[0].begin, items.count, out);
  }
  // A child without stored values needs only the number of rows.
  if (!has_values(child)) return read(child, nullptr, 0, items.count, out);
  // Long lists are read one by one, because gathering would need a number for
  // each item.
  if (items.count / items.runs.size() >= kLongList &&
      plan_.node(child).field->layout == Layout::kFixed) {
    for (const RowRange& r : items.runs) {
      NIMBLE_RETURN_IF_ERROR(read(child, nullptr, r.begin, r.size(), out));
    }
    return Status::ok();
  }
  return read(child, items.rows().data(), 0, items.count, out);
}

Status StripeReader::read_lists(uint32_t node, const uint64_t* rows,
                                uint64_t begin, uint64_t count,
                                Column* out) const {
  const SchemaNode& n = plan_.node(node);
  const uint32_t child = n.children[0];
  Column* items = &out->children[0];
  // Fails if the offsets of `out` cannot count this many more items.
  const auto check_size = [out](uint64_t size) {
    if (size <= static_cast<uint64_t>(INT64_MAX - out->ends.back())) {
      return Status::ok();
    }
    return Status::corrupt("column '" + out->field().name + "': lists with " +
                           std::to_string(size) +
                           " more items exceed the range of offsets");
  };
  if (rows == nullptr) {
    const uint64_t before = begin > 0 ? 1 : 0;
    NIMBLE_ASSIGN_OR_RETURN(const AlignedBuffer made,
                            ends_of(n.ends, begin - before, begin + count));
    const auto* ends = made.as<uint64_t>();
    const uint64_t first = before > 0 ? ends[0] : 0;
    const uint64_t size = ends[before + count - 1] - first;
    NIMBLE_RETURN_IF_ERROR(check_size(size));
    const size_t at = out->ends.size();
    const int64_t base = out->ends.back();
    out->ends.resize(at + count);
    add_ends(ends + before, count, static_cast<uint64_t>(base) - first,
             out->ends.data() + at);
    NIMBLE_RETURN_IF_ERROR(check_items(child, first + size));
    ItemRows wanted_items;
    wanted_items.add(first, first + size);
    return read_items(child, wanted_items, items);
  }
  // Each row needs its own end and the end of the row before it.
  std::vector<uint64_t> wanted;
  for (uint64_t i = 0; i < count; ++i) {
    if (rows[i] > 0 && (wanted.empty() || wanted.back() != rows[i] - 1)) {
      wanted.push_back(rows[i] - 1);
    }
    wanted.push_back(rows[i]);
  }
  std::vector<uint64_t> ends(wanted.size() + AlignedBuffer::kSlack / 8);
  Output to;
  to.data = reinterpret_cast<uint8_t*>(ends.data());
  NIMBLE_RETURN_IF_ERROR(
      gather_values(n.ends, wanted.data(), wanted.size(), to));
  ItemRows wanted_items;
  uint64_t last = 0;
  for (uint64_t i = 0, at = 0; i < count; ++i) {
    while (wanted[at] != rows[i]) ++at;
    const uint64_t first = rows[i] > 0 ? ends[at - 1] : 0;
    if (first < last || ends[at] < first) {
      return Status::corrupt("column '" + out->field().name +
                             "': list ends descend");
    }
    last = ends[at];
    NIMBLE_RETURN_IF_ERROR(check_items(child, last));
    NIMBLE_RETURN_IF_ERROR(check_size(last - first));
    out->ends.push_back(out->ends.back() + static_cast<int64_t>(last - first));
    wanted_items.add(first, last);
  }
  return read_items(child, wanted_items, items);
}

Status StripeReader::read_fixed_lists(uint32_t node, const uint64_t* rows,
                                      uint64_t begin, uint64_t count,
                                      Column* out) const {
  const uint32_t child = plan_.node(node).children[0];
  const auto size = static_cast<uint64_t>(out->field().list_size);
  if (rows == nullptr) {
    return read(child, nullptr, begin * size, count * size, &out->children[0]);
  }
  NIMBLE_RETURN_IF_ERROR(check_items(child, (rows[count - 1] + 1) * size));
  ItemRows items;
  for (uint64_t i = 0; i < count; ++i) {
    items.add(rows[i] * size, rows[i] * size + size);
  }
  return read_items(child, items, &out->children[0]);
}

Status StripeReader::read_runs(uint32_t node, const uint64_t* rows,
                               uint64_t begin, uint64_t count,
                               Column* out) const {
  const SchemaNode& n = plan_.node(node);
  const uint64_t last = rows != nullptr ? rows[count - 1] : begin + count - 1;
  NIMBLE_ASSIGN_OR_RETURN(
      const RowRange wanted,
      runs_of(n.ends, rows != nullptr ? rows[0] : begin, last));
  NIMBLE_ASSIGN_OR_RETURN(const AlignedBuffer made,
                          ends_of(n.ends, wanted.begin, wanted.end));
  const std::span<const uint64_t> ends(made.as<uint64_t>(), wanted.size());
  std::vector<uint64_t> runs;
  const auto base = static_cast<int64_t>(out->length());
  auto run = ends.begin();
  for (uint64_t i = 0; i < count;) {
    const uint64_t row = rows != nullptr ? rows[i] : begin + i;
    run = std::upper_bound(run, ends.end(), row);
    if (run == ends.end()) {
      return Status::corrupt("column '" + out->field().name +
                             "': runs stop before row " + std::to_string(row));
    }
    // The rows of this run.
    uint64_t next = i + 1;
    if (rows == nullptr) {
      next = std::min(count, *run - begin);
    } else {
      while (next < count && rows[next] < *run) ++next;
    }
    runs.push_back(wanted.begin + static_cast<uint64_t>(run - ends.begin()));
    out->ends.push_back(base + static_cast<int64_t>(next));
    i = next;
  }
  return read(n.children[0], runs.data(), 0, runs.size(), &out->children[0]);
}

Status StripeReader::read_union(uint32_t node, const uint64_t* rows,
                                uint64_t begin, uint64_t count,
                                Column* out) const {
  const SchemaNode& n = plan_.node(node);
  const Field& f = out->field();
  const uint64_t at = out->length();
  out->values.resize(at + count);
  Output ids;
  ids.data = out->values.data() + at;
  NIMBLE_RETURN_IF_ERROR(
      rows != nullptr ? gather_values(n.values, rows, count, ids)
                      : decode_values(n.values, begin, begin + count, ids));
  std::vector<uint64_t> places;
  if (f.is_dense_union) {
    places.resize(count + AlignedBuffer::kSlack / 8);
    Output to;
    to.data = reinterpret_cast<uint8_t*>(places.data());
    NIMBLE_RETURN_IF_ERROR(
        rows != nullptr ? gather_values(n.ends, rows, count, to)
                        : decode_values(n.ends, begin, begin + count, to));
    out->ends.resize(at + count);
  }
  uint64_t typed_rows = 0;
  for (size_t c = 0; c < n.children.size(); ++c) {
    std::vector<uint64_t> wanted;
    for (uint64_t i = 0; i < count; ++i) {
      if (ids.data[i] != static_cast<uint8_t>(f.type_ids[c])) continue;
      ++typed_rows;
      if (!f.is_dense_union) continue;
      if (!wanted.empty() && places[i] <= wanted.back()) {
        return Status::corrupt("column '" + f.name +
                               "': union rows do not ascend");
      }
      out->ends[at + i] =
          static_cast<int64_t>(out->children[c].length() + wanted.size());
      wanted.push_back(places[i]);
    }
    NIMBLE_RETURN_IF_ERROR(
        f.is_dense_union
            ? read(n.children[c], wanted.data(), 0, wanted.size(),
                   &out->children[c])
            : read(n.children[c], rows, begin, count, &out->children[c]));
  }
  if (typed_rows == count) return Status::ok();
  return Status::corrupt("column '" + f.name + "': unknown union type id");
}

Status StripeReader::read(uint32_t node, const uint64_t* rows, uint64_t begin,
                          uint64_t count, Column* out) const {
  if (count == 0) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(check_node(node, rows, begin, count));
  NIMBLE_RETURN_IF_ERROR(read_validity(node, rows, begin, count, out));
  const uint64_t first = out->length();
  switch (out->field().layout) {
    case Layout::kNull:
      break;
    case Layout::kFixed:
    case Layout::kBool:
    case Layout::kBytes:
    case Layout::kDictionary:
      NIMBLE_RETURN_IF_ERROR(read_leaf(node, rows, begin, count, out));
      break;
    case Layout::kList:
      NIMBLE_RETURN_IF_ERROR(read_lists(node, rows, begin, count, out));
      break;
    case Layout::kFixedList:
      NIMBLE_RETURN_IF_ERROR(read_fixed_lists(node, rows, begin, count, out));
      break;
    case Layout::kStruct: {
      const SchemaNode& n = plan_.node(node);
      for (size_t c = 0; c < n.children.size(); ++c) {
        NIMBLE_RETURN_IF_ERROR(
            read(n.children[c], rows, begin, count, &out->children[c]));
      }
      break;
    }
    case Layout::kRunEnd:
      NIMBLE_RETURN_IF_ERROR(read_runs(node, rows, begin, count, out));
      break;
    case Layout::kUnion:
      NIMBLE_RETURN_IF_ERROR(read_union(node, rows, begin, count, out));
      break;
  }
  out->add_rows(count);
  if (out->field().layout == Layout::kDictionary) {
    return check_codes(node, first, out);
  }
  return Status::ok();
}

Status StripeReader::mask_with_parent(uint32_t parent, const uint64_t* rows,
                                      uint64_t begin, uint64_t count,
                                      uint64_t at, Column* out) const {
  if (!out->field().has_validity()) return Status::ok();
  Column mask(*plan_.node(parent).field, false);
  NIMBLE_RETURN_IF_ERROR(read_validity(parent, rows, begin, count, &mask));
  if (mask.null_count() == 0) return Status::ok();
  out->ensure_validity();
  uint64_t hidden = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (get_bit(mask.validity.data(), i) || !out->is_valid(at + i)) continue;
    clear_bit(out->validity.data(), at + i);
    ++hidden;
  }
  out->add_nulls(hidden);
  return Status::ok();
}

Status StripeReader::read_range(uint32_t node, uint64_t begin, uint64_t end,
                                Column* out) const {
  return read(node, nullptr, begin, end - begin, out);
}

Status StripeReader::read_rows(uint32_t node, const uint64_t* rows,
                               uint64_t count, Column* out) const {
  if (count > 1 && rows[count - 1] - rows[0] + 1 == count) {
    return read(node, nullptr, rows[0], count, out);
  }
  return read(node, rows, 0, count, out);
}

}  // namespace nimble
