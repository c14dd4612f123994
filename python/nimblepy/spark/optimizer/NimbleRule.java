package nimblepy.optimizer;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.AsOfJoin;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * Replaces joins with nimble files by lookups in their index, and scans by scans of fewer columns
 * and rows. Python decides, once per join and scan; Spark evaluates every expression. A failure
 * leaves the plan as it was.
 */
public class NimbleRule extends Rule {
  static final String SETTING = "spark.nimblepy.indexJoin";
  private static final int MOST_OFFERS = 64;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final TreeNodeTag decided = new TreeNodeTag("nimble_decided");
  private final ThreadLocal explained = new ThreadLocal();
  private Function driver;
  private final Map offers = new LinkedHashMap();
  private String lastFailure = "";
  private long failures = 0;

  /** Sets the Python function that answers questions; both are JSON. */
  public void connect(Function function) {
    driver = function;
  }

  /** Stores an object that an answer refers to by its key. Drops the oldest objects. */
  public void offer(String key, Object offered) {
    synchronized (offers) {
      offers.remove(key);
      offers.put(key, offered);
      if (offers.size() > MOST_OFFERS) offers.remove(offers.keySet().iterator().next());
    }
  }

  public boolean offers(String key) {
    return offered(key) != null;
  }

  private Object offered(Object key) {
    synchronized (offers) {
      return offers.get(key);
    }
  }

  public long failures() {
    return failures;
  }

  public String lastFailure() {
    return lastFailure;
  }

  /** Optimizes a query and returns the decisions about its joins, as JSON. */
  public String explain(QueryExecution query) throws Exception {
    List decisions = new ArrayList();
    explained.set(decisions);
    try {
      query.optimizedPlan();
    } finally {
      explained.remove();
    }
    return JSON.writeValueAsString(decisions);
  }

  public TreeNode apply(TreeNode plan) {
    try {
      if (!Trees.hasNimbleScan((LogicalPlan) plan)) return plan;
      String setting = SQLConf$.MODULE$.get().getConfString(SETTING, "auto");
      if (setting.equalsIgnoreCase("off")) return plan;
      // Spark optimizes the plan of a subquery first, and may then make a join of it.
      boolean mayBeJoined = plan instanceof Subquery;
      return scans(joins((LogicalPlan) plan, null, setting), !mayBeJoined);
    } catch (Throwable failure) {
      remember(failure);
      return plan;
    }
  }

  private void remember(Throwable failure) {
    failures++;
    java.io.StringWriter text = new java.io.StringWriter();
    failure.printStackTrace(new java.io.PrintWriter(text));
    lastFailure = text.toString();
  }

  /** Replaces joins from the leaves up. {@code needed}: output columns that are used; null: all. */
  private LogicalPlan joins(LogicalPlan plan, Set needed, String setting) {
    Set below = null;
    if (plan instanceof Project) {
      below = new HashSet();
      for (Object column : Trees.list(((Project) plan).projectList())) {
        Trees.addReferences((Expression) column, below);
      }
    } else if (plan instanceof Filter && needed != null) {
      below = new HashSet(needed);
      Trees.addReferences((Expression) ((Filter) plan).condition(), below);
    }
    LogicalPlan[] children = Trees.children(plan);
    boolean changed = false;
    for (int i = 0; i < children.length; i++) {
      if (!Trees.hasNimbleScan(children[i])) continue;
      LogicalPlan child = joins(children[i], below, setting);
      changed |= child != children[i];
      children[i] = child;
    }
    if (changed) plan = (LogicalPlan) plan.withNewChildren(Trees.seq(children));
    boolean isAsof = plan instanceof AsOfJoin;
    if ((isAsof || plan instanceof Join) && plan.getTagValue(decided).isEmpty()) {
      LogicalPlan made = null;
      try {
        made =
            isAsof ? asofJoin((AsOfJoin) plan, needed, setting)
                : join((Join) plan, needed, setting);
      } catch (Throwable failure) {
        remember(failure);
        decide(new HashMap(), false, "the rule failed: " + failure, null);
      }
      if (made != null) return made;
      plan.setTagValue(decided, Boolean.TRUE);
    }
    return plan;
  }

