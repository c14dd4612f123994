#include "nimble/write/secondary_index_writer.h"

#include <chrono>

namespace nimble {
namespace {

// Adds the time of a scope to *seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    *seconds_ += std::chrono::duration<double>(spent).count();
  }

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
};

}  // namespace

Result<SecondaryIndexWriter> SecondaryIndexWriter::create(
    const Field& schema, const WriterOptions& options) {
  SecondaryIndexWriter out;
  for (const IndexSpec& spec : options.indexes) {
    NIMBLE_ASSIGN_OR_RETURN(StripeKeyEncoder columns,
                            StripeKeyEncoder::create(schema, spec.columns));
    Part part{std::move(columns), {}, nullptr, nullptr, {}};
    part.ref.kind = spec.kind;
    part.ref.columns = spec.columns;
    NIMBLE_RETURN_IF_ERROR(open_writer(spec, options, &part));
    out.parts_.push_back(std::move(part));
  }
  return out;
}

Status SecondaryIndexWriter::open_writer(const IndexSpec& spec,
                                         const WriterOptions& options,
                                         Part* part) {
  const uint64_t memory = options.index_memory_bytes / options.indexes.size();
  if (spec.kind == IndexKind::kHash) {
    HashIndexOptions hash;
    hash.load_factor = spec.load_factor;
    hash.bloom_bits_per_key = spec.bloom_bits;
    hash.memory_bytes = memory;
    hash.spill_directory = options.spill_directory;
    hash.poll = options.poll;
    NIMBLE_ASSIGN_OR_RETURN(part->hash, HashIndexWriter::create(hash));
    return Status::ok();
  }
  SortedIndexOptions sorted;
  sorted.chunk_keys = options.key_chunk_rows;
  sorted.chunk.restart_interval = options.restart_interval;
  sorted.memory_bytes = memory;
  sorted.spill_directory = options.spill_directory;
  sorted.poll = options.poll;
  part->sorted = std::make_unique<SortedIndexWriter>(sorted);
  return Status::ok();
}

Status SecondaryIndexWriter::add_stripe(const Column& stripe) {
  if (parts_.empty()) return Status::ok();
  const Stopwatch watch(&seconds_);
  for (Part& part : parts_) {
    keys_.clear();
    NIMBLE_RETURN_IF_ERROR(
        part.columns.encode(stripe, 0, stripe.length(), &keys_));
    NIMBLE_RETURN_IF_ERROR(
        part.hash ? part.hash->add(keys_, 0, keys_.size(), num_rows_)
                  : part.sorted->add(keys_, 0, keys_.size()));
  }
  num_rows_ += stripe.length();
  return Status::ok();
}

Status SecondaryIndexWriter::finish(const SectionSink& sink) {
  const Stopwatch watch(&seconds_);
  for (Part& part : parts_) {
    const auto counting = [&](ByteSpan bytes) {
      part.ref.size_bytes += bytes.size();
      return sink(bytes);
    };
    if (part.hash) {
      NIMBLE_ASSIGN_OR_RETURN(part.root, part.hash->finish(counting));
      part.ref.num_keys = part.hash->num_keys();
      part.ref.has_bloom = part.hash->has_bloom();
    } else {
      NIMBLE_ASSIGN_OR_RETURN(part.root, part.sorted->finish(counting));
      part.ref.num_keys = part.sorted->num_rows();
    }
    part.ref.size_bytes += part.root.size();
    part.hash.reset();
    part.sorted.reset();
  }
  return Status::ok();
}

Status SecondaryIndexWriter::write_roots(const SectionSink& sink,
                                         FileFooter* footer) {
  for (Part& part : parts_) {
    NIMBLE_ASSIGN_OR_RETURN(part.ref.root, sink(part.root));
    footer->index_bytes += part.ref.size_bytes;
    footer->indexes.push_back(std::move(part.ref));
  }
  parts_.clear();
  return Status::ok();
}

}  // namespace nimble
