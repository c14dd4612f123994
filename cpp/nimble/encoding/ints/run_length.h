// run_length: where each run of equal values ends, and its value.
//
// Head:  number of runs varint
//        | for every block of 1024 rows but the first: how many runs after
//          that of the block before its first row's run is, varint
//        | child: ends, u32, bit-packed: the row after each run's last,
//        ascending | child: values, one a run
//
// The runs of a block are known from the head: a lookup reads their ends and
// searches them without unpacking, then takes one value.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Any type but wide fixed values (kMaxNestedWidth).
bool can_be_run_length(const ValueType& type);
// The row after the last of every run of equal values; empty where there are
// more than `max_runs`.
std::vector<uint32_t> run_ends(const Values& values, uint32_t max_runs);
// `ends` of run_ends(values).
Status encode_run_length(const Values& values,
                         const std::vector<uint32_t>& ends,
                         const EncodeContext& context, SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_run_length(ByteReader* head,
                                                 const DecodeContext& context);

}  // namespace nimble
