"""Spark's optimizer turns plain joins into lookups if that is exact and costs less."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
from dataset_files import make_dataset

import nimblepy.spark as ns
from nimblepy.spark.optimizer import join_decision
from nimblepy.spark.optimizer import rule as installing
from nimblepy.spark.optimizer.rule import installed_rule

NAN = float("nan")
SETTING = "spark.nimblepy.indexJoin"
Check = Callable[..., Any]


@pytest.fixture(scope="module")
def optimized(spark: Any) -> Iterator[Any]:
    before = spark._jsparkSession.experimental().extraOptimizations().size()
    ns.register(spark)
    ns.register(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == before + 1
    yield spark
    spark.conf.unset(SETTING)
    assert installed_rule(spark).failures() == 0
    ns.register(spark, optimizer=False)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("optimizer")


@pytest.fixture(scope="module")
def views(optimized: Any, folder: Path) -> Any:
    """Views: ``dim`` and ``keyed`` of nimble files, ``facts`` of rows in memory."""
    rows = [
        (i // 2 if i % 7 else None, i % 5 if i % 11 else None, f"t{i % 6}", i, i / 2)
        for i in range(60)
    ]
    columns = list(zip(*rows, strict=True))
    dim = pa.table(
        {
            "k": pa.array(columns[0], pa.int64()),
            "g": pa.array(columns[1], pa.int32()),
            "t": columns[2],
            "v": pa.array(columns[3], pa.int64()),
            "x": columns[4],
        }
    )
    nb.write(dim, folder / "dim.nimble", cluster_by="k", indexes=[nb.HashIndex(["t", "g"])])
    make_dataset(folder / "keyed", [dim.slice(0, 30), dim.slice(30)], ["g", "k", "v"])
    facts = pa.table(
        {
            "fk": pa.array([None if i % 9 == 8 else i * 2 % 41 for i in range(45)], pa.int32()),
            "fg": pa.array([None if i % 10 == 9 else i % 6 for i in range(45)], pa.int64()),
            "ft": [f"t{i % 8}" for i in range(45)],
            "a": pa.array(range(45), pa.int64()),
        }
    )
    for name, path in (("dim", "dim.nimble"), ("keyed", "keyed")):
        frame = optimized.read.format("nimble").load(str(folder / path))
        frame.createOrReplaceTempView(name)
    optimized.createDataFrame(facts).coalesce(1).createOrReplaceTempView("facts")
    return optimized


@pytest.fixture
def check(views: Any, rows: Any) -> Check:
    """Runs a query with the rule and without it, and checks whether its joins were converted.

    Returns the physical plan with the rule.
    """

    def compare(query: Any, *converted: bool) -> Any:
        frame = views.sql(query) if isinstance(query, str) else query
        views.conf.set(SETTING, "always")
        decisions = ns.explain_join(frame)
        assert [decision.converted for decision in decisions] == list(converted), decisions
        fresh = frame.select("*")
        by_rule = rows(fresh)
        plan = fresh._jdf.queryExecution()
        for text in (plan.optimizedPlan().toString(), plan.executedPlan().toString()):
            assert ("nimble_index_join" in text) == any(converted)
        views.conf.set(SETTING, "off")
        assert rows(frame.select("*")) == by_rule
        return text

    return compare


CONVERTED = {
    "inner": "SELECT * FROM facts JOIN dim ON fk = k",
    "files on the left": "SELECT * FROM dim JOIN facts ON fk = k",
    "left": "SELECT * FROM facts LEFT JOIN dim ON fk = k",
    "left, some columns": "SELECT a, t FROM facts LEFT JOIN dim ON fk = k",
    "left, no columns": "SELECT a FROM facts LEFT JOIN dim ON fk = k",
    "right": "SELECT * FROM dim RIGHT JOIN facts ON fk = k",
    "semi": "SELECT * FROM facts LEFT SEMI JOIN dim ON fk = k",
    "anti": "SELECT * FROM facts LEFT ANTI JOIN dim ON fk = k",
    "in": "SELECT * FROM facts WHERE fk IN (SELECT k FROM dim WHERE v > 20)",
    "exists or": "SELECT a FROM facts WHERE EXISTS (SELECT 1 FROM dim WHERE k = fk) OR a = 3",
    "cross join": "SELECT a, v FROM facts CROSS JOIN dim WHERE fk = k",
    "lateral": "SELECT a, v FROM facts, LATERAL (SELECT v FROM dim WHERE k = fk)",
    "null-safe": "SELECT * FROM facts LEFT JOIN dim ON fk <=> k",
    "both kinds of equality": "SELECT * FROM facts JOIN keyed ON fk <=> k AND fg = g",
    "null-safe anti": "SELECT * FROM facts LEFT ANTI JOIN dim ON k <=> fk",
    "expression": "SELECT * FROM facts JOIN dim ON k = fk % 7 + 1L",
    "hash index": "SELECT * FROM facts JOIN dim ON t = ft AND g = fg",
    "prefix": "SELECT * FROM facts LEFT JOIN keyed ON g = fg",
    "prefix in another order": "SELECT * FROM facts LEFT JOIN keyed ON k = fk AND g = fg",
    "constant in the key": "SELECT * FROM facts JOIN keyed ON g = 3 AND fk = k",
    "constant in a filter": "SELECT * FROM facts JOIN keyed ON fk = k WHERE g = 3",
    "range": "SELECT * FROM facts JOIN keyed ON g = fg AND k = fk AND v BETWEEN a - 9 AND a",
    "open range": "SELECT * FROM facts LEFT JOIN keyed ON g = fg AND k > fk",
    "strict range": "SELECT * FROM facts LEFT ANTI JOIN keyed ON g = fg AND k < fk AND k > fk - 3L",
    "residual of an inner join": "SELECT * FROM facts JOIN dim ON fk = k AND (x > a OR g IS NULL)",
    "residual of a left join": "SELECT * FROM facts LEFT JOIN dim ON fk = k AND x > a AND a > 3",
    "residual of a semi join": "SELECT * FROM facts LEFT SEMI JOIN dim ON fk = k AND x > a",
    "residual of an anti join": "SELECT * FROM facts LEFT ANTI JOIN dim ON fk = k AND g = fg + 1",
    "residual of the probe": "SELECT * FROM facts LEFT ANTI JOIN dim ON fk = k AND a > 7",
    "filtered files": "SELECT * FROM facts LEFT JOIN (SELECT * FROM dim WHERE x > 9) ON fk = k",
    "projected files": """SELECT * FROM facts LEFT JOIN (
        SELECT k + 0 AS same, k, 1 AS one, coalesce(g, 0) AS c, isnull(g) AS i FROM dim)
        ON fk = k""",
    "count": "SELECT count(*) FROM facts JOIN dim ON fk = k",
    "aggregate": "SELECT t, sum(a) FROM facts LEFT JOIN dim ON fk = k GROUP BY t",
    "constant of the probe": "SELECT a FROM facts JOIN keyed ON g = a AND k = 3",
}  # fmt: skip
KEPT = {
    "full": "SELECT * FROM facts FULL JOIN dim ON fk = k",
    "left with the files left": "SELECT * FROM dim LEFT JOIN facts ON fk = k",
    "right with the files right": "SELECT * FROM facts RIGHT JOIN dim ON fk = k",
    "semi with the files left": "SELECT * FROM dim LEFT SEMI JOIN facts ON fk = k",
    "not in": "SELECT * FROM facts WHERE fk NOT IN (SELECT k FROM dim WHERE v < 20)",
    "no equality": "SELECT * FROM facts JOIN dim ON fk < k AND a = 3",
    "no index": "SELECT * FROM facts JOIN dim ON a = v",
    "only constants": "SELECT * FROM facts JOIN keyed ON g = 3",
    "floats": "SELECT * FROM facts JOIN dim ON x = a",
    "text against a number": "SELECT * FROM facts JOIN dim ON try_cast(t AS INT) = fk",
    "decimals of another scale": "SELECT * FROM facts JOIN dim ON k = fk * 1.0BD",
    "broadcast hint": "SELECT /*+ BROADCAST(dim) */ * FROM facts JOIN dim ON fk = k",
    "merge hint": "SELECT /*+ MERGE(facts) */ * FROM facts JOIN dim ON fk = k",
    "aggregated files": "SELECT * FROM facts JOIN (SELECT k FROM dim GROUP BY k) d ON fk = k",
    "limited files": "SELECT * FROM facts JOIN (SELECT k FROM dim ORDER BY v LIMIT 9) ON fk = k",
    "distinct files": "SELECT * FROM facts JOIN (SELECT DISTINCT k FROM dim) ON fk = k",
    "random": "SELECT a FROM facts JOIN (SELECT * FROM dim WHERE rand(3) < 0.9) ON fk = k",
    "subquery": "SELECT * FROM facts JOIN dim ON fk = k AND v > (SELECT min(a) FROM facts)",
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERTED)
def test_join_becomes_a_lookup(check: Check, name: str) -> None:
    assert "BatchScan" not in check(CONVERTED[name], True)  # the files are not scanned


@pytest.mark.parametrize("name", KEPT)
def test_join_that_an_index_cannot_answer_is_kept(check: Check, name: str) -> None:
    check(KEPT[name], False)


def test_several_joins_of_a_query(check: Check) -> None:
    check("SELECT * FROM dim a JOIN dim b ON a.k = b.v", True)
    check(
        "WITH c AS (SELECT * FROM dim WHERE v > 3) SELECT f.a, x.v, y.v, z.v FROM facts f "
        "JOIN c x ON f.fk = x.k LEFT JOIN c y ON y.k = f.a LEFT JOIN keyed z USING (g)",
        *(True, True, True),
    )


def test_names_that_both_sides_have(views: Any, check: Check) -> None:
    facts = views.table("facts").selectExpr("fk AS k", "a AS v", "a AS `v.w`")
    check(facts.join(views.table("dim"), "k", "left"), True)
    check("SELECT * FROM (SELECT CAST(fk AS BIGINT) AS k, a FROM facts) NATURAL JOIN dim", True)


def test_adaptive_execution_and_python_functions(views: Any, check: Check) -> None:
    views.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        check("SELECT t, count(*) FROM facts JOIN dim ON fk = k GROUP BY t", True)
    finally:
        views.conf.set("spark.sql.adaptive.enabled", "false")
    from pyspark.sql import functions as F

    plus = F.udf(lambda value: None if value is None else value + 1, "bigint")
    facts, dim = views.table("facts"), views.table("dim")
    check(facts.join(dim, plus("fk") == dim.k), True)
    check(facts.join(dim, (facts.fk == dim.k) & (plus("v") > facts.a)), False)


def test_options_and_schemas_of_a_read(views: Any, check: Check, folder: Path) -> None:
    facts, path = views.table("facts"), str(folder / "dim.nimble")
    reader = views.read.format("nimble").option("columns", "k, v, t").option("filter", "v > 9")
    dim = reader.load(path)
    check(facts.join(dim, facts.fk == dim.k, "left"), True)
    schemas = (
        ("k bigint, t string", True),
        ("k bigint, v string", False),
        ("K bigint, t string", False),
    )
    for schema, converted in schemas:
        typed = views.read.format("nimble").schema(schema).load(path)
        views.conf.set(SETTING, "always")
        joined = facts.join(typed, facts.fk == typed[typed.columns[0]]).select("a")
        assert [d.converted for d in ns.explain_join(joined)] == [converted]
    scanned = ns.scan(views, path, columns=["k", "v"])
    check(facts.join(scanned, facts.fk == scanned.k), True)


def test_scan_strategy_stays_sparks_own_join(views: Any, folder: Path) -> None:
    facts = views.table("facts").withColumnRenamed("fk", "k")
    views.conf.set(SETTING, "always")
    joined = ns.index_join(facts, str(folder / "dim.nimble"), on="k", strategy="scan")
    (decision,) = ns.explain_join(joined)
    assert not decision.converted
    assert "strategy" in decision.reason


def test_tables_and_their_snapshots(views: Any, check: Check, tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake")
    data = pa.table({"id": range(30), "day": [i % 3 for i in range(30)], "v": range(30)})
    table = lake.create_table("a.t", data, primary_key="id", partition_by=["day"])
    table.tag("first")
    named = {"catalog": str(tmp_path / "lake"), "table": "a.t"}
    facts = views.table("facts")

    def joined(**options: str) -> Any:
        dim = views.read.format("nimble").options(**named, **options).load()
        return facts.join(dim, facts.a == dim.id, "left").select("a", "v")

    newest = joined()
    check(newest, True)
    table.upsert(pa.table({"id": [1, 40], "day": [0, 0], "v": [-1, -40]}))
    table.delete("id = 2")
    check(joined(), True)
    views.conf.set(SETTING, "always")
    values = dict(tuple(row) for row in newest.select("*").collect())
    assert [values[i] for i in (1, 2, 3, 40)] == [-1, None, 3, -40]
    values = dict(tuple(row) for row in joined(tag="first").collect())
    assert [values[i] for i in (1, 2, 3, 40)] == [1, 2, 3, None]
    check(joined(since="beginning").select("a"), False)
    views.conf.set(SETTING, "off")
    (tmp_path / "lake").rename(tmp_path / "moved")
    named["catalog"] = str(tmp_path / "moved")
    check(joined(), True)


def test_streams_join_files_in_each_batch(views: Any, tmp_path: Path, folder: Path) -> None:
    views.conf.set(SETTING, "always")
    for start in (0, 40):
        rows = views.range(start, start + 40).selectExpr("id AS fk")
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    reader = views.readStream.schema("fk bigint").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in"))
    dim = views.table("dim")
    joined = stream.join(dim, stream.fk == dim.k, "left").select("fk", "v")
    query = joined.writeStream.format("memory").queryName("joined_stream").start()
    try:
        query.processAllAvailable()
        ids = views.range(80)
        batch = ids.join(dim, dim.k == ids.id, "left").select("id", "v")
        key = functools.partial(sorted, key=repr)
        got = key(map(tuple, views.table("joined_stream").collect()))
        assert got == key(map(tuple, batch.collect()))
        assert "nimble_index_join" in query._jsq.explainInternal(True)
    finally:
        query.stop()


@pytest.fixture(scope="module")
def events(optimized: Any, folder: Path) -> Any:
    """A frame of 40,000 rows of many types; more than the driver reads itself."""
    n = 40_000
    day = dt.date(2024, 1, 1)
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    table = pa.table(
        {
            "k": pa.array(range(n), pa.int32()),
            "v": pa.array([None if i % 50 == 7 else i % 1000 for i in range(n)], pa.int16()),
            "u": pa.array([i % 300 for i in range(n)], pa.uint32()),
            "s": [f"s{i % 90:02}" for i in range(n)],
            "day": [day + dt.timedelta(days=i // 1000) for i in range(n)],
            "at": pa.array(
                [at + dt.timedelta(minutes=i) for i in range(n)], pa.timestamp("ms", "UTC")
            ),
            "local": pa.array([at.replace(tzinfo=None)] * n, pa.timestamp("us")),
            "price": pa.array(
                [decimal.Decimal(i % 400) / 4 for i in range(n)], pa.decimal128(9, 2)
            ),
            "x": [NAN if i % 9 == 0 else i / 4 for i in range(n)],
        }
    )
    options = nb.WriteOptions(stripe_rows=5_000, zone_rows=500)
    nb.write(table, folder / "events.nimble", cluster_by="k", options=options)
    return optimized.read.format("nimble").load(str(folder / "events.nimble"))


FILTERS = (
    "k = 7",
    "k IN (3, 5, 70000) AND v < 9",
    "9 > k",
    "k > 20000 AND (v = 3 OR v IS NULL)",
    "k BETWEEN 30000 AND 39000 AND x > 0",
    "u >= 299 AND s LIKE 's0%'",
    "day = DATE '2024-01-20' AND s <> 's07'",
    "at < TIMESTAMP '2024-01-01 12:00:00' AND local IS NOT NULL",
    "price <=> 2.25 AND k < 9000",
    "v > 500 AND size(split(s, 's')) = 2",
    "x = double('NaN') AND k < 99",
    "s IN ('s01', 's02', 's03', 's04', 's05', 's06', 's07', 's08', 's09', 's10', 's11')",
    "local = TIMESTAMP_NTZ '2024-01-01 00:00:00' AND k % 9999 = 1",
    "k < -5",
)


def test_scans_read_what_the_query_needs(optimized: Any, events: Any, rows: Any) -> None:
    def counted() -> Any:
        frames = [
            events.where(text).selectExpr(f"{i} AS filter", "k", "s", "v + 1 AS w")
            for i, text in enumerate(FILTERS)
        ]
        return functools.reduce(lambda a, b: a.unionAll(b), frames)

    optimized.conf.set(SETTING, "auto")
    united = counted()
    got = rows(united)
    plan = united._jdf.queryExecution().optimizedPlan().toString()
    assert "LocalRelation" in plan  # few rows are read by the driver
    assert len(got) > 1000
    optimized.conf.set(SETTING, "off")
    assert got == rows(counted())
    assert installed_rule(optimized).failures() == 0, installed_rule(optimized).lastFailure()


def test_errors_of_few_rows_are_raised_by_the_query(optimized: Any, events: Any) -> None:
    optimized.conf.set(SETTING, "auto")
    before = installed_rule(optimized).failures()
    for frame in (
        events.where("k = 8").selectExpr("1 / (v - 8) AS inverse"),
        events.where("k = 8 AND 1 / (v - 8) > 1"),
    ):
        frame._jdf.queryExecution().executedPlan()
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            frame.collect()
    assert installed_rule(optimized).failures() == before


def test_scans_of_few_columns(optimized: Any, events: Any) -> None:
    from pyspark.sql import functions as F

    optimized.conf.set(SETTING, "auto")

    def plan(frame: Any) -> str:
        return str(frame._jdf.queryExecution().executedPlan().toString())

    assert "BatchScan nimble[v" in plan(events.agg(F.sum("v")))
    assert events.agg(F.sum("v")).first()[0] == sum(i % 1000 for i in range(40_000) if i % 50 != 7)
    assert events.count() == 40_000
    point = events.where("k = 7").select("s")
    assert plan(point).startswith("LocalTableScan")
    assert point.collect() == [("s07",)]
    assert "LocalTableScan" in plan(events.where("k < 3000").select("s"))
    assert plan(events) == plan(events.select("*"))
    optimized.conf.set(SETTING, "off")
    assert "LocalTableScan" not in plan(events.where("k = 8"))


def test_cost_decides_and_says_so(views: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    views.conf.set(SETTING, "auto")
    few = views.sql("SELECT * FROM facts JOIN dim ON fk = k")
    (decision,) = ns.explain_join(few)
    assert decision.converted
    assert decision.estimate.strategy == "index"
    assert "through the index" in str(decision)
    assert "sort-merge" in str(ns.explain_join(few))
    dim = views.table("dim")
    many = views.range(5_000_000)
    joined = many.join(dim, many.id == dim.k)
    (decision,) = ns.explain_join(joined)
    assert not decision.converted
    assert decision.estimate.broadcasts_files
    assert "the files are small" in decision.reason
    assert "BroadcastHashJoin" in joined._jdf.queryExecution().executedPlan().toString()
    assert str(ns.explain_join(many)) == "no join with nimble files"
    (decision,) = ns.explain_join(views.sql("SELECT * FROM keyed f JOIN dim ON f.v = dim.k"))
    assert decision.estimate.probe_rows == 60  # Spark does not know it
    views.conf.set(SETTING, "always")
    by_prefix = views.sql("SELECT * FROM facts JOIN keyed ON fg = g")
    assert [d.converted for d in ns.explain_join(by_prefix)] == [True]
    monkeypatch.setattr(join_decision, "MOST_ROWS_OF_KEY", 3)
    (decision,) = ns.explain_join(by_prefix)
    assert not decision.converted
    assert "rows, too many for one array" in decision.reason
    exists = views.sql("SELECT * FROM facts LEFT SEMI JOIN keyed ON fg = g")
    assert [d.converted for d in ns.explain_join(exists)] == [True]
    with pytest.raises(nb.InvalidArgumentError, match="need a path"):
        ns.explain_join(many, on="k")


def test_filters_that_differ_in_the_middle(views: Any, tmp_path: Path) -> None:
    """The text of a pyarrow expression leaves out the middle of a long list."""
    keys = range(100_000)
    rows = pa.table({"k": keys, "v": [key * 7919 % 100_000 for key in keys]})
    nb.write(rows, tmp_path / "f.nimble", cluster_by="k")
    views.conf.set(SETTING, "always")
    probe = views.range(100_000).withColumnRenamed("id", "k")
    lists = [[*range(50), *range(at, at + 30), *range(80, 100)] for at in (50, 500)]
    for values in lists:
        wanted = ns.scan(views, tmp_path / "f.nimble", filter=pc.field("v").isin(values))
        joined = probe.join(wanted, "k")
        assert [d.converted for d in ns.explain_join(joined)] == [True]
        assert sorted(row.v for row in joined.collect()) == sorted(values)


def test_a_key_with_most_of_the_rows(
    views: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average of a key is small, but all rows of one key would be in one array."""
    keys = [*range(400), *[400] * 100, *range(401, 800)]
    nb.write(pa.table({"g": keys, "n": range(len(keys))}), tmp_path / "h.nimble", cluster_by="g")
    views.read.format("nimble").load(str(tmp_path / "h.nimble")).createOrReplaceTempView("heavy")
    views.conf.set(SETTING, "always")
    joined = views.sql("SELECT * FROM facts JOIN heavy ON fk = g")
    (decision,) = ns.explain_join(joined)
    assert decision.converted
    assert decision.estimate.matches < 2
    assert decision.estimate.most_matches == 100
    monkeypatch.setattr(join_decision, "MOST_ROWS_OF_KEY", 99)
    (decision,) = ns.explain_join(joined)
    assert not decision.converted
    assert "about 100 rows" in decision.reason


