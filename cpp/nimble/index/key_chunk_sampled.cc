// Sampled chunks: every step-th key is stored, the others are those of the
// rows' own columns.
#include "nimble/base/byte_reader.h"
#include "nimble/index/key_chunk.h"

namespace nimble {

Status KeyChunk::open_sampled(ByteSpan body, const KeySource* source,
                              uint64_t first_row) {
  ByteReader in(body);
  const uint64_t step = in.get_varint();
  const uint8_t form = in.get_u8();
  NIMBLE_RETURN_IF_ERROR(in.status("sampled key chunk"));
  if (source == nullptr || step < 2 || step > kMaxSampleStep) {
    return Status::corrupt(
        "key chunk: every " + std::to_string(step) + "th key where " +
        (source == nullptr ? "all" : "2 to 1024") + " are possible");
  }
  step_ = static_cast<uint32_t>(step);
  source_ = source;
  first_row_ = first_row;
  num_stored_ = static_cast<uint32_t>(div_ceil(num_keys_, step));
  return open_form(form, body.subspan(in.position()));
}

Result<const KeyBuffer*> KeyChunk::window(uint32_t sample) const {
  if (window_ != nullptr && window_->sample == sample) return &window_->keys;
  auto read = std::make_shared<Window>();
  read->sample = sample;
  const uint64_t begin = uint64_t{sample} * step_;
  const uint64_t end = std::min<uint64_t>(begin + step_, num_keys_);
  NIMBLE_RETURN_IF_ERROR(
      source_->read_keys(first_row_ + begin, first_row_ + end, &read->keys));
  if (read->keys.size() != end - begin) {
    return Status::corrupt("key chunk: rows without keys");
  }
  window_ = std::move(read);
  return &window_->keys;
}

Result<uint32_t> KeyChunk::sampled_lower_bound(uint32_t start,
                                               ByteSpan target) const {
  if (start >= num_keys_) return num_keys_;
  NIMBLE_ASSIGN_OR_RETURN(const uint32_t sample,
                          stored_lower_bound(start / step_, target));
  if (uint64_t{sample} * step_ <= start) return start;
  // Above the sample before it, not above this one.
  NIMBLE_ASSIGN_OR_RETURN(const KeyBuffer* keys, window(sample - 1));
  size_t low = 0, high = keys->size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare_bytes(keys->key(middle), target) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return std::max(start, (sample - 1) * step_ + static_cast<uint32_t>(low));
}

Status KeyChunk::sampled_key_at(uint32_t i, ByteBuffer* key) const {
  if (i % step_ == 0) return stored_key_at(i / step_, key);
  NIMBLE_ASSIGN_OR_RETURN(const KeyBuffer* keys, window(i / step_));
  key->clear();
  key->put_bytes(keys->key(i % step_));
  return Status::ok();
}

}  // namespace nimble
