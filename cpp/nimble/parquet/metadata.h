// Parquet's metadata, as far as reading pages needs it: the footer, offset
// indexes and page headers. Parsed from untrusted bytes. Names and numbers are
// from the Parquet format.
#pragma once

#include <string>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble::parquet {

enum class Physical : int8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedByteArray = 7,
};

enum class Codec : int8_t {
  kUncompressed = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,
  kBrotli = 4,
  kHadoopLz4 = 5,
  kZstd = 6,
  kLz4Raw = 7,
};

enum class PageEncoding : int8_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};

enum class Repetition : int8_t { kRequired = 0, kOptional = 1, kRepeated = 2 };

// The number of a logical type in Parquet's union.
enum class LogicalType : int8_t {
  kNone = 0,
  kMap = 2,
  kList = 3,
  kDecimal = 5,
  kTime = 7,
  kTimestamp = 8,
};

struct SchemaNode {
  std::string name;
  int32_t physical = -1;  // -1: a group
  int32_t type_length = 0;
  Repetition repetition = Repetition::kRequired;
  int32_t num_children = 0;
  LogicalType logical = LogicalType::kNone;
  int8_t time_unit = 0;  // 1 milliseconds, 2 microseconds, 3 nanoseconds
  int32_t scale = 0;
  uint32_t first_leaf = 0;  // number of leaves before this node
  uint32_t end = 0;         // the node after this node's descendants
};

struct ChunkInfo {
  int32_t physical = -1;
  int32_t codec = 0;
  uint32_t encodings = 0;  // bit i: encoding i is used
  int64_t num_values = 0;
  int64_t compressed_size = 0;
  int64_t data_page_offset = 0;
  int64_t dictionary_page_offset = 0;  // 0: unknown, or no dictionary
  int64_t offset_index_offset = 0;     // 0: no offset index
  int64_t offset_index_size = 0;
  bool is_elsewhere = false;  // encrypted, or in another file
};

struct GroupInfo {
  int64_t num_rows = 0;
  std::vector<ChunkInfo> chunks;  // one per leaf
};

struct Metadata {
  std::vector<SchemaNode> nodes;  // depth first; the first is the root
  uint32_t num_leaves = 0;
  std::vector<GroupInfo> groups;
  int64_t num_rows = 0;

  // Nodes of the top-level columns.
  std::vector<uint32_t> columns() const;

  // Parses the thrift bytes of a footer. Fails with kCorrupt if they are not
  // valid or if a row group does not have one chunk per leaf.
  static Result<Metadata> parse(ByteSpan footer);
};

struct PageHeader {
  enum Kind : int32_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };
  int32_t kind = -1;
  int32_t uncompressed_size = 0;
  int32_t compressed_size = 0;
  bool has_crc = false;
  uint32_t crc = 0;
  int32_t num_values = 0;
  int32_t num_rows = -1;  // v2 only
  int32_t encoding = 0;
  int32_t definition_encoding = 3;
  int32_t repetition_encoding = 3;
  int32_t definition_bytes = 0;  // v2 only
  int32_t repetition_bytes = 0;
  bool is_compressed = true;  // v2 only
  size_t header_bytes = 0;

  // Parses the header at the beginning of `bytes`. The sizes in the result are
  // not negative.
  static Result<PageHeader> parse(ByteSpan bytes);
};

// A data page. Its header and body have `size` bytes in total.
struct PageRef {
  uint64_t offset = 0;
  uint32_t size = 0;
  uint64_t first_row = 0;  // within the row group
};

// The pages of a column chunk.
struct ChunkPages {
  uint64_t dictionary_offset = 0;
  uint32_t dictionary_size = 0;  // 0: no dictionary page
  std::vector<PageRef> pages;
};

// Parses an offset index. Checks only sizes; check_pages() checks the rest.
Result<std::vector<PageRef>> parse_offset_index(ByteSpan bytes);

// Fails with kCorrupt unless the pages are inside the file and cover the rows
// of the group in order.
Status check_pages(const ChunkPages& pages, uint64_t file_size,
                   uint64_t num_rows);

// CRC-32 (polynomial 0x04C11DB7 reflected), the checksum of pages.
uint32_t page_crc(ByteSpan bytes);

}  // namespace nimble::parquet
