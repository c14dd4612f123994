#include "nimble/write/secondary_index_writer.h"

#include <chrono>

#include "nimble/threads/threads.h"

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

// Adds the rows of a column of vectors. A vector that contains a null number
// counts as null.
Status add_vectors(const Column& column, VectorIndexWriter* out) {
  const Column& items = column.children[0];
  const uint64_t n = static_cast<uint64_t>(column.field().list_size);
  const uint64_t row_bytes = n * items.field().width;
  for (uint64_t row = 0; row < column.length(); ++row) {
    bool is_valid = column.is_valid(row);
    for (uint64_t i = row * n;
         is_valid && items.null_count() > 0 && i < (row + 1) * n; ++i) {
      is_valid = items.is_valid(i);
    }
    NIMBLE_RETURN_IF_ERROR(
        out->add(is_valid ? items.value_data() + row * row_bytes : nullptr));
  }
  return Status::ok();
}

}  // namespace

Result<SecondaryIndexWriter> SecondaryIndexWriter::create(
    const Field& schema, const WriterOptions& options) {
  SecondaryIndexWriter out;
  for (const IndexSpec& spec : options.indexes) {
    Part part;
    part.ref.kind = spec.kind;
    part.ref.columns = spec.columns;
    if (spec.kind == IndexKind::kVector) {
      NIMBLE_RETURN_IF_ERROR(open_vector_writer(schema, spec, options, &part));
    } else {
      NIMBLE_ASSIGN_OR_RETURN(part.columns,
                              StripeKeyEncoder::create(schema, spec.columns));
      NIMBLE_RETURN_IF_ERROR(open_writer(spec, options, &part));
    }
    out.parts_.push_back(std::move(part));
  }
  return out;
}

Status SecondaryIndexWriter::open_vector_writer(const Field& schema,
                                                const IndexSpec& spec,
                                                const WriterOptions& options,
                                                Part* part) {
  if (spec.columns.size() != 1 || spec.columns[0].path.size() != 1 ||
      spec.columns[0].path[0] < 0 ||
      static_cast<size_t>(spec.columns[0].path[0]) >= schema.children.size()) {
    return Status::invalid_argument(
        "VectorIndex: expected one column that is not a field of a struct");
  }
  const auto top = static_cast<size_t>(spec.columns[0].path[0]);
  NIMBLE_ASSIGN_OR_RETURN(const VectorType type,
                          VectorType::of(schema.children[top]));
  VectorIndexOptions vector;
  vector.metric = spec.metric;
  vector.lists = spec.lists;
  vector.queries = spec.queries;
  vector.known = spec.known;
  vector.memory_bytes = options.index_memory_bytes / options.indexes.size();
  vector.spill_directory = options.spill_directory;
  vector.threads = options.threads == 0 ? default_threads() : options.threads;
  vector.poll = options.poll;
  NIMBLE_ASSIGN_OR_RETURN(part->vector,
                          VectorIndexWriter::create(type, std::move(vector)));
  return Status::ok();
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
    if (part.vector) {
      const auto top = static_cast<size_t>(part.ref.columns[0].path[0]);
      NIMBLE_RETURN_IF_ERROR(
          add_vectors(stripe.children[top], part.vector.get()));
      continue;
    }
    keys_.clear();
    NIMBLE_RETURN_IF_ERROR(
        part.columns->encode(stripe, 0, stripe.length(), &keys_));
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
    if (part.vector) {
      NIMBLE_ASSIGN_OR_RETURN(part.root, part.vector->finish(counting));
      part.ref.num_keys = part.vector->num_rows();
    } else if (part.hash) {
      NIMBLE_ASSIGN_OR_RETURN(part.root, part.hash->finish(counting));
      part.ref.num_keys = part.hash->num_keys();
      part.ref.has_bloom = part.hash->has_bloom();
    } else {
      NIMBLE_ASSIGN_OR_RETURN(part.root, part.sorted->finish(counting));
      part.ref.num_keys = part.sorted->num_rows();
    }
    part.ref.size_bytes += part.root.size();
    part.vector.reset();
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
    (part.ref.kind == IndexKind::kVector ? footer->vectors : footer->indexes)
        .push_back(std::move(part.ref));
  }
  parts_.clear();
  return Status::ok();
}

}  // namespace nimble
