#include "nimble/file/column_reader.h"

#include <algorithm>

#include "nimble/file/dictionary_values.h"
#include "nimble/file/file_reader.h"

namespace nimble {

// ------------------------------------------------------------------ segments

Result<const Decoder*> StripeReader::decoder(uint32_t stream,
                                             uint32_t index) const {
  return group_.decoder(stripe_, stream, index, plan_.streams()[stream]);
}

Result<StripeReader::Segment> StripeReader::segment(uint32_t stream,
                                                    uint32_t index,
                                                    uint32_t begin,
                                                    uint32_t end) const {
  NIMBLE_ASSIGN_OR_RETURN(const Decoder* d, decoder(stream, index));
  const SegmentRef ref = segment_ref(stream, index);
  Segment out{d, {}};
  if (const uint8_t* map = file_.file().mapped()) {
    out.body.data = map + ref.offset;
    out.body.size = ref.size;
    out.body.stable = true;
    out.body.touches = &file_.stats()->touches;
    return out;
  }
  // Mostly there already; what is below lists is fetched here.
  fetched_->want(ref, *d, begin, end);
  NIMBLE_RETURN_IF_ERROR(fetched_->fetch());
  out.body = fetched_->body(ref);
  return out;
}

Status StripeReader::check_rows(uint32_t stream, uint64_t end) const {
  if (end <= stripe_.values[stream]) return Status::ok();
  return Status::corrupt("stream " + std::to_string(stream) + " has " +
                         std::to_string(stripe_.values[stream]) +
                         " values, row " + std::to_string(end - 1) +
                         " is wanted");
}

Status StripeReader::want_stream(uint32_t stream, uint64_t begin,
                                 uint64_t end) const {
  if (stream == kNoStream || stripe_.values[stream] == 0) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  while (begin < end) {
    const auto index = static_cast<uint32_t>(begin / kSegmentValues);
    const uint64_t base = uint64_t{index} * kSegmentValues;
    const uint64_t stop = std::min(end, base + kSegmentValues);
    NIMBLE_ASSIGN_OR_RETURN(const Decoder* d, decoder(stream, index));
    fetched_->want(segment_ref(stream, index), *d,
                   static_cast<uint32_t>(begin - base),
                   static_cast<uint32_t>(stop - base));
    begin = stop;
  }
  return Status::ok();
}

Status StripeReader::want_range(uint32_t node, uint64_t begin,
                                uint64_t end) const {
  const SchemaNode& n = plan_.node(node);
  NIMBLE_RETURN_IF_ERROR(want_stream(n.validity, begin, end));
  if (n.field->layout == Layout::kRunEnd) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(want_stream(n.values, begin, end));
  const bool list = n.field->layout == Layout::kList;
  NIMBLE_RETURN_IF_ERROR(
      want_stream(n.ends, begin - (list && begin > 0 ? 1 : 0), end));
  if (n.field->layout != Layout::kStruct) return Status::ok();
  for (const uint32_t c : n.children) {
    NIMBLE_RETURN_IF_ERROR(want_range(c, begin, end));
  }
  return Status::ok();
}

Status StripeReader::want_rows(uint32_t node, const uint64_t* rows,
                               uint64_t count) const {
  for (uint64_t i = 0; i < count;) {
    uint64_t run = 1;
    while (i + run < count && rows[i + run] == rows[i] + run) ++run;
    NIMBLE_RETURN_IF_ERROR(want_range(node, rows[i], rows[i] + run));
    i += run;
  }
  return Status::ok();
}

// ------------------------------------------------------------------- streams

Status StripeReader::decode_values(uint32_t stream, uint64_t begin,
                                   uint64_t end, const Output& out) const {
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  Output to = out;
  const uint32_t width = plan_.streams()[stream].width;
  while (begin < end) {
    const auto index = static_cast<uint32_t>(begin / kSegmentValues);
    const uint64_t base = uint64_t{index} * kSegmentValues;
    const auto from = static_cast<uint32_t>(begin - base);
    const auto stop =
        static_cast<uint32_t>(std::min<uint64_t>(end - base, kSegmentValues));
    NIMBLE_ASSIGN_OR_RETURN(const Segment s, segment(stream, index, from, stop));
    NIMBLE_RETURN_IF_ERROR(s.decoder->decode(s.body, from, stop, to));
    const uint64_t n = stop - from;
    if (to.data != nullptr) to.data += n * width;
    to.bit_offset += n;
    begin += n;
  }
  return Status::ok();
}

Status StripeReader::gather_values(uint32_t stream, const uint64_t* rows,
                                   uint64_t count, const Output& out) const {
  if (count == 0) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, rows[count - 1] + 1));
  Output to = out;
  const uint32_t width = plan_.streams()[stream].width;
  std::vector<uint32_t> local;
  for (uint64_t i = 0; i < count;) {
    const auto index = static_cast<uint32_t>(rows[i] / kSegmentValues);
    const uint64_t base = uint64_t{index} * kSegmentValues;
    local.clear();
    for (; i < count && rows[i] < base + kSegmentValues; ++i) {
      local.push_back(static_cast<uint32_t>(rows[i] - base));
    }
    NIMBLE_ASSIGN_OR_RETURN(const Decoder* d, decoder(stream, index));
    const SegmentRef ref = segment_ref(stream, index);
    SegmentBody body{nullptr, ref.size, true, &file_.stats()->touches};
    if (const uint8_t* map = file_.file().mapped()) {
      body.data = map + ref.offset;
    } else {
      for (const uint32_t r : local) fetched_->want(ref, *d, r, r + 1);
      NIMBLE_RETURN_IF_ERROR(fetched_->fetch());
      body = fetched_->body(ref);
    }
    NIMBLE_RETURN_IF_ERROR(d->gather(body, local.data(), local.size(), to));
    if (to.data != nullptr) to.data += local.size() * width;
    to.bit_offset += local.size();
  }
  return Status::ok();
}

