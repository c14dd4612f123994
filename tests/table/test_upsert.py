"""Upserts and deletes by key: what they do alone, and beside other commits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table.changing import keyed_rows

Between = Callable[[Callable[[], Any]], None]
FORMATS = pytest.mark.parametrize("data_format", ["nimble", "parquet"])


def rows(keys: Any, value: int = 0, **more: Any) -> pa.Table:
    keys = list(keys)
    columns = {"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys), pa.int64())}
    return pa.table({**columns, **more})


def contents(table: nb.Table) -> dict[int, int]:
    found = table.to_table(["k", "v"])
    pairs = list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(dict(pairs)) == len(pairs), "a key twice"
    assert len(pairs) == table.num_rows
    return dict(pairs)


def files(table: nb.Table) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def reachable(table: nb.Table) -> set[str]:
    return {row["path"] for row in table.census().to_pylist() if row["reachable"]}


@FORMATS
@pytest.mark.parametrize("cluster_by", [None, "v", ["v", "k"]])
@pytest.mark.parametrize("partition_by", [(), "bucket(3, k)", "v"])
def test_upsert(lake: nb.Catalog, data_format: Any, cluster_by: Any, partition_by: Any) -> None:
    table = lake.create_table(
        "a.b",
        rows(range(20)),
        primary_key="k",
        cluster_by=cluster_by,
        partition_by=partition_by,
        data_format=data_format,
    )
    done = table.upsert(rows([30, 5, 3, 31, 19], 1))
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 3, 0)
    wanted = dict.fromkeys(range(20), 0) | dict.fromkeys([30, 5, 3, 31, 19], 1)
    assert contents(table) == wanted
    assert table.get(5) == {"k": 5, "v": 1}
    assert table.lookup([3, 4, 99], columns=["v"])["v"].to_pylist() == [1, 0]
    assert table.contains([30, 99]).to_pylist() == [True, False]
    assert contents(table.at(snapshot=table.snapshots()["snapshot_id"][0].as_py())) == (
        dict.fromkeys(range(20), 0)
    )
    done = table.upsert(rows(range(20), 2))  # whole files go
    assert (done.rows_inserted, done.rows_updated) == (0, 20)
    assert contents(table) == dict.fromkeys(range(20), 2) | {30: 1, 31: 1}
    history = table.snapshots().to_pylist()
    assert [row["rows_updated"] for row in history] == [0, 3, 20]
    done = table.delete(keys=iter([5, 31, 99]))
    assert done.rows_deleted == 2
    assert 5 not in contents(table)
    assert files(table) == reachable(table)


def test_one_file_for_each_partition(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows([]).schema, primary_key="k", partition_by="v")
    for i in range(5):
        table.append(rows(range(i, 100, 5), i % 2))
    done = table.upsert(rows(range(0, 100, 3), 7))
    assert done.files_added == 3  # one of rows, and of deletes one for each of two partitions
    assert contents(table) == {k: 7 if k % 3 == 0 else k % 5 % 2 for k in range(100)}


@FORMATS
def test_columns_that_are_updated(lake: nb.Catalog, data_format: Any) -> None:
    schema = pa.schema(
        {
            "k": pa.int64(),
            "a": pa.string(),
            "b": pa.list_(pa.struct({"x": pa.int32()})),
            "c": pa.decimal128(9, 2),
        }
    )
    table = lake.create_table("a.b", schema, primary_key="k", data_format=data_format)
    old = [{"k": k, "a": f"old {k}", "b": [{"x": k}], "c": Decimal(k)} for k in range(6)]
    table.append(pa.Table.from_pylist(old[:3], schema))
    table.append(pa.Table.from_pylist(old[3:], schema))
    data = pa.table({"c": [Decimal("0.50")] * 4, "a": ["new"] * 4, "k": [9, 4, 1, 8]})
    done = table.upsert(data, update=["c"])
    assert (done.rows_inserted, done.rows_updated) == (2, 2)
    half = Decimal("0.50")
    changed = [row | {"c": half} if row["k"] in (1, 4) else row for row in old]
    new = [{"k": k, "a": "new", "b": None, "c": half} for k in (8, 9)]
    assert sorted(table.to_table().to_pylist(), key=lambda row: row["k"]) == changed + new


def test_columns_that_must_have_values(lake: nb.Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), pa.field("v", pa.int64(), False), ("w", pa.int64())])
    table = lake.create_table("a.b", pa.table([[1], [1], [1]], schema=schema), primary_key="k")
    assert table.upsert(pa.table({"k": [1], "w": [5]}), update=["w"]).rows_updated == 1
    assert table.get(1) == {"k": 1, "v": 1, "w": 5}
    with pytest.raises(nb.InvalidArgumentError, match="'v' is missing; it must not be null, and 1"):
        table.upsert(pa.table({"k": [1, 2], "w": [5, 5]}), update=["w"])
    with pytest.raises(nb.InvalidArgumentError, match="'v' is missing"):
        table.upsert(pa.table({"k": [1], "w": [5]}))
    assert files(table) == reachable(table)


def test_matched_rows_are_ignored_or_refused(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(5)), primary_key="k")
    done = table.upsert(rows([3, 4, 5, 6], 1), when_matched="ignore")
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 0, 0)
    assert contents(table) == dict.fromkeys(range(5), 0) | {5: 1, 6: 1}
    before = table.snapshot
    assert table.upsert(rows([3], 1), when_matched="ignore").snapshot == before
    with pytest.raises(nb.DuplicateKeyError, match="k=3 is in the table already, and 1 more"):
        table.upsert(rows([3, 4, 9], 2), when_matched="error")
    assert table.refresh().snapshot == before
    assert table.upsert(rows([9], 2), when_matched="error").rows_inserted == 1
    assert files(table) == reachable(table)


def test_what_is_refused(lake: nb.Catalog) -> None:
    plain = lake.create_table("a.plain", rows(range(3)), cluster_by="k")
    with pytest.raises(nb.InvalidArgumentError, match="no primary key"):
        plain.upsert(rows([1]))
    table = lake.create_table("a.b", rows(range(3)), primary_key="k")
    before = files(table)
    for data, arguments, message in [
        (pa.table({"k": [1, None], "v": [1, 1]}), {}, "'k' has 1 null"),
        (pa.table({"v": [1]}), {}, "'k' is missing; every column of the key"),
        (pa.table({"k": ["x"]}), {}, "column 'k' is string"),
        (rows([1], w=[2]), {}, "unknown column 'w'; the table has k, v"),
        (rows([1]), {"when_matched": "replace"}, "when_matched: expected one of 'update', "),
        (rows([1]), {"duplicates": "first"}, "duplicates: expected 'error' or 'last'"),
        (rows([1]), {"update": 5}, "update: expected a list of names"),
        (rows([1]), {"update": []}, "update: expected at least one column"),
        (rows([1]), {"update": ["w"]}, "update: a.b has no column 'w'"),
        (pa.table({"k": [1]}), {"update": ["v"]}, "update: the data have no column 'v'"),
        (rows([1]), {"update": ["v"], "when_matched": "ignore"}, "update: not allowed"),
    ]:
        with pytest.raises(nb.InvalidArgumentError, match=message):
            table.upsert(data, **arguments)
    with pytest.raises(nb.DuplicateKeyError, match="k=1 is in row 1 and in row 3 of the data"):
        table.upsert(rows([0, 1, 2, 1]))
    assert files(table) == before
    with pytest.raises(nb.InvalidArgumentError, match="read-only"):
        table.at(snapshot=table.snapshot).upsert(rows([1]))
    assert table.upsert(rows([])).snapshot == table.snapshot


@pytest.mark.parametrize("memory", [keyed_rows.MEMORY_BYTES, 100])
def test_a_key_twice_in_the_data(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(keyed_rows, "MEMORY_BYTES", memory)
    monkeypatch.setattr(keyed_rows, "CHUNK_BYTES", 200)
    generator = np.random.default_rng(1)
    keys = generator.integers(0, 400, 1000)
    batches = [
        pa.record_batch({"k": part, "v": part * 0 + i}) for i, part in enumerate(np.split(keys, 20))
    ]
    table = lake.create_table("a.b", rows(range(200), -1), primary_key="k")
    data = pa.Table.from_batches(batches)
    done = table.upsert(data, duplicates="last")
    last = dict(zip(data["k"].to_pylist(), data["v"].to_pylist(), strict=True))
    assert contents(table) == dict.fromkeys(range(200), -1) | last
    assert done.rows_inserted + done.rows_updated == len(last)
    first = list(data["k"].to_pylist())
    with pytest.raises(nb.DuplicateKeyError) as caught:
        table.upsert(data)
    least = min(k for k in first if first.count(k) > 1)
    places = [i for i, k in enumerate(first) if k == least][:2]
    assert f"k={least} is in row {places[0]} and in row {places[1]}" in str(caught.value)


@FORMATS
@pytest.mark.parametrize("update", [None, ["v"]])
def test_more_rows_than_fit_in_memory(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any, update: Any
) -> None:
    monkeypatch.setattr(keyed_rows, "MEMORY_BYTES", 50_000)
    monkeypatch.setattr(keyed_rows, "CHUNK_BYTES", 20_000)
    keys = np.random.default_rng(2).permutation(30_000)
    table = lake.create_table("a.b", rows(range(20_000)), primary_key="k", data_format=data_format)
    data = rows(keys[:15_000].tolist(), 1)
    done = table.upsert(data.to_reader(max_chunksize=1000), update=update)
    old = sum(1 for k in keys[:15_000] if k < 20_000)
    assert (done.rows_updated, done.rows_inserted) == (old, 15_000 - old)
    assert contents(table) == dict.fromkeys(range(20_000), 0) | dict.fromkeys(
        keys[:15_000].tolist(), 1
    )


def test_keys_of_several_columns(lake: nb.Catalog) -> None:
    data = pa.table({"u": ["b", "a", "b", "aa"], "n": [1, 2, 2, 1], "v": [0, 0, 0, 0]})
    table = lake.create_table("a.b", data, primary_key=["u", "n"])
    table.upsert(pa.table({"n": [2, 1], "v": [7, 8], "u": ["b", "c"]}))
    found = {(r["u"], r["n"]): r["v"] for r in table.to_table().to_pylist()}
    assert found == {("b", 1): 0, ("a", 2): 0, ("b", 2): 7, ("aa", 1): 0, ("c", 1): 8}
    with pytest.raises(nb.DuplicateKeyError, match="u='b', n=2 is in row 0 and in row 2"):
        table.upsert(pa.table({"u": ["b", "a", "b"], "n": [2, 2, 2]}))


# ---- beside other commits ----


@FORMATS
def test_an_upsert_meets_its_own_keys(lake: nb.Catalog, between: Between, data_format: Any) -> None:
    table = lake.create_table("a.b", rows(range(10)), primary_key="k", data_format=data_format)
    other = lake.table("a.b")
    between(lambda: other.upsert(rows([3, 20], 1)))
    done = table.upsert(rows([3, 4, 20, 21], 2))
    assert (done.rows_updated, done.rows_inserted, done.retries) == (3, 1, 1)
    assert contents(table) == dict.fromkeys(range(10), 0) | dict.fromkeys([3, 4, 20, 21], 2)
    assert files(table) == reachable(table)


def test_an_upsert_meets_rows_that_moved(lake: nb.Catalog, between: Between) -> None:
    """What a compaction does: the rows are the same, and lie in other files."""
    table = lake.create_table("a.b", rows(range(10)), primary_key="k")
    other = lake.table("a.b")
    between(lambda: other.overwrite(other.to_table()))
    done = table.upsert(rows([3, 20], 2))
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert contents(table) == dict.fromkeys(range(10), 0) | {3: 2, 20: 2}


def test_an_upsert_meets_a_rollback(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(range(4)), primary_key="k")
    first = table.snapshot
    assert first is not None
    table.delete(keys=[2])
    other = lake.table("a.b")
    between(lambda: other.rollback(first))
    assert table.upsert(rows([2], 5)).rows_updated == 1
    assert contents(table) == {0: 0, 1: 0, 2: 5, 3: 0}


def test_a_partial_update_meets_another(lake: nb.Catalog, between: Between) -> None:
    data = pa.table({"k": [1, 2], "v": [0, 0], "w": [0, 0]})
    table = lake.create_table("a.b", data, primary_key="k")
    other = lake.table("a.b")
    between(lambda: other.upsert(pa.table({"k": [1], "w": [5]}), update=["w"]))
    table.upsert(pa.table({"k": [1], "v": [6]}), update=["v"])
    assert table.get(1) == {"k": 1, "v": 6, "w": 5}
    between(lambda: other.delete(keys=[2]))
    done = table.upsert(pa.table({"k": [2], "v": [6]}), update=["v"])
    assert (done.rows_inserted, done.rows_updated) == (1, 0)
    assert table.get(2) == {"k": 2, "v": 6, "w": None}
    assert files(table) == reachable(table)


def test_ignored_rows_meet_a_delete(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(range(4)), primary_key="k")
    other = lake.table("a.b")
    between(lambda: other.delete(keys=[2]))
    assert table.upsert(rows([2, 3, 9], 1), when_matched="ignore").rows_inserted == 2
    assert contents(table) == {0: 0, 1: 0, 2: 1, 3: 0, 9: 1}
    between(lambda: other.append(rows([8])))
    with pytest.raises(nb.DuplicateKeyError, match="k=8"):
        table.upsert(rows([8], 1), when_matched="error")


def test_an_upsert_meets_renamed_columns(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(range(4)), primary_key="k")
    other = lake.table("a.b")

    def rename() -> None:
        with other.alter() as a:
            a.rename_column("k", "key").add_column("w", pa.int64(), default=7)
        other.upsert(pa.table({"key": [1], "v": [3], "w": [4]}))

    between(rename)
    assert table.upsert(pa.table({"k": [1, 9], "v": [2, 2]}), update=["v"]).rows_updated == 1
    assert table.get(1) == {"key": 1, "v": 2, "w": 4}
    assert table.get(9) == {"key": 9, "v": 2, "w": None}


def test_deletes_by_key_meet_an_upsert(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(range(6)), primary_key="k")
    other = lake.table("a.b")
    between(lambda: other.upsert(rows([3, 7], 1)))
    done = table.delete(keys=iter([3, 4, 7]))
    assert done.rows_deleted == 3
    assert contents(table) == {0: 0, 1: 0, 2: 0, 5: 0}


def test_only_new_files_are_asked_again(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows([]).schema, primary_key="k")
    for i in range(6):
        table.append(rows(range(i, 600, 6)))
    other = lake.table("a.b")
    table.upsert(rows([0]))
    asked: list[str] = []
    from nimblepy.table.reading import fileset

    plain = fileset.FileSet.find

    def find(self: Any, *arguments: Any, **keywords: Any) -> Any:
        asked.extend(member.file.path for member in self.members)
        return plain(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileset.FileSet, "find", find)
        between(lambda: other.append(rows([1000])))
        table.upsert(rows([5, 1000], 4))
    assert len(asked) == len(set(asked)) == 8
    assert contents(table)[1000] == 4
