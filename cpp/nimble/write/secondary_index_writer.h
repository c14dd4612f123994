// SecondaryIndexWriter: builds a file's secondary indexes while its stripes are
// written. Keys are encoded from the stripes, so rows are in their final order.
// Not thread-safe.
//
//   add_stripe* finish write_roots
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/index/hash_index_writer.h"
#include "nimble/index/sorted_index_writer.h"
#include "nimble/index/vector/vector_index_writer.h"
#include "nimble/write/options.h"
#include "nimble/write/stripe_key_encoder.h"

namespace nimble {

class SecondaryIndexWriter {
 public:
  SecondaryIndexWriter() = default;
  // Fails for columns that cannot be indexed, before any byte is written.
  static Result<SecondaryIndexWriter> create(const Field& schema,
                                             const WriterOptions& options);

  // Adds the file's next rows.
  // REQUIRES: `stripe` is a column of the schema.
  Status add_stripe(const Column& stripe);
  // Writes all parts except the roots.
  Status finish(const SectionSink& sink);
  // Writes the roots and lists the indexes in the footer.
  Status write_roots(const SectionSink& sink, FileFooter* footer);
  // Time spent in this class so far, in seconds.
  double seconds() const { return seconds_; }

 private:
  struct Part {
    std::optional<StripeKeyEncoder> columns;  // not of a vector index
    SecondaryIndexRef ref;
    std::unique_ptr<SortedIndexWriter> sorted;  // one of the three is set
    std::unique_ptr<HashIndexWriter> hash;
    std::unique_ptr<VectorIndexWriter> vector;
    std::vector<uint8_t> root;
  };

  static Status open_vector_writer(const Field& schema, const IndexSpec& spec,
                                   const WriterOptions& options, Part* part);
  static Status open_writer(const IndexSpec& spec, const WriterOptions& options,
                            Part* part);

  std::vector<Part> parts_;
  uint64_t num_rows_ = 0;
  KeyBuffer keys_;
  double seconds_ = 0;
};

}  // namespace nimble
