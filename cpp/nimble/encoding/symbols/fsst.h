// fsst: strings compressed with a table of up to 255 symbols, one byte per
// symbol (fsst_table.h), in the blocks of string_blocks.h. The blocks store
// compressed lengths, so a string decompresses without its neighbours.
#pragma once

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {

// Encodes strings with a table trained on them or on a sample. Any table gives
// a correct result; a better table gives a smaller one.
// REQUIRES: values.type.kind == kBytes.
Status encode_fsst(const Values& values, const FsstTable& table,
                   SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_fsst(ByteReader* head,
                                           const DecodeContext& context);

}  // namespace nimble