def test_failures_leave_the_plan_as_it_was(
    views: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(question: object) -> None:
        raise RuntimeError("no answer")

    views.conf.set(SETTING, "always")
    monkeypatch.setattr(installing, "decide_join", fail)
    frame = views.sql("SELECT a, v FROM facts JOIN dim ON fk = k")
    (decision,) = ns.explain_join(frame)
    assert not decision.converted
    assert decision.reason == "RuntimeError: no answer"
    assert len(frame.collect()) > 20


def test_registering_never_fails(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = spark.newSession()
    assert installed_rule(session) is None  # rules belong to a session
    ns.register(session, optimizer=False)
    with pytest.raises(nb.InvalidArgumentError, match="not installed"):
        ns.explain_join(session.range(1))
    monkeypatch.setattr(installing, "_compiled", {})
    monkeypatch.setattr(installing, "_source_text", lambda: "class Broken {")
    monkeypatch.setattr(installing, "_warned", False)
    with caplog.at_level(logging.WARNING, "nimblepy"):
        ns.register(session)
        ns.register(session)
    assert installed_rule(session) is None
    assert len(caplog.records) == 1
    assert "joins are not optimized" in caplog.text


def test_rules_of_the_user_stay(spark: Any) -> None:
    session = spark.newSession()
    rules = session._jvm.org.apache.spark.sql.catalyst.optimizer
    rule = getattr(getattr(rules, "ColumnPruning$"), "MODULE$")
    methods = session._jsparkSession.experimental()
    held = session._jvm.java.util.ArrayList()
    held.add(rule)
    to_seq = session._jvm.org.apache.spark.api.python.PythonUtils.toSeq
    getattr(methods, "extraOptimizations_$eq")(to_seq(held))
    ns.register(session)
    assert methods.extraOptimizations().size() == 2
    assert methods.extraOptimizations().apply(0).ruleName() == rule.ruleName()
    ns.register(session, optimizer=False)
    assert methods.extraOptimizations().size() == 1