  /** The plan that replaces a join; null to keep it. */
  private LogicalPlan join(Join join, Set needed, String setting) throws Exception {
    String type = join.joinType().getClass().getSimpleName();
    boolean inner = type.equals("Inner$") || type.equals("Cross$");
    String how =
        inner ? "inner"
            : type.equals("LeftOuter$") || type.equals("RightOuter$") ? "left"
            : type.equals("LeftSemi$") ? "semi"
            : type.equals("LeftAnti$") ? "anti"
            : type.equals("ExistenceJoin") ? "exists"
            : null;
    LogicalPlan left = (LogicalPlan) join.left();
    LogicalPlan right = (LogicalPlan) join.right();
    boolean swapped = type.equals("RightOuter$");
    BuildSide side = BuildSide.of(swapped ? left : right);
    if (inner && (side == null || side.obstacle != null)) {
      BuildSide other = BuildSide.of(left);
      if (other != null && (side == null || other.obstacle == null)) {
        side = other;
        swapped = true;
      }
    }
    Map question = new HashMap();
    question.put("how", how == null ? type : how);
    if (side == null) {
      LogicalPlan other = swapped ? right : left;
      if (BuildSide.of(other) != null && BuildSide.of(other).obstacle == null) {
        question.put("options", BuildSide.of(other).options());
        decide(question, false, unmatched(type), null);
      }
      return null;
    }
    LogicalPlan made = convert(join, side, swapped, how, needed, setting, question);
    if (made != null || !inner || swapped) return made;
    BuildSide other = BuildSide.of(left);
    if (other == null || other.obstacle != null) return null;
    List decisions = (List) explained.get();
    Object first = decisions == null ? null : decisions.get(decisions.size() - 1);
    Map second = new HashMap();
    second.put("how", how);
    made = convert(join, other, true, how, needed, setting, second);
    if (made != null && first != null) decisions.remove(first);
    return made;
  }

  /** Why no index answers joins of a type. */
  private static String unmatched(String type) {
    return type.startsWith("LeftSingle")
        ? "the join must fail for two matches, which an index join does not check"
        : "the join keeps unmatched rows of the files";
  }

  private LogicalPlan convert(
      Join join, BuildSide side, boolean swapped, String how, Set needed, String setting,
      Map question) throws Exception {
    if (side.scan != null) question.put("options", side.options());
    String obstacle = side.obstacle;
    if (obstacle == null && how == null) obstacle = unmatched((String) question.get("how"));
    if (obstacle == null && hasHint(join)) obstacle = "a hint of the query chooses the join";
    if (obstacle == null && join.condition().isEmpty()) obstacle = "the join has no condition";
    List conjuncts = new ArrayList();
    if (obstacle == null) {
      List given = new ArrayList();
      Trees.split((Expression) join.condition().get(), given);
      for (Object item : given) {
        Expression conjunct = (Expression) item;
        if (!Trees.isMovable(conjunct)) obstacle = "a condition cannot be moved: " + conjunct;
        conjuncts.add(Trees.replace(conjunct, side.output));
      }
      conjuncts.addAll(side.filters);
    }
    Condition condition = obstacle == null ? new Condition(conjuncts, side) : null;
    if (obstacle == null && condition.equalities.isEmpty()) {
      obstacle = "no column of the files equals an expression over the other side";
    }
    if (obstacle != null) {
      decide(question, false, obstacle, null);
      return null;
    }
    LogicalPlan probe = (LogicalPlan) (swapped ? join.right() : join.left());
    describe(question, probe, side, condition, how, needed, setting);
    Map answer = ask(question);
    String action = (String) answer.get("action");
    decide(question, action.equals("index"), (String) answer.get("reason"), answer);
    if (action.equals("broadcast")) {
      LogicalPlan hinted = withBroadcast(join, swapped);
      hinted.setTagValue(decided, Boolean.TRUE);
      return hinted;
    }
    if (!action.equals("index")) return null;
    UserDefinedPythonFunction lookup = (UserDefinedPythonFunction) offered(answer.get("lookup"));
    return new IndexJoin(join, probe, side, condition, how, null, needed).plan(answer, lookup);
  }

