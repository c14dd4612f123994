// fsst: strings through a table of up to 255 symbols, one byte a symbol
// (fsst_table.h), in the blocks of string_blocks.h. The lengths there are the
// compressed ones: one string decompresses without its neighbours.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {

// Values of kind kBytes, with a table trained on (a sample of) them. Any table
// is right; the better it fits the smaller the result.
Status encode_fsst(const Values& values, const FsstTable& table,
                   SegmentBuilder* out);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_fsst(ByteReader* head,
                                           const DecodeContext& context);

}  // namespace nimble
