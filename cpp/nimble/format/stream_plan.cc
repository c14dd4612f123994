#include "nimble/format/stream_plan.h"

namespace nimble {

StreamPlan::StreamPlan(const Field& root) { add(root, 0); }

uint32_t StreamPlan::add_stream(uint32_t node, ValueType type) {
  streams_.push_back(type);
  owners_.push_back(node);
  return static_cast<uint32_t>(streams_.size() - 1);
}

uint32_t StreamPlan::add(const Field& field, uint32_t parent) {
  const auto id = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[id].field = &field;
  nodes_[id].parent = parent;
  if (field.has_validity()) {
    nodes_[id].validity = add_stream(id, ValueType::boolean());
  }
  switch (field.layout) {
    case Layout::kFixed:
      // Values of zero bytes (fixed_size_binary[0]) need no stream.
      if (field.width == 0) break;
      [[fallthrough]];
    case Layout::kBool:
    case Layout::kBytes:
    case Layout::kDictionary:
      nodes_[id].values = add_stream(id, field.value_type());
      break;
    case Layout::kList:
    case Layout::kRunEnd:
      nodes_[id].ends = add_stream(id, ValueType::unsigned_int(8));
      break;
    case Layout::kUnion:
      nodes_[id].values = add_stream(id, ValueType::unsigned_int(1));
      if (field.is_dense_union) {
        nodes_[id].ends = add_stream(id, ValueType::unsigned_int(8));
      }
      break;
    default:
      break;
  }
  for (size_t c = 0; c < field.children.size(); ++c) {
    // Run ends are a stream of this node. Only the run values have a node of
    // their own.
    if (field.layout == Layout::kRunEnd && c == 0) continue;
    const uint32_t child = add(field.children[c], id);
    nodes_[id].children.push_back(child);
  }
  return id;
}

Result<PlannedColumn> find_column(const StreamPlan& plan,
                                  const ColumnPath& path) {
  PlannedColumn out;
  out.field = plan.node(0).field;
  for (const int step : path) {
    const auto at = static_cast<size_t>(step);
    if (out.field->layout != Layout::kStruct || step < 0 ||
        at >= out.field->children.size()) {
      return Status::invalid_argument("a column path does not exist below '" +
                                      out.field->name + "'");
    }
    if (out.node != 0) out.parents.push_back(out.node);
    out.node = plan.node(out.node).children[at];
    out.field = &out.field->children[at];
  }
  if (path.empty()) return Status::invalid_argument("a column path is empty");
  return out;
}

}  // namespace nimble
