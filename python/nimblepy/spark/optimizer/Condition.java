package nimblepy.optimizer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;

/** The condition of a join with files, by what an index can do with each conjunct. */
final class Condition {
  /** A column of the files that equals an expression over the probe. */
  static final class Equality {
    Expression probe;
    AttributeReference column;
    boolean nullSafe;
    Expression conjunct;
  }

  /** Bounds of a column of the files by expressions over the probe. An end may be null. */
  static final class Range {
    AttributeReference column;
    Expression lower;
    Expression upper;
  }

  final List equalities = new ArrayList();

  /** The other conjuncts, over the scan's columns and the probe. */
  final List residual = new ArrayList();

  /** Superset conditions that the residual implies, one per column. */
  final List ranges = new ArrayList();

  private final Set columns;

  Condition(List conjuncts, BuildSide side) {
    columns = Trees.outputIds(side.scan);
    for (Object item : conjuncts) {
      Equality equality = equality((Expression) item);
      if (equality == null) residual.add(item);
      else equalities.add(equality);
    }
    for (int i = residual.size() - 1; i >= 0; i--) {
      if (isImplied((Expression) residual.get(i))) residual.remove(i);
    }
    Map byColumn = new LinkedHashMap();
    for (Object item : residual) addRange((Expression) item, byColumn);
    ranges.addAll(byColumn.values());
  }

  private Equality equality(Expression conjunct) {
    if (!(conjunct instanceof EqualTo) && !(conjunct instanceof EqualNullSafe)) return null;
    Expression left = (Expression) ((BinaryComparison) conjunct).left();
    Expression right = (Expression) ((BinaryComparison) conjunct).right();
    boolean ofFiles = Trees.intersect(Trees.references(left), columns);
    if (ofFiles == Trees.intersect(Trees.references(right), columns)) return null;
    Expression column = narrow(ofFiles ? left : right);
    if (!(column instanceof AttributeReference)) return null;
    Equality equality = new Equality();
    equality.probe = ofFiles ? right : left;
    equality.column = (AttributeReference) column;
    equality.nullSafe = conjunct instanceof EqualNullSafe;
    equality.conjunct = conjunct;
    return equality;
  }

  /**
   * The integers below a cast to a wider type. The index finds no row for integers that the
   * narrower column cannot hold.
   */
  static Expression narrow(Expression expression) {
    if (!(expression instanceof Cast)) return expression;
    Expression child = (Expression) ((Cast) expression).child();
    int width = width(child.dataType());
    return width > 0 && width(expression.dataType()) >= width ? child : expression;
  }

  private static int width(DataType type) {
    if (type instanceof ByteType) return 1;
    if (type instanceof ShortType) return 2;
    if (type instanceof IntegerType) return 4;
    return type instanceof LongType ? 8 : 0;
  }

  /** Whether the conjunct says only that the column of an equality is not null. */
  private boolean isImplied(Expression conjunct) {
    if (!(conjunct instanceof IsNotNull)) return false;
    Expression column = (Expression) ((IsNotNull) conjunct).child();
    for (Object item : equalities) {
      Equality equality = (Equality) item;
      if (!equality.nullSafe && equality.column.semanticEquals(column)) return true;
    }
    return false;
  }

  private void addRange(Expression conjunct, Map byColumn) {
    boolean less = conjunct instanceof LessThan || conjunct instanceof LessThanOrEqual;
    boolean greater = conjunct instanceof GreaterThan || conjunct instanceof GreaterThanOrEqual;
    if (!less && !greater) return;
    Expression left = (Expression) ((BinaryComparison) conjunct).left();
    Expression right = (Expression) ((BinaryComparison) conjunct).right();
    if (isColumnAgainstProbe(left, right)) addBound(left, right, greater, byColumn);
    else if (isColumnAgainstProbe(right, left)) addBound(right, left, less, byColumn);
  }

  private boolean isColumnAgainstProbe(Expression column, Expression bound) {
    return column instanceof AttributeReference
        && columns.contains(((AttributeReference) column).exprId())
        && !Trees.intersect(Trees.references(bound), columns)
        && bound.dataType().equals(column.dataType());
  }

  private static void addBound(
      Expression column, Expression bound, boolean isLower, Map byColumn) {
    Object id = ((AttributeReference) column).exprId();
    Range range = (Range) byColumn.get(id);
    if (range == null) {
      range = new Range();
      range.column = (AttributeReference) column;
      byColumn.put(id, range);
    }
    if (isLower && range.lower == null) range.lower = bound;
    if (!isLower && range.upper == null) range.upper = bound;
  }

  /** What Python needs to know of the condition. */
  void describe(BuildSide side, Map question) {
    List described = new ArrayList();
    for (Object item : equalities) {
      Equality equality = (Equality) item;
      Map map = new HashMap();
      map.put("column", equality.column.name());
      map.put("type", equality.probe.dataType().json());
      map.put("null_safe", Boolean.valueOf(equality.nullSafe));
      map.put("constant", Boolean.valueOf(equality.probe.foldable()));
      described.add(map);
    }
    question.put("equalities", described);
    List bounds = new ArrayList();
    for (Object item : ranges) {
      Range range = (Range) item;
      Map map = new HashMap();
      map.put("column", range.column.name());
      map.put("lower", Boolean.valueOf(range.lower != null));
      map.put("upper", Boolean.valueOf(range.upper != null));
      bounds.add(map);
    }
    question.put("ranges", bounds);
    question.put("residual", side.names(residual.isEmpty()
        ? new java.util.HashSet() : Trees.references(Trees.allOf(residual))));
    question.put("has_residual", Boolean.valueOf(!residual.isEmpty()));
  }
}
