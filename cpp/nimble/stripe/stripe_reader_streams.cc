#include "nimble/stripe/stripe_reader.h"

#include <algorithm>

#include "nimble/column/column.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/open/open_file.h"

// The streams and segments of StripeReader. stripe_reader.cc has the layouts.
namespace nimble {
namespace {

Result<OpenFile::Dictionary> read_dictionary(const OpenFile& file,
                                             const NodeSection& ref) {
  if (ref.node >= file.plan().nodes().size() ||
      file.plan().node(ref.node).field->layout != Layout::kDictionary) {
    return Status::corrupt("the column has codes but no dictionary");
  }
  const Field& field = file.plan().node(ref.node).field->dictionary[0];
  auto out = std::make_shared<DictionaryValues>(field);
  if (ref.rows == 0) return OpenFile::Dictionary(out);
  const StreamPlan plan(field);
  NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                          file.read_section(ref.section, "dictionary"));
  NIMBLE_ASSIGN_OR_RETURN(
      GroupView view,
      GroupView::open(bytes, plan, 0, ref.rows, file.file().size()));
  NIMBLE_ASSIGN_OR_RETURN(ChunkDirectory none, ChunkDirectory::open({}, {}));
  const LoadedGroup group(std::move(view), {}, std::move(none), 0, nullptr,
                          nullptr);
  if (group.view().stripes().size() != 1) {
    return Status::corrupt("expected the values of one stripe");
  }
  FetchedBodies fetched(file.file(), file.range_cache(), file.stats());
  const StripeReader reader(file, plan, group, group.view().stripes()[0],
                            &fetched);
  NIMBLE_RETURN_IF_ERROR(reader.read_range(0, 0, ref.rows, &out->values));
  return OpenFile::Dictionary(out);
}

}  // namespace

Result<OpenFile::Dictionary> dictionary_of(const OpenFile& file,
                                           uint32_t node) {
  return file.dictionary(node, read_dictionary);
}

Status StripeReader::at_segment(Status status, const SegmentRef& segment) {
  return std::move(status).with_context(
      "segment of " + std::to_string(segment.size) + " bytes at offset " +
      std::to_string(segment.offset));
}

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
  // Usually these bytes are fetched already, except for items of lists.
  fetched_->want(ref, *d, begin, end);
  want_shared(stream, *d);
  NIMBLE_RETURN_IF_ERROR(fetched_->fetch());
  out.body = fetched_->body(ref);
  return out;
}

