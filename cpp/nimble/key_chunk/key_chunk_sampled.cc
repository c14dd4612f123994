// Sampled chunks: every step-th key is stored. The other keys are read from the
// rows' key columns.
#include "nimble/base/byte_reader.h"
#include "nimble/key_chunk/key_chunk.h"

namespace nimble {

Status KeyChunk::open_sampled(ByteSpan body, const KeySource* source,
                              uint64_t first_row) {
  ByteReader in(body);
  const uint64_t step = in.get_varint();
  const uint8_t form = in.get_u8();
  NIMBLE_RETURN_IF_ERROR(in.status("sampled key chunk"));
  if (source == nullptr) {
    return Status::corrupt(
        "key chunk: it has sampled keys, but its index has all keys");
  }
  if (step < 2 || step > kMaxSampleStep) {
    return Status::corrupt("key chunk: every " + std::to_string(step) +
                           "th key is stored, but the step must be 2 to 1024");
  }
  step_ = static_cast<uint32_t>(step);
  source_ = source;
  first_row_ = first_row;
  num_stored_ = static_cast<uint32_t>(div_ceil(num_keys_, step));
  return open_form(form, body.subspan(in.position()));
}

KeyGap KeyChunk::gap_before(uint32_t sample) const {
  if (sample == 0) return {};
  const uint64_t begin = (uint64_t{sample} - 1) * step_ + 1;
  const uint64_t end = std::min<uint64_t>(begin + step_ - 1, num_keys_);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

Result<KeyGap> KeyChunk::sampled_gap(ByteSpan target) const {
  size_t shared = 0;
  NIMBLE_ASSIGN_OR_RETURN(const uint32_t sample,
                          stored_lower_bound(0, target, &shared));
  KeyGap gap = gap_before(sample);
  gap.shared = shared;
  return gap;
}

void KeyChunk::prefetch_gap(ByteSpan target, const KeyGap& gap) const {
  if (gap.begin < gap.end) {
    source_->prefetch(first_row_ + gap.begin, first_row_ + gap.end,
                      {target, gap.shared});
  }
}

Result<FoundKey> KeyChunk::find_in_gap(const KeyGap& gap,
                                       ByteSpan target) const {
  FoundKey out;
  if (gap.begin < gap.end) {
    NIMBLE_ASSIGN_OR_RETURN(
        const LowerBound place,
        source_->find(first_row_ + gap.begin, first_row_ + gap.end,
                      {target, gap.shared}));
    out.at = static_cast<uint32_t>(place.row - first_row_);
    out.is_equal = place.is_equal;
    if (out.at < gap.end) return out;
  }
  // The target is above all keys of the gap. The result is the stored key at
  // the gap's end, if one exists.
  out.at = gap.end;
  out.is_equal = false;
  if (out.at == num_keys_) return out;
  NIMBLE_ASSIGN_OR_RETURN(out.is_equal, stored_matches(out.at / step_, target));
  return out;
}

Result<uint32_t> KeyChunk::sampled_lower_bound(uint32_t start,
                                               ByteSpan target) const {
  if (start >= num_keys_) return num_keys_;
  size_t shared = 0;
  NIMBLE_ASSIGN_OR_RETURN(const uint32_t sample,
                          stored_lower_bound(start / step_, target, &shared));
  if (uint64_t{sample} * step_ <= start) return start;
  // The target is above the previous stored key, and not above this one.
  KeyGap gap = gap_before(sample);
  gap.begin = std::max(gap.begin, start);
  if (gap.begin >= gap.end) return gap.end;
  NIMBLE_ASSIGN_OR_RETURN(
      const LowerBound place,
      source_->find(first_row_ + gap.begin, first_row_ + gap.end,
                    {target, shared}));
  return static_cast<uint32_t>(place.row - first_row_);
}

Result<bool> KeyChunk::sampled_matches(uint32_t i, ByteSpan key) const {
  if (i % step_ == 0) return stored_matches(i / step_, key);
  NIMBLE_ASSIGN_OR_RETURN(const int sign,
                          source_->compare(first_row_ + i, key));
  return sign == 0;
}

Status KeyChunk::sampled_key_at(uint32_t i, ByteBuffer* key) const {
  if (i % step_ == 0) return stored_key_at(i / step_, key);
  KeyBuffer one;
  NIMBLE_RETURN_IF_ERROR(
      source_->read_keys(first_row_ + i, first_row_ + i + 1, &one));
  key->clear();
  key->put_bytes(one.key(0));
  return Status::ok();
}

}  // namespace nimble
