package nimblepy.optimizer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.plans.logical.AsOfJoin;

/** What an index must know of an as-of join: the ordered column, and the direction. */
final class AsofCondition {
  AttributeReference column;
  Expression probe;

  /** Whether the nearest row is at or before the probe. */
  boolean backward;

  /** Whether equal values do not match. */
  boolean strict;

  /** The conjuncts of ON, the filters of the files, and limits of the distance. */
  final List conjuncts = new ArrayList();

  /** Those of them that limit the distance. The nearest row passes if any row passes. */
  private final List limits = new ArrayList();

  /** Why an index cannot answer; null if it can. */
  String obstacle;

  AsofCondition(AsOfJoin join, BuildSide side) {
    Set columns = Trees.outputIds(side.scan);
    List comparisons = new ArrayList();
    Trees.split((Expression) join.asOfCondition(), comparisons);
    for (Object item : comparisons) addComparison(replaced(item, side), columns);
    if (obstacle == null && column == null) obstacle = "the direction is not backward or forward";
    if (obstacle == null && join.condition().isDefined()) {
      List given = new ArrayList();
      Trees.split((Expression) join.condition().get(), given);
      for (Object item : given) conjuncts.add(replaced(item, side));
    }
    conjuncts.addAll(side.filters);
  }

  private Expression replaced(Object conjunct, BuildSide side) {
    if (!Trees.isMovable((Expression) conjunct)) {
      obstacle = "a condition cannot be moved: " + conjunct;
    }
    return Trees.replace((Expression) conjunct, side.output);
  }

  private void addComparison(Expression comparison, Set columns) {
    boolean less = comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
    boolean greater = comparison instanceof GreaterThan || comparison instanceof GreaterThanOrEqual;
    Expression ofFiles = null;
    Expression other = null;
    boolean isUpper = false;
    if (less || greater) {
      Expression left = (Expression) ((BinaryComparison) comparison).left();
      Expression right = (Expression) ((BinaryComparison) comparison).right();
      boolean onLeft = Trees.intersect(Trees.references(left), columns);
      if (onLeft != Trees.intersect(Trees.references(right), columns)) {
        ofFiles = Condition.narrow(onLeft ? left : right);
        other = onLeft ? right : left;
        isUpper = onLeft == less;
      }
    }
    if (!(ofFiles instanceof AttributeReference)) {
      if (obstacle == null) obstacle = "the direction is not backward or forward";
      return;
    }
    if (column == null) {
      column = (AttributeReference) ofFiles;
      probe = other;
      backward = isUpper;
      strict = comparison instanceof LessThan || comparison instanceof GreaterThan;
    } else if (isUpper != backward && ofFiles.semanticEquals(column)) {
      conjuncts.add(comparison);
      limits.add(comparison);
    } else if (obstacle == null) {
      obstacle = "several conditions on the order";
    }
  }

  /**
   * Removes the conjuncts that the search implies from the residual. Returns why an index cannot
   * answer the join; null if it can.
   */
  String check(Condition condition, BuildSide side) {
    Set columns = Trees.outputIds(side.scan);
    for (Object item : condition.equalities) {
      if (((Condition.Equality) item).nullSafe) return "a key is compared with <=>";
    }
    for (int i = condition.residual.size() - 1; i >= 0; i--) {
      Expression conjunct = (Expression) condition.residual.get(i);
      boolean isImplied =
          conjunct instanceof IsNotNull
              && column.semanticEquals((Expression) ((IsNotNull) conjunct).child());
      if (isImplied) {
        condition.residual.remove(i);
      } else if (Trees.intersect(Trees.references(conjunct), columns) && !limits.contains(conjunct)) {
        return "rows of the files must pass before the nearest is chosen: " + conjunct;
      }
    }
    condition.ranges.clear();
    return null;
  }

  void describe(Map question) {
    Map described = new HashMap();
    described.put("column", column.name());
    described.put("type", probe.dataType().json());
    described.put("backward", Boolean.valueOf(backward));
    described.put("strict", Boolean.valueOf(strict));
    question.put("asof", described);
  }
}
