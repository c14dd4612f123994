#include "nimble/parquet/column_plan.h"

namespace nimble::parquet {
namespace {

Status unsupported(const SchemaNode& node, const std::string& why) {
  return Status::unsupported("Parquet column '" + node.name + "': " + why);
}

// Whether an Arrow time has Parquet's unit. In Arrow's formats, the third
// character is the unit: "ttm", "tsu:UTC", "tDn".
bool same_unit(const Field& field, const SchemaNode& node) {
  if (field.format.size() < 3) return false;
  const char unit = field.format[2];
  return (unit == 'm' && node.time_unit == 1) ||
         (unit == 'u' && node.time_unit == 2) ||
         (unit == 'n' && node.time_unit == 3);
}

Result<Conversion> integers(const SchemaNode& node, const Field& field,
                            uint32_t stored) {
  if (field.layout != Layout::kFixed) {
    return unsupported(node, "integers as " + field.type_name());
  }
  switch (field.logical) {
    case Logical::kInt:
      if (node.logical == LogicalType::kDecimal || field.width > stored) break;
      return Conversion::kCopy;
    case Logical::kDate:
      if (field.width != stored || stored != 4) break;
      return Conversion::kCopy;
    case Logical::kTime:
    case Logical::kTimestamp:
      if (field.width != stored || !same_unit(field, node)) break;
      return Conversion::kCopy;
    case Logical::kDuration:  // stored as plain integers
      if (field.width != stored || node.logical != LogicalType::kNone) break;
      return Conversion::kCopy;
    case Logical::kDecimal:
      if (node.logical != LogicalType::kDecimal) break;
      return field.width > stored ? Conversion::kSignExtend : Conversion::kCopy;
    default:
      break;
  }
  return unsupported(node, "integers as " + field.type_name());
}

Result<Conversion> conversion_of(const SchemaNode& node, const Field& field) {
  const bool is_fixed = field.layout == Layout::kFixed;
  switch (static_cast<Physical>(node.physical)) {
    case Physical::kBoolean:
      if (field.layout == Layout::kBool) return Conversion::kBits;
      break;
    case Physical::kInt32:
      return integers(node, field, 4);
    case Physical::kInt64:
      return integers(node, field, 8);
    case Physical::kFloat:
      if (is_fixed && field.logical == Logical::kFloat && field.width == 4) {
        return Conversion::kCopy;
      }
      break;
    case Physical::kDouble:
      if (is_fixed && field.logical == Logical::kFloat && field.width == 8) {
        return Conversion::kCopy;
      }
      break;
    case Physical::kByteArray:
      if (field.layout == Layout::kBytes &&
          node.logical != LogicalType::kDecimal) {
        return Conversion::kBytes;
      }
      break;
    case Physical::kFixedByteArray: {
      const auto width = static_cast<uint32_t>(node.type_length);
      if (!is_fixed || width == 0) break;
      if (field.logical == Logical::kDecimal) {
        if (node.logical == LogicalType::kDecimal && width <= field.width) {
          return Conversion::kBigEndian;
        }
        break;
      }
      const bool is_binary = field.logical == Logical::kFixedBinary;
      const bool is_half = field.logical == Logical::kFloat && width == 2;
      if ((is_binary || is_half) && width == field.width) {
        return Conversion::kCopy;
      }
      break;
    }
    default:
      break;
  }
  return unsupported(node, "physical type " + std::to_string(node.physical) +
                               " as " + field.type_name());
}

ValueSpec values_of(const SchemaNode& node) {
  ValueSpec spec;
  spec.physical = static_cast<Physical>(node.physical);
  switch (spec.physical) {
    case Physical::kInt32:
    case Physical::kFloat:
      spec.width = 4;
      break;
    case Physical::kInt64:
    case Physical::kDouble:
      spec.width = 8;
      break;
    case Physical::kFixedByteArray:
      spec.width = static_cast<uint32_t>(node.type_length);
      break;
    default:
      break;
  }
  return spec;
}

class PlanMaker {
 public:
  PlanMaker(const Metadata& metadata, ColumnPlan* out)
      : nodes_(metadata.nodes), out_(out) {}

