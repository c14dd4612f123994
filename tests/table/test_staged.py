"""Files that other processes wrote, described as text and committed by one."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, UUIDType

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.changing import staged as staged_files
from nimblepy.table.distributed import commit_files, write_rows, write_target
from nimblepy.table.handle import TableState
from nimblepy.table.reading.shipped import files_as_text, files_of_text
from nimblepy.table.testing import commit_hooks
from nimblepy.table.writing.batches import batch_is_done, checked_batch


def rows(keys: range, v: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "g": pa.array([None if k % 5 == 4 else f"g{k % 5}" for k in keys], pa.string()),
            "v": pa.array([v] * len(keys), pa.int64()),
        }
    )


def commit(table: nb.Table, files: Any, **arguments: Any) -> nb.Commit:
    """As ``commit_files``, also with a filter."""
    if "filter" not in arguments:
        return commit_files(table, files, **arguments)
    given = {"partition_overwrite": "static", "batch": None, "mode": "append", **arguments}
    return staged_files.commit_files(TableState(table), files, **given)


def has_batch(table: nb.Table, batch: Any) -> bool:
    return batch_is_done(TableState(table).newest(), checked_batch(batch))


def staged(table: nb.Table, data: pa.Table, **arguments: Any) -> nb.Commit:
    files = write_rows(data, write_target(table))
    return commit(table, files_of_text(files_as_text(files)), **arguments)


def counts(table: nb.Table) -> Counter[tuple[str | None, int]]:
    found = table.to_table(["g", "v"]).to_pylist()
    return Counter((row["g"], row["v"]) for row in found)


def orphans(table: nb.Table) -> int:
    return len(table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("before", [[], ["g"], ["bucket(3, k)"], ["truncate(1, g)"]], ids=str)
def test_partitions_are_overwritten(lake: nb.Catalog, data_format: Any, before: list[str]) -> None:
    """Of files of another partitioning, rows go by the partition that they would be in now."""
    table = lake.create_table(
        "a.b", rows(range(100), 1), partition_by=before, cluster_by="k", data_format=data_format
    )
    table.delete("k % 10 = 1")
    with table.alter() as a:
        a.rename_column("g", "group")
        a.partition_by("group")
    new = rows(range(0, 10, 5), 2)
    more = pa.concat_tables([new, rows(range(4, 5), 2)]).rename_columns(["k", "group", "v"])
    done = staged(table, more, mode="overwrite", partition_overwrite="dynamic")
    assert (done.rows_inserted, done.rows_deleted) == (3, 40)  # all of g0, and those without
    with table.alter() as a:
        a.rename_column("group", "g")
    kept = {("g1", 1): 10, ("g2", 1): 20, ("g3", 1): 20}
    assert counts(table) == Counter(kept) + Counter({("g0", 2): 2, (None, 2): 1})
    # Nothing to write overwrites nothing.
    assert (
        commit_files(table, [], mode="overwrite", partition_overwrite="dynamic").rows_deleted == 0
    )
    assert orphans(table) == 0


def test_partitions_of_uuids_are_overwritten(lake: nb.Catalog) -> None:
    """Manifests give them back as bytes, which is how new files have them."""
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "u"))  # type: ignore[call-arg]
    schema = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "v", LongType()))
    lake.iceberg.create_namespace("a")
    lake.iceberg.create_table("a.b", schema, partition_spec=spec)
    table = lake.table("a.b")

    def of(u: uuid.UUID, v: list[int]) -> pa.Table:
        return pa.table([pa.array([u.bytes] * len(v), pa.binary(16)), v], schema=table.schema)

    table.append(of(one, [1, 2]))
    table.append(of(other, [3]))
    staged(table, of(one, [10]), mode="overwrite", partition_overwrite="dynamic")
    assert sorted(table.to_table(["v"]).column("v").to_pylist()) == [3, 10]


@pytest.mark.parametrize("version", [2, 3])
def test_upsert(lake: nb.Catalog, version: int) -> None:
    table = lake.create_table(
        "a.b", rows(range(50), 1), primary_key="k", partition_by="g", format_version=version
    )
    done = staged(table, rows(range(40, 60), 2), mode="upsert")
    assert (done.rows_inserted, done.rows_updated) == (10, 10)
    assert table.count_rows("v = 2") == 20
    assert table.num_rows == 60
    both = [
        *write_rows(rows(range(70, 72), 1), write_target(table)),
        *write_rows(rows(range(71, 73), 1), write_target(table)),
    ]
    with pytest.raises(nb.DuplicateKeyError, match="k=71"):
        commit_files(table, both, mode="upsert")
    with pytest.raises(nb.DuplicateKeyError, match="k=3"):
        staged(table, rows(range(3, 4), 1))
    with pytest.raises(nb.InvalidArgumentError, match="no primary key"):
        staged(lake.create_table("a.c", rows(range(1), 1)), rows(range(1), 1), mode="upsert")
    assert orphans(table) + orphans(lake.table("a.c")) == 0


def by_key(table: nb.Table, columns: list[str]) -> dict[int, tuple[Any, ...]]:
    found = table.to_table(["k", *columns])
    values = {row["k"]: tuple(row[name] for name in columns) for row in found.to_pylist()}
    assert len(values) == found.num_rows
    return values


@pytest.mark.parametrize("columns", ["nullable", "not null"])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_upserts_keep_row_ids_and_values(lake: nb.Catalog, data_format: Any, columns: str) -> None:
    """The rows that were written again with the ids had only the key's columns."""
    schema = rows(range(1), 1).schema
    if columns == "not null":
        schema = pa.schema([schema.field("k"), schema.field("g"), pa.field("v", pa.int64(), False)])
    table = lake.create_table(
        "a.b",
        rows(range(20), 1).cast(schema),
        primary_key="k",
        data_format=data_format,
        format_version=3,
    )
    ids = by_key(table, ["_row_id"])
    new = rows(range(15, 30, 2), 2).cast(schema)
    target = write_target(table)
    files = [*write_rows(new.slice(3), target), *write_rows(new.slice(0, 3), target)]
    done = commit_files(table, files, mode="upsert")
    assert (done.rows_inserted, done.rows_updated) == (5, 3)
    expected = by_key_of(rows(range(20), 1)) | by_key_of(new)
    assert by_key(lake.table("a.b"), ["g", "v"]) == expected
    now = by_key(table, ["_row_id", "_last_updated_sequence_number"])
    assert len({number for number, _ in now.values()}) == 25
    for key, (number, sequence) in now.items():
        assert (number == ids[key][0]) if key in ids else number >= 20
        assert sequence == (2 if key in new["k"].to_pylist() else 1)
    assert orphans(table) == 0
    again = commit_files(table, files, mode="upsert")
    assert (again.rows_inserted, again.rows_updated, again.snapshot) == (0, 0, table.snapshot)
    # without a row that it replaces, the file of the worker becomes part of the table
    files = write_rows(rows(range(40, 42), 3).cast(schema), target)
    commit_files(table, files, mode="upsert")
    assert files[0].path in {member.file.path for member in table._current.members}
    assert by_key(table, ["g", "v"]) == expected | by_key_of(rows(range(40, 42), 3))


