"""Merges against what their clauses say, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

Between = Callable[[Callable[[], Any]], None]
FORMATS = pytest.mark.parametrize("data_format", ["nimble", "parquet"])


def stock(lake: nb.Catalog, **more: Any) -> nb.Table:
    rows = pa.table(
        {"id": range(8), "n": [10 * i for i in range(8)], "note": ["old"] * 8, "g": [0, 1] * 4}
    )
    table = lake.create_table("a.b", rows.schema, **({"primary_key": "id"} | more))
    table.append(rows.slice(0, 5))
    table.append(rows.slice(5))
    return table


def contents(table: nb.Table) -> dict[int, tuple[Any, ...]]:
    rows = table.to_table().to_pylist()
    found = {row["id"]: (row["n"], row["note"], row["g"]) for row in rows}
    assert len(found) == len(rows) == table.num_rows
    return found


OLD = {i: (10 * i, "old", i % 2) for i in range(8)}


@FORMATS
@pytest.mark.parametrize("partition_by", [(), "g"])
@pytest.mark.parametrize("cluster_by", [None, "n"])
def test_the_first_clause_that_applies_wins(
    lake: nb.Catalog, data_format: Any, partition_by: Any, cluster_by: Any
) -> None:
    table = stock(lake, data_format=data_format, partition_by=partition_by, cluster_by=cluster_by)
    source = pa.table(
        {
            "op": ["d", "u", "u", "u", "i", "x", "u"],
            "id": [1, 2, 3, 6, 20, 21, 22],
            "n": [0, 5, 500, 7, 200, 210, 220],
            "g": [9] * 7,
        }
    )
    done = (
        table.merge(source)
        .when_matched(delete=True, condition="source.op = 'd'")
        .when_matched(update=["n"], condition="source.n > target.n")
        .when_matched(
            update={"note": "target.note || '-' || source.op", "n": "target.n + source.n"},
            condition=pc.field("target", "id") == 6,
        )
        .when_not_matched(condition="source.op = 'i'")
        .when_not_matched(
            insert={"id": "source.id", "note": "upper('x')"}, condition="source.n=210"
        )
        .when_not_matched_by_source(condition="target.n >= 50 AND target.g = 1")
        .execute()
    )
    wanted = dict(OLD)
    del wanted[1], wanted[5], wanted[7]
    wanted[3] = (500, "old", 1)
    wanted[6] = (67, "old-u", 0)
    wanted[20] = (200, None, 9)
    wanted[21] = (None, "X", None)
    assert contents(table) == wanted
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 2, 3)
    assert [table.get(k) is not None for k in (1, 3, 20)] == [False, True, True]


@pytest.mark.parametrize("spilled", [False, True])
def test_conditions_read_columns_of_any_text(
    lake: nb.Catalog, spilled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spilled:
        monkeypatch.setattr("nimblepy.table.changing.keyed_rows.MEMORY_BYTES", 1)
    codes = pa.array([0, 1, 2, 1], pa.uint8())
    for op in (
        pa.DictionaryArray.from_arrays(codes, pa.array(["d", "u", "i"])),
        pa.DictionaryArray.from_arrays(codes, pa.array(["d", "u", "i"], pa.large_string())),
        pa.array(["d", "u", "i", "u"], pa.string_view()),
    ):
        table = stock(lake)
        table.merge(pa.table({"op": op, "id": [1, 2, 20, 21], "n": [5, 6, 7, 8]})).when_matched(
            delete=True, condition="source.op = 'd'"
        ).when_matched(update=["n"], condition="source.op = 'u'").when_not_matched(
            insert=["id", "n"], condition="source.op = 'i'"
        ).execute()
        assert contents(table) == {k: v for k, v in OLD.items() if k != 1} | {
            2: (6, "old", 0),
            20: (7, None, None),
        }
        lake.drop_table("a.b")


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("again", [(math.nan, math.nan), (0.0, -0.0)])
def test_keys_that_a_lookup_takes_for_one_are_one(
    lake: nb.Catalog,
    spilled: bool,
    kind: pa.DataType,
    again: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if spilled:
        monkeypatch.setattr("nimblepy.table.changing.keyed_rows.MEMORY_BYTES", 1)
        monkeypatch.setattr("nimblepy.table.changing.keyed_rows.CHUNK_BYTES", 1)
    x = pa.array([1.0, math.nan, 0.0], kind)
    table = lake.create_table("a.b", pa.table({"x": x, "y": ["a"] * 3, "v": [1, 2, 3]}))
    twice = pa.table({"x": pa.array(again, kind), "y": ["a", "a"], "v": [21, 22]})
    for on in ("x", ["y", "x"]):
        with pytest.raises(nb.DuplicateKeyError, match=f"x={again[0]}"):
            table.merge(twice, on=on).when_matched(update=["v"]).when_not_matched().execute()
        merge = table.merge(twice, on=on, duplicates="last").when_matched(update=["v"])
        assert merge.execute().rows_updated == 1
        found = {repr(row["x"]): row["v"] for row in table.to_table().to_pylist()}
        assert found == {"1.0": 1, "nan": 2, "0.0": 3} | {repr(again[0]): 22}
        assert table.num_rows == 3


def test_rows_that_the_source_does_not_have(lake: nb.Catalog) -> None:
    table = stock(lake)
    source = pa.table({"id": [1, 2, 30], "n": [1, 2, 3]})
    merge = table.merge(source).when_matched(update=True).when_not_matched()
    done = merge.when_not_matched_by_source().execute()
    assert contents(table) == {1: (1, "old", 1), 2: (2, "old", 0), 30: (3, None, None)}
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 2, 6)
    assert (
        table.merge(pa.table({"id": pa.array([], pa.int64())}))
        .when_not_matched_by_source(condition="target.n > 2")
        .execute()
        .rows_deleted
        == 1
    )
    assert sorted(contents(table)) == [1, 2]


def test_nothing_to_do(lake: nb.Catalog) -> None:
    table = stock(lake)
    before = table.snapshot
    source = pa.table({"id": [1, 50], "n": [1, 2]})
    assert table.merge(source).when_matched(update=True, condition="false").execute().snapshot == (
        before
    )
    assert table.merge(source).when_not_matched(condition="source.n = 9").execute().snapshot == (
        before
    )
    assert contents(table) == OLD


def test_a_key_that_the_source_calls_otherwise(lake: nb.Catalog) -> None:
    """Its name was unknown in conditions; and a column of the table's name was in the way."""
    table = stock(lake, primary_key="id")
    source = pa.table({"k": [1, 2, 900], "id": ["x", "y", "z"], "n": [10, 20, 30]})
    (
        table.merge(source, on={"k": "id"})
        .when_matched(delete=True, condition="source.k = 1 AND source.id = 'x'")
        .when_matched(update={"n": "source.n + target.n", "note": "source.id"})
        .when_not_matched(insert=True, condition="source.id = 'z'")
        .execute()
    )
    wanted = {i: row for i, row in OLD.items() if i != 1}
    wanted[2] = (OLD[2][0] + 20, "y", OLD[2][2])
    wanted[900] = (30, None, None)
    assert contents(table) == wanted


