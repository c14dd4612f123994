// RowKeys: the keys of rows, encoded from the columns that hold them. What
// sampled key chunks read the keys from that they do not store.
#pragma once

#include <memory>

#include "nimble/base/result.h"
#include "nimble/index/key_source.h"
#include "nimble/key/key_encoder.h"

namespace nimble {

class FileReader;

// A source that borrows `file`, whose cluster key it reads. Thread-safe.
Result<std::shared_ptr<const KeySource>> open_row_keys(
    const FileReader& file);

// May a writer leave keys to the columns? The columns are found by name.
bool can_read_keys(const Field& schema, const KeyEncoder& encoder);

}  // namespace nimble
