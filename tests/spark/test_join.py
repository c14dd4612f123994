"""The index join's engines, conditions, plans, choices and SQL; results: test_join_property.py."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
from dataset_files import make_dataset

import nimblepy.spark as ns

HOWS = ("inner", "left", "semi", "anti")
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda i: i - 5),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda i: dt.datetime(2024, 3, 31, i % 24, i, tzinfo=dt.UTC),
    ),
}


def side(kind: str, n: int, seed: int, value: str) -> pa.Table:
    """Keys with nulls and duplicates, half of which the other side has."""
    data_type, make = VALUES[kind]
    rng = np.random.default_rng(seed)
    keys = [None if rng.random() < 0.1 else make(int(rng.integers(0, 30))) for _ in range(n)]
    columns = {"k": pa.array(keys, data_type), value: pa.array(range(n), pa.int64())}
    columns[f"{value}2"] = pa.array(rng.integers(0, 10, n), mask=rng.random(n) < 0.2)
    return pa.table(columns)


def frame(spark: Any, table: pa.Table, parts: int = 2) -> Any:
    return spark.createDataFrame(table).repartition(parts)


def together(named: dict[Any, Any]) -> Any:
    """Several results as one, each row with the name of its own: one job for all of them."""
    from pyspark.sql import functions as F

    tagged = [result.withColumn("of", F.lit(str(name))) for name, result in named.items()]
    return functools.reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)


def every_how(probe: Any, path: str, **arguments: Any) -> Any:
    return together({how: ns.index_join(probe, path, how=how, **arguments) for how in HOWS})


def test_engines_agree(spark: Any, rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(side("timestamp", 60, 1, "v"), path, cluster_by="k")
    probe = frame(spark, side("timestamp", 80, 2, "p"))
    arguments: dict[str, Any] = {"on": "k", "condition": "v2 > p2"}
    want = rows(every_how(probe, path, **arguments))
    assert rows(every_how(probe, path, engine="rdd", **arguments)) == want


def test_join_with_residual_conditions_is_sparks_own(spark: Any, rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(side("int", 90, 1, "v"), path, cluster_by=["k", "v2"])
    probe = frame(spark, side("int", 80, 2, "p"))
    between = {"v2": ("p2", "p")}
    for extra in ({"condition": "v2 < p2 AND v > 3"}, {"between": between}):
        own = rows(every_how(probe, path, on="k", strategy="scan", **extra))
        assert rows(every_how(probe, path, on="k", **extra)) == own
    expression = pc.field("v2") < pc.field("p2")
    text = rows(ns.index_join(probe, path, on="k", condition="v2 < p2"))
    assert rows(ns.index_join(probe, path, on="k", condition=expression)) == text


def test_join_on_composite_and_prefix_keys_of_many_files(
    spark: Any, rows: Any, tmp_path: Path
) -> None:
    table = pa.table({"a": [i // 4 for i in range(40)], "b": [f"b{i % 4}" for i in range(40)]})
    table = table.append_column("v", pa.array(range(40)))
    directory = str(tmp_path / "d")
    make_dataset(directory, [table.slice(i, 8) for i in range(0, 40, 8)], ["a", "b"])
    probe = frame(spark, pa.table({"x": [3, 3, 9, 77], "y": ["b1", "zz", "b0", "b0"]}), 2)
    for on in ({"x": "a", "y": "b"}, {"x": "a"}):
        own = rows(every_how(probe, directory, on=on, strategy="scan"))
        assert rows(every_how(probe, directory, on=on)) == own


def test_lookup_runs_once(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": range(100), "v": range(100)}), path, cluster_by="k")
    probe = spark.range(50).selectExpr("id AS k", "id AS p", "id AS unused")
    for how in HOWS:
        joined = ns.index_join(probe, path, on="k", how=how)
        if how in ("inner", "left"):
            joined = joined.filter("v > 2 AND p < 40").select("k", "v")
        plan = joined._jdf.queryExecution().executedPlan().toString()
        assert plan.count("nimble_") - plan.count("pythonUDF") <= plan.count("ArrowEvalPython")
        assert plan.count("ArrowEvalPython ") + plan.count("ArrowEvalPython[") == 1, plan
        assert "Exchange" not in plan


def test_rows_of_a_columnar_scan_come_one_by_one(spark: Any, tmp_path: Path) -> None:
    # Spark 4.3 takes columns from a scan right below an Arrow UDF, which costs it more.
    path, parquet = str(tmp_path / "dim.nimble"), str(tmp_path / "fact.parquet")
    nb.write(pa.table({"k": [1, 2], "v": [1, 2]}), path, cluster_by="k")
    pq.write_table(pa.table({"k": [1, None]}), parquet)
    probe = spark.read.parquet(parquet)
    for how in HOWS:
        for null_equals in (False, True):
            joined = ns.index_join(probe, path, on="k", how=how, null_equals=null_equals)
            plan = joined._jdf.queryExecution().executedPlan().toString()
            lookup, *below = plan[plan.index("ArrowEvalPython") :].splitlines()
            assert "nimble" in lookup
            assert "Filter" in below[0], plan


def test_names_that_clash_are_listed(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1], "v": [1], "w": [1]}), path, cluster_by="k")
    probe = frame(spark, pa.table({"k": [1], "v": [2], "w": [3]}), 1)
    for strategy in ("index", "scan"):
        with pytest.raises(nb.InvalidArgumentError, match="'v', 'w' would be"):
            ns.index_join(probe, path, on="k", strategy=strategy)
        joined = ns.index_join(
            probe, path, on="k", prefix="d_", condition="d_v < v", strategy=strategy
        )
        assert joined.columns == ["k", "v", "w", "d_v", "d_w"]
        assert [tuple(row) for row in joined.collect()] == [(1, 2, 3, 1, 1)]


def test_what_cannot_be_meant_is_refused(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 2], "v": [1, 2]}), path, cluster_by="k")
    probe = frame(spark, pa.table({"k": [1, 9], "t": ["1", "9"]}), 1)
    refused = {
        "strategy": {"on": "k", "how": "right"},
        "expected one of arrow": {"on": "k", "engine": "pandas"},
        "expected one of index": {"on": "k", "strategy": "guess"},
        "cannot be compared": {"on": {"t": "k"}},
        "no column 'q'": {"on": {"q": "k"}},
        "unknown column 'q'": {"on": "k", "columns": ["q"]},
        "SQL text": {"on": "k", "condition": probe.k > 1},
    }
    for message, arguments in refused.items():
        with pytest.raises(nb.InvalidArgumentError, match=message):
            ns.index_join(probe, path, **arguments)
    with pytest.raises(nb.IndexUnavailableError, match="no index on"):
        ns.index_join(probe, path, on={"k": "v"}, columns=[])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ns.index_join(probe, str(tmp_path / "nowhere"), on="k")


def test_auto_takes_the_one_way_that_can(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 2], "v": [1, 2]}), path, cluster_by="k")
    probe = frame(spark, pa.table({"k": [1, 9]}), 1)

    def auto(**arguments: Any) -> Any:
        return ns.index_join(probe, path, strategy="auto", **{"on": "k", **arguments})

    full = {how: auto(how=how) for how in ("full", "outer", "right")}
    found = sorted(tuple(row) for row in together(full).fillna(-1).collect())
    rows = [(1, 1), (2, 2), (9, -1)]
    assert found == sorted(
        (*row, how) for how in full for row in rows if how != "right" or row[0] != 9
    )
    assert auto(on={"k": "v"}, columns=[]).columns == ["k"]  # without an index
    assert auto(condition=pc.field("v") > 1).columns == ["k", "v"]  # Spark could not evaluate it


def test_strategy_auto_and_its_reason(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    n = 200_000
    nb.write(pa.table({"k": np.arange(n), "v": np.arange(n)}), path, cluster_by="k")
    few, all_keys = (spark.range(m).withColumnRenamed("id", "k") for m in (10, 25 * n))
    estimate = ns.explain_join(few, path, on="k")
    assert (estimate.strategy, estimate.build_rows) == ("index", n)
    assert estimate.probe_rows is not None
    assert 5 <= estimate.probe_rows <= 10  # from bytes: Spark counts rows of few sources
    assert "fewer than a scan pays for" in str(estimate)
    assert ns.explain_join(all_keys, path, on="k").strategy == "scan"
    assert ns.explain_join(few, path, on="k", probe_rows=10 * n).strategy == "scan"
    without = ns.explain_join(few, path, on={"k": "v"})
    assert (without.strategy, without.index_seconds) == ("scan", None)
    assert "v" in without.reason
    assert "cluster by" in without.reason or "index" in without.reason
    assert ns.index_join(few, path, on="k", strategy="auto").count() == 10
    assert ns.index_join(all_keys, path, on="k", strategy="auto").count() == n


def test_statistics_or_the_index_say_how_many_rows_have_a_key(spark: Any, tmp_path: Path) -> None:
    n = 200_000
    more = {name: np.arange(n) for name in "vwxy"}
    data = pa.table({"k": np.repeat(np.arange(n // 100), 100), **more})
    table = nb.connect(tmp_path).create_table("a.b", data, cluster_by="k")
    probe = spark.range(n // 100).withColumnRenamed("id", "k")
    before = ns.explain_join(probe, table, on="k", probe_rows=n // 20)
    assert before.strategy == "scan"
    assert before.matches == pytest.approx(100)  # of some keys in the index
    assert ns.explain_join(probe, table, on={"k": "v"}).matches is None
    table.analyze()
    after = ns.explain_join(probe, table, on="k", probe_rows=n // 20)
    assert after.matches == 100  # 2,000 keys are counted exactly
    assert after.strategy == "scan"
    assert "100 of a key" in str(after)
    few = ns.explain_join(probe, table, on="k", probe_rows=10)
    assert few.strategy == "index"
    keyed = nb.connect(tmp_path).create_table("a.c", data.slice(0, 10), primary_key="v")
    assert ns.explain_join(probe, keyed, on={"k": "v"}).matches == 1


def test_rdd_join_gives_pairs(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]}), path, cluster_by="k")
    rdd = spark.sparkContext.parallelize([{"k": 1}, {"k": 5}, {"k": 2}], 2)
    left = ns.index_join_rdd(rdd, path, key="k", how="left", columns=["v"]).collect()
    assert left == [
        ({"k": 1}, {"v": "a"}), ({"k": 1}, {"v": "b"}), ({"k": 5}, None), ({"k": 2}, {"v": "c"})
    ]  # fmt: skip
    by_function = ns.index_join_rdd(rdd, path, key=lambda row: row["k"], how="anti").collect()
    assert by_function == [({"k": 5}, None)]
    assert ns.index_join_rdd(rdd, path, key="k").count() == 3


def test_sql_functions(spark: Any, rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]}), path, cluster_by="k")
    ns.register_lookup(spark, "dim", path)
    probe = spark.range(1, 4).withColumnRenamed("id", "k").selectExpr("k", "k * 2 AS p")
    probe.createOrReplaceTempView("fact")

    def sql(text: str) -> list[Any]:
        return rows(spark.sql(text))

    assert sql("SELECT f.k, d.v FROM fact f, LATERAL dim(f.k) d") == [(1, "a"), (1, "b"), (2, "c")]
    outer = "SELECT f.k, d.v FROM fact f, LATERAL dim_outer(f.k) d WHERE f.p > 2"
    assert sql(outer) == [(2, "c"), (3, None)]
    plan = spark.sql(outer)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython ") + plan.count("ArrowEvalPython[") == 1
    assert plan.index("ArrowEvalPython") < plan.index("Filter")  # the filter is below the lookup
    assert sql("SELECT k FROM fact WHERE NOT dim_exists(k)") == [(3,)]
    assert sql("SELECT k, size(dim_lookup(k)) FROM fact") == [(1, 2), (2, 1), (3, 0)]
    from pyspark.sql import functions as F

    lookup = ns.lookup_expr(path, "k", columns=["v"])
    assert rows(probe.select("k", F.inline_outer(lookup))) == sql(
        "SELECT f.k, d.v FROM fact f, LATERAL dim_outer(f.k) d"
    )
    with pytest.raises(nb.InvalidArgumentError, match="plain name"):
        ns.register_lookup(spark, "a b", path)


def test_many_matches_come_back_in_bounded_arrays() -> None:
    from nimblepy.spark.joins import tasks

    target = pa.schema([pa.field("v", pa.int64())])
    schema = pa.schema([pa.field(tasks._PROBE_ROW, pa.int64()), *target])
    counts = [3, 0, 500_000, 1, 0, 2]
    probes = np.repeat(np.arange(6), counts)
    joined = pa.table([pa.array(probes), pa.array(np.arange(len(probes)))], schema=schema)
    arrays = list(tasks._lists(joined.to_batches(50_000), 0, 6, target))
    assert sum(len(array) for array in arrays) == 6
    lists = [value for array in arrays for value in pc.list_value_length(array).to_pylist()]
    assert lists == counts
    assert len(arrays) > 1
    got = pa.concat_arrays([array.flatten() for array in arrays])
    assert got.field("v").to_pylist() == list(range(len(probes)))


def test_batches_of_any_size_are_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from nimblepy.input import tabular
    from nimblepy.spark.base.inputs import find_input
    from nimblepy.spark.joins import tasks
    from nimblepy.spark.joins.arguments import JoinArguments
    from nimblepy.spark.joins.index_join import prepare

    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 1, 2, 5], "v": [10, 11, 20, 50]}), path, cluster_by="k")
    probe = StructType([StructField("k", LongType())])
    join = prepare(probe, find_input(path), JoinArguments(on="k"))
    keys = [1, 7, None, 2, 5, 1, 9, 9, 2, 2, 3]
    want = [[10, 11], [], [], [20], [50], [10, 11], [], [], [20], [20], []]
    monkeypatch.setattr(tabular, "BATCH_ROWS", 3)  # the join cuts what it gets
    for size, gathered in ((11, 1), (4, 1), (4, 6), (1, 5), (1, 1)):
        monkeypatch.setattr(tasks, "LOOKUP_ROWS", gathered)
        batches = [(pa.array(keys[i : i + size], pa.int64()),) for i in range(0, 11, size)]
        arrays = list(tasks.lookup_arrays(join.spec)(batches))
        assert [[row["v"] for row in rows] for a in arrays for rows in a.to_pylist()] == want
        found = [hit for a in tasks.exists_arrays(join.spec)(batches) for hit in a.to_pylist()]
        assert found == [bool(rows) for rows in want]
    assert list(tasks.lookup_arrays(join.spec)([])) == []