@FORMATS
def test_other_columns_than_the_key(lake: nb.Catalog, data_format: Any) -> None:
    table = stock(lake, data_format=data_format)
    source = pa.table({"group": [1, None], "add": [1000, 1]})
    done = (
        table.merge(source, on={"group": "g"})
        .when_matched(update={"n": "target.n + source.add"})
        .execute()
    )
    assert done.rows_updated == 4
    assert contents(table) == {i: (n + 1000 * (g == 1), note, g) for i, (n, note, g) in OLD.items()}
    plain = lake.create_table("a.c", pa.table({"x": [1, 2, 2], "y": ["a", "b", "c"]}))
    source = pa.table({"x": [2, 3], "y": ["new", "more"]})
    plain.merge(source, on="x").when_matched(update=True).when_not_matched().execute()
    assert sorted(map(str, plain.to_table().to_pylist())) == sorted(
        map(
            str,
            [{"x": 1, "y": "a"}, {"x": 2, "y": "new"}, {"x": 2, "y": "new"}, {"x": 3, "y": "more"}],
        )
    )


def test_primary_keys_stay_unique(lake: nb.Catalog) -> None:
    table = stock(lake)
    for merge in (
        table.merge(pa.table({"g": [1]}), on="g").when_matched(update={"id": "target.id + 1"}),
        table.merge(pa.table({"g": [5], "id": [3]}), on="g").when_not_matched(),
        table.merge(pa.table({"id": [70]})).when_not_matched(insert={"id": "7"}),
        table.merge(pa.table({"g": [1]}), on="g").when_matched(update={"id": "40"}),
    ):
        with pytest.raises(nb.DuplicateKeyError):
            merge.execute()
    assert contents(table.refresh()) == OLD
    table.merge(pa.table({"g": [1]}), on="g").when_matched(
        update={"id": "target.id + 100"}
    ).execute()
    assert sorted(contents(table)) == [0, 2, 4, 6, 101, 103, 105, 107]


