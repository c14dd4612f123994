#include "nimble/encoding/ints/plain.h"

namespace nimble {
namespace {

// Values under one checksum: a block, or about this many bytes of wide values.
constexpr uint32_t kUnitBytes = 8192;

uint32_t unit_values(uint32_t width) {
  return std::clamp(kUnitBytes / width, 1u, kBlockValues);
}

}  // namespace

Status encode_plain(const Values& values, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  const uint64_t begin = out->begin_part();
  const uint64_t size = uint64_t{values.size} * width;
  out->body.put_bytes(values.data, size);
  put_encoding_id(EncodingId::kPlain, out);
  out->put_part(begin);
  const uint32_t unit = unit_values(width);
  out->head.put_varint(unit);
  const uint64_t unit_bytes = uint64_t{unit} * width;
  for (uint64_t at = 0; at < size; at += unit_bytes) {
    out->head.put(checksum64({values.data + at, static_cast<size_t>(std::min(
                                                    unit_bytes, size - at))}));
  }
  return Status::ok();
}

Result<std::unique_ptr<PlainDecoder>> PlainDecoder::open(
    ByteReader* head, const DecodeContext& context) {
  const uint32_t width = context.type.width;
  if (width == 0) return Status::corrupt("plain values need a fixed width");
  NIMBLE_ASSIGN_OR_RETURN(Part part, Part::read(head, context));
  const uint64_t unit = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("plain head"));
  if (unit == 0 || unit > kBlockValues ||
      part.size() != uint64_t{context.num_values} * width) {
    return Status::corrupt("a plain part of " + std::to_string(part.size()) +
                           " bytes, in units of " + std::to_string(unit) +
                           " values, cannot hold " +
                           std::to_string(context.num_values) + " values of " +
                           std::to_string(width) + " bytes");
  }
  const uint64_t units = div_ceil(context.num_values, unit);
  const ByteSpan bytes = head->get_bytes(units * 8);
  NIMBLE_RETURN_IF_ERROR(head->status("plain checksums"));
  std::vector<uint64_t> checksums(static_cast<size_t>(units));
  if (units > 0) std::memcpy(checksums.data(), bytes.data(), bytes.size());
  std::unique_ptr<PlainDecoder> out(
      new PlainDecoder(context, std::move(part), static_cast<uint32_t>(unit),
                       std::move(checksums)));
  NIMBLE_RETURN_IF_ERROR(out->part_.check_blocks(
      units, [&](uint64_t i) { return out->start_of(i); }));
  return out;
}

void PlainDecoder::append_ranges(uint32_t begin, uint32_t end,
                                 std::vector<ByteRange>* out) const {
  if (begin >= end) return;
  part_.append(start_of(begin / unit_), start_of((end - 1) / unit_ + 1), out);
}

Status PlainDecoder::verify(const SegmentBody& body, uint32_t begin,
                            uint32_t end) const {
  for (uint32_t u = begin / unit_; u <= (end - 1) / unit_; ++u) {
    const uint64_t start = start_of(u);
    NIMBLE_RETURN_IF_ERROR(
        verified_.check(body, u,
                        {body.data + part_.place(start),
                         static_cast<size_t>(start_of(u + 1) - start)},
                        checksums_[u]));
  }
  return Status::ok();
}

Result<const uint8_t*> PlainDecoder::view(const SegmentBody& body,
                                          uint32_t begin, uint32_t end) const {
  const uint64_t width = type().width;
  if (part_.together(begin * width) < (end - begin) * width) return nullptr;
  if (begin < end) NIMBLE_RETURN_IF_ERROR(verify(body, begin, end));
  return body.data + place(begin);
}

Status PlainDecoder::decode(const SegmentBody& body, uint32_t begin,
                            uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(verify(body, begin, end));
  const uint64_t width = type().width;
  const uint64_t stop = end * width;
  uint8_t* to = out.data;
  for (uint64_t at = begin * width; at < stop;) {
    const uint64_t n = std::min(stop - at, part_.together(at));
    std::memcpy(to, body.data + part_.place(at), static_cast<size_t>(n));
    at += n;
    to += n;
  }
  return Status::ok();
}

Status PlainDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                            size_t count, const Output& out) const {
  uint32_t verified = UINT32_MAX;
  for (size_t i = 0; i < count; ++i) {
    if (body.stable) PlainDecoder::prefetch(body, rows[i]);
    if (rows[i] / unit_ == verified) continue;
    verified = rows[i] / unit_;
    NIMBLE_RETURN_IF_ERROR(verify(body, rows[i], rows[i] + 1));
  }
  const uint32_t width = type().width;
  for (size_t i = 0; i < count;) {
    // The rows that are contiguous with the first one.
    const uint32_t first = rows[i];
    const uint64_t last =
        first + part_.together(uint64_t{first} * width) / width;
    const auto n = static_cast<size_t>(
        std::lower_bound(rows + i, rows + count, last) - (rows + i));
    pick_values(body.data + place(first), width, rows + i, n, first,
                out.data + i * width);
    i += n;
  }
  return Status::ok();
}

Status PlainDecoder::value(const SegmentBody& body, uint32_t row,
                           uint64_t* out) const {
  NIMBLE_RETURN_IF_ERROR(verify(body, row, row + 1));
  pick_values(body.data + place(row), type().width, &row, 1, row,
              reinterpret_cast<uint8_t*>(out));
  return Status::ok();
}

std::string PlainDecoder::describe() const {
  return "plain " + std::to_string(type().width) + " bytes";
}

}  // namespace nimble
