// StripeEncoder: encodes the columns of one stripe to segments, several in
// parallel.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/format/group.h"
#include "nimble/format/stream_plan.h"

namespace nimble {

// The encoded segments of a stripe.
struct EncodedStripe {
  std::vector<uint64_t> values;          // per stream
  std::vector<SegmentBuilder> segments;  // in stream order
  // For each segment, the index of the segment whose body it uses; usually its
  // own index.
  std::vector<size_t> bodies;
};

// Options of encode_stripe().
struct StripeOptions {
  Effort effort = Effort::kBalanced;
  uint32_t threads = 1;  // does not affect the result
  // Structures that the segments of each stream share, in this stripe and in
  // later ones. If null, segments do not share anything. No other thread may
  // use them while encode_stripe() runs.
  std::vector<StreamShared>* shared = nullptr;
};

// Encodes a stripe. Waits for other threads, unless `threads` is 1.
// REQUIRES: `root` is the column of plan.node(0).
Status encode_stripe(const StreamPlan& plan, const Column& root,
                     const StripeOptions& options, EncodedStripe* out);

}  // namespace nimble
