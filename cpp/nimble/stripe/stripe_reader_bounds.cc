#include "nimble/format/constants.h"
#include "nimble/stripe/stripe_reader.h"

// StripeReader: checks that rows exist before memory is allocated for them. In
// a damaged file, the numbers in lists and runs may be wrong.
namespace nimble {
namespace {

// Maximum number of items of run-end encoded arrays that are numbered one by
// one. Items without stored values are not limited by the file's size.
constexpr uint64_t kMaxRunItems = uint64_t{1} << 27;

}  // namespace

Status StripeReader::check_rows(uint32_t stream, uint64_t end) const {
  if (end <= stripe_.values[stream]) return Status::ok();
  return Status::corrupt("stream " + std::to_string(stream) + " has " +
                         std::to_string(stripe_.values[stream]) +
                         " values, too few for row " + std::to_string(end - 1));
}

Status StripeReader::check_node(uint32_t node, const uint64_t* rows,
                                uint64_t begin, uint64_t count) const {
  const SchemaNode& n = plan_.node(node);
  const Field& f = *n.field;
  const uint64_t last = rows != nullptr ? rows[count - 1] : begin + (count - 1);
  const uint64_t end = last + 1;
  if (end == 0 || (rows == nullptr && last < begin)) {
    return Status::corrupt("column '" + f.name + "': rows past 2^64");
  }
  if (n.validity != kNoStream && stripe_.values[n.validity] != 0) {
    NIMBLE_RETURN_IF_ERROR(check_rows(n.validity, end));
  }
  if (n.values != kNoStream) NIMBLE_RETURN_IF_ERROR(check_rows(n.values, end));
  if (n.ends != kNoStream && f.layout != Layout::kRunEnd) {
    return check_rows(n.ends, end);
  }
  if (f.layout == Layout::kFixedList && f.list_size > 0) {
    if (end <= UINT64_MAX / static_cast<uint64_t>(f.list_size)) {
      return Status::ok();
    }
    return Status::corrupt("column '" + f.name + "': items past 2^64");
  }
  // Structs with children are checked through their children.
  const bool is_counted = n.values != kNoStream ||
                          (f.layout == Layout::kStruct && !n.children.empty());
  return is_counted ? Status::ok() : check_uncounted(node, end);
}

// Limits rows that do not have stored data, such as nulls. Nothing else limits
// them.
Status StripeReader::check_uncounted(uint32_t node, uint64_t end) const {
  if (end <= kMaxStripeRows) return Status::ok();
  return Status::corrupt("column '" + plan_.node(node).field->name + "': row " +
                         std::to_string(end - 1) +
                         " exceeds the maximum of rows in a stripe");
}

// Checks items [0, end) of lists before they are numbered one by one.
Status StripeReader::check_items(uint32_t child, uint64_t end) const {
  const SchemaNode& n = plan_.node(child);
  const Field& f = *n.field;
  if (f.layout == Layout::kRunEnd) {
    if (end <= kMaxRunItems) return Status::ok();
    return Status::unsupported("column '" + f.name +
                               "': " + std::to_string(end) +
                               " items of runs cannot be taken one by one");
  }
  if (n.values != kNoStream) return check_rows(n.values, end);
  if (n.ends != kNoStream) return check_rows(n.ends, end);
  if (f.layout == Layout::kFixedList && f.list_size > 0) {
    const auto size = static_cast<uint64_t>(f.list_size);
    if (end > UINT64_MAX / size) return check_uncounted(child, end);
    return check_items(n.children[0], end * size);
  }
  // Lists without items do not limit the rows below them.
  if (n.children.empty() || f.layout == Layout::kFixedList) {
    return check_uncounted(child, end);
  }
  for (const uint32_t c : n.children) {
    NIMBLE_RETURN_IF_ERROR(check_items(c, end));
  }
  return Status::ok();
}

bool StripeReader::has_values(uint32_t node) const {
  const SchemaNode& n = plan_.node(node);
  for (const uint32_t stream : {n.validity, n.values, n.ends}) {
    if (stream != kNoStream && stripe_.values[stream] != 0) return true;
  }
  for (const uint32_t c : n.children) {
    if (has_values(c)) return true;
  }
  return false;
}

// The schema alone says how much memory wide values take. Opening their
// segments checks that the segments have as many bytes.
Status StripeReader::check_wide(uint32_t stream, uint64_t first,
                                uint64_t last) const {
  for (uint64_t i = first / kSegmentValues; i <= last / kSegmentValues; ++i) {
    NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const Decoder* d,
                            decoder(stream, static_cast<uint32_t>(i)));
  }
  return Status::ok();
}

Result<uint64_t> StripeReader::find_run(uint32_t stream, uint64_t row) const {
  uint64_t low = 0, high = stripe_.values[stream];
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    uint64_t end[1 + AlignedBuffer::kSlack / 8];
    Output to;
    to.data = reinterpret_cast<uint8_t*>(end);
    NIMBLE_RETURN_IF_ERROR(gather_values(stream, &middle, 1, to));
    if (end[0] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Result<RowRange> StripeReader::runs_of(uint32_t stream, uint64_t first,
                                       uint64_t last) const {
  const uint64_t num_runs = stripe_.values[stream];
  if (num_runs <= kSegmentValues) return RowRange{0, num_runs};
  RowRange out;
  NIMBLE_ASSIGN_OR_RETURN(out.begin, find_run(stream, first));
  NIMBLE_ASSIGN_OR_RETURN(out.end, find_run(stream, last));
  out.end = std::min(num_runs, out.end + 1);
  // Every run has at least one row.
  if (out.begin < out.end && out.end - out.begin - 1 <= last - first)
    return out;
  return Status::corrupt("stream " + std::to_string(stream) +
                         ": run ends do not ascend up to row " +
                         std::to_string(last));
}

}  // namespace nimble
