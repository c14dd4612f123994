// RawFrame: rows that a server sends without decoding them. A reply consists of
// frames, in the order of the rows. All numbers are little-endian, and frames
// begin at multiples of 8 bytes.
//
//   offset  size  meaning
//   0       4     "NBRW"
//   4       2     version, 1
//   6       2     kind: 1 encoded blocks, 2 Arrow IPC stream
//   8       8     bytes of the head, including its checksum
//   16      8     bytes of the body
//   kind 1 only:
//   24      16    the file: checksum of its footer, and its size
//   40      16    u32 x 4: number of columns, row ranges, parts of metadata,
//                 parts of the body
//   56            u64 each: columns of the file; begin and end of row ranges;
//                 offset and size of parts of metadata; the same of the body
//   end - 8 8     XXH3-64 of the head before it
//
// Then follow the body and zeros up to a multiple of 8. The body of kind 1 has
// parts of the file, one after the other. A reader of the file needs these
// parts and the parts of metadata to decode the rows.
#pragma once

#include <string>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/base/row_range.h"
#include "nimble/io/sparse_file.h"

namespace nimble {

struct RawFrame {
  bool is_raw = false;  // otherwise the body is an Arrow IPC stream
  uint64_t footer_checksum = 0;
  uint64_t file_size = 0;
  std::vector<uint32_t> columns;  // children of the file's root
  std::vector<RowRange> rows;     // disjoint and ascending
  std::vector<FilePart> metadata;
  std::vector<FilePart> parts;
  ByteSpan body;  // borrows the reply

  // Appends a frame. The body is copied.
  void append_to(std::string* out) const;
  // Reads all frames of a reply. Fails with kCorrupt for other bytes, and if
  // rows or parts are outside of the file or out of order.
  static Result<std::vector<RawFrame>> parse(ByteSpan reply);

  // Appends a frame in two steps: the head, then the body by the caller, then
  // end_body() with the position that begin() returned.
  size_t begin(std::string* out) const;
  static void end_body(size_t begin, std::string* out);
};

}  // namespace nimble
