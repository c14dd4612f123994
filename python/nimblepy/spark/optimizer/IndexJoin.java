package nimblepy.optimizer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.ArrayExists;
import org.apache.spark.sql.catalyst.expressions.ArrayFilter;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Inline;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;

/**
 * The plan of an index join: a Python function maps the keys of the probe to arrays of matches,
 * which Spark inlines. The scan's attributes are the output of the generator, so expressions above
 * the scan stay as they are.
 */
final class IndexJoin {
  private final LogicalPlan join;
  private final LogicalPlan probe;
  private final BuildSide side;
  private final Condition condition;

  /** "inner", "left", "semi", "anti" or "exists". */
  private final String how;

  /** Output columns that the plan above uses; null for all. */
  private final Set needed;

  // The answer of Python:
  private UserDefinedPythonFunction function;
  private List fetched;
  private boolean isBoolean;
  private final List keys = new ArrayList();
  private final List arguments = new ArrayList();

  /** The probe's value for the ordered column of an as-of join; null for other joins. */
  private final Expression nearest;

  /** What a match must pass after the lookup. */
  private final List residual;

  IndexJoin(
      LogicalPlan join, LogicalPlan probe, BuildSide side, Condition condition, String how,
      Expression nearest, Set needed) {
    this.join = join;
    this.nearest = nearest;
    this.probe = probe;
    this.side = side;
    this.condition = condition;
    this.how = how;
    this.needed = needed;
    this.residual = new ArrayList(condition.residual);
  }

  LogicalPlan plan(Map answer, UserDefinedPythonFunction lookup) {
    function = lookup;
    fetched = (List) answer.get("fetched");
    isBoolean = ((Boolean) answer.get("boolean")).booleanValue();
    for (Object at : (List) answer.get("keys")) {
      Condition.Equality key =
          (Condition.Equality) condition.equalities.get(((Number) at).intValue());
      keys.add(key);
      arguments.add(key.probe);
    }
    if (nearest != null) arguments.add(nearest);
    int range = ((Number) answer.get("range")).intValue();
    if (range >= 0) {
      Condition.Range bounds = (Condition.Range) condition.ranges.get(range);
      if (bounds.lower != null) arguments.add(bounds.lower);
      if (bounds.upper != null) arguments.add(bounds.upper);
    }
    for (Object item : condition.equalities) {
      if (!keys.contains(item)) residual.add(((Condition.Equality) item).conjunct);
    }
    PythonUDF call = (PythonUDF) lookup.builder(Trees.seq(arguments));
    AttributeReference matches = Trees.newAttribute("nimble_index_join", call.dataType());
    LogicalPlan lookups =
        new ArrowEvalPython(
            Trees.seq(call), Trees.seq(matches), rows(), lookup.pythonEvalType());
    if (how.equals("inner")) return inner(matches, lookups);
    if (how.equals("left")) return left(matches, lookups);
    return semi(matches, lookups);
  }

  /**
   * The probe below a filter. Directly above a columnar scan, Spark would evaluate the function
   * column by column, which is slower. The filter keeps all rows that can be in the result.
   */
  private LogicalPlan rows() {
    boolean dropsNulls = how.equals("inner") || how.equals("semi");
    List filters = new ArrayList();
    for (Object item : keys) {
      Condition.Equality key = (Condition.Equality) item;
      if (dropsNulls && !key.nullSafe && key.probe.nullable()) filters.add(new IsNotNull(key.probe));
    }
    if (filters.isEmpty()) {
      Expression first = (Expression) arguments.get(0);
      filters.add(new Or(new IsNull(first), new IsNotNull(first)));
    }
    return new Filter(Trees.allOf(filters), probe);
  }

  private LogicalPlan inner(AttributeReference matches, LogicalPlan lookups) {
    List generated = new ArrayList();
    for (Object name : fetched) generated.add(side.column((String) name));
    LogicalPlan rows = generate(new Inline(matches), false, generated, lookups);
    // A key that was not fetched has the value of the probe.
    Map values = new HashMap();
    for (Object item : keys) {
      Condition.Equality key = (Condition.Equality) item;
      if (fetched.contains(key.column.name())) continue;
      boolean same = key.probe.dataType().equals(key.column.dataType());
      Expression value = key.probe;
      if (!same) value = new Cast(value, key.column.dataType(), Trees.none(), EvalMode.LEGACY());
      values.put(key.column.exprId(), value);
    }
    if (!residual.isEmpty()) {
      rows = new Filter(Trees.replace(Trees.allOf(residual), values), rows);
    }
    List columns = new ArrayList();
    for (Object item : Trees.list(join.output())) {
      Attribute column = (Attribute) item;
      if (needed != null && !needed.contains(column.exprId())) continue;
      Expression value = (Expression) side.output.get(column.exprId());
      value = value == null ? column : Trees.replace(value, values);
      boolean named =
          value instanceof Attribute && ((Attribute) value).exprId().equals(column.exprId());
      columns.add(named ? value : Trees.alias(value, column.name(), column.exprId()));
    }
    return new Project(Trees.seq(columns), rows);
  }

