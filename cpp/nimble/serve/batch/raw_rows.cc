#include "nimble/serve/batch/raw_rows.h"

#include <algorithm>
#include <optional>

#include "nimble/serve/batch/raw_frames.h"
#include "nimble/serve/snapshot/convert_column.h"
#include "nimble/serve/snapshot/reply_bytes.h"

namespace nimble {
namespace {

// With fewer rows, the blocks have more bytes than the rows (bench/serve).
constexpr uint64_t kFewestRawRows = 512;
// More runs than this are sent as Arrow.
constexpr size_t kMostRuns = 16;
// Metadata that a client may have to ask for; beyond this, Arrow is sent.
constexpr uint64_t kMostMetadata = uint64_t{8} << 20;
// Blocks with a smaller gap are sent as one part.
constexpr uint64_t kPartGap = 64;

// Rows of one file that follow each other in the read.
struct Run {
  uint32_t file = 0;
  std::vector<RowRange> rows;
  std::span<const FileRange> given;
};

std::vector<Run> runs_of(std::span<const FileRange> rows) {
  std::vector<Run> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const FileRange& r = rows[i];
    if (r.rows.empty()) continue;
    const bool continues = !out.empty() && out.back().file == r.file &&
                           out.back().rows.back().end <= r.rows.begin;
    if (!continues) out.push_back({r.file, {}, rows.subspan(i, 0)});
    Run& run = out.back();
    run.rows.push_back(r.rows);
    const auto first = static_cast<size_t>(run.given.data() - rows.data());
    run.given = rows.subspan(first, i + 1 - first);
  }
  return out;
}

// Whether most rows between the first and the last one are wanted.
bool lie_together(const Run& run) {
  const uint64_t rows = count_rows(run.rows);
  const uint64_t span = run.rows.back().end - run.rows.front().begin;
  return rows >= kFewestRawRows && span / 2 <= rows;
}

// Whether the values of a file's column can be sent as they are stored.
bool is_sent_raw(const ServedColumn& column, const Field& wanted) {
  if (!column.top || !column.is_same) return false;
  switch (wanted.layout) {
    case Layout::kBool:
    case Layout::kFixed:
      return true;
    case Layout::kBytes:
      // An Arrow reply sends views as other types, so clients do not expect
      // views.
      return wanted.format == "u" || wanted.format == "U" ||
             wanted.format == "z" || wanted.format == "Z";
    default:
      return false;
  }
}

// The sections that a reader of these rows needs besides their blocks.
Status add_metadata(const FileReader& reader, const RowReader& columns,
                    std::span<const RowRange> rows,
                    std::vector<FilePart>* out) {
  const FileFooter& footer = reader.footer();
  const uint64_t tail = reader.postscript().footer_offset;
  out->push_back({tail, reader.file().size() - tail});
  const auto add = [&](const SectionRef& section) {
    if (section.size > 0) out->push_back({section.offset, section.size});
  };
  size_t next = 0;
  for (const RowRange& r : rows) {
    const size_t last = reader.group_of(r.end - 1);
    for (size_t g = std::max(next, reader.group_of(r.begin)); g <= last; ++g) {
      add(footer.groups[g].section);
      next = g + 1;
    }
  }
  for (size_t i = 0; i < columns.schema().children.size(); ++i) {
    const uint32_t node = columns.node(i);
    for (const NodeSection& s : footer.phrases) {
      if (s.node == node) add(s.section);
    }
    for (const DictionarySections& s : footer.shared_dictionaries) {
      if (s.node != node) continue;
      add(s.head);
      add(s.body);
    }
  }
  return Status::ok();
}

uint64_t size_of(std::span<const FilePart> parts) {
  uint64_t total = 0;
  for (const FilePart& part : parts) total += part.size;
  return total;
}

// The blocks of a run, which are in a mapped file.
struct RawRun {
  RawFrame frame;
  const uint8_t* mapped = nullptr;

