#include "nimble/format/group.h"

#include <algorithm>

#include "group_generated.h"
#include "nimble/format/constants.h"
#include "nimble/format/flat_buffer.h"

namespace nimble {
namespace {

// Maximum number of values per segment. Must equal kSegmentValues in
// encoding.h.
constexpr uint64_t kSegmentRows = 131072;

template <class T>
std::span<const T> span_of(const flatbuffers::Vector<T>* v) {
  if (v == nullptr) return {};
  return {reinterpret_cast<const T*>(v->Data()), v->size()};
}

template <class T>
bool ascending(std::span<const T> ends, uint64_t limit) {
  T last = 0;
  for (const T end : ends) {
    if (end < last) return false;
    last = end;
  }
  return last <= limit;
}

Status corrupt_stripe(size_t stripe, const std::string& what) {
  return Status::corrupt("stripe " + std::to_string(stripe) +
                         " of the group: " + what);
}

Status check_stripe(size_t index, const StreamPlan& plan, uint64_t limit,
                    StripeView* s) {
  if (s->rows == 0 || s->rows >= kMaxStripeRows) {
    return corrupt_stripe(index, std::to_string(s->rows) + " rows");
  }
  if (s->values.size() != plan.num_streams()) {
    return corrupt_stripe(index, std::to_string(s->values.size()) +
                                     " streams, the schema has " +
                                     std::to_string(plan.num_streams()));
  }
  const size_t n = s->segment_offsets.size();
  uint64_t segments = 0;
  for (const uint64_t values : s->values) {
    s->first_segment.push_back(static_cast<uint32_t>(segments));
    segments += div_ceil(values, kSegmentRows);
    if (segments > n) break;
  }
  if (segments != n || s->segment_sizes.size() != n ||
      s->head_ends.size() != n) {
    return corrupt_stripe(index, "segment arrays of different lengths");
  }
  if (!ascending(s->head_ends, s->heads.size())) {
    return corrupt_stripe(index, "segment heads overlap");
  }
  for (size_t i = 0; i < n; ++i) {
    if (!in_bounds(s->segment_offsets[i], s->segment_sizes[i], limit)) {
      return corrupt_stripe(index, "segment " + std::to_string(i) + " of " +
                                       std::to_string(s->segment_sizes[i]) +
                                       " bytes at offset " +
                                       std::to_string(s->segment_offsets[i]) +
                                       " lies outside the data");
    }
  }
  return Status::ok();
}

Status check_chunks(const ChunkDirectoryRef& c, uint64_t rows, uint64_t limit) {
  const size_t n = c.chunk_end_rows.size();
  if (n == 0 || c.chunk_ends.size() != n || c.key_ends.size() != n) {
    return Status::corrupt("key chunks: " + std::to_string(n) + " row ends, " +
                           std::to_string(c.chunk_ends.size()) +
                           " byte ends, " + std::to_string(c.key_ends.size()) +
                           " boundary keys");
  }
  if (!ascending(c.key_ends, c.key_bytes.size()) ||
      !ascending(c.chunk_ends, UINT64_MAX) ||
      !in_bounds(c.key_stream_offset, c.chunk_ends.back(), limit)) {
    return Status::corrupt("key chunks: bytes out of bounds");
  }
  uint64_t last = 0;
  for (const uint64_t end : c.chunk_end_rows) {
    if (end <= last || end - last >= kMaxStripeRows) {
      return Status::corrupt("key chunks: a chunk is empty or too long");
    }
    last = end;
  }
  if (last != rows) {
    return Status::corrupt("key chunks: " + std::to_string(last) +
                           " keys for " + std::to_string(rows) + " rows");
  }
  return Status::ok();
}

}  // namespace

std::vector<uint8_t> serialize_group(const std::vector<StripeMeta>& stripes,
                                     const ChunkDirectoryMeta* chunks) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<fb::Stripe>> stripe_refs;
  for (const StripeMeta& s : stripes) {
    const auto values = b.CreateVector(s.values);
    const auto offsets = b.CreateVector(s.segment_offsets);
    const auto sizes = b.CreateVector(s.segment_sizes);
    const auto head_ends = b.CreateVector(s.head_ends);
    const auto heads = b.CreateVector(s.heads);
    stripe_refs.push_back(
        fb::CreateStripe(b, s.rows, values, offsets, sizes, head_ends, heads));
  }
  const auto stripes_v = b.CreateVector(stripe_refs);
  flatbuffers::Offset<fb::ChunkDirectory> directory;
  if (chunks != nullptr) {
    const auto rows = b.CreateVector(chunks->chunk_end_rows);
    const auto ends = b.CreateVector(chunks->chunk_ends);
    const auto bytes = b.CreateVector(chunks->key_bytes);
    const auto key_ends = b.CreateVector(chunks->key_ends);
    directory = fb::CreateChunkDirectory(
        b, rows, ends, chunks->key_stream_offset, bytes, key_ends);
  }
  fb::FinishGroupBuffer(b, fb::CreateGroup(b, stripes_v, directory));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<GroupView> GroupView::open(ByteSpan bytes, const StreamPlan& plan,
                                  uint64_t first_row, uint64_t num_rows,
                                  uint64_t limit) {
  NIMBLE_ASSIGN_OR_RETURN(auto buffer, FlatBufferView<fb::Group>::borrow(
                                           bytes, fb::GroupIdentifier()));
  const fb::Group& group = *buffer;
  GroupView out;
  out.copy_ = std::move(buffer).release();
  uint64_t rows = 0;
  if (group.stripes() != nullptr) {
    for (const fb::Stripe* s : *group.stripes()) {
      if (!is_aligned(s->values()) || !is_aligned(s->segment_offsets()) ||
          !is_aligned(s->segment_sizes())) {
        return corrupt_stripe(out.stripes_.size(), "arrays are not aligned");
      }
      StripeView view;
      view.first_row = first_row + rows;
      view.rows = s->rows();
      view.values = span_of(s->values());
      view.segment_offsets = span_of(s->segment_offsets());
      view.segment_sizes = span_of(s->segment_sizes());
      view.head_ends = span_of(s->head_ends());
      if (s->heads() != nullptr)
        view.heads = {s->heads()->data(), s->heads()->size()};
      NIMBLE_RETURN_IF_ERROR(
          check_stripe(out.stripes_.size(), plan, limit, &view));
      view.segment_base = out.num_segments_;
      out.num_segments_ += static_cast<uint32_t>(view.segment_offsets.size());
      rows += view.rows;
      out.stripes_.push_back(std::move(view));
    }
  }
  if (rows != num_rows) {
    return Status::corrupt(std::to_string(rows) +
                           " rows, but the footer says " +
                           std::to_string(num_rows));
  }
  if (const fb::ChunkDirectory* c = group.chunks(); c != nullptr) {
    out.has_chunks_ = true;
    NIMBLE_ASSIGN_OR_RETURN(out.chunks_, open_chunks(*c, rows, limit));
  }
  return out;
}

Result<ChunkDirectoryRef> open_chunks(const fb::ChunkDirectory& directory,
                                      uint64_t rows, uint64_t limit) {
  const fb::ChunkDirectory& d = directory;
  if (!is_aligned(d.chunk_end_rows()) || !is_aligned(d.chunk_ends())) {
    return Status::corrupt("key chunks: arrays are not aligned");
  }
  ChunkDirectoryRef out;
  out.chunk_end_rows = span_of(d.chunk_end_rows());
  out.chunk_ends = span_of(d.chunk_ends());
  out.key_stream_offset = d.key_stream_offset();
  if (d.key_bytes() != nullptr) {
    out.key_bytes = {d.key_bytes()->data(), d.key_bytes()->size()};
  }
  out.key_ends = span_of(d.key_ends());
  NIMBLE_RETURN_IF_ERROR(check_chunks(out, rows, limit));
  return out;
}

const StripeView& GroupView::stripe_of(uint64_t row) const {
  const auto it = std::upper_bound(
      stripes_.begin(), stripes_.end(), row,
      [](uint64_t r, const StripeView& s) { return r < s.first_row; });
  return *(it - 1);
}

uint64_t GroupView::memory_bytes() const {
  uint64_t n = copy_.size() * 8;
  for (const StripeView& s : stripes_) {
    n += sizeof s + s.first_segment.size() * 4;
  }
  return n;
}

}  // namespace nimble
