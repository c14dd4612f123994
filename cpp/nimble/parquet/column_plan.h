// ColumnPlan: how the leaves of a Parquet column become an Arrow field. The
// caller gives the Arrow type. Pairs of types that are not supported here are
// left to another reader.
#pragma once

#include <string>
#include <vector>

#include "nimble/parquet/metadata.h"
#include "nimble/parquet/page_values.h"
#include "nimble/types/field.h"

namespace nimble::parquet {

// How stored values of a fixed width become Arrow values.
enum class Conversion : uint8_t {
  kCopy,  // the low bytes, as many as Arrow's type has
  kSignExtend,
  kBigEndian,  // a decimal in big-endian order
  kBits,       // booleans
  kBytes,
};

// A node of the field's tree.
struct PlanNode {
  enum class Kind : uint8_t { kLeaf, kStruct, kList };
  Kind kind = Kind::kLeaf;
  // Definition levels below this one mean that a value at this node is null.
  uint8_t defined_at = 0;
  bool is_optional = false;
  // kList: a definition level of at least this means that the list has an
  // element.
  uint8_t element_at = 0;
  std::vector<PlanNode> children;
  // The leaves below this node: [first_leaf, end_leaf) of the plan's leaves.
  size_t first_leaf = 0;
  size_t end_leaf = 0;
};

struct LeafPlan {
  uint32_t leaf = 0;  // in the file
  ValueSpec values;
  Conversion conversion = Conversion::kCopy;
  uint8_t max_definition = 0;
  uint8_t max_repetition = 0;
  // Entries below this definition level have no slot in the leaf's array.
  uint8_t slot_at = 0;
};

struct ColumnPlan {
  PlanNode root;
  std::vector<LeafPlan> leaves;

  // Fails with kUnsupported and a message that gives the reason.
  static Result<ColumnPlan> make(const Metadata& metadata, uint32_t node,
                                 const Field& field);
};

}  // namespace nimble::parquet
