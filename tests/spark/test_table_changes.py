"""Changes of tables in Spark: those of one process, and streams that read each snapshot once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.reading.changes import ChangesReader, ChangesStream, changes_columns

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.string()})


def rows(keys: Any, note: str = "") -> pa.Table:
    return pa.table([list(keys), [f"{note}{k}" for k in keys]], schema=SCHEMA)


def reading(spark: Any, lake: nb.Catalog, table: nb.Table, *, stream: bool = False) -> Any:
    reader = (spark.readStream if stream else spark.read).format("nimble")
    catalog = lake.__reduce__()[1][0]
    return reader.option("catalog", catalog).option("table", table.name)


def plain(found: Any) -> list[Any]:
    return sorted((tuple(row) for row in found), key=repr)


def changed(table: nb.Table, *arguments: Any, **more: Any) -> list[Any]:
    found = table.changes(*arguments, **more).read_all().to_pylist()
    return plain(row.values() for row in found)


def test_changes_are_those_of_one_process(spark: Any, tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("a.b", SCHEMA, primary_key="k", partition_by="bucket(2, k)")
    assert ns.changes(spark, table, None).collect() == []
    first = table.append(rows(range(20))).snapshot
    table.tag("v1")
    second = table.upsert(rows(range(15, 30), "new ")).snapshot
    table.delete(keys=[3])
    table.compact()
    assert plain(ns.changes(spark, table, None).collect()) == changed(table, None)
    frame = ns.changes(spark, table, "v1", second, columns=["t"])
    assert frame.columns == ["t", "_change", "_snapshot"]
    assert plain(frame.collect()) == changed(table, "v1", second, columns=["t"])
    options = reading(spark, lake, table).option("since", "v1").option("until", str(second))
    assert plain(options.load().collect()) == changed(table, "v1", second)
    options = reading(spark, lake, table).option("since", "beginning").option("columns", "k")
    found = options.load().where("_change = 'update_after'")
    assert found.count() == 5
    nothing = reading(spark, lake, table).option("since", str(table.snapshot)).load()
    assert nothing.collect() == []
    with pytest.raises(nb.InvalidArgumentError, match="tag 'v2' not found"):
        ns.changes(spark, table, "v2")
    for name, value, message in (
        ("until", str(first), "option 'since' is missing"),
        ("since", "v2", "tag .v2. not found"),
    ):
        with pytest.raises(Exception, match=message):
            reading(spark, lake, table).option(name, value).load().count()
    with pytest.raises(Exception, match="option 'filter': a read of changes has no such option"):
        reading(spark, lake, table).option("since", "v1").option("filter", "k = 1").load().count()


def test_a_tag_wins_over_what_else_its_name_could_mean(tmp_path: Path) -> None:
    table = nb.connect(tmp_path / "lake").create_table("a.b", rows(range(3)), primary_key="k")
    first = table.snapshot
    options = {"catalog": str(tmp_path / "lake"), "table": "a.b"}

    def count(**more: str) -> int:
        reader = ChangesReader(spark_schema(SCHEMA), options | more)
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

    def start(since: str) -> dict[str, str]:
        return ChangesStream(spark_schema(SCHEMA), options | {"since": since}).initialOffset()

    assert (count(since="beginning"), start("beginning")) == (3, {"snapshot": ""})
    table.append(rows(range(3, 5)))
    for name in ("2024", "beginning"):
        with pytest.raises(nb.InvalidArgumentError, match=name):
            count(since=str(first), until=name)
        table.tag(name, snapshot=first)
        assert (count(since=name), start(name)) == (2, {"snapshot": str(first)})
        assert count(since=str(first), until=name) == 0
    assert count(since=str(first)) == 2


@pytest.mark.parametrize("since", ["beginning", "first", "tag"])
def test_a_stream_goes_on_when_its_beginning_has_expired(tmp_path: Path, since: str) -> None:
    """It could not be begun again once a table had had a hundred commits."""
    table = nb.connect(tmp_path / "lake").create_table("a.b", rows(range(3)), primary_key="k")
    options = {"catalog": str(tmp_path / "lake"), "table": "a.b", "since": since}
    if since == "first":
        options["since"] = str(table.snapshot)
    table.tag("tag")
    table.append(rows(range(3, 5)))
    seen = ChangesStream(changes_columns(options), options).latestOffset()
    table.drop_reference("tag")
    table.append(rows(range(10, 17)))
    table.expire(keep=2)
    again = ChangesStream(changes_columns(options), options)
    parts = again.partitions(seen, again.latestOffset())
    assert sum(batch.num_rows for part in parts for batch in again.read(part)) == 7


def test_a_stream_has_each_snapshot_once(spark: Any, tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    seen: dict[int, list[Any]] = {}
    trouble: list[int] = []

    def follow(batch: Any, number: int) -> None:
        found = plain(batch.collect())
        if number in seen:  # done again after a failure
            assert seen[number] == found
        seen[number] = found
        if trouble:
            raise RuntimeError(f"batch {trouble.pop()}")

    def run(since: str) -> None:
        stream = reading(spark, lake, table, stream=True).option("since", since).load()
        query = stream.writeStream.foreachBatch(follow).trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(120)

    table.append(rows(range(5)))
    run("beginning")
    table.upsert(rows(range(3, 8), "new "))
    table.delete(keys=[0])
    trouble.append(1)
    with pytest.raises(Exception, match="batch 1"):
        run("beginning")
    run("beginning")
    table.compact()
    run("beginning")
    found = [row for number in sorted(seen) for row in seen[number]]
    assert len(seen) >= 2
    assert plain(found) == changed(table, None)
    with pytest.raises(nb.InvalidArgumentError, match="option 'since' is missing"):
        ChangesStream(spark_schema(SCHEMA), {"table": "a.b"}).initialOffset()
