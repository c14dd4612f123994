// StripeEncoder: the columns of one stripe to encoded segments, several at a
// time.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/format/group.h"
#include "nimble/format/stream_plan.h"

namespace nimble {

struct EncodedStripe {
  std::vector<uint64_t> values;          // of each stream
  std::vector<SegmentBuilder> segments;  // in stream order
  // Of each segment: the one whose body it has, itself where that is its own.
  std::vector<size_t> bodies;
};

struct StripeOptions {
  Effort effort = Effort::kBalanced;
  uint32_t threads = 1;  // the result does not depend on them
  // What the segments of each stream share, here and in later stripes; null:
  // nothing.
  std::vector<StreamShared>* shared = nullptr;
};

// `root` is the column of plan.node(0).
Status encode_stripe(const StreamPlan& plan, const Column& root,
                     const StripeOptions& options, EncodedStripe* out);

}  // namespace nimble