def by_key_of(data: pa.Table) -> dict[int, tuple[Any, ...]]:
    return {row["k"]: (row["g"], row["v"]) for row in data.to_pylist()}


@pytest.mark.parametrize("outcome", ["commits", "fails"])
@pytest.mark.parametrize("version", [2, 3])
def test_staged_upserts_lose_races(lake: nb.Catalog, version: int, outcome: str) -> None:
    """Attempts replace other rows each time, and the last ones none. Each needs the files."""
    table = lake.create_table("a.b", rows(range(5), 1), primary_key="k", format_version=version)
    other = lake.table("a.b")
    changes = [
        lambda: other.upsert(rows(range(10, 13), 2)),
        lambda: other.delete("k = 11"),
        lambda: other.delete("k >= 10"),
        lambda: other.upsert(rows(range(12, 14), 3)),
    ]
    if version == 2:
        changes.insert(1, lambda: upgraded(other))
    if outcome == "fails":
        changes.append(fail)
    files = write_rows(rows(range(10, 15), 4), write_target(table))

    def lose() -> None:
        if changes:
            changes.pop(0)()

    expected = by_key_of(rows(range(5), 1)) | by_key_of(rows(range(10, 15), 4))
    with commit_hooks(before_swap=lose):
        if outcome == "fails":
            with pytest.raises(RuntimeError, match="no swap"):
                commit_files(table, files, mode="upsert")
            expected = by_key_of(rows(range(5), 1)) | by_key_of(rows(range(12, 14), 3))
        else:
            done = commit_files(table, files, mode="upsert")
            assert (done.rows_inserted, done.rows_updated) == (3, 2)
    now = lake.table("a.b")
    assert by_key(now, ["g", "v"]) == expected
    assert len(set(by_key(now, ["_row_id"]).values())) == len(expected)
    assert orphans(now) == 0


