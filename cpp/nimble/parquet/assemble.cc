#include "nimble/parquet/assemble.h"

#include "nimble/base/bitmap.h"

namespace nimble::parquet {
namespace {

Status disagree() {
  return Status::corrupt(
      "Parquet pages: the levels of a nested column's leaves disagree");
}

// Appends `valid` as the validity of a column's rows.
void set_validity(const std::vector<bool>& valid, Column* column) {
  uint64_t nulls = 0;
  for (const bool v : valid) nulls += v ? 0 : 1;
  if (nulls > 0) {
    column->validity.resize(valid.size() / 8 + 1);
    for (size_t i = 0; i < valid.size(); ++i) {
      put_bit(column->validity.data(), i, valid[i]);
    }
    column->add_nulls(nulls);
  }
  column->add_rows(valid.size());
}

// Entries with a definition level below `slot_at` do not have a row in this
// node. `slot_at` is 0 above the list, where each record has a row, at its
// first entry.
Status assemble_node(const PlanNode& node, std::span<const LeafPlan> leaves,
                     std::span<const LeafLevels> levels, uint8_t slot_at,
                     Column* column) {
  if (node.kind == PlanNode::Kind::kLeaf) return Status::ok();
  const LeafLevels& first = levels[node.first_leaf];
  const bool in_list = slot_at > 0;
  const bool has_list = leaves[node.first_leaf].max_repetition > 0;
  const size_t entries = first.definition.size();
  std::vector<bool> valid;
  for (size_t i = 0; i < entries; ++i) {
    if (in_list ? first.definition[i] < slot_at
                : has_list && first.repetition[i] != 0) {
      continue;
    }
    valid.push_back(first.definition[i] >= node.defined_at);
  }
  if (node.kind == PlanNode::Kind::kList) {
    uint64_t elements = 0;
    for (size_t i = 0; i < entries; ++i) {
      if (first.repetition[i] == 0 && i > 0) {
        column->ends.push_back(static_cast<int64_t>(elements));
      }
      if (first.definition[i] >= node.element_at) ++elements;
    }
    if (entries > 0) column->ends.push_back(static_cast<int64_t>(elements));
    if (column->ends.size() != valid.size() + 1) return disagree();
    NIMBLE_RETURN_IF_ERROR(assemble_node(node.children[0], leaves, levels,
                                         node.element_at,
                                         &column->children[0]));
    if (column->children[0].length() != elements) return disagree();
    if (column->field().is_map &&
        column->children[0].children[0].null_count() > 0) {
      return Status::corrupt("Parquet pages: a key of a map is null");
    }
  } else {
    for (size_t i = 0; i < node.children.size(); ++i) {
      NIMBLE_RETURN_IF_ERROR(assemble_node(node.children[i], leaves, levels,
                                           slot_at, &column->children[i]));
      if (column->children[i].length() != valid.size()) return disagree();
    }
  }
  set_validity(valid, column);
  return Status::ok();
}

}  // namespace

void leaf_columns(const PlanNode& node, Column* column,
                  std::vector<Column*>* out) {
  if (node.kind == PlanNode::Kind::kLeaf) out->push_back(column);
  for (size_t i = 0; i < node.children.size(); ++i) {
    leaf_columns(node.children[i], &column->children[i], out);
  }
}

Status assemble(const PlanNode& node, std::span<const LeafPlan> leaves,
                std::span<const LeafLevels> levels, Column* column) {
  return assemble_node(node, leaves, levels, 0, column);
}

}  // namespace nimble::parquet
