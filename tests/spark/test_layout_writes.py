"""Tables with a layout, written by Spark: the cubes of one machine, with every row once."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.expr.filter import parse_filter
from nimblepy.spark.writing import layout as layout_write
from nimblepy.spark.writing.layout_tasks import curve_parts, joined_pieces
from nimblepy.table.base.model import FileCubes
from nimblepy.table.otree.planned import RowSample, layout_paths, plan
from nimblepy.table.otree.space import space_columns

ROWS, CUBE = 20_000, 400


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("layouts") / "lake")


def data(rows: int = ROWS, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    price = pa.array(rng.lognormal(3, 1, rows), mask=rng.random(rows) < 0.03)
    return pa.table(
        {
            "id": np.arange(rows) + seed * 1_000_000,
            "price": price,
            "rating": rng.beta(5, 2, rows) * 5,
            "name": pa.array([f"n{i % 311:x}" for i in range(rows)]),
        }
    )


def frame(spark: Any, table: pa.Table, parts: int = 4) -> Any:
    return spark.createDataFrame(table).repartition(parts)


def ids(table: nb.Table) -> list[int]:
    return sorted(table.to_table(["id"])["id"].to_pylist())


def inner_cubes(table: nb.Table) -> list[int]:
    """Rows of the files of inner cubes."""
    found = []
    for child in table._current.children():
        (cube,) = FileCubes.from_json(child.metadata["nimblepy.otree"]).cubes
        if cube.most < 0:
            found.append(cube.rows)
    return found


def read(table: nb.Table) -> float:
    """The part of the rows that boxes leave."""
    rng = np.random.default_rng(4)
    found = 0
    for price, rating in zip(rng.lognormal(3, 0.7, 30), rng.beta(5, 2, 30) * 5, strict=True):
        ends = price, price * 1.2, rating, rating + 0.2
        box = "price BETWEEN {} AND {} AND rating BETWEEN {} AND {}".format(*ends)
        members = table._current.plan.members(parse_filter(box, table.schema).conjuncts)
        found += int(members.files.rows.sum())
    return found / 30 / table.num_rows


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_the_cubes_are_those_of_one_machine(
    spark: Any, lake: nb.Catalog, data_format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if data_format == "parquet":  # pieces of cubes are put together by tasks, not by the driver
        monkeypatch.setattr(layout_write, "ALONE_BYTES", 0)
    layout = nb.OTree(["price", "rating"], cube_rows=CUBE)
    rows = data()
    one = lake.create_table(f"{data_format}.one", rows, layout=layout, data_format=data_format)
    table = lake.create_table(
        f"{data_format}.many", rows.schema, layout=layout, data_format=data_format
    )
    done = ns.write(frame(spark, rows), table, mode="append", files=5)
    assert done is not None
    assert done.rows_inserted == ROWS
    assert ids(table) == rows["id"].to_pylist()
    # Inner cubes are in one file each, though their rows were in all tasks.
    assert len(inner_cubes(table)) == len(inner_cubes(one))
    assert all(0.8 * CUBE < found < 1.2 * CUBE for found in inner_cubes(table))
    sizes = table._current.members.files.rows
    assert sizes.max() < 2 * CUBE
    assert abs(len(sizes) - one._current.num_files) < 0.25 * len(sizes)
    assert read(table) < 1.2 * read(one)
    assert table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files == ()
    # The driver has committed what the files say.
    cubes = table._metadata.cubes(table._snapshot)
    assert set(cubes.files) == {member.file.path for member in table._current.members}
    again = lake.table(f"{data_format}.many")
    assert 0.6 * 0.01 * ROWS < again.sample(0.01).num_rows < 1.4 * 0.01 * ROWS
    assert again._current.reading.with_weights().open_files.opened <= 2
    found = table.sample(0.3, seed=2).to_pylist()
    assert abs(len(found) - 0.3 * ROWS) < 6 * np.sqrt(0.21 * ROWS)
    assert {row["id"]: row["price"] for row in found}.items() <= dict(
        zip(rows["id"].to_pylist(), rows["price"].to_pylist(), strict=True)
    ).items()


def test_every_mode(spark: Any, lake: nb.Catalog) -> None:
    layout = nb.OTree(["name", "price"], cube_rows=CUBE, transforms={"name": "hash"})
    rows = data(5000)
    table = lake.create_table("modes.t", rows.schema, primary_key="id", layout=layout)
    ns.write(frame(spark, rows), table, mode="append")
    ns.write(frame(spark, data(5000, 2)), table, mode="append")
    assert table.num_rows == 10_000
    with pytest.raises(nb.DuplicateKeyError):
        ns.write(frame(spark, rows.slice(0, 5)), table, mode="append")
    changed = rows.slice(0, 2000).drop_columns("price")
    done = ns.write(frame(spark, changed), table, mode="upsert")
    assert done is not None
    assert (done.rows_inserted, done.rows_updated) == (0, 2000)
    assert table.count_rows("price IS NULL AND id < 1002000") == 2000
    assert ids(table) == sorted([*rows["id"].to_pylist(), *data(5000, 2)["id"].to_pylist()])
    assert table.sample(1).num_rows == 10_000
    ns.write(frame(spark, rows.slice(0, 0)), table, mode="append")
    ns.write(frame(spark, rows), table)
    assert ids(table) == rows["id"].to_pylist()
    assert table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files == ()


@pytest.mark.parametrize("kind", ["zorder", "sorted"])
def test_other_layouts(spark: Any, lake: nb.Catalog, kind: str) -> None:
    layout = nb.Sorted("price") if kind == "sorted" else nb.ZOrder(["price", "rating"])
    rows = data(150_000)
    properties = {"write.target-file-size-bytes": "400000"}
    table = lake.create_table(f"{kind}.t", rows.schema, layout=layout, properties=properties)
    plain = lake.create_table(f"{kind}.plain", rows.schema, properties=properties)
    for made in (table, plain):
        ns.write(frame(spark, rows), made, mode="append", files=3)
        assert ids(made) == rows["id"].to_pylist()
    assert read(table) < 0.5 * read(plain)


def test_fields_and_columns_that_are_missing(spark: Any, lake: nb.Catalog) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "at": pa.struct({"x": pa.float64(), "y": pa.int32()}),
            "day": pa.date32(),
            "more": pa.decimal128(9, 2),
        }
    )
    layout = nb.OTree(["at.x", "day", "more", "at.y"], cube_rows=50)
    table = lake.create_table("nested.t", schema, layout=layout)
    rows = spark.range(0, 1000, 1, 3).selectExpr(
        "id",
        "IF(id % 7 = 0, NULL, named_struct('x', id / 3D, 'y', CAST(id % 10 AS INT))) AS at",
        "date_add(DATE'2024-01-01', CAST(id % 90 AS INT)) AS day",
    )
    ns.write(rows, table, mode="append", files=3)
    assert ids(table) == list(range(1000))
    assert table.count_rows("more IS NULL") == 1000
    ns.write(rows.select("id"), table, mode="append", files=3)
    assert table.num_rows == 2000
    assert table.sample(1, seed=1).num_rows == 2000


# ------------------------------------------------------------------ without Spark


def planned_for(rows: pa.Table, layout: Any, most_parts: int = 6) -> Any:
    schema = pa.schema(
        [f.with_metadata({"PARQUET:field_id": str(i)}) for i, f in enumerate(rows.schema)]
    )
    rows = rows.cast(schema)
    paths = layout_paths(layout, schema)
    generator = np.random.default_rng(0)
    whole = RowSample(8000)
    for piece in (rows.slice(at, 3000) for at in range(0, rows.num_rows, 3000)):
        part = RowSample(2000)
        part.add(space_columns(piece, paths), generator)
        whole.merge(RowSample.from_bytes(part.to_bytes(), 4000))
    assert whole.rows == rows.num_rows
    assert 2000 < sum(part.num_rows for part in whole.parts) <= 8000
    found = plan(whole, layout, schema, rows_before=0, known=None, most_parts=most_parts)
    return found, rows, paths, schema


def test_parts_depend_on_values_alone() -> None:
    """A task that runs again, with its rows in another order, sends each where it went."""
    layout = nb.OTree(["price", "name"], cube_rows=CUBE)
    planned, rows, paths, schema = planned_for(data(), layout)
    names = ["price", "name"]
    columns = [rows[name].combine_chunks() for name in names]
    wanted = schema.empty_table().select(names).schema
    parts = curve_parts(planned, names, wanted, paths)
    (first,) = parts([tuple(columns)])
    order = pa.array(np.random.default_rng(5).permutation(ROWS))
    again = list(
        parts([tuple(c.take(order).slice(at, 900) for c in columns) for at in range(0, ROWS, 900)])
    )
    assert pa.concat_arrays(again).equals(first.take(order))
    counts = np.bincount(first.to_numpy(), minlength=planned.parts)
    assert planned.parts == 6
    assert counts.max() < 1.5 * ROWS / planned.parts
    assert len(planned.tree.inner) >= 1


def test_parts_begin_where_leaves_do() -> None:
    planned, *_ = planned_for(data(), nb.OTree(["price", "rating"], cube_rows=CUBE), 1000)
    assert set(planned.edges.tolist()) <= set(planned.tree.leaves.tolist())
    assert all(a < b for a, b in pairwise(planned.edges.tolist()))
    assert planned.parts <= len(planned.tree.leaves) // 2 + 1
    curve, *_ = planned_for(data(), nb.ZOrder(["price", "rating"]), 1000)
    assert curve.parts == 1, "few rows are worth one task"
    equal = data().set_column(1, "price", pa.array([1.0] * ROWS))
    same, *_ = planned_for(equal, nb.OTree("price", cube_rows=CUBE))
    assert same.parts == 1


def test_no_description_of_files() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [0]})
    with pytest.raises(nb.InvalidArgumentError, match="description of files"):
        list(joined_pieces(["[{}]"], None)([batch]))  # type: ignore[arg-type]