  /** The plan that replaces an as-of join; null to keep it. */
  private LogicalPlan asofJoin(AsOfJoin join, Set needed, String setting) throws Exception {
    String type = join.joinType().getClass().getSimpleName();
    String how = type.equals("Inner$") ? "inner" : type.equals("LeftOuter$") ? "left" : null;
    BuildSide side = BuildSide.of((LogicalPlan) join.right());
    if (side == null) return null;
    Map question = new HashMap();
    question.put("how", how == null ? type : "as-of " + how);
    if (side.scan != null) question.put("options", side.options());
    String obstacle = side.obstacle;
    if (obstacle == null && how == null) obstacle = "an index cannot answer this kind of join";
    AsofCondition asof = obstacle == null ? new AsofCondition(join, side) : null;
    if (asof != null) obstacle = asof.obstacle;
    Condition condition = obstacle == null ? new Condition(asof.conjuncts, side) : null;
    if (condition != null) obstacle = asof.check(condition, side);
    if (obstacle != null) {
      decide(question, false, obstacle, null);
      return null;
    }
    LogicalPlan probe = (LogicalPlan) join.left();
    Map asked = new HashMap(question);
    asked.put("how", how);
    describe(asked, probe, side, condition, how, needed, setting);
    asof.describe(asked);
    Map answer = ask(asked);
    boolean converts = answer.get("action").equals("index");
    decide(question, converts, (String) answer.get("reason"), answer);
    if (!converts) return null;
    UserDefinedPythonFunction lookup = (UserDefinedPythonFunction) offered(answer.get("lookup"));
    return new IndexJoin(join, probe, side, condition, how, asof.probe, needed)
        .plan(answer, lookup);
  }

  private Map ask(Map question) throws Exception {
    String answer = (String) driver.apply(JSON.writeValueAsString(question));
    return (Map) JSON.readValue(answer, Map.class);
  }

  /**
   * Replaces scans below filters and projections by scans of fewer columns and rows.
   * {@code readsNow}: whether a few rows may be read now, so that the plan has no scan.
   */
  private LogicalPlan scans(LogicalPlan plan, boolean readsNow) {
    List filters = new ArrayList();
    LogicalPlan leaf = plan instanceof Project ? (LogicalPlan) ((Project) plan).child() : plan;
    while (leaf instanceof Filter) {
      filters.add(leaf);
      leaf = (LogicalPlan) ((Filter) leaf).child();
    }
    if (Trees.isNimbleScan(leaf)) {
      if (leaf.getTagValue(decided).isDefined()) return plan;
      try {
        return scan((DataSourceV2ScanRelation) leaf, filters, plan, readsNow);
      } catch (Throwable failure) {
        remember(failure);
        leaf.setTagValue(decided, Boolean.TRUE);
        return plan;
      }
    }
    LogicalPlan[] children = Trees.children(plan);
    boolean changed = false;
    for (int i = 0; i < children.length; i++) {
      if (!Trees.hasNimbleScan(children[i])) continue;
      LogicalPlan child = scans(children[i], readsNow);
      changed |= child != children[i];
      children[i] = child;
    }
    return changed ? (LogicalPlan) plan.withNewChildren(Trees.seq(children)) : plan;
  }

  private LogicalPlan scan(
      DataSourceV2ScanRelation scan, List filters, LogicalPlan plan, boolean readsNow)
      throws Exception {
    Set needed = null;
    if (plan instanceof Project) {
      needed = new HashSet();
      for (Object column : Trees.list(((Project) plan).projectList())) {
        Trees.addReferences((Expression) column, needed);
      }
    }
    List pushed = new ArrayList();
    for (Object item : filters) {
      Expression condition = (Expression) ((Filter) item).condition();
      if (needed != null) Trees.addReferences(condition, needed);
      List described = Scans.describe(condition);
      if (described != null) pushed.add(described);
    }
    List columns = Scans.columns(scan, needed);
    scan.setTagValue(decided, Boolean.TRUE);
    if (pushed.isEmpty() && columns.size() == Trees.list(scan.output()).size()) return plan;
    Map question = new HashMap();
    question.put("options", scan.relation().options().asCaseSensitiveMap());
    question.put("filters", pushed);
    question.put("reads_now", Boolean.valueOf(readsNow));
    List described = new ArrayList();
    for (Object column : columns) described.add(describe((AttributeReference) column));
    question.put("columns", described);
    Map answer = ask(question);
    String action = (String) answer.get("action");
    LogicalPlan leaf;
    if (action.equals("scan")) {
      leaf = Scans.withSource(scan, columns, (byte[]) offered(answer.get("source")));
      leaf.setTagValue(decided, Boolean.TRUE);
    } else if (action.equals("rows")) {
      leaf = renamed((LogicalPlan) offered(answer.get("rows")), columns);
    } else {
      return plan;
    }
    for (int i = filters.size() - 1; i >= 0; i--) {
      leaf = new Filter((Expression) ((Filter) filters.get(i)).condition(), leaf);
    }
    if (plan instanceof Project) {
      leaf = new Project((scala.collection.immutable.Seq) ((Project) plan).projectList(), leaf);
    }
    if (!action.equals("rows")) return leaf;
    // Spark evaluates projections and filters of local rows now, so that they need no job. Its rule
    // converts one operator at a time.
    try {
      for (int i = 0; i < filters.size() + 2; i++) {
        leaf = (LogicalPlan) ConvertToLocalRelation$.MODULE$.apply(leaf);
      }
    } catch (Exception failure) {
      return plan;  // such as a division by zero, which the query raises when it runs
    }
    return leaf;
  }