def upgraded(table: nb.Table) -> None:
    with table.alter() as a:
        a.upgrade(3)


def fail() -> None:
    raise RuntimeError("no swap")


def test_a_staged_upsert_leaves_files_of_older_snapshots(lake: nb.Catalog) -> None:
    """The rows are written again, but a branch still reads the files of the workers."""
    table = lake.create_table("a.b", rows(range(5), 1), primary_key="k", format_version=3)
    files = write_rows(rows(range(3, 7), 2), write_target(table))
    before = table.snapshot
    table.branch("work")
    work = table.at(branch="work")
    work.delete("k >= 3")
    commit_files(work, files)
    assert table.refresh().snapshot == before
    commit_files(table, files, mode="upsert")
    expected = by_key_of(rows(range(3), 1)) | by_key_of(rows(range(3, 7), 2))
    for some in (lake.table("a.b"), lake.table("a.b").at(branch="work")):
        assert by_key(some, ["g", "v"]) == expected


def test_a_batch_meets_itself(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drivers add the same batch: the one that is second at the swap finds it there."""
    table = lake.create_table("a.b", rows(range(5), 1))
    other = lake.table("a.b")
    plain = ice.swap
    left = [lambda: staged(other, rows(range(10), 2), batch=("x", 7))]

    def swap(*arguments: Any) -> Any:
        if left:
            left.pop()()
        return plain(*arguments)

    monkeypatch.setattr(ice.snapshot_commit, "swap", swap)
    done = staged(table, rows(range(10), 2), batch=("x", 7))
    assert (done.rows_inserted, done.snapshot) == (0, other.snapshot)
    assert table.num_rows == 15
    assert orphans(table) == 0
    for number in (6, 7):
        assert staged(table, rows(range(1), 3), batch=("x", number)).rows_inserted == 0
    assert not has_batch(table, ("x", 8))
    # Every later commit keeps the record, so that it does not expire.
    table.append(rows(range(1), 4))
    table.expire(keep=1)
    assert has_batch(table, ("x", 7))
    assert not has_batch(table, ("y", 1))
    table.rollback(table.append(rows(range(1), 5)).snapshot or 0)
    for wrong in ("x", ("x",), ("x", "1"), ("", 1), (1, 1), ("x", True)):
        with pytest.raises(nb.InvalidArgumentError, match=r"batch: expected \(name, number\)"):
            has_batch(table, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [["k"], None], ids=["by key", "plain"])
@pytest.mark.parametrize("again", ["same", "batch", "upsert", "overwrite"])
def test_the_same_files_twice(lake: nb.Catalog, key: Any, again: str) -> None:
    """Who does not know whether a commit landed makes it again: the files are there once."""
    table = lake.create_table("a.b", rows(range(3), 1), primary_key=key)
    files = write_rows(rows(range(5, 9), 2), write_target(table))
    batch = ("load", 1) if again == "batch" else None
    commit_files(table, files, batch=batch)
    mode: Any = again if again in ("upsert", "overwrite") and key else "append"
    done = commit_files(table, files, mode=mode, batch=batch)
    assert (done.rows_inserted, done.rows_deleted) == (0, 0)
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == [0, 1, 2, 5, 6, 7, 8]


def test_files_that_are_refused_go_unless_the_table_has_them(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(3), 1), primary_key=["k"])
    first = write_rows(rows(range(5, 9), 2), write_target(table))
    commit_files(table, first)
    new = write_rows(rows(range(20, 21), 2), write_target(table))
    with pytest.raises(nb.DuplicateKeyError):
        commit_files(table, [*first, *new])
    assert table.to_table().num_rows == 7
    assert orphans(table) == 0


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
def test_a_batch_that_changes_nothing_is_recorded(lake: nb.Catalog, mode: Any) -> None:
    table = lake.create_table("a.b", rows(range(0), 1).schema, primary_key=["k"])
    for number in range(2):  # before there is a row, and beside some
        where = "k > 90" if mode == "overwrite" else None
        done = commit(table, [], mode=mode, filter=where, batch=("feed", number))
        assert done.rows_inserted == done.rows_deleted == 0
        assert has_batch(lake.table("a.b"), ("feed", number))
        assert not has_batch(table, ("feed", number + 1))
        again = staged(table, rows(range(100, 110), 1), mode=mode, batch=("feed", number))
        assert again.rows_inserted == 0
        table.append(rows(range(10 * number, 10 * number + 10), 1))
    assert lake.table("a.b").num_rows == 20
    assert table.changes(None).read_all().num_rows == 20
    assert orphans(table) == 0


def test_a_batch_that_is_done_leaves_what_the_table_has(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(3), 1))
    first = write_rows(rows(range(5, 9), 2), write_target(table))
    commit_files(table, first, batch=("q", 1))
    new = write_rows(rows(range(20, 21), 2), write_target(table))
    assert commit_files(table, [*first, *new], batch=("q", 1)).rows_inserted == 0
    assert table.to_table().num_rows == 7
    assert orphans(table) == 0


def test_files_that_were_rolled_back_come_again(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(3), 1))
    before = table.snapshot
    files = write_rows(rows(range(5, 9), 2), write_target(table))
    commit_files(table, files)
    table.rollback(before)
    assert commit_files(table, files).rows_inserted == 4
    assert table.num_rows == 7
    with pytest.raises(nb.InvalidArgumentError, match="given twice"):
        commit_files(table, [*files, *files])


Change = Callable[[nb.Table, tuple[str, int]], nb.Commit]
VERBS: dict[str, Change] = {
    "append": lambda t, batch: t.append(pa.table({"k": [9]}), batch=batch),
    "upsert": lambda t, batch: t.upsert(pa.table({"k": [1]}), batch=batch),
    "overwrite": lambda t, batch: t.overwrite(pa.table({"k": [5]}), batch=batch),
    "delete": lambda t, batch: t.delete("k = 1", batch=batch),
    "delete keys": lambda t, batch: t.delete(keys=[7], batch=batch),
    "merge": lambda t, batch: (
        t.merge(pa.table({"k": [8]}), batch=batch).when_not_matched().execute()
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_batch_once(lake: nb.Catalog, verb: str) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1, 2]}), primary_key="k")
    change = VERBS[verb]
    first = change(table, ("feed", 3)).snapshot
    assert has_batch(table, ("feed", 3))
    rows = table.to_table()
    for number in (3, 2):
        again = change(lake.table("a.b"), ("feed", number))
        assert (again.snapshot, again.rows_inserted, again.rows_deleted) == (first, 0, 0)
    assert table.refresh().to_table() == rows
    assert not has_batch(lake.table("a.b"), ("feed", 4))
    with pytest.raises(nb.InvalidArgumentError, match=r"batch: expected \(name, number\)"):
        change(table, ("feed", "4"))  # type: ignore[arg-type]
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()


def test_a_change_of_partitions_meets_a_dynamic_overwrite(lake: nb.Catalog) -> None:
    """Partitions of the files were taken for those of the newer spec: other rows were deleted."""
    data = pa.table({"k": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [10, 20, 1, 30]})
    table = lake.create_table("a.b", data, partition_by=["a"])
    files = write_rows(pa.table({"k": [100], "a": [1], "b": [99]}), write_target(table))
    with table.alter() as a:
        a.partition_by("b")
    table.append(pa.table({"k": [5, 6], "a": [1, 2], "b": [1, 1]}))
    done = commit_files(table, files, mode="overwrite", partition_overwrite="dynamic")
    assert (done.rows_inserted, done.rows_deleted) == (1, 3)
    assert sorted(table.to_table()["k"].to_pylist()) == [3, 4, 6, 100]


def test_partitions_of_two_specs_are_overwritten(lake: nb.Catalog) -> None:
    data = pa.table({"k": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [10, 20, 1, 30]})
    table = lake.create_table("a.b", data, partition_by=["a"])
    files = write_rows(pa.table({"k": [100], "a": [1], "b": [99]}), write_target(table))
    with table.alter() as a:
        a.partition_by("b")
    files += write_rows(pa.table({"k": [101], "a": [7], "b": [30]}), write_target(table))
    commit_files(table, files, mode="overwrite", partition_overwrite="dynamic")
    assert sorted(table.to_table()["k"].to_pylist()) == [3, 100, 101]


def _foreign(lake: nb.Catalog) -> None:
    lake.iceberg.load_table("a.b").append(pa.table({"k": pa.array([90], pa.int64())}))


def _expired(lake: nb.Catalog) -> None:
    lake.table("a.b").expire(keep=1)


LATER: dict[str, Callable[[nb.Catalog], Any]] = {
    "own": lambda lake: lake.table("a.b").append(pa.table({"k": [80]})),
    "foreign": _foreign,
    "expire": _expired,
    "compact": lambda lake: lake.table("a.b").compact(where_needed=False),
    "manifests": lambda lake: lake.table("a.b").rewrite_manifests(),
    "other batch": lambda lake: lake.table("a.b").append(pa.table({"k": [81]}), batch=("y", 1)),
}


@pytest.mark.parametrize(
    "steps",
    [
        ["foreign", "own", "expire"],
        ["foreign", "expire"],
        ["expire", "foreign", "expire", "foreign"],
        ["foreign", "expire", "own", "expire"],
        ["foreign", "compact", "expire", "expire"],
        ["other batch", "foreign", "manifests", "expire"],
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("what", ["batch", "files", "files with batch"])
def test_what_is_done_is_never_forgotten(lake: nb.Catalog, what: str, steps: list[str]) -> None:
    """Snapshots of other engines do not know batches, and those that did expired."""
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")
    files = write_rows(pa.table({"k": [7]}), write_target(table))

    def change() -> nb.Commit:
        if what == "batch":
            return lake.table("a.b").append(pa.table({"k": [7]}), batch=("x", 7))
        batch = ("x", 7) if what == "files with batch" else None
        return commit_files(lake.table("a.b"), files, batch=batch)

    assert change().rows_inserted == 1
    for step in steps:
        LATER[step](lake)
    before = sorted(lake.table("a.b").to_table()["k"].to_pylist())
    assert before.count(7) == 1
    assert change().rows_inserted == 0
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == before


def test_a_batch_is_undone_with_its_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")

    def add(number: int) -> int:
        return (
            lake.table("a.b").append(pa.table({"k": [number]}), batch=("x", number)).rows_inserted
        )

    add(5)
    _foreign(lake)
    before = table.refresh().snapshot
    assert before is not None
    add(7)
    undone = table.refresh().snapshot
    assert undone is not None
    table.rollback(before)
    assert (add(5), has_batch(table, ("x", 6))) == (0, False)
    assert lake.table("a.b").properties["nimblepy.batch.x"].startswith("5@")
    # Back again: the rows of 7 are there, so is the batch.
    table.refresh().rollback(undone)
    assert (add(7), add(6)) == (0, 0)
    table.refresh().rollback(before)
    table.expire(keep=1)  # forgets the snapshot of 7
    assert (add(5), add(7)) == (0, 1)
    table.refresh().expire(keep=1)
    assert (add(7), add(8)) == (0, 1)


def test_a_batch_is_undone_by_another_engine(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")
    table.append(pa.table({"k": [5]}), batch=("x", 5))
    before = table.snapshot
    assert before is not None
    files = write_rows(pa.table({"k": [7]}), write_target(table))
    commit_files(table, files, batch=("x", 7))
    theirs = lake.iceberg.load_table("a.b")
    theirs.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    for _ in range(2):
        assert not has_batch(table, ("x", 6))
        assert has_batch(table, ("x", 5))
        lake.table("a.b").expire(keep=1)
    assert "nimblepy.staged-files" not in lake.table("a.b").properties
    assert table.append(pa.table({"k": [7]}), batch=("x", 7)).rows_inserted == 1


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("expire", [False, True])
def test_some_files_are_in_the_table_already(
    lake: nb.Catalog, mode: Any, data_format: Any, expire: bool
) -> None:
    """They were added again, and their rows were there twice."""
    key = "k" if mode == "upsert" else None
    table = lake.create_table("a.b", rows(range(3), 1), primary_key=key, data_format=data_format)
    one = write_rows(rows(range(5, 7), 2), write_target(table))
    two = write_rows(rows(range(8, 9), 2), write_target(table))
    commit_files(table, one, mode=mode)
    if expire:
        table.expire(keep=1)
    before = sorted(table.to_table()["k"].to_pylist())
    with pytest.raises(nb.InvalidArgumentError, match=r"is already part of a\.b; commit the other"):
        commit_files(table, [*one, *two], mode=mode)
    assert commit_files(table, one, mode=mode).rows_inserted == 0
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == before
    assert orphans(table) == 0


def test_the_same_files_meet_each_other(lake: nb.Catalog) -> None:
    table, other = lake.create_table("a.b", rows(range(3), 1)), lake.table("a.b")
    files = write_rows(rows(range(5, 7), 2), write_target(table))
    left = [lambda: commit_files(other, files)]
    with commit_hooks(before_swap=lambda: left.pop()() if left else None):
        assert commit_files(table, files).rows_inserted == 0
    assert table.to_table().num_rows == 5
    assert orphans(table) == 0


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
def test_files_of_another_table_are_refused_and_kept(lake: nb.Catalog, mode: Any) -> None:
    """They became part of both tables, or an error removed them from the table that had them."""
    schema = pa.schema({"k": pa.int64(), "v": pa.int64()})
    one = lake.create_table("a.one", schema, primary_key="k")
    other = lake.create_table("a.other", schema, primary_key="k")
    one.append({"k": [1], "v": [1]})
    files = write_rows({"k": [1], "v": [2]}, write_target(other))
    with pytest.raises(nb.InvalidArgumentError, match="written for another table"):
        commit_files(one, files, mode=mode)
    commit_files(other, files)
    with pytest.raises(nb.InvalidArgumentError, match="written for another table"):
        commit_files(one, files, mode=mode, batch=("b", 1))
    assert lake.table("a.other").to_table().to_pylist() == [{"k": 1, "v": 2}]
    assert lake.table("a.one").to_table().to_pylist() == [{"k": 1, "v": 1}]
    with pytest.raises(nb.InvalidArgumentError, match=r"expected what write_rows\(\) returned"):
        commit_files(one, ["x.nimble"])  # type: ignore[list-item]


KEPT: dict[str, Callable[[nb.Table], Any]] = {
    "tag": lambda t: t.tag("audit"),
    "branch": lambda t: t.branch("audit"),
}
GAPS: dict[str, Callable[[nb.Catalog], Any]] = {
    **LATER,
    "delete": lambda lake: lake.table("a.b").delete("k = 7"),
    "foreign expire": lambda lake: _expired_by_another(lake, 1),
}


def _expired_by_another(lake: nb.Catalog, back: int) -> None:
    """Another engine forgets the snapshot that many before the newest."""
    theirs = lake.iceberg.load_table("a.b")
    number = sorted(theirs.snapshots(), key=lambda s: s.sequence_number)[-1 - back].snapshot_id
    theirs.maintenance.expire_snapshots().by_id(number).commit()


@pytest.mark.parametrize(
    "steps",
    [
        ["compact", "own", "expire"],
        ["delete", "own", "own", "expire"],
        ["foreign", "foreign", "expire"],
        ["foreign", "foreign", "foreign expire"],
        ["compact", "foreign", "foreign expire", "expire", "own", "expire"],
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("what", ["batch", "files"])
def test_what_a_tag_keeps_is_not_undone(
    lake: nb.Catalog, what: str, kept: str, steps: list[str]
) -> None:
    """Expiry of what came after the tag cut the history: the rows counted as rolled back."""
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")
    files = write_rows(pa.table({"k": [7]}), write_target(table))

    def change() -> nb.Commit:
        if what == "batch":
            return lake.table("a.b").append(pa.table({"k": [7]}), batch=("x", 7))
        return commit_files(lake.table("a.b"), files)

    assert change().rows_inserted == 1
    KEPT[kept](table.refresh())
    for step in steps:
        GAPS[step](lake)
    before = sorted(lake.table("a.b").to_table()["k"].to_pylist())
    assert change().rows_inserted == 0
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == before


@pytest.mark.parametrize("by", ["own", "other engine"])
@pytest.mark.parametrize("what", ["batch", "files"])
def test_what_was_rolled_back_stays_undone(lake: nb.Catalog, what: str, by: str) -> None:
    """Another engine forgot the undone snapshot: the files counted as applied, and were lost."""
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")
    _foreign(lake)
    before = table.refresh().snapshot
    assert before is not None
    files = write_rows(pa.table({"k": [7]}), write_target(table))

    def change() -> nb.Commit:
        if what == "batch":
            return lake.table("a.b").append(pa.table({"k": [7]}), batch=("x", 7))
        return commit_files(lake.table("a.b"), files)

    assert change().rows_inserted == 1
    if by == "own":
        table.refresh().rollback(before)
    else:
        theirs = lake.iceberg.load_table("a.b")
        theirs.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    _expired_by_another(lake, 0)
    assert change().rows_inserted == 1
    assert change().rows_inserted == 0
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == [1, 7, 90]


def test_a_rollback_to_before_what_expired_undoes_it(lake: nb.Catalog) -> None:
    """The snapshot of the files had expired, so that nothing said that they were undone."""
    table = lake.create_table("a.b", pa.table({"k": [1]}), data_format="parquet")
    before = table.snapshot
    assert before is not None
    table.tag("before")
    files = write_rows(pa.table({"k": [7]}), write_target(table))
    commit_files(table, files, batch=("x", 7))
    table.append(pa.table({"k": [8]}))
    table.append(pa.table({"k": [9]}))
    table.expire(keep=1)
    table.rollback(before)
    assert not has_batch(table, ("x", 7))
    assert commit_files(table, files, batch=("x", 7)).rows_inserted == 1
    assert sorted(table.to_table()["k"].to_pylist()) == [1, 7]


def test_files_count_again_after_a_rollback_to_them(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1]}))
    before = table.snapshot
    assert before is not None
    files = write_rows(pa.table({"k": [7]}), write_target(table))
    commit_files(table, files)
    table.compact(where_needed=False)  # the rows are in another file now
    after = table.snapshot
    assert after is not None
    table.rollback(before)
    commit_files(table, write_rows(pa.table({"k": [8]}), write_target(table)))
    table.rollback(after)
    assert commit_files(table, files).rows_inserted == 0
    assert sorted(table.to_table()["k"].to_pylist()) == [1, 7]


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("key", ["k", None])
def test_files_that_are_gone_are_refused(lake: nb.Catalog, mode: Any, key: Any) -> None:
    """They became part of the table, and no row of it could be read any more."""
    if mode == "upsert" and key is None:
        return
    table = lake.create_table("a.b", pa.table({"k": [1]}), primary_key=key)
    before = table.snapshot
    assert before is not None
    files = write_rows(pa.table({"k": [7]}), write_target(table))
    commit_files(table, files, mode=mode)
    table.rollback(before)
    table.append(pa.table({"k": [2]}))
    table.expire(older_than=dt.timedelta(0))
    more = write_rows(pa.table({"k": [8]}), write_target(table))
    now = table.snapshot
    with pytest.raises(FileNotFoundError, match=r"a\.b: 1 of 2 .*write their rows again"):
        commit_files(table, [*files, *more], mode=mode, batch=("x", 1))
    assert lake.table("a.b").snapshot == now
    assert sorted(lake.table("a.b").to_table()["k"].to_pylist()) == [1, 2]
    assert not has_batch(table, ("x", 1))
    assert orphans(table) == 0
