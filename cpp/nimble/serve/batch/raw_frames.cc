#include "nimble/serve/batch/raw_frames.h"

#include "nimble/base/byte_reader.h"
#include "nimble/base/hash.h"

namespace nimble {
namespace {

constexpr std::string_view kFrameMagic = "NBRW";
constexpr uint16_t kFrameVersion = 1;
constexpr uint16_t kRawKind = 1;
constexpr uint16_t kArrowKind = 2;
constexpr size_t kBodySizeAt = 16;
constexpr size_t kShortHead = 24 + 8;
constexpr size_t kFrameAlignment = 8;

template <class T>
void put_number(T value, std::string* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof bytes);
}

Status bad_frame(const std::string& what) {
  return Status::corrupt("raw reply: " + what);
}

// Reads `count` pairs of numbers.
template <class T>
std::vector<T> read_pairs(uint32_t count, ByteReader* in) {
  std::vector<T> out;
  if (count > in->remaining() / 16) {
    in->fail();
    return out;
  }
  out.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto first = in->get<uint64_t>();
    out.push_back({first, in->get<uint64_t>()});
  }
  return out;
}

Status check_parts(const std::vector<FilePart>& parts, uint64_t file_size,
                   uint64_t* total) {
  *total = 0;
  for (const FilePart& part : parts) {
    if (!in_bounds(part.offset, part.size, file_size) ||
        part.size > UINT64_MAX - *total) {
      return bad_frame("a part of " + std::to_string(part.size) +
                       " bytes at offset " + std::to_string(part.offset) +
                       " of a file of " + std::to_string(file_size));
    }
    *total += part.size;
  }
  return Status::ok();
}

Status read_raw_head(ByteReader* in, RawFrame* frame) {
  frame->is_raw = true;
  frame->footer_checksum = in->get<uint64_t>();
  frame->file_size = in->get<uint64_t>();
  const auto columns = in->get<uint32_t>();
  const auto rows = in->get<uint32_t>();
  const auto metadata = in->get<uint32_t>();
  const auto parts = in->get<uint32_t>();
  if (columns > in->remaining() / 8) return bad_frame("too many columns");
  for (uint32_t i = 0; i < columns; ++i) {
    const auto column = in->get<uint64_t>();
    if (column > INT32_MAX) return bad_frame("no such column");
    frame->columns.push_back(static_cast<uint32_t>(column));
  }
  frame->rows = read_pairs<RowRange>(rows, in);
  frame->metadata = read_pairs<FilePart>(metadata, in);
  frame->parts = read_pairs<FilePart>(parts, in);
  if (!in->ok() || in->remaining() > 0) return bad_frame("a head is cut");
  uint64_t end = 0, total = 0;
  for (const RowRange& r : frame->rows) {
    if (r.begin < end || r.begin >= r.end) {
      return bad_frame("rows are not in order");
    }
    end = r.end;
  }
  NIMBLE_RETURN_IF_ERROR(
      check_parts(frame->metadata, frame->file_size, &total));
  NIMBLE_RETURN_IF_ERROR(check_parts(frame->parts, frame->file_size, &total));
  if (total != frame->body.size()) {
    return bad_frame("the body has " + std::to_string(frame->body.size()) +
                     " bytes; its parts have " + std::to_string(total));
  }
  return Status::ok();
}

}  // namespace

size_t RawFrame::begin(std::string* out) const {
  const size_t start = out->size();
  out->append(kFrameMagic);
  put_number(kFrameVersion, out);
  put_number(is_raw ? kRawKind : kArrowKind, out);
  const size_t numbers =
      columns.size() + 2 * (rows.size() + metadata.size() + parts.size());
  put_number<uint64_t>(kShortHead + (is_raw ? 32 + 8 * numbers : 0), out);
  uint64_t total = 0;
  for (const FilePart& part : parts) total += part.size;
  put_number<uint64_t>(total, out);
  if (is_raw) {
    put_number(footer_checksum, out);
    put_number(file_size, out);
    put_number(static_cast<uint32_t>(columns.size()), out);
    put_number(static_cast<uint32_t>(rows.size()), out);
    put_number(static_cast<uint32_t>(metadata.size()), out);
    put_number(static_cast<uint32_t>(parts.size()), out);
    for (const uint32_t column : columns) put_number<uint64_t>(column, out);
    for (const RowRange& r : rows) {
      put_number(r.begin, out);
      put_number(r.end, out);
    }
    for (const auto* list : {&metadata, &parts}) {
      for (const FilePart& part : *list) {
        put_number(part.offset, out);
        put_number(part.size, out);
      }
    }
  }
  put_number<uint64_t>(0, out);  // end_body() sets the checksum
  return start;
}

void RawFrame::end_body(size_t begin, std::string* out) {
  auto* const at = reinterpret_cast<uint8_t*>(out->data()) + begin;
  const auto head = load<uint64_t>(at + 8);
  store<uint64_t>(at + kBodySizeAt, out->size() - begin - head);
  store<uint64_t>(at + head - 8, checksum64(ByteSpan(at, head - 8)));
  out->resize(begin + round_up(out->size() - begin, kFrameAlignment));
}

void RawFrame::append_to(std::string* out) const {
  const size_t start = begin(out);
  out->append(as_string(body));
  end_body(start, out);
}

Result<std::vector<RawFrame>> RawFrame::parse(ByteSpan reply) {
  std::vector<RawFrame> out;
  for (uint64_t at = 0; at < reply.size();) {
    const ByteSpan left = reply.subspan(at);
    if (left.size() < kShortHead || as_string(left.first(4)) != kFrameMagic) {
      return bad_frame("no frame at byte " + std::to_string(at));
    }
    const auto version = load<uint16_t>(left.data() + 4);
    if (version != kFrameVersion) {
      return Status::unsupported_version("raw reply: version " +
                                         std::to_string(version) +
                                         "; this client reads version 1");
    }
    const auto kind = load<uint16_t>(left.data() + 6);
    const auto head = load<uint64_t>(left.data() + 8);
    const auto body = load<uint64_t>(left.data() + kBodySizeAt);
    if (head < kShortHead || !in_bounds(head, body, left.size()) ||
        (kind != kRawKind && kind != kArrowKind)) {
      return bad_frame("a frame of " + std::to_string(head) + " and " +
                       std::to_string(body) + " bytes, of " +
                       std::to_string(left.size()) + " that are left");
    }
    if (checksum64(left.first(head - 8)) !=
        load<uint64_t>(left.data() + head - 8)) {
      return bad_frame("the checksum of a head does not match");
    }
    RawFrame& frame = out.emplace_back();
    frame.body = left.subspan(head, body);
    if (kind == kRawKind) {
      ByteReader in(left.subspan(24, head - kShortHead));
      NIMBLE_RETURN_IF_ERROR(read_raw_head(&in, &frame));
    }
    at +=
        std::min<uint64_t>(left.size(), round_up(head + body, kFrameAlignment));
  }
  return out;
}

}  // namespace nimble
