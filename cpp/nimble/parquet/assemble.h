// Assembles nested columns from the levels of their leaves.
#pragma once

#include <span>

#include "nimble/column/column.h"
#include "nimble/parquet/column_plan.h"
#include "nimble/parquet/data_page.h"

namespace nimble::parquet {

// Appends the columns of a plan's leaves below `column`, in order.
void leaf_columns(const PlanNode& node, Column* column,
                  std::vector<Column*>* out);

// Sets the validity, list ends and lengths of the nodes above leaves that have
// been read. Fails with kCorrupt if the leaves contradict each other.
Status assemble(const PlanNode& node, std::span<const LeafPlan> leaves,
                std::span<const LeafLevels> levels, Column* column);

}  // namespace nimble::parquet