void StripeReader::want_shared(uint32_t stream, const Decoder& decoder) const {
  const ColumnShared* shared = file_.shared().of_stream(stream);
  if (shared == nullptr) return;
  std::vector<SectionRef> sections;
  shared->append_sections(decoder.shared_use(), &sections);
  for (const SectionRef& section : sections) {
    // The bytes are read through the cache, so the cache must have room for all
    // of them.
    fetched_->want_bytes(section.offset, section.size,
                         file_.budget()->capacity() / 2);
  }
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
    want_shared(stream, *d);
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
  if (n.field->layout == Layout::kFixedList) {
    // Requests at most a block of items now. More items are read later, when
    // all needed items are known.
    const auto size = static_cast<uint64_t>(n.field->list_size);
    const bool few = size > 0 && end - begin <= kBlockValues / size;
    return few ? want_range(n.children[0], begin * size, end * size)
               : Status::ok();
  }
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

void StripeReader::prefetch_stream(uint32_t stream, const uint64_t* rows,
                                   uint64_t count) const {
  if (stream == kNoStream || rows[count - 1] >= stripe_.values[stream]) return;
  for (uint64_t i = 0; i < count;) {
    const auto index = static_cast<uint32_t>(rows[i] / kSegmentValues);
    const uint64_t base = uint64_t{index} * kSegmentValues;
    const auto made = decoder(stream, index);
    if (!made) return;  // reading reports the error
    const SegmentRef ref = segment_ref(stream, index);
    const SegmentBody body{file_.file().mapped() + ref.offset, ref.size, true,
                           nullptr};
    for (size_t asked = 0; i < count && rows[i] < base + kSegmentValues; ++i) {
      if (asked++ == kRowsAhead) break;
      (*made)->prefetch(body, static_cast<uint32_t>(rows[i] - base));
    }
    while (i < count && rows[i] < base + kSegmentValues) ++i;
  }
}

void StripeReader::prefetch_rows(uint32_t node, const uint64_t* rows,
                                 uint64_t count) const {
  if (count == 0) return;
  const SchemaNode& n = plan_.node(node);
  prefetch_stream(n.validity, rows, count);
  if (n.field->layout == Layout::kList) {
    return prefetch_stream(n.ends, rows, count);
  }
  if (n.field->layout != Layout::kStruct) {
    return prefetch_stream(n.values, rows, count);
  }
  for (const uint32_t c : n.children) prefetch_rows(c, rows, count);
}

namespace {

// Nanoseconds per byte of copying in memory.
constexpr double kNanosPerByte = 0.05;

// Estimated time to decode one of many values, without the bytes of strings.
// The estimate decides whether another thread is worthwhile, and whether rows
// between two ranges are read or skipped.
double nanos_of(EncodingId encoding, const ValueType& type) {
  switch (encoding) {
    case EncodingId::kConstant:
      return type.kind == ValueKind::kBytes ? 3 : kNanosPerByte * type.width;
    case EncodingId::kPlain:  // returned in place, or copied
      return kNanosPerByte * type.width;
    case EncodingId::kBitmap:
      return 0.05;
    default:
      break;
  }
  switch (type.kind) {
    case ValueKind::kBool:
      return 0.2;
    case ValueKind::kBytes:
      return 25;
    case ValueKind::kFixed:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

double StripeReader::decode_nanos(uint32_t node) const {
  const SchemaNode& n = plan_.node(node);
  double nanos = 0;
  for (const uint32_t stream : {n.validity, n.values, n.ends}) {
    if (stream == kNoStream || stripe_.values[stream] == 0) continue;
    const SegmentRef first = segment_ref(stream, 0);
    if (first.head.empty()) continue;  // reading reports the error
    const ValueType& type = plan_.streams()[stream];
    const auto values = static_cast<double>(stripe_.values[stream]);
    double each = nanos_of(EncodingId{first.head[0]}, type);
    if (type.kind == ValueKind::kBytes) {
      each += kNanosPerByte * static_cast<double>(first.size) /
              std::min(values, static_cast<double>(kSegmentValues));
    }
    nanos += each * (values / static_cast<double>(stripe_.rows));
  }
  for (const uint32_t c : n.children) nanos += decode_nanos(c);
  return nanos;
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
    NIMBLE_ASSIGN_OR_RETURN(const Segment s,
                            segment(stream, index, from, stop));
    if (Status failed = s.decoder->decode(s.body, from, stop, to); !failed) {
      return at_segment(std::move(failed), segment_ref(stream, index));
    }
    const uint64_t n = stop - from;
    if (to.data != nullptr) to.data += n * width;
    to.bit_offset += n;
    begin += n;
  }
  return Status::ok();
}

Status StripeReader::read_integers(uint32_t node, uint64_t begin, uint64_t end,
                                   uint8_t* out, ValueType* type) const {
  const uint32_t stream = plan_.node(node).values;
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  const auto index = static_cast<uint32_t>(begin / kSegmentValues);
  const uint64_t base = uint64_t{index} * kSegmentValues;
  const auto from = static_cast<uint32_t>(begin - base);
  const auto stop = static_cast<uint32_t>(end - base);
  NIMBLE_ASSIGN_OR_RETURN(const Segment s, segment(stream, index, from, stop));
  Output to;
  to.data = out;
  *type = plan_.streams()[stream];
  Status status;
  if (s.decoder->has_narrow_values()) {
    *type = ValueType::signed_int(8);
    status = s.decoder->decode_narrow(s.body, from, stop, to);
  } else {
    status = s.decoder->decode(s.body, from, stop, to);
  }
  return status ? Status::ok()
                : at_segment(std::move(status), segment_ref(stream, index));
}

Status StripeReader::decode_values(uint32_t stream,
                                   std::span<const RowRange> ranges,
                                   const Output& out) const {
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, ranges.back().end));
  Output to = out;
  const uint32_t width = plan_.streams()[stream].width;
  std::vector<RowRange> cut;
  uint64_t base = 0;
  for (size_t i = 0; i < ranges.size(); base += kSegmentValues) {
    const uint64_t stop = base + kSegmentValues;
    std::span<const RowRange> local = ranges;
    if (base == 0 && ranges.back().end <= stop) {
      i = ranges.size();
    } else {
      cut.clear();
      for (; i < ranges.size() && ranges[i].begin < stop; ++i) {
        cut.push_back({std::max(ranges[i].begin, base) - base,
                       std::min(ranges[i].end, stop) - base});
        if (ranges[i].end > stop) break;
      }
      if (cut.empty()) continue;
      local = cut;
    }
    const auto index = static_cast<uint32_t>(base / kSegmentValues);
    NIMBLE_ASSIGN_OR_RETURN(
        const Segment s,
        segment(stream, index, static_cast<uint32_t>(local.front().begin),
                static_cast<uint32_t>(local.back().end)));
    if (Status failed = s.decoder->decode_ranges(s.body, local, to); !failed) {
      return at_segment(std::move(failed), segment_ref(stream, index));
    }
    if (i == ranges.size()) break;
    uint64_t n = 0;
    for (const RowRange& r : local) n += r.size();
    if (to.data != nullptr) to.data += n * width;
    to.bit_offset += n;
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
    const uint64_t* const end =
        std::lower_bound(rows + i, rows + count, base + kSegmentValues);
    local.resize(static_cast<size_t>(end - (rows + i)));
    for (size_t k = 0; k < local.size(); ++k) {
      local[k] = static_cast<uint32_t>(rows[i + k] - base);
    }
    i += local.size();
    NIMBLE_RETURN_IF_ERROR(gather_segment(stream, index, local, to));
    if (to.data != nullptr) to.data += local.size() * width;
    to.bit_offset += local.size();
  }
  return Status::ok();
}

Status StripeReader::gather_segment(uint32_t stream, uint32_t index,
                                    std::span<const uint32_t> rows,
                                    const Output& out) const {
  NIMBLE_ASSIGN_OR_RETURN(const Decoder* d, decoder(stream, index));
  const SegmentRef ref = segment_ref(stream, index);
  SegmentBody body{nullptr, ref.size, true, &file_.stats()->touches};
  if (const uint8_t* map = file_.file().mapped()) {
    body.data = map + ref.offset;
  } else {
    for (const uint32_t r : rows) fetched_->want(ref, *d, r, r + 1);
    want_shared(stream, *d);
    NIMBLE_RETURN_IF_ERROR(fetched_->fetch());
    body = fetched_->body(ref);
  }
  Status status = d->gather(body, rows.data(), rows.size(), out);
  return status ? Status::ok() : at_segment(std::move(status), ref);
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
    fill_bits(out->validity.data(), at, count, true);
    return Status::ok();
  }
  out->ensure_validity();
  out->validity.resize((at + count) / 8 + 1);
  Output to;
  to.data = out->validity.data();
  to.bit_offset = at;
  // Only the bit offset moves, not the output pointer.
  if (rows != nullptr) {
    NIMBLE_RETURN_IF_ERROR(gather_values(stream, rows, count, to));
  } else {
    NIMBLE_RETURN_IF_ERROR(decode_values(stream, begin, begin + count, to));
  }
  out->add_nulls(count - count_bits(out->validity.data(), at, count));
  return Status::ok();
}

