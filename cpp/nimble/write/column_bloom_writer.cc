#include "nimble/write/column_bloom_writer.h"

#include <algorithm>

#include "column_bloom_generated.h"
#include "nimble/format/constants.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/index/bloom_filter.h"

namespace nimble {

Result<ColumnBloomWriter> ColumnBloomWriter::create(
    const Field& schema, const StreamPlan& plan, const WriterOptions& options) {
  ColumnBloomWriter out;
  out.bits_per_key_ = options.bloom_bits_per_key;
  for (const std::vector<int>& path : options.bloom_columns) {
    NIMBLE_ASSIGN_OR_RETURN(
        StripeKeyEncoder columns,
        StripeKeyEncoder::create(schema, {{path, SortOrder{}}}));
    uint32_t node = 0;
    for (const int step : path) {
      node = plan.node(node).children[static_cast<size_t>(step)];
    }
    out.parts_.push_back({std::move(columns), node, {}});
  }
  return out;
}

Status ColumnBloomWriter::add_stripe(const Column& stripe, uint64_t end_row,
                                     const SectionSink& sink) {
  if (parts_.empty()) return Status::ok();
  end_rows_.push_back(end_row);
  for (Part& part : parts_) {
    keys_.clear();
    NIMBLE_RETURN_IF_ERROR(
        part.columns.encode(stripe, 0, stripe.length(), &keys_));
    hashes_.clear();
    for (size_t i = 0; i < keys_.size(); ++i) {
      hashes_.push_back(key_hash64(keys_.key(i)));
    }
    // Equal values are counted once, because the filter's size depends on the
    // number of distinct values.
    std::sort(hashes_.begin(), hashes_.end());
    hashes_.erase(std::unique(hashes_.begin(), hashes_.end()), hashes_.end());
    BloomFilterBuilder filter(hashes_.size(), bits_per_key_);
    filter.insert(hashes_);
    NIMBLE_ASSIGN_OR_RETURN(const SectionRef section, sink(filter.bytes()));
    part.filters.push_back(section);
    size_bytes_ += section.size;
    keys_ = KeyBuffer();
  }
  return Status::ok();
}

Status ColumnBloomWriter::finish(const SectionSink& sink, FileFooter* footer) {
  if (parts_.empty()) return Status::ok();
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<fb::ColumnBloom>> columns;
  for (const Part& part : parts_) {
    const auto rows = b.CreateVector(end_rows_);
    const auto sections = b.CreateVectorOfStructs(to_fb(part.filters));
    columns.push_back(fb::CreateColumnBloom(b, part.node, rows, sections));
  }
  const auto list = b.CreateVector(columns);
  fb::FinishColumnBloomsBuffer(b, fb::CreateColumnBlooms(b, list));
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef root,
                          sink({b.GetBufferPointer(), b.GetSize()}));
  footer->optional_sections.push_back({kColumnBloomSection, root});
  footer->index_bytes += size_bytes_ + root.size;
  return Status::ok();
}

}  // namespace nimble
