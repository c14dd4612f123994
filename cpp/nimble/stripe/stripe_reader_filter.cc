#include "nimble/encoding/core/predicate.h"
#include "nimble/open/open_file.h"
#include "nimble/stripe/stripe_reader.h"

// StripeReader: filters that test encoded segments instead of decoding them.
namespace nimble {

// Loads the segment, with the bytes of its blocks that have selected rows.
Result<StripeReader::Segment> StripeReader::selected_segment(
    uint32_t stream, uint32_t index, const uint64_t* selection) const {
  NIMBLE_ASSIGN_OR_RETURN(const Decoder* d, decoder(stream, index));
  const SegmentRef ref = segment_ref(stream, index);
  Segment out{d, {}};
  if (const uint8_t* map = file_.file().mapped()) {
    out.body = {map + ref.offset, ref.size, true, &file_.stats()->touches};
    return out;
  }
  const uint32_t num_blocks =
      static_cast<uint32_t>(div_ceil(d->size(), kBlockValues));
  const auto is_wanted = [&](uint32_t block) {
    return count_selected(selection + block * kSelectionWords,
                          kSelectionWords) > 0;
  };
  for (uint32_t b = 0; b < num_blocks; ++b) {
    if (!is_wanted(b)) continue;
    const uint32_t begin = b;
    while (b + 1 < num_blocks && is_wanted(b + 1)) ++b;
    fetched_->want(ref, *d, begin * kBlockValues,
                   std::min(d->size(), (b + 1) * kBlockValues));
  }
  want_shared(stream, *d);
  NIMBLE_RETURN_IF_ERROR(fetched_->fetch());
  out.body = fetched_->body(ref);
  return out;
}

Status StripeReader::filter_stream(uint32_t stream, uint32_t segment,
                                   const Predicate& test,
                                   uint64_t* selection) const {
  const uint64_t base = uint64_t{segment} * kSegmentValues;
  const uint64_t end = std::min(base + kSegmentValues, stripe_.rows);
  NIMBLE_RETURN_IF_ERROR(check_rows(stream, end));
  if (count_selected(selection, kSegmentValues / 64) == 0) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(const Segment s,
                          selected_segment(stream, segment, selection));
  Status status = s.decoder->filter(s.body, test, selection);
  return status ? Status::ok()
                : at_segment(std::move(status), segment_ref(stream, segment));
}

Status StripeReader::filter_values(uint32_t node, uint32_t segment,
                                   const Predicate& test,
                                   uint64_t* selection) const {
  const uint32_t stream = plan_.node(node).values;
  if (stream == kNoStream) {
    return Status::unsupported("only columns with stored values can be tested");
  }
  return filter_stream(stream, segment, test, selection);
}

Status StripeReader::filter_valid(uint32_t node, uint32_t segment,
                                  uint64_t* selection) const {
  if (plan_.node(node).field->layout == Layout::kNull) {
    std::memset(selection, 0, kSegmentValues / 8);
    return Status::ok();
  }
  const uint32_t stream = plan_.node(node).validity;
  if (stream == kNoStream || stripe_.values[stream] == 0) return Status::ok();
  return filter_stream(stream, segment, Predicate::is_true(true), selection);
}

}  // namespace nimble