  // `definition` and `repetition` are the parent's levels.
  Status make(uint32_t at, const Field& field, uint8_t definition,
              uint8_t repetition, PlanNode* node) {
    const SchemaNode& s = nodes_[at];
    if (s.repetition == Repetition::kRepeated) {
      return unsupported(s, "a repeated field that is not a list");
    }
    node->is_optional = s.repetition == Repetition::kOptional;
    if (node->is_optional) ++definition;
    node->defined_at = definition;
    node->first_leaf = out_->leaves.size();
    if (s.physical >= 0) {
      NIMBLE_RETURN_IF_ERROR(add_leaf(s, field, definition, repetition));
    } else if (field.layout == Layout::kStruct) {
      node->kind = PlanNode::Kind::kStruct;
      if (s.logical == LogicalType::kList || s.logical == LogicalType::kMap) {
        return unsupported(s, "a list as " + field.type_name());
      }
      NIMBLE_RETURN_IF_ERROR(
          make_children(at, field, definition, repetition, node));
    } else if (field.layout == Layout::kList) {
      NIMBLE_RETURN_IF_ERROR(
          make_list(at, field, definition, repetition, node));
    } else {
      return unsupported(s, "a group as " + field.type_name());
    }
    node->end_leaf = out_->leaves.size();
    return Status::ok();
  }

 private:
  Status add_leaf(const SchemaNode& s, const Field& field, uint8_t definition,
                  uint8_t repetition) {
    LeafPlan leaf;
    NIMBLE_ASSIGN_OR_RETURN(leaf.conversion, conversion_of(s, field));
    leaf.leaf = s.first_leaf;
    leaf.values = values_of(s);
    leaf.max_definition = definition;
    leaf.max_repetition = repetition;
    leaf.slot_at = slot_at_;
    out_->leaves.push_back(leaf);
    return Status::ok();
  }

  Status make_children(uint32_t at, const Field& field, uint8_t definition,
                       uint8_t repetition, PlanNode* node) {
    const SchemaNode& s = nodes_[at];
    if (s.num_children == 0 ||
        static_cast<size_t>(s.num_children) != field.children.size()) {
      return unsupported(s, std::to_string(s.num_children) + " fields as " +
                                field.type_name());
    }
    node->children.resize(field.children.size());
    uint32_t child = at + 1;
    for (size_t i = 0; i < field.children.size(); ++i) {
      // the names of the parts of maps are not compared, because writers choose
      // different ones
      if (!field.is_map && nodes_[child].name != field.children[i].name &&
          !is_map_entry_) {
        return unsupported(s, "no field '" + field.children[i].name + "'");
      }
      NIMBLE_RETURN_IF_ERROR(make(child, field.children[i], definition,
                                  repetition, &node->children[i]));
      child = nodes_[child].end;
    }
    return Status::ok();
  }

  Status make_list(uint32_t at, const Field& field, uint8_t definition,
                   uint8_t repetition, PlanNode* node) {
    const SchemaNode& s = nodes_[at];
    const bool is_annotated =
        s.logical == (field.is_map ? LogicalType::kMap : LogicalType::kList);
    if (!is_annotated || s.num_children != 1 || repetition > 0 ||
        field.is_view) {
      return unsupported(s, "as " + field.type_name());
    }
    const SchemaNode& repeated = nodes_[at + 1];
    if (repeated.repetition != Repetition::kRepeated ||
        repeated.num_children != (field.is_map ? 2 : 1) ||
        repeated.name == "array" || repeated.name == s.name + "_tuple") {
      return unsupported(s, "a list of an old form");
    }
    node->kind = PlanNode::Kind::kList;
    node->element_at = static_cast<uint8_t>(definition + 1);
    slot_at_ = node->element_at;
    node->children.resize(1);
    PlanNode& element = node->children[0];
    if (!field.is_map) {
      NIMBLE_RETURN_IF_ERROR(
          make(at + 2, field.children[0], node->element_at, 1, &element));
    } else {
      element.kind = PlanNode::Kind::kStruct;
      element.defined_at = node->element_at;
      element.first_leaf = out_->leaves.size();
      is_map_entry_ = true;
      NIMBLE_RETURN_IF_ERROR(make_children(at + 1, field.children[0],
                                           node->element_at, 1, &element));
      is_map_entry_ = false;
      element.end_leaf = out_->leaves.size();
    }
    slot_at_ = 0;
    return Status::ok();
  }

  const std::vector<SchemaNode>& nodes_;
  ColumnPlan* out_;
  uint8_t slot_at_ = 0;
  bool is_map_entry_ = false;
};

}  // namespace

Result<ColumnPlan> ColumnPlan::make(const Metadata& metadata, uint32_t node,
                                    const Field& field) {
  ColumnPlan plan;
  NIMBLE_RETURN_IF_ERROR(
      PlanMaker(metadata, &plan).make(node, field, 0, 0, &plan.root));
  return plan;
}

}  // namespace nimble::parquet
