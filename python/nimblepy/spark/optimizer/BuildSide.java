package nimblepy.optimizer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** A scan of nimble files below filters and projections. */
final class BuildSide {
  DataSourceV2ScanRelation scan;

  /** Conditions on the scan's columns. */
  final List filters = new ArrayList();

  /** By id of an output column: an expression over the scan's columns. */
  Map output = new HashMap();

  /** Why an index cannot answer for this side; null if it can. */
  String obstacle;

  /** The side, or null if the plan scans no nimble files. */
  static BuildSide of(LogicalPlan plan) {
    BuildSide side = new BuildSide();
    side.add(plan);
    if (side.obstacle == null) return side;
    return Trees.hasNimbleScan(plan) ? side : null;
  }

  private void add(LogicalPlan plan) {
    if (Trees.isNimbleScan(plan)) {
      scan = (DataSourceV2ScanRelation) plan;
      for (Object column : Trees.list(scan.output())) {
        output.put(((Attribute) column).exprId(), column);
      }
    } else if (plan instanceof Filter) {
      add((LogicalPlan) ((Filter) plan).child());
      List conjuncts = new ArrayList();
      Trees.split((Expression) ((Filter) plan).condition(), conjuncts);
      for (Object item : conjuncts) addFilter((Expression) item);
    } else if (plan instanceof Project) {
      add((LogicalPlan) ((Project) plan).child());
      addProjection(Trees.list(((Project) plan).projectList()));
    } else if (obstacle == null) {
      obstacle = plan.nodeName() + " between the join and the files";
    }
  }

  private void addFilter(Expression condition) {
    // The join implies this filter, which Spark derives from the other side at run time.
    if (Trees.contains(condition, "BloomFilterMightContain")) return;
    if (!Trees.isMovable(condition) && obstacle == null) {
      obstacle = "filter of the files cannot be moved: " + condition;
    }
    filters.add(Trees.replace(condition, output));
  }

  private void addProjection(List columns) {
    Map projected = new HashMap();
    for (Object column : columns) {
      if (column instanceof Alias) {
        Expression value = (Expression) ((Alias) column).child();
        if (!Trees.isMovable(value) && obstacle == null) {
          obstacle = "column of the files cannot be moved: " + value;
        }
        projected.put(((Alias) column).exprId(), Trees.replace(value, output));
      } else {
        projected.put(
            ((Attribute) column).exprId(), output.get(((Attribute) column).exprId()));
      }
    }
    output = projected;
  }

  /** The scan's column with this name. */
  AttributeReference column(String name) {
    for (Object column : Trees.list(scan.output())) {
      if (((AttributeReference) column).name().equals(name)) return (AttributeReference) column;
    }
    throw new IllegalStateException("no column " + name);
  }

  /** Names of the scan's columns with these ids, in the order of the scan. */
  List names(Set ids) {
    List names = new ArrayList();
    for (Object column : Trees.list(scan.output())) {
      if (ids.contains(((Attribute) column).exprId())) names.add(((Attribute) column).name());
    }
    return names;
  }

  Map options() {
    return scan.relation().options().asCaseSensitiveMap();
  }
}