def test_what_is_refused(lake: nb.Catalog) -> None:
    table = stock(lake)
    source = pa.table({"id": [1, 2], "n": [1, 2], "extra": [1, 2]})
    with pytest.raises(nb.InvalidArgumentError, match="no clause"):
        table.merge(source).execute()
    with pytest.raises(nb.InvalidArgumentError, match="exactly one of"):
        table.merge(source).when_matched(update=True, delete=True)
    for merge, message in [
        (table.merge(source).when_matched(update=["g"]), "the source has no column 'g'"),
        (table.merge(source).when_matched(update=["extra"]), "unknown column 'extra'"),
        (table.merge(source).when_matched(update={"zz": "1"}), "unknown column 'zz'"),
        (table.merge(source).when_matched(update={"n": "source.zz"}), "source.zz"),
        (table.merge(source).when_matched(update={"n": 5}), "expected SQL text, got 5"),
        (table.merge(source).when_matched(delete=True, condition="target.q > 1"), "target.q"),
        (table.merge(source).when_not_matched(condition="target.n > 1"), "target.n"),
        (table.merge(source).when_not_matched_by_source(condition="source.n > 1"), "source.n"),
        (table.merge(source, on="extra").when_matched(delete=True), "extra"),
        (table.merge(pa.table({"n": [1]})).when_matched(delete=True), "'id' is missing"),
        (table.merge(source).when_matched(update={"n": "'x'"}), "x"),
        (table.merge(pa.table({"id": [None]}, pa.schema({"id": pa.int64()}))).when_not_matched(),
         "'id' has 1 nulls"),
    ]:  # fmt: skip
        with pytest.raises(nb.InvalidArgumentError, match=message):
            merge.execute()
    with pytest.raises(nb.DuplicateKeyError, match="id=1 is in row 0 and in row 1"):
        table.merge(pa.table({"id": [1, 1]})).when_matched(delete=True).execute()
    places = pa.table({"s": [{"k": 1}], "v": [1]})
    with pytest.raises(nb.InvalidArgumentError, match=r"on: 's\.k' is a field of a struct"):
        lake.create_table("a.s", places).merge(source, on={"id": "s.k"}).when_matched(
            delete=True
        ).execute()
    plain = lake.create_table("a.c", source)
    with pytest.raises(nb.InvalidArgumentError, match="no primary key; give on="):
        plain.merge(source).when_matched(delete=True).execute()
    assert contents(table.refresh()) == OLD


def test_merges_meet_other_commits(lake: nb.Catalog, between: Between) -> None:
    table = stock(lake)
    other = lake.table("a.b")

    def merge(*keys: int) -> nb.Commit:
        return (
            table.merge(pa.table({"id": keys, "n": [1000] * len(keys)}))
            .when_matched(update=True, condition="target.n < 100")
            .when_not_matched()
            .when_not_matched_by_source(condition="target.note = 'new'")
            .execute()
        )

    between(
        lambda: other.upsert(
            pa.table({"id": [1, 60, 3], "n": [500, 0, 1], "note": ["new"] * 3, "g": [0] * 3})
        )
    )
    done = merge(1, 2, 50)
    wanted = OLD | {1: (500, "new", 0), 2: (1000, "old", 0), 50: (1000, None, None)}
    del wanted[3]
    assert contents(table) == wanted
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 1, 2)

    def rename() -> None:
        with other.alter() as a:
            a.rename_column("note", "remark")
        other.append(pa.table({"id": [70]}))

    other.refresh()
    between(rename)
    with pytest.raises(nb.ConflictError, match="no longer fits") as caught:
        merge(1, 51)
    assert caught.value.kind == "schema"
