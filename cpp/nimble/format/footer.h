// FileFooter: the footer as plain values. Parsing verifies the FlatBuffer, and
// checks all array lengths and ranges against the size of the file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/section_ref.h"
#include "nimble/key/key_column.h"

namespace nimble {

// A stripe group: its metadata section, and the end of its file rows.
struct GroupRef {
  SectionRef section;
  uint64_t end_row = 0;
};

// Level 1 of the cluster index: the boundaries of the groups.
struct ClusterRoot {
  std::vector<KeyColumnSpec> columns;
  bool unique = false;
  std::vector<uint8_t> key_bytes;  // boundaries of groups
  std::vector<uint32_t> key_ends;
  std::vector<uint8_t> first_key;
  SectionRef bloom;
  uint64_t num_keys = 0;
};

// A section that belongs to a schema node.
struct NodeSection {
  uint32_t node = 0;
  SectionRef section;
  uint64_t rows = 0;  // dictionaries only
};

// A dictionary that a node's segments share. It is encoded like a segment, with
// a head and a body.
struct DictionarySections {
  uint32_t node = 0;
  uint32_t count = 0;  // number of values
  SectionRef head;
  SectionRef body;
};

// A section that readers may ignore.
struct OptionalSection {
  std::string name;
  SectionRef section;
};

enum class IndexKind : uint8_t {  // stored: never renumber
  kHash = 1,
  kSorted = 2,
  kVector = 3,
};

// One secondary index, as listed in the footer.
struct SecondaryIndexRef {
  IndexKind kind = IndexKind::kSorted;
  std::vector<KeyColumnSpec> columns;
  SectionRef root;
  uint64_t num_keys = 0;
  uint64_t size_bytes = 0;
  bool has_bloom = false;
};

struct FileFooter {
  uint64_t num_rows = 0;
  Field schema;  // the root struct
  std::vector<GroupRef> groups;
  std::optional<ClusterRoot> cluster;
  std::vector<NodeSection> zones;
  std::vector<NodeSection> dictionaries;
  std::vector<NodeSection> phrases;
  std::vector<DictionarySections> shared_dictionaries;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<OptionalSection> optional_sections;
  std::vector<uint64_t> node_bytes;
  uint64_t key_stream_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t num_stripes = 0;
  std::string writer;
  std::vector<SecondaryIndexRef> indexes;  // hash and sorted
  std::vector<SecondaryIndexRef> vectors;  // vector indexes

  std::vector<uint8_t> serialize() const;
  // Parses and validates a footer.
  // REQUIRES: the checksum of `bytes` is verified. Sections must end at or
  // before `limit`.
  static Result<FileFooter> parse(ByteSpan bytes, uint64_t limit);
};

}  // namespace nimble
