// ColumnBloomWriter: writes a Bloom filter over the values of selected columns
// for every stripe, after the stripe's bodies. Not thread-safe.
// docs/format/column_bloom.md.
//
//   add_stripe* finish
#pragma once

#include <vector>

#include "nimble/format/stream_plan.h"
#include "nimble/index/section_sink.h"
#include "nimble/write/options.h"
#include "nimble/write/stripe_key_encoder.h"

namespace nimble {

class ColumnBloomWriter {
 public:
  ColumnBloomWriter() = default;
  // Fails for columns that cannot be part of a key.
  static Result<ColumnBloomWriter> create(const Field& schema,
                                          const StreamPlan& plan,
                                          const WriterOptions& options);

  // Adds the file's next rows. `end_row` is the file's number of rows including
  // this stripe.
  Status add_stripe(const Column& stripe, uint64_t end_row,
                    const SectionSink& sink);
  // Lists the filters in an optional section of the footer, if there are any.
  Status finish(const SectionSink& sink, FileFooter* footer);

 private:
  struct Part {
    StripeKeyEncoder columns;
    uint32_t node = 0;
    std::vector<SectionRef> filters;
  };

  std::vector<Part> parts_;
  std::vector<uint64_t> end_rows_;
  double bits_per_key_ = 0;
  uint64_t size_bytes_ = 0;
  KeyBuffer keys_;
  std::vector<uint64_t> hashes_;
};

}  // namespace nimble