  /**
   * In a left join the residual filters the array, and projections of the files are computed in it:
   * both must happen before a row without a match is padded with nulls.
   */
  private LogicalPlan left(AttributeReference matches, LogicalPlan lookups) {
    List columns = new ArrayList();
    for (Object item : side.output.keySet()) {
      if (needed == null || needed.contains(item)) columns.add(item);
    }
    List generated = new ArrayList();
    List values = new ArrayList();
    for (Object item : Trees.list(join.output())) {
      Attribute column = (Attribute) item;
      if (!columns.contains(column.exprId())) continue;
      generated.add(column.withNullability(true));
      values.add(side.output.get(column.exprId()));
    }
    Expression array = matches;
    if (!residual.isEmpty()) {
      Match match = new Match(matches);
      array = new ArrayFilter(array, match.function(Trees.allOf(residual)));
    }
    if (!isWhatIsFetched(values)) {
      Match match = new Match(matches);
      List fields = new ArrayList();
      for (int i = 0; i < values.size(); i++) {
        String name = ((Attribute) generated.get(i)).name();
        fields.add(Literal.create(name, StringType$.MODULE$));
        fields.add(match.replaced((Expression) values.get(i)));
      }
      if (values.isEmpty()) {
        // The rows are needed, but none of their columns.
        AttributeReference unused = Trees.newAttribute("unused", Literal.TrueLiteral().dataType());
        generated.add(unused);
        fields.add(Literal.create("unused", StringType$.MODULE$));
        fields.add(Literal.TrueLiteral());
      }
      array = new ArrayTransform(array, match.function(new CreateNamedStruct(Trees.seq(fields))));
    }
    LogicalPlan rows = generate(new Inline(array), true, generated, lookups);
    if (needed != null) return rows;
    return new Project((scala.collection.immutable.Seq) join.output(), rows);
  }

  private boolean isWhatIsFetched(List values) {
    if (values.size() != fetched.size()) return false;
    for (int i = 0; i < values.size(); i++) {
      if (!(values.get(i) instanceof AttributeReference)) return false;
      if (!((AttributeReference) values.get(i)).name().equals(fetched.get(i))) return false;
    }
    return true;
  }

  private LogicalPlan semi(AttributeReference matches, LogicalPlan lookups) {
    Expression exists = matches;
    if (!isBoolean) {
      Match match = new Match(matches);
      exists = new ArrayExists(matches, match.function(Trees.allOf(residual)), false);
    }
    List columns = Trees.list(probe.output());
    if (how.equals("exists")) {
      Attribute column = ((ExistenceJoin) ((Join) join).joinType()).exists();
      Expression value = new Coalesce(Trees.seq(new Object[] {exists, Literal.FalseLiteral()}));
      columns.add(Trees.alias(value, column.name(), column.exprId()));
      return new Project(Trees.seq(columns), lookups);
    }
    Expression passes = how.equals("semi") ? exists : new Not(exists);
    LogicalPlan rows = new Filter(passes, lookups);
    return needed != null ? rows : new Project(Trees.seq(columns), rows);
  }

  private LogicalPlan generate(
      Expression generator, boolean outer, List generated, LogicalPlan lookups) {
    // The array itself, the last column, is not needed above.
    int last = Trees.list(lookups.output()).size() - 1;
    return new Generate(
        (Inline) generator, Trees.seq(Integer.valueOf(last)), outer, Trees.none(),
        Trees.seq(generated), lookups);
  }

  /** One match in the array, as the variable of a function. */
  private final class Match {
    private final NamedLambdaVariable variable;
    private final Map fields = new HashMap();

    Match(AttributeReference matches) {
      StructType type = (StructType) ((ArrayType) matches.dataType()).elementType();
      variable =
          new NamedLambdaVariable(
              "match", type, false, NamedExpression$.MODULE$.newExprId(),
              new java.util.concurrent.atomic.AtomicReference());
      for (int i = 0; i < fetched.size(); i++) {
        String name = (String) fetched.get(i);
        fields.put(
            side.column(name).exprId(),
            new GetStructField(variable, i, scala.Option.apply(name)));
      }
    }

    Expression replaced(Expression expression) {
      return Trees.replace(expression, fields);
    }

    LambdaFunction function(Expression body) {
      return new LambdaFunction(replaced(body), Trees.seq(variable), false);
    }
  }
}
