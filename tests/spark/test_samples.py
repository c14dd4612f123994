"""Samples of tables as DataFrames: the rows that one machine draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns

ROWS = 6000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("samples") / "lake")


def made(lake: nb.Catalog, name: str, data_format: Any) -> nb.Table:
    """A table with files of before its layout, cubes, and deleted rows of both."""
    rng = np.random.default_rng(3)
    data = pa.table(
        {
            "id": np.arange(ROWS),
            "x": rng.lognormal(3, 1, ROWS),
            "at": pa.array(np.arange(ROWS) * 3_600_000_000, pa.timestamp("us", "UTC")),
        }
    )
    table = lake.create_table(f"a.{name}", data.schema, data_format=data_format)
    table.append(data.slice(0, 2000))
    with table.alter() as a:
        a.layout(nb.OTree(["x", "id"], cube_rows=150))
        a.add_column("note", pa.string(), default="old")
    table.append(data.slice(2000).append_column("note", pa.array(["new"] * 4000)))
    table.delete("id % 10 = 3")
    return table


def shown(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_the_rows_are_those_of_one_machine(spark: Any, lake: nb.Catalog, data_format: Any) -> None:
    table = made(lake, data_format, data_format)
    for fraction, seed, filter in (
        (0.1, 5, None),
        (0.5, 6, "x > 20 AND note = 'new'"),
        (1.0, None, pc.field("id") < 3000),
        (0.0, 1, None),
    ):
        frame = ns.scan(
            spark, table, columns=["id", "note"], filter=filter, sample=fraction, seed=seed
        )
        wanted = table.sample(fraction, seed=seed, columns=["id", "note"], filter=filter)
        assert shown((row["id"], row["note"]) for row in frame.collect()) == shown(
            (row["id"], row["note"]) for row in wanted.to_pylist()
        )
        assert (wanted.num_rows > 0) == (fraction > 0)
    whole = ns.scan(spark, table, sample=0.3, seed=9, filter="x > $least", params={"least": 15.0})
    assert whole.columns == table.schema.names
    found = table.sample(0.3, seed=9, filter="x > 15.0").sort_by("id")
    rows = whole.orderBy("id").toArrow()
    assert rows["at"].cast(pa.int64()).equals(found["at"].cast(pa.int64()))


def test_the_same_rows_each_time(spark: Any, lake: nb.Catalog) -> None:
    table = made(lake, "again", "nimble")
    frame = ns.scan(spark, table, columns=["id"], sample=0.2)
    first = shown(frame.collect())
    assert shown(frame.collect()) == first
    assert abs(len(first) - 0.2 * 5400) < 6 * np.sqrt(0.16 * 5400)
    # Rows with weights are those of the lowest ones.
    lowest = {row["id"] for row in table.sample(0.2).to_pylist() if row["id"] >= 2000}
    assert {row["id"] for row in frame.collect() if row["id"] >= 2000} == lowest
    then = table.snapshot
    table.delete("id < 5000")
    old = ns.scan(spark, table.at(snapshot=then), columns=["id"], sample=0.2, seed=4)
    wanted = table.at(snapshot=then).sample(0.2, seed=4)
    assert sorted(row["id"] for row in old.collect()) == sorted(wanted["id"].to_pylist())


def test_what_is_refused(spark: Any, lake: nb.Catalog, tmp_path: Any) -> None:
    table = lake.create_table("a.none", pa.table({"k": [1]}), cluster_by="k")
    path = tmp_path / "some.nimble"
    nb.write(pa.table({"k": [1, 2]}), path, cluster_by="k")
    for arguments, match in (
        ((path, {"sample": 0.5}), "sample= needs a table"),
        ((table, {"seed": 5}), "seed needs sample="),
        ((table, {"sample": 0.5, "keys": [1]}), "not both"),
        ((table, {"sample": 1.5}), "from 0 to 1"),
        ((table, {"sample": 0.5, "seed": -1}), "seed"),
        ((table, {"sample": 0.5, "filter": "nope > 1"}), "nope"),
        ((table, {"sample": 0.5, "columns": ["nope"]}), "nope"),
    ):
        of, given = arguments
        with pytest.raises(nb.InvalidArgumentError, match=match):
            ns.scan(spark, of, **given)