Status StripeReader::read_validity(uint32_t node, const uint64_t* rows,
                                   uint64_t begin, uint64_t count,
                                   Column* out) const {
  const uint32_t stream = plan_.node(node).validity;
  if (stream == kNoStream) return Status::ok();
  const uint64_t at = out->length();
  if (stripe_.values[stream] == 0) {
    if (out->validity.size() == 0) return Status::ok();
    out->validity.resize((at + count) / 8 + 1);
    set_bits(out->validity.data(), at, count, true);
    return Status::ok();
  }
  out->ensure_validity();
  out->validity.resize((at + count) / 8 + 1);
  Output to;
  to.data = out->validity.data();
  to.bit_offset = at;
  // Bitmaps move by bits, not bytes: the output's base stays.
  if (rows != nullptr) {
    NIMBLE_RETURN_IF_ERROR(gather_values(stream, rows, count, to));
  } else {
    NIMBLE_RETURN_IF_ERROR(decode_values(stream, begin, begin + count, to));
  }
  out->add_nulls(count - count_set_bits(out->validity.data(), at, count));
  return Status::ok();
}

bool StripeReader::try_view(uint32_t stream, uint64_t begin, uint64_t end,
                            Column* out, Status* status) const {
  const auto index = static_cast<uint32_t>(begin / kSegmentValues);
  const uint64_t base = uint64_t{index} * kSegmentValues;
  if (out->length() > 0 || !out->wants_views() || begin == end ||
      end > base + kSegmentValues || file_.file().mapped() == nullptr ||
      end > stripe_.values[stream]) {
    return false;
  }
  const auto from = static_cast<uint32_t>(begin - base);
  const auto stop = static_cast<uint32_t>(end - base);
  auto s = segment(stream, index, from, stop);
  if (!s) return false;
  auto view = s->decoder->view(s->body, from, stop);
  if (!view) {
    *status = std::move(view).error();
    return true;
  }
  if (*view == nullptr || reinterpret_cast<uintptr_t>(*view) % 8 != 0) {
    return false;
  }
  out->set_external_values(*view, file_.file_owner());
  return true;
}

Status StripeReader::check_codes(uint32_t node, uint64_t first,
                                 Column* out) const {
  if (!out->dictionary) {
    NIMBLE_ASSIGN_OR_RETURN(out->dictionary, file_.dictionary(node));
  }
  const uint64_t size = out->dictionary->values.length();
  const uint32_t width = out->field().width;
  const uint8_t* p = out->value_data() + first * width;
  const uint64_t sign = uint64_t{1} << (width * 8 - 1);
  uint64_t worst = 0;
  for (uint64_t i = first; i < out->length(); ++i, p += width) {
    uint64_t code = 0;
    std::memcpy(&code, p, width);
    if (out->field().is_signed && (code & sign) != 0) code = UINT64_MAX;
    if (code >= size && out->is_valid(i)) worst = std::max(worst, code);
  }
  if (worst == 0 || worst < size) return Status::ok();
  return Status::corrupt("column '" + out->field().name +
                         "': a code past the dictionary's " +
                         std::to_string(size) + " values");
}

Status StripeReader::read_leaf(uint32_t node, const uint64_t* rows,
                               uint64_t begin, uint64_t count,
                               Column* out) const {
  const Layout layout = out->field().layout;
  const uint32_t stream = plan_.node(node).values;
  Output to;
  if (layout == Layout::kFixed || layout == Layout::kDictionary) {
    if (stream == kNoStream) return Status::ok();  // values without bytes
    Status status;
    if (rows == nullptr && try_view(stream, begin, begin + count, out, &status)) {
      return status;
    }
    to.data = out->extend_values(count);
  } else if (layout == Layout::kBool) {
    to.data = out->extend_bits(count);
    to.bit_offset = out->length();
  } else {
    to.bytes = &out->bytes;
  }
  return rows != nullptr ? gather_values(stream, rows, count, to)
                         : decode_values(stream, begin, begin + count, to);
}

// ------------------------------------------------------------------- layouts

// Row numbers below are built one by one: they must exist before memory is
// spent on them. A child without any stream of its own has no rows to count.
Status StripeReader::check_items(uint32_t child, uint64_t end) const {
  const SchemaNode& n = plan_.node(child);
  const uint32_t stream = n.values != kNoStream ? n.values : n.ends;
  if (stream != kNoStream && n.field->layout != Layout::kRunEnd) {
    return check_rows(stream, end);
  }
  if (end < kMaxStripeRows) return Status::ok();
  return Status::corrupt("column '" + n.field->name + "': " +
                         std::to_string(end) + " items in one stripe");
}

