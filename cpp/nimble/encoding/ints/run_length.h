// run_length: the end and the value of each run of equal values.
//
// Head:  number of runs varint
//        | for every block of 1024 rows except the first: number of runs from
//        the run of the previous block's first row to the run of its own first
//        row, varint
//        | child: ends, u32, bit-packed: the row after each run's last row,
//        ascending
//        | child: values, one per run
//
// The head tells the runs of a block. A lookup reads their ends, searches them
// without unpacking, and then reads one value.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Whether the type is supported: any type except wide fixed values
// (kMaxNestedWidth).
bool can_be_run_length(const ValueType& type);
// The row after the last row of every run of equal values. Empty if there are
// more than `max_runs` runs.
std::vector<uint32_t> run_ends(const Values& values, uint32_t max_runs);
// REQUIRES: `ends` is run_ends(values).
Status encode_run_length(const Values& values,
                         const std::vector<uint32_t>& ends,
                         const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_run_length(ByteReader* head,
                                                 const DecodeContext& context);

}  // namespace nimble