  /** The plan with the names and ids of other columns. */
  private static LogicalPlan renamed(LogicalPlan plan, List columns) {
    List renamed = new ArrayList();
    List output = Trees.list(plan.output());
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      renamed.add(Trees.alias((Expression) output.get(i), column.name(), column.exprId()));
    }
    return new Project(Trees.seq(renamed), plan);
  }

  private static Map describe(AttributeReference column) {
    Map described = new HashMap();
    described.put("name", column.name());
    described.put("type", column.dataType().json());
    return described;
  }

  private static boolean hasHint(Join join) {
    scala.Option left = join.hint().leftHint();
    scala.Option right = join.hint().rightHint();
    return (left.isDefined() && ((HintInfo) left.get()).strategy().isDefined())
        || (right.isDefined() && ((HintInfo) right.get()).strategy().isDefined());
  }

  private static LogicalPlan withBroadcast(Join join, boolean left) {
    scala.Option hint =
        scala.Option.apply(new HintInfo(scala.Option.apply(BROADCAST$.MODULE$)));
    JoinHint hints =
        left ? new JoinHint(hint, join.hint().rightHint())
            : new JoinHint(join.hint().leftHint(), hint);
    return new Join(
        (LogicalPlan) join.left(), (LogicalPlan) join.right(), join.joinType(), join.condition(),
        hints);
  }

  private static void describe(
      Map question, LogicalPlan probe, BuildSide side, Condition condition, String how,
      Set needed, String setting) {
    question.put("setting", setting);
    List columns = new ArrayList();
    for (Object item : Trees.list(side.scan.output())) {
      columns.add(describe((AttributeReference) item));
    }
    question.put("columns", columns);
    Set used = new HashSet();
    if (how.equals("inner") || how.equals("left")) {
      for (Object entry : side.output.entrySet()) {
        Object id = ((Map.Entry) entry).getKey();
        if (needed != null && !needed.contains(id)) continue;
        Trees.addReferences((Expression) ((Map.Entry) entry).getValue(), used);
      }
    }
    question.put("needed", side.names(used));
    condition.describe(side, question);
    Statistics statistics = probe.stats();
    List scans = new ArrayList();
    Map size = new HashMap();
    size.put("bytes", statistics.sizeInBytes().toString());
    size.put(
        "rows",
        statistics.rowCount().isDefined() ? statistics.rowCount().get().toString() : null);
    size.put("row_bytes", Long.valueOf(Trees.rowBytes(probe)));
    size.put("leaf_rows", Long.toString(largestLeafRows(probe, scans)));
    size.put("scans", scans);
    question.put("probe", size);
  }

  /**
   * Rows of the largest leaf: without statistics, Spark multiplies the sizes of joined sides. Adds
   * the options of nimble scans, whose rows Spark does not know, to {@code scans}.
   */
  private static long largestLeafRows(LogicalPlan plan, List scans) {
    if (Trees.isNimbleScan(plan)) {
      scans.add(((DataSourceV2ScanRelation) plan).relation().options().asCaseSensitiveMap());
      return 0;
    }
    LogicalPlan[] children = Trees.children(plan);
    Statistics statistics = children.length == 0 || plan.maxRows().isDefined() ? plan.stats() : null;
    if (statistics != null && statistics.rowCount().isDefined()) {
      scala.math.BigInt rows = (scala.math.BigInt) statistics.rowCount().get();
      return rows.isValidLong() ? rows.toLong() : Long.MAX_VALUE;
    }
    if (children.length == 0) {
      scala.math.BigInt bytes = statistics.sizeInBytes();
      return bytes.isValidLong() ? bytes.toLong() / Trees.rowBytes(plan) : Long.MAX_VALUE;
    }
    long most = 0;
    for (int i = 0; i < children.length; i++) {
      most = Math.max(most, largestLeafRows(children[i], scans));
    }
    return most;
  }

  private void decide(Map question, boolean converted, String reason, Map answer) {
    List decisions = (List) explained.get();
    if (decisions == null) return;
    Map decision = new HashMap();
    decision.put("how", question.get("how"));
    decision.put("options", question.get("options"));
    decision.put("converted", Boolean.valueOf(converted));
    decision.put("reason", reason);
    decision.put("estimate", answer == null ? null : answer.get("estimate"));
    decisions.add(decision);
  }
}
