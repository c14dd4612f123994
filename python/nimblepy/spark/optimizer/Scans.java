package nimblepy.optimizer;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Scans that read fewer columns and rows. Filters stay above them, so a superset is enough. */
final class Scans {
  /**
   * The scan with some of its columns, by a data source that Python made for them. Spark caches its
   * plan in the data source, so each query needs a data source of its own.
   */
  static LogicalPlan withSource(DataSourceV2ScanRelation scan, List columns, byte[] source)
      throws Exception {
    StructType schema = new StructType();
    for (Object item : columns) {
      AttributeReference column = (AttributeReference) item;
      schema = schema.add(column.name(), column.dataType(), column.nullable());
    }
    PythonDataSourceV2 provider = new PythonDataSourceV2();
    provider.setShortName("nimble");
    Field made = PythonDataSourceV2.class.getDeclaredField("dataSourceInPython");
    made.setAccessible(true);
    made.set(provider, new PythonDataSourceCreationResult(source, schema));
    DataSourceV2Relation relation = scan.relation();
    Table table =
        provider.getTable(schema, new Transform[0], relation.options().asCaseSensitiveMap());
    Scan read = ((SupportsRead) table).newScanBuilder(relation.options()).build();
    Object[] parts = parts(relation);
    parts[0] = table;
    parts[1] = Trees.seq(columns);
    Object copied = relation.makeCopy(parts);
    parts = parts(scan);
    parts[0] = copied;
    parts[1] = read;
    parts[2] = Trees.seq(columns);
    return (LogicalPlan) scan.makeCopy(parts);
  }

  private static Object[] parts(LogicalPlan plan) {
    Object[] parts = new Object[plan.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = plan.productElement(i);
    return parts;
  }

  /** The columns with these ids; the smallest column if there are none. */
  static List columns(DataSourceV2ScanRelation scan, Set ids) {
    List columns = new ArrayList();
    AttributeReference smallest = null;
    for (Object item : Trees.list(scan.output())) {
      AttributeReference column = (AttributeReference) item;
      if (ids == null || ids.contains(column.exprId())) columns.add(column);
      if (smallest == null
          || column.dataType().defaultSize() < smallest.dataType().defaultSize()) {
        smallest = column;
      }
    }
    if (columns.isEmpty() && smallest != null) columns.add(smallest);
    return columns;
  }

  /** A condition that the given condition implies, as a description; null if there is none. */
  static List describe(Expression condition) {
    if (condition instanceof And) {
      List left = describe((Expression) ((And) condition).left());
      List right = describe((Expression) ((And) condition).right());
      return left == null ? right : right == null ? left : node("and", left, right);
    }
    if (condition instanceof Or) {
      List left = describe((Expression) ((Or) condition).left());
      List right = describe((Expression) ((Or) condition).right());
      return left == null || right == null ? null : node("or", left, right);
    }
    if (condition instanceof IsNull) {
      return test("null", (Expression) ((IsNull) condition).child(), null);
    }
    if (condition instanceof IsNotNull) {
      return test("not null", (Expression) ((IsNotNull) condition).child(), null);
    }
    if (condition instanceof In) {
      List values = new ArrayList();
      for (Object item : Trees.list(((In) condition).list())) {
        Object value = value((Expression) item);
        if (value == null) return null;
        values.add(value);
      }
      return test("in", (Expression) ((In) condition).value(), values);
    }
    if (condition instanceof InSet) return inSet((InSet) condition);
    if (condition instanceof StartsWith) {
      Object prefix = value((Expression) ((StartsWith) condition).right());
      Expression column = (Expression) ((StartsWith) condition).left();
      return prefix == null ? null : test("prefix", column, prefix);
    }
    return condition instanceof BinaryComparison ? comparison((BinaryComparison) condition) : null;
  }

  private static List inSet(InSet condition) {
    DataType type = ((Expression) condition.child()).dataType();
    scala.collection.Iterator items = ((scala.collection.Iterable) condition.hset()).iterator();
    List values = new ArrayList();
    while (items.hasNext()) {
      Object value = value(items.next(), type);
      if (value == null) return null;
      values.add(value);
    }
    return test("in", (Expression) condition.child(), values);
  }

  private static List comparison(BinaryComparison condition) {
    String sign =
        condition instanceof EqualTo || condition instanceof EqualNullSafe ? "="
            : condition instanceof LessThan ? "<"
            : condition instanceof LessThanOrEqual ? "<="
            : condition instanceof GreaterThan ? ">"
            : condition instanceof GreaterThanOrEqual ? ">="
            : null;
    if (sign == null) return null;
    Expression left = (Expression) condition.left();
    Expression right = (Expression) condition.right();
    if (left instanceof AttributeReference) {
      Object value = value(right);
      return value == null ? null : test(sign, left, value);
    }
    Object value = value(left);
    String turned = sign.startsWith("<") ? sign.replace('<', '>') : sign.replace('>', '<');
    return value == null ? null : test(turned, right, value);
  }

  private static List test(String what, Expression column, Object value) {
    if (!(column instanceof AttributeReference)) return null;
    return node(what, ((AttributeReference) column).name(), value);
  }

  private static List node(Object what, Object first, Object second) {
    List node = new ArrayList();
    node.add(what);
    node.add(first);
    node.add(second);
    return node;
  }

  private static Object value(Expression expression) {
    if (!(expression instanceof Literal)) return null;
    return value(((Literal) expression).value(), expression.dataType());
  }

  /** A value that means the same to Python and Spark, with its type; null if there is none. */
  private static Object value(Object value, DataType type) {
    if (value == null) return null;
    Map typed = new HashMap();
    if (type instanceof BooleanType || isInteger(type)) typed.put("plain", value);
    else if (type.equals(StringType$.MODULE$)) typed.put("plain", value.toString());
    else if (type instanceof DateType) typed.put("days", value);
    else if (type instanceof TimestampType) typed.put("instant", value);
    else if (type instanceof TimestampNTZType) typed.put("local", value);
    else if (type instanceof DecimalType) typed.put("decimal", value.toString());
    else return null;
    return typed;
  }

  private static boolean isInteger(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType
        || type instanceof LongType;
  }
}
