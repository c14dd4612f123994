"""Compaction keeps every row, goes where it is needed, and gives way to other commits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.source import key_order
from nimblepy.table import iceberg as ice
from nimblepy.table.upkeep import compact as compaction
from nimblepy.table.writing.merging import Run, merged
from nimblepy.table.writing.write import key_table

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.int32(), "t": pa.string()})


def rows(keys: Sequence[int], note: str = "") -> pa.Table:
    return pa.table(
        {"k": keys, "g": [k % 3 for k in keys], "t": [f"{note}{k}" for k in keys]}, schema=SCHEMA
    )


def sorted_rows(table: nb.Table) -> list[dict[str, Any]]:
    return sorted(table.to_table().to_pylist(), key=repr)


def data_files(table: nb.Table) -> list[dict[str, Any]]:
    return list(table._current.members)


def deletes(table: nb.Table) -> int:
    return len(table._current.plan.delete_files())


# ---- merging ----

KEYS: dict[str, tuple[pa.Schema, st.SearchStrategy[Any], list[nb.SortKey]]] = {
    "int": (pa.schema({"a": pa.int64()}), st.tuples(st.integers(-3, 30)), [nb.SortKey("a")]),
    "text": (
        pa.schema({"a": pa.string()}),
        st.tuples(st.none() | st.text("ab\0ä", max_size=3)),
        [nb.SortKey("a", descending=True)],
    ),
    "two": (
        pa.schema({"a": pa.string(), "b": pa.float64()}),
        st.tuples(st.sampled_from(["", "x", "xy"]), st.none() | st.floats(width=16)),
        [nb.SortKey("a"), nb.SortKey("b", nulls_first=True)],
    ),
    "nested": (
        pa.schema({"s": pa.struct({"x": pa.int32()})}),
        st.tuples(st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)})),
        [nb.SortKey(("s", "x"))],
    ),
}


def encoded(table: pa.Table, keys: list[nb.SortKey]) -> list[bytes]:
    batches = key_table(table, keys).combine_chunks().to_batches()
    return EncodedKeys(batches[0], keys).to_list() if batches else []


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_runs_are_merged(kind: str, data: st.DataObject) -> None:
    schema, one, keys = KEYS[kind]
    schema = schema.append(pa.field("from", pa.int32()))
    tables, runs, opened = [], [], []
    for i in range(data.draw(st.integers(0, 5))):
        values = data.draw(st.lists(one, max_size=20))
        columns = [list(column) for column in zip(*values, strict=True)]
        columns = columns or [[] for _ in schema.names[:-1]]
        table = pa.table([*columns, [i] * len(values)], schema=schema)
        table = table.take(pa.array(key_order(key_table(table, keys), keys, False)))
        tables.append(table)
        size = data.draw(st.integers(1, 7))

        def batches(table: pa.Table = table, size: int = size, i: int = i) -> Iterator[Any]:
            opened.append(i)
            return iter(table.to_batches(max_chunksize=size))

        first = key_table(table.slice(0, 1), keys).to_batches()
        lower = EncodedKeys(first[0], keys).to_list()[0] if first else b""
        runs.append(Run(lower[: data.draw(st.integers(0, 9))], batches))
    found = pa.Table.from_batches(merged(runs, schema, keys), schema)
    together = pa.concat_tables([schema.empty_table(), *tables])
    order = key_order(key_table(together.combine_chunks(), keys), keys, False)
    wanted = together.take(pa.array(order))
    assert encoded(found, keys) == encoded(wanted, keys)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    assert sorted(opened) == list(range(len(runs)))


def test_runs_that_do_not_overlap_are_opened_one_after_another() -> None:
    keys = [nb.SortKey("k")]
    live: list[int] = []
    most: list[int] = []

    def run(i: int) -> Run:
        def batches() -> Iterator[pa.RecordBatch]:
            live.append(i)
            for j in range(3):
                most.append(len(live))
                yield rows([i * 10 + j]).to_batches()[0]
            live.remove(i)

        begin = pa.table({"0": [i * 10]}).to_batches()[0]
        return Run(EncodedKeys(begin, keys).to_list()[0], batches)

    found = list(merged([run(i) for i in (3, 1, 2)], SCHEMA, keys))
    assert [b.column(0)[0].as_py() for b in found] == [10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert max(most) == 1


# ---- what is done ----


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_files_become_one(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k", data_format=data_format)
    keys = list(range(1000))
    random.Random(1).shuffle(keys)
    for i in range(10):
        table.append(rows(keys[i * 100 : i * 100 + 100]))
    table.upsert(rows(range(0, 1000, 50), "new "))
    table.delete("k BETWEEN 100 AND 120")
    before = sorted_rows(table)
    assert deletes(table) == 2
    seen: list[tuple[int, int | None]] = []
    done = table.compact(progress=lambda rows, total: seen.append((rows, total)))
    assert seen[-1] == (979, 979)
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (0, 0, 0)
    assert (done.files_added, done.files_removed) == (1, 11)
    assert done.snapshot == table.snapshot
    assert done.bytes_written == table.size_bytes
    assert sorted_rows(table) == before
    assert table.num_rows == 979
    assert len(data_files(table)) == 1
    assert deletes(table) == 0
    assert table.to_table(["k"]).column("k").to_pylist() == sorted(r["k"] for r in before)
    last = table.snapshots().to_pylist()[-1]
    assert last["operation"] == "replace"
    assert (last["rows_inserted"], last["rows_deleted"]) == (0, 0)
    assert (last["files_added"], last["files_removed"]) == (1, 13)
    summary = table.iceberg.metadata.current_snapshot().summary
    assert (summary["total-data-files"], summary["total-delete-files"]) == ("1", "0")
    assert table.get(50)["t"] == "new 50"
    assert table.at(snapshot=table.snapshots().to_pylist()[-2]["snapshot_id"]).num_rows == 979
    again = table.compact()
    assert (again.snapshot, again.files_added) == (table.snapshot, 0)
    table.expire(keep=1)
    assert set(table.census().column("reachable").to_pylist()) == {True}


def test_short_manifests_become_one(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k", partition_by="g")
    for i in range(8):
        table.append(rows(range(i * 9, i * 9 + 9)))
    before = sorted_rows(table)
    assert len(table._current.plan.manifests) == 8
    done = table.compact(filter="g = 1")
    assert (done.files_added, done.files_removed) == (1, 8)
    assert len(table._current.plan.manifests) == 2
    assert len(data_files(table)) == 17
    assert sorted_rows(table) == before


def test_only_what_needs_it(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k")
    table.append(rows(range(20_000)))
    (large,) = data_files(table)
    target = large.file.bytes
    assert table.compact(target_bytes=target).files_removed == 0
    table.append(rows([30_000]))
    # One small file alone is left as it is, and so is one that is large beside it.
    assert table.compact(target_bytes=target).files_removed == 0
    table.append(rows([30_001]))
    done = table.compact(target_bytes=target)
    assert (done.files_added, done.files_removed) == (1, 2)
    assert large.file.path in {member.file.path for member in data_files(table)}
    table.delete("k < 1900")
    assert table.compact(target_bytes=target).files_removed == 0
    table.delete("k < 2100")
    assert deletes(table) == 2
    assert table.compact(target_bytes=target).files_removed == 1
    assert deletes(table) == 0
    assert table.num_rows == 17_902
    done = table.compact(target_bytes=target, where_needed=False)
    assert (done.files_added, done.files_removed) == (1, 2)
    assert sorted(table.to_table()["k"].to_pylist()) == [*range(2100, 20_000), 30_000, 30_001]


def test_files_that_overlap(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k")
    for i in range(9):
        table.append(rows(range(i, 9000, 9)))
    table.append(rows(range(9000, 10_000)))
    target = min(member.file.bytes for member in data_files(table))
    done = table.compact(target_bytes=target)
    assert done.files_removed == 9
    assert table._current.bounds is not None
    assert table._current.bounds.disjoint
    assert table.to_table(["k"]).column("k").to_pylist() == list(range(10_000))
    assert table.compact(target_bytes=target).files_removed == 0


def test_old_partitions_go(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k", partition_by="g")
    for i in range(3):
        table.append(rows(range(i * 9, i * 9 + 9)))
    with table.alter() as a:
        a.partition_by("truncate(1, t)")
        a.add_column("x", pa.int32(), default=7)
    before = sorted_rows(table)
    table.compact(where_needed=False)
    spec = table.iceberg.metadata.default_spec_id
    assert {member.file.spec_id for member in data_files(table)} == {spec}
    assert {m.file.partition for m in data_files(table)} == {(str(i),) for i in range(10)}
    assert sorted_rows(table) == before
    assert {row["x"] for row in before} == {7}


def test_files_that_are_not_in_order(lake: nb.Catalog, tmp_path: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k")
    table.append(rows(range(0, 100, 2)))
    nb.write(rows([99, 5, 7, 1]), tmp_path / "x.nimble")
    table.add_files(tmp_path / "x.nimble")
    table.compact()
    assert table.to_table(["k"]).column("k").to_pylist() == sorted([*range(0, 100, 2), 1, 5, 7, 99])


def test_no_cluster_key_and_no_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA)
    assert table.compact().snapshot is None
    for i in range(3):
        table.append(rows(range(i, 30, 3)))
    assert table.compact().files_removed == 3
    assert len(sorted_rows(table)) == 30
    table.delete("k >= 0")
    assert table.compact().files_removed == 0
    assert table.num_rows == 0


def test_what_is_refused(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(9)))
    with pytest.raises(nb.InvalidArgumentError, match="target_bytes"):
        table.compact(target_bytes=0)
    with pytest.raises(nb.InvalidArgumentError, match="nowhere"):
        table.compact(filter="nowhere = 1")
    assert table.compact(filter="k > 100", where_needed=False).files_removed == 0


def test_a_failure_leaves_nothing(lake: nb.Catalog, monkeypatch: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k", partition_by="g")
    for i in range(3):
        table.append(rows(range(i * 9, i * 9 + 9)))
    calls: list[int] = []
    plain = compaction.write

    def failing(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OSError("no space left")
        plain(*arguments)

    monkeypatch.setattr(compaction, "write", failing)
    with pytest.raises(OSError, match="no space"):
        table.compact()
    assert set(table.census().column("reachable").to_pylist()) == {True}
    assert table.refresh().num_rows == 27


# ---- beside other commits ----

BESIDE: dict[str, Callable[[nb.Table], Any]] = {
    "append": lambda t: t.append(rows([500])),
    "delete": lambda t: t.delete(keys=[3, 14]),
    "upsert": lambda t: t.upsert(rows([2, 15, 501], "newer ")),
    "delete a file": lambda t: t.delete("k < 9"),
    "overwrite": lambda t: t.overwrite(rows([6, 9]), filter="g = 0"),
    "overwrite all": lambda t: t.overwrite(rows([7, 8])),
    "compact": lambda t: t.compact(),
    "expire": lambda t: (t.compact(), t.expire(keep=1)),
    "rollback": lambda t: t.rollback(t.snapshots().to_pylist()[-2]["snapshot_id"]),
    "rename": lambda t: _rename(t),
    "partition": lambda t: _partition(t),
}


def _rename(table: nb.Table) -> None:
    with table.alter() as a:
        a.rename_column("k", "key")
    table.delete(keys=[5])


def _partition(table: nb.Table) -> None:
    with table.alter() as a:
        a.partition_by("bucket(2, k)")
    table.upsert(rows([5, 6], "bucket "))


@pytest.mark.parametrize("primary", [True, False])
@pytest.mark.parametrize("name", BESIDE)
def test_beside_another_commit(
    lake: nb.Catalog, monkeypatch: Any, name: str, primary: bool
) -> None:
    if not primary and name in ("delete", "upsert", "partition", "rename"):
        pytest.skip("needs a primary key")
    key = {"primary_key": "k"} if primary else {"cluster_by": "k"}
    table = lake.create_table("a.b", SCHEMA, partition_by="g", **key)
    for i in range(3):
        table.append(rows(range(i * 9, i * 9 + 9)))
    table.delete("k = 4")
    other = lake.table("a.b")
    plain, done = ice.swap, list[Any]()

    def swap(*arguments: Any) -> Any:
        if not done:
            done.append(1)
            BESIDE[name](other)
            done.append(sorted_rows(other.refresh()))
        return plain(*arguments)

    monkeypatch.setattr(ice.snapshot_commit, "swap", swap)
    commit = table.compact()
    table.refresh()
    assert sorted_rows(table) == done[1]
    assert table.num_rows == len(done[1]) == table.count_rows()
    if primary:
        keys = [next(iter(row.values())) for row in done[1]]
        assert sorted(next(iter(row.values())) for row in table.lookup(keys).to_pylist()) == sorted(
            keys
        )
    assert set(table.census().column("reachable").to_pylist()) == {True}
    if name in ("append", "delete", "upsert", "rename", "partition"):
        # All of the work stays good: each group was written once.
        assert (commit.files_added - deletes(table), commit.files_removed) == (3, 9)
        assert commit.retries == 1
    if name == "compact" or name == "expire":
        assert commit.files_added == 0


def test_groups_that_are_still_good_are_kept(lake: nb.Catalog, monkeypatch: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k", partition_by="g")
    for i in range(3):
        table.append(rows(range(i * 9, i * 9 + 9)))
    other = lake.table("a.b")
    plain, done = ice.swap, list[int]()

    def swap(*arguments: Any) -> Any:
        if not done:
            done.append(1)
            other.delete("k = 3")
        return plain(*arguments)

    written: list[int] = []
    write = compaction.write

    def counted(group: Any, *arguments: Any) -> None:
        written.append(len(group.members))
        write(group, *arguments)

    monkeypatch.setattr(ice.snapshot_commit, "swap", swap)
    monkeypatch.setattr(compaction, "write", counted)
    commit = table.compact()
    # The group of g = 0 was given up, and written again by a second commit.
    assert written == [3, 3, 3, 3]
    assert (commit.files_added, commit.files_removed) == (3, 9)
    assert [r["operation"] for r in table.snapshots().to_pylist()][-3:] == [
        "overwrite" if table.snapshots().to_pylist()[-3]["operation"] == "overwrite" else "delete",
        "replace",
        "replace",
    ]
    assert sorted(table.to_table()["k"].to_pylist()) == [k for k in range(27) if k != 3]


def test_a_writer_is_not_refused(lake: nb.Catalog, monkeypatch: Any) -> None:
    """Writers that planned before a compaction, and commit after it."""
    for name in ("append", "delete", "upsert", "overwrite"):
        table = lake.create_table(f"a.{name}", SCHEMA, primary_key="k")
        for i in range(3):
            table.append(rows(range(i * 9, i * 9 + 9)))
        other = lake.table(f"a.{name}")
        plain, done = ice.swap, list[int]()

        def swap(
            *arguments: Any,
            plain: Any = plain,
            done: list[int] = done,
            other: nb.Table = other,
        ) -> Any:
            if not done:
                done.append(1)
                assert other.compact().files_removed == 3
            return plain(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(ice.snapshot_commit, "swap", swap)
            BESIDE[name](table)
        wanted = lake.create_table(f"b.{name}", rows(range(27)), primary_key="k")
        BESIDE[name](wanted)
        assert sorted_rows(table) == sorted_rows(wanted)
        assert table.num_rows == wanted.num_rows
        assert len(set(table.to_table()["k"].to_pylist())) == table.num_rows


# ---- any order of changes ----


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_any_order(tmp_path_factory: Any, data_format: Any, seed: int) -> None:
    rng = random.Random(seed)
    lake = nb.connect(tmp_path_factory.mktemp("lake"))
    table = lake.create_table(
        "a.b",
        SCHEMA,
        primary_key="k",
        cluster_by=rng.choice(["k", "t", ["g", "k"]]),
        partition_by=rng.choice([(), "g", "bucket(2, k)"]),
        data_format=data_format,
    )
    model: dict[int, str] = {}
    pasts: list[tuple[int, dict[int, str]]] = []
    for step in range(12):
        match rng.choice(["upsert", "upsert", "delete", "filter", "compact", "partition"]):
            case "upsert":
                keys = rng.sample(range(40), rng.randint(1, 15))
                table.upsert(rows(keys, f"{step} "))
                model.update({k: f"{step} {k}" for k in keys})
            case "delete":
                keys = rng.sample(range(40), rng.randint(1, 8))
                table.delete(keys=keys)
                for k in keys:
                    model.pop(k, None)
            case "filter":
                low = rng.randint(0, 40)
                table.delete(f"k BETWEEN {low} AND {low + 5}")
                model = {k: t for k, t in model.items() if not low <= k <= low + 5}
            case "compact":
                table.compact(
                    target_bytes=rng.choice([2000, 4000, 1 << 20]),
                    where_needed=rng.random() < 0.5,
                    filter=rng.choice([None, "k < 20", "g = 1"]),
                )
            case "partition":
                with table.alter() as a:
                    a.partition_by(*rng.choice([(), ("g",), ("truncate(10, k)", "g")]))
        found = {row["k"]: row["t"] for row in table.to_table().to_pylist()}
        assert found == model
        assert table.num_rows == len(model)
        if table.snapshot is not None:
            pasts.append((table.snapshot, dict(model)))
    some = np.arange(40)
    found = table.lookup(some).to_pylist()
    assert {row["k"]: row["t"] for row in found} == model
    for snapshot, past in pasts:
        old = table.at(snapshot=snapshot).to_table().to_pylist()
        assert {row["k"]: row["t"] for row in old} == past


def test_delete_files_are_merged(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k", partition_by="g")
    table.append(rows(range(3000)))
    target = min(member.file.bytes for member in data_files(table))
    for i in range(6):
        table.delete(keys=[i * 3, 500 + i * 3])
    assert deletes(table) == 12
    before = sorted_rows(table)
    done = table.compact(target_bytes=target)
    # Six delete files of each of two partitions became one; the data files stay.
    assert (done.files_added, done.files_removed) == (2, 0)
    assert deletes(table) == 2
    assert sorted_rows(table) == before
    assert table.num_rows == 2988
    assert table.compact(target_bytes=target).files_added == 0
    assert list(table.changes(done.snapshot)) == []
    table.delete(keys=[30])
    assert table.num_rows == 2987


def test_merged_delete_files_leave_files_alone_that_came_again(
    lake: nb.Catalog, tmp_path: Any
) -> None:
    """What was deleted of a file before it was removed is not deleted once it is added again."""
    table = lake.create_table("a.b", SCHEMA, cluster_by="k")
    names = [str(tmp_path / f"{name}.nimble") for name in "abc"]
    for name, first in zip(names, (0, 1000, 2000), strict=True):
        nb.write(rows(range(first, first + 900)), name, cluster_by=["k"])
    table.add_files(names)
    # One delete file names all three: readers tell by its bounds which it may be about.
    table.delete("k IN (1, 1001, 1002, 1003, 2001)")
    table.delete("k >= 1000 AND k < 2000")
    table.add_files([names[1]])
    for k in range(2, 7):
        table.delete(f"k IN ({k}, {1004 + k})")
    before = sorted_rows(table)
    assert len(before) == 2700 - 2 - 10
    files_before = deletes(table)
    assert table.compact(target_bytes=10).files_removed == 0
    assert deletes(table) == 1 < files_before
    assert sorted_rows(table) == before
    assert table.num_rows == len(before)


def test_few_rows_do_not_move_many(lake: nb.Catalog) -> None:
    """Small files over the keys of a large one become one small file."""
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    rng = random.Random(1)
    large_rows = rows(range(0, 200_000, 2))
    noise = pa.array([rng.randbytes(12).hex() for _ in range(large_rows.num_rows)])
    table.append(large_rows.set_column(2, "t", noise))
    (large,) = data_files(table)
    for i in range(10):
        table.upsert(rows([i * 2, 100_001 + i * 2, 199_999 - i * 2]))
    done = table.compact()
    assert (done.files_removed, table._current.num_files) == (10, 2)
    assert deletes(table) == 1
    assert large.file.path in {member.file.path for member in data_files(table)}
    assert table.num_rows == len(table.to_table()) == 100_020


def test_many_files_that_overlap_are_found_in_a_moment() -> None:
    """Each is looked at once, however many reach over it."""
    count = 2_000
    numbers = [number.to_bytes(4, "big") for number in range(count + 1)]
    files = compaction.Group([], numbers[:-1], [numbers[-1]] * count)
    files.members = [None] * count  # type: ignore[list-item]
    steps = 0

    class Counted(set[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal steps
            steps += 1
            return super().__iter__()

    parts = [Counted([number]) for number in range(count)]
    assert compaction._deep(files, parts) == set(range(count))
    assert steps <= 4 * count