  void append(std::string* out) const {
    out->reserve(out->size() + size_of(frame.parts) + 4096 +
                 16 * frame.parts.size());
    const size_t begin = frame.begin(out);
    for (const FilePart& part : frame.parts) {
      out->append(as_string(ByteSpan(mapped + part.offset, part.size)));
    }
    RawFrame::end_body(begin, out);
  }
};

// Returns nullopt if the rows are not sent as blocks.
Result<std::optional<RawRun>> plan_run(const ServedTable& table,
                                       const ArrowRequest& request,
                                       const Run& run, uint64_t left) {
  const std::optional<RawRun> decoded;
  if (request.columns.empty() || !lie_together(run)) return decoded;
  NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* file, table.file(run.file));
  RawRun out;
  RawFrame& frame = out.frame;
  frame.is_raw = true;
  std::vector<OutputColumn> outputs;
  for (const uint32_t c : request.columns) {
    const ServedColumn& column = file->column(c);
    if (!is_sent_raw(column, table.schema().children[c])) return decoded;
    frame.columns.push_back(static_cast<uint32_t>(*column.top));
    outputs.push_back(
        {{static_cast<int>(*column.top)}, table.schema().children[c].name});
  }
  const FileReader& reader = file->reader();
  const uint8_t* const mapped = reader.file().mapped();
  if (mapped == nullptr) return decoded;
  NIMBLE_ASSIGN_OR_RETURN(const auto columns,
                          RowReader::create(file->owner(), outputs));
  std::vector<ByteRange> parts;
  NIMBLE_RETURN_IF_ERROR(plan_bytes(*columns, run.rows, kPartGap, &parts));
  for (const ByteRange& r : parts) {
    frame.parts.push_back({r.begin, r.end - r.begin});
  }
  NIMBLE_RETURN_IF_ERROR(
      add_metadata(reader, *columns, run.rows, &frame.metadata));
  const uint64_t size = size_of(frame.parts);
  if (size > left || size_of(frame.metadata) > kMostMetadata) return decoded;
  frame.footer_checksum = reader.postscript().footer_checksum;
  frame.file_size = reader.file().size();
  frame.rows = run.rows;
  out.mapped = mapped;
  return std::optional<RawRun>(std::move(out));
}

}  // namespace

Status append_raw_rows(const ServedTable& table, const ArrowRequest& request,
                       const RawRows& wanted, std::string* out) {
  const std::span<const FileRange> rows = wanted.ranges;
  const size_t before = out->size();
  const auto left = [&] {
    const uint64_t used = out->size() - before;
    return request.max_bytes - std::min(request.max_bytes, used);
  };
  const auto append_arrow = [&](std::span<const FileRange> part) -> Status {
    ArrowRequest arrow = request;
    arrow.max_bytes = left();
    const size_t begin = RawFrame().begin(out);
    NIMBLE_RETURN_IF_ERROR(
        append_arrow_rows(table, arrow, part, wanted.reverse, {}, out));
    RawFrame::end_body(begin, out);
    return Status::ok();
  };
  if (wanted.reverse || !wanted.allow_raw) return append_arrow(rows);
  const std::vector<Run> runs = runs_of(rows);
  if (runs.empty() || runs.size() > kMostRuns) return append_arrow(rows);
  size_t waiting = 0;  // ranges before this run that are sent as Arrow
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const auto first = static_cast<size_t>(run.given.data() - rows.data());
    NIMBLE_ASSIGN_OR_RETURN(const std::optional<RawRun> raw,
                            plan_run(table, request, run, left()));
    if (!raw) continue;
    if (waiting < first) {
      NIMBLE_RETURN_IF_ERROR(
          append_arrow(rows.subspan(waiting, first - waiting)));
    }
    raw->append(out);
    waiting = first + run.given.size();
  }
  if (waiting < rows.size()) {
    NIMBLE_RETURN_IF_ERROR(append_arrow(rows.subspan(waiting)));
  }
  return check_reply_bytes(out->size() - before, request.max_bytes);
}

Status append_file_parts(const ServedTable& table, uint64_t checksum,
                         uint64_t size, std::span<const FilePart> parts,
                         uint64_t max_bytes, std::string* out) {
  const OpenedFile* const file = table.find_file(checksum, size);
  if (file == nullptr || file->reader().file().mapped() == nullptr) {
    return Status::not_found("the table has no file of " +
                             std::to_string(size) +
                             " bytes with this checksum");
  }
  uint64_t total = 0;
  for (const FilePart& part : parts) {
    if (!in_bounds(part.offset, part.size, size)) {
      return Status::invalid_argument("NB.META: " + std::to_string(part.size) +
                                      " bytes at offset " +
                                      std::to_string(part.offset) +
                                      " of a file of " + std::to_string(size));
    }
    if (part.size > max_bytes - total) {
      return check_reply_bytes(UINT64_MAX, max_bytes);
    }
    total += part.size;
  }
  out->reserve(out->size() + total);
  for (const FilePart& part : parts) {
    out->append(as_string(
        ByteSpan(file->reader().file().mapped() + part.offset, part.size)));
  }
  return Status::ok();
}

}  // namespace nimble
