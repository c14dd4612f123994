// StreamPlan: the streams of a schema, in the canonical order of the file.
// Nodes are numbered in pre-order from the root struct (0). Dictionary values
// have a plan of their own. Thread-safe. docs/format/streams.md.
#pragma once

#include <cstdint>
#include <vector>

#include "nimble/types/field.h"

namespace nimble {

inline constexpr uint32_t kNoStream = UINT32_MAX;

// One node of a schema, with its streams. kNoStream stands for a stream that
// the node does not have.
struct SchemaNode {
  const Field* field = nullptr;
  uint32_t parent = 0;
  std::vector<uint32_t> children;  // node numbers
  uint32_t validity = kNoStream;   // booleans
  uint32_t values = kNoStream;     // values, codes, union type ids
  uint32_t ends = kNoStream;       // list ends, run ends, dense union rows
};

class StreamPlan {
 public:
  // REQUIRES: `root` outlives the plan.
  explicit StreamPlan(const Field& root);

  const std::vector<SchemaNode>& nodes() const { return nodes_; }
  const SchemaNode& node(uint32_t i) const { return nodes_[i]; }
  // The type of each stream, in order.
  const std::vector<ValueType>& streams() const { return streams_; }
  uint32_t num_streams() const {
    return static_cast<uint32_t>(streams_.size());
  }
  // The node that owns a stream.
  uint32_t node_of(uint32_t stream) const { return owners_[stream]; }

 private:
  uint32_t add(const Field& field, uint32_t parent);
  uint32_t add_stream(uint32_t node, ValueType type);

  std::vector<SchemaNode> nodes_;
  std::vector<ValueType> streams_;
  std::vector<uint32_t> owners_;
};

// The location of a column in a plan.
struct PlannedColumn {
  const Field* field = nullptr;
  uint32_t node = 0;
  // The structs above the column, outermost first.
  std::vector<uint32_t> parents;
};

// Fails if the path does not exist, or passes through a node that is not a
// struct.
Result<PlannedColumn> find_column(const StreamPlan& plan,
                                  const ColumnPath& path);

}  // namespace nimble
