// Answers rows with the encoded blocks of their files, which the client
// decodes. docs/reference/serving.md says when.
#pragma once

#include <span>
#include <string>

#include "nimble/io/sparse_file.h"
#include "nimble/serve/batch/arrow_rows.h"

namespace nimble {

// Rows in the order of a read.
struct RawRows {
  std::span<const FileRange> ranges;
  bool reverse = false;   // then they are sent as Arrow
  bool allow_raw = true;  // otherwise they are sent as Arrow
};

// Appends frames (raw_frames.h) with the rows. Rows of a file are sent encoded
// if they are many and adjacent, and if the file has the columns with the
// table's types. Other rows are sent as Arrow, and so are all rows if there are
// many runs. Fails with kTooLarge above request.max_bytes.
// REQUIRES: request.probe is empty.
Status append_raw_rows(const ServedTable& table, const ArrowRequest& request,
                       const RawRows& rows, std::string* out);

// Appends parts of an open file of the table. `checksum` and `size` identify
// it, as in a frame. Fails with kNotFound if the table does not have it.
Status append_file_parts(const ServedTable& table, uint64_t checksum,
                         uint64_t size, std::span<const FilePart> parts,
                         uint64_t max_bytes, std::string* out);

}  // namespace nimble