Result<std::vector<uint64_t>> StripeReader::ends_of(uint32_t stream,
                                                    uint64_t begin,
                                                    uint64_t end) const {
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  std::vector<uint64_t> out(end - begin + AlignedBuffer::kSlack / 8);
  Output to;
  to.data = reinterpret_cast<uint8_t*>(out.data());
  NIMBLE_RETURN_IF_ERROR(decode_values(stream, begin, end, to));
  out.resize(end - begin);
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i] < out[i - 1]) {
      return Status::corrupt("stream " + std::to_string(stream) +
                             ": ends go down at " + std::to_string(begin + i));
    }
  }
  return out;
}

namespace {

// `rows` of a child that lists of the given bounds are made of.
struct ItemRows {
  std::vector<uint64_t> rows;
  bool contiguous = true;

  void add(uint64_t begin, uint64_t end) {
    if (begin == end) return;
    if (!rows.empty() && rows.back() + 1 != begin) contiguous = false;
    for (uint64_t r = begin; r < end; ++r) rows.push_back(r);
  }
};

}  // namespace

Status StripeReader::read_lists(uint32_t node, const uint64_t* rows,
                                uint64_t begin, uint64_t count,
                                Column* out) const {
  const SchemaNode& n = plan_.node(node);
  const uint32_t child = n.children[0];
  Column* items = &out->children[0];
  const auto push = [out](uint64_t size) {
    out->ends.push_back(out->ends.back() + static_cast<int64_t>(size));
  };
  if (rows == nullptr) {
    const uint64_t before = begin > 0 ? 1 : 0;
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint64_t> ends,
                            ends_of(n.ends, begin - before, begin + count));
    const uint64_t first = before > 0 ? ends[0] : 0;
    uint64_t last = first;
    for (size_t i = before; i < ends.size(); ++i) {
      push(ends[i] - last);
      last = ends[i];
    }
    return read(child, nullptr, first, last - first, items);
  }
  // Each row needs its own end and the one before it.
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
                             "': list ends go down");
    }
    last = ends[at];
    NIMBLE_RETURN_IF_ERROR(check_items(child, last));
    push(last - first);
    wanted_items.add(first, last);
  }
  const std::vector<uint64_t>& r = wanted_items.rows;
  if (r.empty()) return Status::ok();
  if (wanted_items.contiguous) {
    return read(child, nullptr, r[0], r.size(), items);
  }
  return read(child, r.data(), 0, r.size(), items);
}

Status StripeReader::read_fixed_lists(uint32_t node, const uint64_t* rows,
                                      uint64_t begin, uint64_t count,
                                      Column* out) const {
  const uint32_t child = plan_.node(node).children[0];
  const auto size = static_cast<uint64_t>(out->field().list_size);
  if (rows == nullptr) {
    return read(child, nullptr, begin * size, count * size, &out->children[0]);
  }
  ItemRows items;
  for (uint64_t i = 0; i < count; ++i) {
    items.add(rows[i] * size, rows[i] * size + size);
  }
  return read(child, items.rows.data(), 0, items.rows.size(),
              &out->children[0]);
}

Status StripeReader::read_runs(uint32_t node, const uint64_t* rows,
                               uint64_t begin, uint64_t count,
                               Column* out) const {
  const SchemaNode& n = plan_.node(node);
  const uint64_t num_runs = stripe_.values[n.ends];
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint64_t> ends,
                          ends_of(n.ends, 0, num_runs));
  std::vector<uint64_t> runs;
  const auto base = static_cast<int64_t>(out->length());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = rows != nullptr ? rows[i] : begin + i;
    const auto run = static_cast<uint64_t>(
        std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
    if (run == num_runs) {
      return Status::corrupt("column '" + out->field().name +
                             "': runs stop before row " + std::to_string(row));
    }
    const int64_t end = base + static_cast<int64_t>(i) + 1;
    if (!runs.empty() && runs.back() == run) {
      out->ends.back() = end;
      continue;
    }
    runs.push_back(run);
    out->ends.push_back(end);
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
  uint64_t known = 0;
  for (size_t c = 0; c < n.children.size(); ++c) {
    std::vector<uint64_t> wanted;
    for (uint64_t i = 0; i < count; ++i) {
      if (ids.data[i] != static_cast<uint8_t>(f.type_ids[c])) continue;
      ++known;
      if (!f.is_dense_union) continue;
      if (!wanted.empty() && places[i] <= wanted.back()) {
        return Status::corrupt("column '" + f.name + "': union rows go back");
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
  if (known == count) return Status::ok();
  return Status::corrupt("column '" + f.name + "': unknown union type id");
}

Status StripeReader::read(uint32_t node, const uint64_t* rows, uint64_t begin,
                          uint64_t count, Column* out) const {
  if (count == 0) return Status::ok();
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
    set_bit(out->validity.data(), at + i, false);
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
