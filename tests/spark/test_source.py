"""The data source: types, columns, partitions, what is refused, and that reuse is safe."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
from dataset_files import make_dataset

import nimblepy.spark as ns
from nimblepy.spark.reading import splits
from nimblepy.spark.reading.scan import NimbleReader
from nimblepy.spark.reading.splits import ScanSpec, plan_parts

Rows = Any


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    path = str(tmp_path / "numbers.nimble")
    table = pa.table({"k": np.arange(1000), "v": [f"v{i}" for i in range(1000)]})
    nb.write(table, path, cluster_by="k", options=nb.WriteOptions(stripe_rows=100, zone_rows=50))
    return path


def load(spark: Any, path: Any, **options: str) -> Any:
    return spark.read.format("nimble").options(**options).load(path)


def test_every_type_arrives_exactly(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            ("i8", pa.int8()),
            ("u32", pa.uint32()),
            ("u64", pa.uint64()),
            ("f", pa.float32()),
            ("b", pa.bool_()),
            ("text", pa.large_string()),
            ("view", pa.string_view()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "Europe/Zurich")),
            ("local", pa.timestamp("ms")),
            ("dec", pa.decimal128(10, 2)),
            ("dict", pa.dictionary(pa.int8(), pa.string())),
            ("list", pa.list_(pa.int32())),
            ("struct", pa.struct([pa.field("x", pa.uint8()), pa.field("y", pa.string())])),
        ]
    )
    at = dt.datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=dt.UTC)
    row = {
        "k": 1, "i8": -5, "u32": 2**32 - 1, "u64": 2**64 - 1, "f": 0.5, "b": True, "text": "é",
        "view": "view", "raw": b"\0\xff", "day": dt.date(1969, 1, 2), "at": at,
        "local": dt.datetime(2024, 1, 1, 1, 2, 3), "dec": decimal.Decimal("1.50"), "dict": "d",
        "list": [1, None], "struct": {"x": 200, "y": None},
    }  # fmt: skip
    empty = dict.fromkeys(row) | {"k": 2}
    nb.write(pa.Table.from_pylist([row, empty], schema=schema), tmp_path / "t.nimble")
    frame = load(spark, str(tmp_path / "t.nimble"))
    few = ns.scan(spark, str(tmp_path / "t.nimble"), filter="k < 3")  # answered by the driver
    assert few.schema == frame.schema
    assert few.orderBy("k").collect() == frame.orderBy("k").collect()
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert types == {
        "k": "bigint", "i8": "tinyint", "u32": "bigint", "u64": "decimal(20,0)", "f": "float",
        "b": "boolean", "text": "string", "view": "string", "raw": "binary", "day": "date",
        "at": "timestamp", "local": "timestamp_ntz", "dec": "decimal(10,2)", "dict": "string",
        "list": "array<int>", "struct": "struct<x:smallint,y:string>",
    }  # fmt: skip
    assert [field.nullable for field in frame.schema] == [False] + [True] * 15
    first, second = frame.orderBy("k").collect()
    got = first.asDict(recursive=True)
    assert got.pop("at").timestamp() == at.timestamp()
    assert bytes(got.pop("raw")) == row.pop("raw")
    row.pop("at")
    assert got == row
    assert set(second[1:]) == {None}


def test_columns_are_pruned_by_option_and_by_schema(spark: Any, numbers: str) -> None:
    assert load(spark, numbers, columns="v").schema.names == ["v"]
    frame = spark.read.format("nimble").schema("v string").load(numbers)
    assert frame.schema.names == ["v"]
    assert frame.filter("v = 'v7'").count() == 1
    reader = NimbleReader(frame.schema, {"path": numbers})
    assert reader._spec.columns == ("v",)
    (part, *_) = reader.partitions()
    assert {batch.schema.names[0] for batch in reader.read(part)} == {"v"}


def test_files_directories_globs_and_lists(spark: Any, tmp_path: Path) -> None:
    for i in range(3):
        nb.write(pa.table({"k": [i, i + 10]}), tmp_path / f"part-{i}.nimble", cluster_by="k")
    paths = [str(tmp_path / f"part-{i}.nimble") for i in (0, 2)]
    assert load(spark, str(tmp_path)).count() == 6
    assert load(spark, str(tmp_path / "part-[01].nimble")).count() == 4
    assert load(spark, paths).count() == 4
    assert load(spark, f"file:{paths[0]}").count() == 2


def test_reused_dataframes_and_views_are_right(spark: Any, numbers: str) -> None:
    # Spark 4.3 keeps pushed filters of one query for the next: this source takes none.
    frame = load(spark, numbers)
    assert frame.filter("k = 3").count() == 1
    assert frame.count() == 1000
    assert frame.filter("k < 5").union(frame.filter("k >= 990")).count() == 15
    three, four = frame.filter("k = 3"), frame.filter("k = 4")
    assert three.union(four).count() == 2
    assert [row.k for row in three.collect()] == [3]
    frame.createOrReplaceTempView("reused")
    assert spark.sql("SELECT * FROM reused WHERE k = 3").count() == 1
    assert spark.sql("SELECT * FROM reused").count() == 1000
    part = ns.scan(spark, numbers, filter="k < 10")
    assert part.union(part.filter("k = 4")).count() == 11


def test_sql_view_reads_and_inserts(spark: Any, tmp_path: Path) -> None:
    make_dataset(tmp_path / "d", [pa.table({"k": [1, 2]})], "k")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW nimble_view USING nimble OPTIONS (path '{tmp_path}/d')"
    )
    spark.sql("INSERT INTO nimble_view VALUES (3), (4)")
    assert nb.open_dataset(tmp_path / "d").contains([2, 3, 4]).to_pylist() == [True] * 3


def test_partitions_follow_stripes_and_the_number_wanted(
    numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nimblepy.spark.base.inputs import find_input

    files = find_input(numbers)
    spec = ScanSpec(files, ("k",), parts=5)
    parts = plan_parts(spec, files.dataset)
    assert [[(p.begin, p.end) for p in part] for part in parts] == [
        [(0, 200)], [(200, 400)], [(400, 600)], [(600, 800)], [(800, 1000)]
    ]  # fmt: skip
    narrow = plan_parts(ScanSpec(files, ("k",), filter="k BETWEEN 310 AND 312"), files.dataset)
    assert [[(p.begin, p.end) for p in part] for part in narrow] == [[(310, 313)]]
    assert plan_parts(ScanSpec(files, ("k",), filter="k = -1"), files.dataset) == []
    small = plan_parts(ScanSpec(files, ("k",)), files.dataset)
    assert len(small) == 1  # too few rows for more than one task
    monkeypatch.setattr(splits, "LEAST_ROWS", 100)
    monkeypatch.setattr(splits, "processors", lambda: 2)
    size = files.dataset.size_bytes
    for columns, part_bytes, tasks in (("kv", size, 2), ("kv", size // 5, 5), ("k", size // 5, 3)):
        monkeypatch.setattr(splits, "PART_BYTES", part_bytes)
        assert len(plan_parts(ScanSpec(files, tuple(columns)), files.dataset)) == tasks


@pytest.mark.parametrize("by_driver", [True, False])
def test_scan_by_keys_ranges_and_filters(
    spark: Any, numbers: str, by_driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_driver:
        monkeypatch.setattr(splits, "FEW_FILES", -1)
        monkeypatch.setattr(splits, "FEW_ROWS", -1)
    plan = ns.scan(spark, numbers, keys=[5])._jdf.queryExecution().executedPlan().toString()
    assert ("LocalTableScan" in plan) == by_driver
    plan = ns.scan(spark, numbers, key_range=(0, 500)).groupBy("v").count()
    plan = plan._jdf.queryExecution().executedPlan().toString()
    assert ("Exchange" not in plan) == by_driver  # one partition

    def keys(**arguments: Any) -> list[int]:
        return sorted(row.k for row in ns.scan(spark, numbers, **arguments).collect())

    assert keys(keys=[5, 7, 7, 5000]) == [5, 7]
    assert keys(keys=[5, 7, 9], filter="v <> 'v7'", columns=["k"]) == [5, 9]
    assert keys(key_range=(10, 13)) == [10, 11, 12]
    assert keys(key_range=(990, None)) == list(range(990, 1000))
    assert keys(key_range=(10, 13, "(]"), filter="v <> 'v12'") == [11, 13]
    assert keys(filter="k = 77") == [77]
    assert keys(filter="k = -1") == []
    with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
        ns.scan(spark, numbers, filter="q = 1")
    with pytest.raises(nb.InvalidArgumentError, match="not both"):
        ns.scan(spark, numbers, keys=[1], key_range=(1, 2))


def test_rows_that_a_scan_has_read_are_those_of_its_time(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"k": range(10)}), path, cluster_by="k")
    few = ns.scan(spark, path, key_range=(3, 5))
    nb.write(pa.table({"k": [4]}), path, cluster_by="k")
    assert sorted(row.k for row in few.collect()) == [3, 4]


def test_faults_are_named_on_the_driver(spark: Any, tmp_path: Path, numbers: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"nowhere\.nimble: no such file"):
        load(spark, str(tmp_path / "nowhere.nimble"))
    with pytest.raises(PySparkException, match="no file matches"):
        load(spark, str(tmp_path / "*.nothing"))
    nb.write(pa.table({"other": [1]}), tmp_path / "other.nimble")
    with pytest.raises(PySparkException, match="have different columns"):
        load(spark, str(tmp_path))
    damaged = tmp_path / "damaged.nimble"
    damaged.write_bytes(Path(numbers).read_bytes()[:-20])
    with pytest.raises(PySparkException, match=r"damaged\.nimble"):
        load(spark, str(damaged))
    with pytest.raises(PySparkException, match="unknown column 'q'"):
        load(spark, numbers, columns="q")
    nb.write(pa.table({"m": pa.array([None], pa.month_day_nano_interval())}), damaged)
    with pytest.raises(PySparkException, match="column 'm': Spark has no type"):
        load(spark, str(damaged))


def test_file_replaced_between_planning_and_reading_is_an_error(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"k": range(10)}), path, cluster_by="k")
    planned = ns.scan(spark, path)
    joined = ns.index_join(spark.range(5).withColumnRenamed("id", "k"), path, on="k")
    nb.write(pa.table({"k": range(20)}), path, cluster_by="k")
    for frame in (planned, joined):
        with pytest.raises(PySparkException, match="replaced since"):
            frame.count()


def test_value_that_spark_cannot_hold_is_named(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    nb.write(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "t.nimble")
    with pytest.raises(PySparkException, match="column 't'"):
        load(spark, str(tmp_path / "t.nimble")).collect()