bool StripeReader::has_flat_values(uint32_t node) const {
  const Layout layout = plan_.node(node).field->layout;
  return file_.file().mapped() != nullptr &&
         plan_.node(node).values != kNoStream &&
         (layout == Layout::kFixed || layout == Layout::kDictionary ||
          layout == Layout::kBool);
}

template <class Read>
Status StripeReader::append_flat(uint32_t node, uint64_t count, Column* out,
                                 const Read& read) const {
  const SchemaNode& n = plan_.node(node);
  const uint64_t at = out->length();
  const bool has_nulls =
      n.validity != kNoStream && stripe_.values[n.validity] != 0;
  if (has_nulls || out->validity.size() != 0) {
    out->ensure_validity();
    out->validity.resize((at + count) / 8 + 1);
    Output to;
    to.data = out->validity.data();
    to.bit_offset = at;
    if (has_nulls) {
      NIMBLE_RETURN_IF_ERROR(read(n.validity, to));
      out->add_nulls(count - count_bits(to.data, at, count));
    } else {
      fill_bits(to.data, at, count, true);
    }
  }
  Output to;
  switch (n.field->layout) {
    case Layout::kBool:
      to.data = out->extend_bits(count);
      to.bit_offset = at;
      break;
    case Layout::kBytes:
      to.bytes = &out->bytes;
      to.bytes->reserve_values(count);
      break;
    default:
      to.data = out->extend_values(count);
  }
  NIMBLE_RETURN_IF_ERROR(read(n.values, to));
  out->add_rows(count);
  return out->field().layout == Layout::kDictionary ? check_codes(node, at, out)
                                                    : Status::ok();
}

