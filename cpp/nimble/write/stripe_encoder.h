// StripeEncoder: the columns of one stripe to encoded segments, several at a
// time.
#pragma once

#include <vector>

#include "nimble/column/column.h"
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

// `root` is the column of plan.node(0). The result does not depend on
// `threads`.
Status encode_stripe(const StreamPlan& plan, const Column& root, Effort effort,
                     uint32_t threads, EncodedStripe* out);

}  // namespace nimble
