package nimblepy.optimizer;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;

/** Functions on plans and expressions. */
final class Trees {
  static LogicalPlan[] children(LogicalPlan plan) {
    scala.collection.Seq found = (scala.collection.Seq) plan.children();
    LogicalPlan[] children = new LogicalPlan[found.size()];
    for (int i = 0; i < children.length; i++) children[i] = (LogicalPlan) found.apply(i);
    return children;
  }

  static Expression[] children(Expression expression) {
    scala.collection.Seq found = (scala.collection.Seq) expression.children();
    Expression[] children = new Expression[found.size()];
    for (int i = 0; i < children.length; i++) children[i] = (Expression) found.apply(i);
    return children;
  }

  static List list(Object seq) {
    scala.collection.Seq items = (scala.collection.Seq) seq;
    List list = new ArrayList();
    for (int i = 0; i < items.size(); i++) list.add(items.apply(i));
    return list;
  }

  static scala.collection.immutable.Seq seq(Object[] items) {
    return scala.collection.immutable.ArraySeq.unsafeWrapArray(items);
  }

  static scala.collection.immutable.Seq seq(List items) {
    return seq(items.toArray());
  }

  static scala.collection.immutable.Seq seq(Object item) {
    return seq(new Object[] {item});
  }

  static scala.Option none() {
    return scala.Option.empty();
  }

  /** Whether the plan is a scan by the data source of nimblepy. */
  static boolean isNimbleScan(Object plan) {
    if (!(plan instanceof DataSourceV2ScanRelation)) return false;
    Table table = ((DataSourceV2ScanRelation) plan).relation().table();
    return table.getClass().getName().endsWith(".PythonTable")
        && table.name().equalsIgnoreCase("nimble");
  }

  static boolean hasNimbleScan(LogicalPlan plan) {
    if (isNimbleScan(plan)) return true;
    scala.collection.Seq children = (scala.collection.Seq) plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (hasNimbleScan((LogicalPlan) children.apply(i))) return true;
    }
    return false;
  }

  /** Whether the expression can be evaluated in another place of the plan. */
  static boolean isMovable(Expression expression) {
    return expression.deterministic()
        && !(expression instanceof SubqueryExpression)
        && !contains(expression, "PythonUDF")
        && !hasSubquery(expression);
  }

  private static boolean hasSubquery(Expression expression) {
    Expression[] children = children(expression);
    for (int i = 0; i < children.length; i++) {
      if (children[i] instanceof SubqueryExpression || hasSubquery(children[i])) return true;
    }
    return false;
  }

  /** Whether the expression has a node of the class with this simple name. */
  static boolean contains(Expression expression, String name) {
    if (expression.getClass().getSimpleName().equals(name)) return true;
    Expression[] children = children(expression);
    for (int i = 0; i < children.length; i++) if (contains(children[i], name)) return true;
    return false;
  }

  /** Appends the conjuncts of a condition. */
  static void split(Expression condition, List conjuncts) {
    if (condition instanceof And) {
      split((Expression) ((And) condition).left(), conjuncts);
      split((Expression) ((And) condition).right(), conjuncts);
    } else {
      conjuncts.add(condition);
    }
  }

  static Expression allOf(List conjuncts) {
    Expression all = (Expression) conjuncts.get(0);
    for (int i = 1; i < conjuncts.size(); i++) all = new And(all, (Expression) conjuncts.get(i));
    return all;
  }

  /** Replaces attributes by the expressions that have their ids in the map. */
  static Expression replace(Expression expression, Map byId) {
    if (expression instanceof AttributeReference) {
      Object other = byId.get(((AttributeReference) expression).exprId());
      return other == null ? expression : (Expression) other;
    }
    Expression[] children = children(expression);
    boolean changed = false;
    for (int i = 0; i < children.length; i++) {
      Expression other = replace(children[i], byId);
      changed |= other != children[i];
      children[i] = other;
    }
    return changed ? (Expression) expression.withNewChildren(seq(children)) : expression;
  }

  static void addReferences(Expression expression, Set ids) {
    if (expression instanceof AttributeReference) {
      ids.add(((AttributeReference) expression).exprId());
    }
    Expression[] children = children(expression);
    for (int i = 0; i < children.length; i++) addReferences(children[i], ids);
  }

  static Set references(Expression expression) {
    Set ids = new HashSet();
    addReferences(expression, ids);
    return ids;
  }

  static boolean intersect(Set left, Set right) {
    for (Object id : left) if (right.contains(id)) return true;
    return false;
  }

  static Set outputIds(LogicalPlan plan) {
    Set ids = new HashSet();
    for (Object attribute : list(plan.output())) ids.add(((Attribute) attribute).exprId());
    return ids;
  }

  /** Spark's estimate of the size of a row. */
  static long rowBytes(LogicalPlan plan) {
    long size = 8;
    for (Object attribute : list(plan.output())) {
      size += ((Attribute) attribute).dataType().defaultSize();
    }
    return size;
  }

  static AttributeReference newAttribute(String name, DataType type) {
    return new AttributeReference(
        name, type, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(),
        seq(new Object[0]));
  }

  static Alias alias(Expression expression, String name, ExprId id) {
    return new Alias(expression, name, id, seq(new Object[0]), none(), seq(new Object[0]));
  }
}