Status StripeReader::read_ranges(uint32_t node,
                                 std::span<const RowRange> ranges,
                                 Column* out) const {
  if (ranges.empty()) return Status::ok();
  const RowRange last = ranges.back();
  NIMBLE_RETURN_IF_ERROR(check_node(node, nullptr, last.begin, last.size()));
  uint64_t count = 0;
  for (const RowRange& r : ranges) count += r.size();
  return append_flat(node, count, out, [&](uint32_t stream, const Output& to) {
    return decode_values(stream, ranges, to);
  });
}

Status StripeReader::read_segment_rows(uint32_t node, uint32_t segment,
                                       std::span<const uint32_t> rows,
                                       Column* out) const {
  if (rows.empty()) return Status::ok();
  const uint64_t last = uint64_t{segment} * kSegmentValues + rows.back();
  NIMBLE_RETURN_IF_ERROR(check_node(node, nullptr, last, 1));
  return append_flat(node, rows.size(), out,
                     [&](uint32_t stream, const Output& to) {
                       return gather_segment(stream, segment, rows, to);
                     });
}

bool StripeReader::try_view(uint32_t stream, uint64_t begin, uint64_t end,
                            Column* out, Status* status) const {
  if (out->length() > 0 || !out->wants_views() || begin == end ||
      file_.file().mapped() == nullptr || end > stripe_.values[stream]) {
    return false;
  }
  // Adjacent segments are returned as one view.
  const uint8_t* data = nullptr;
  const uint8_t* next = nullptr;
  for (uint64_t at = begin; at < end;) {
    const auto index = static_cast<uint32_t>(at / kSegmentValues);
    const uint64_t base = uint64_t{index} * kSegmentValues;
    const auto from = static_cast<uint32_t>(at - base);
    const auto stop =
        static_cast<uint32_t>(std::min<uint64_t>(end - base, kSegmentValues));
    auto s = segment(stream, index, from, stop);
    if (!s) return false;
    auto view = s->decoder->view(s->body, from, stop);
    if (!view) {
      *status = at_segment(std::move(view).error(), segment_ref(stream, index));
      return true;
    }
    if (*view == nullptr || (next != nullptr && *view != next)) return false;
    if (data == nullptr) data = *view;
    next = *view + uint64_t{stop - from} * plan_.streams()[stream].width;
    at = base + stop;
  }
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) return false;
  out->set_external_values(data, file_.file_owner());
  return true;
}

Status StripeReader::check_codes(uint32_t node, uint64_t first,
                                 Column* out) const {
  if (!out->dictionary) {
    NIMBLE_ASSIGN_OR_RETURN(out->dictionary, dictionary_of(file_, node));
  }
  const uint64_t size = out->dictionary->values.length();
  const uint32_t width = out->field().width;
  const uint8_t* p = out->value_data() + first * width;
  const ValueType codes = ValueType::unsigned_int(width);
  // Codes are signed. As unsigned numbers, negative codes are above the limit.
  const uint64_t end = std::min(
      size, out->field().is_signed ? uint64_t{1} << (width * 8 - 1) : size);
  bool past = false;
  for (uint64_t i = first; i < out->length() && !past;) {
    const auto n = static_cast<uint32_t>(
        std::min<uint64_t>(out->length() - i, kBlockValues));
    if (min_max(codes, p, n).max >= end) {
      for (uint32_t k = 0; k < n; ++k) {
        past |= load_int(codes, p, k) >= end && out->is_valid(i + k);
      }
    }
    i += n;
    p += uint64_t{n} * width;
  }
  if (!past) return Status::ok();
  return Status::corrupt("column '" + out->field().name +
                         "': a code is outside the dictionary of " +
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
    if (rows == nullptr &&
        try_view(stream, begin, begin + count, out, &status)) {
      return status;
    }
    if (out->field().width > kMaxNestedWidth) {
      NIMBLE_RETURN_IF_ERROR(
          check_wide(stream, rows != nullptr ? rows[0] : begin,
                     rows != nullptr ? rows[count - 1] : begin + count - 1));
    }
    to.data = out->extend_values(count);
  } else if (layout == Layout::kBool) {
    to.data = out->extend_bits(count);
    to.bit_offset = out->length();
  } else {
    to.bytes = &out->bytes;
    to.bytes->reserve_values(count);
  }
  return rows != nullptr ? gather_values(stream, rows, count, to)
                         : decode_values(stream, begin, begin + count, to);
}

}  // namespace nimble
