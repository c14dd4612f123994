"""Changes between snapshots: played over the old rows, they give the new ones."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy.file.open import open_source
from nimblepy.table.iceberg.metadata import forget_lists
from nimblepy.table.reading import members, shared_changes
from nimblepy.table.requests import requested_changes

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.int32(), "t": pa.string()})


def rows(keys: Any, note: str = "") -> pa.Table:
    return pa.table(
        {"k": keys, "g": [k % 3 for k in keys], "t": [f"{note}{k}" for k in keys]}, schema=SCHEMA
    )


def plain(table: nb.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_table().to_pylist())


def changed(table: nb.Table, *arguments: Any, **keywords: Any) -> list[dict[str, Any]]:
    return list(table.changes(*arguments, **keywords).read_all().to_pylist())


def play(before: list[tuple[Any, ...]], changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = list(before)
    for row in changes:
        *values, kind, _ = row.values()
        if kind in ("delete", "update_before"):
            found.remove(tuple(values))
        else:
            assert kind in ("insert", "update_after")
            found.append(tuple(values))
    return sorted(found)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_kinds_of_changes(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k", data_format=data_format)
    assert table.changes(None).read_all().num_rows == 0
    first = table.append(rows(range(10))).snapshot
    assert changed(table, first) == []
    second = table.upsert(rows([3, 4, 20], "new ")).snapshot
    third = table.delete(keys=[4, 5]).snapshot
    found = changed(table, first)
    shown = [(r["k"], r["t"], r["_change"], r["_snapshot"]) for r in found]
    # Deletes come file by file.
    assert sorted(shown[5:]) == [(4, "new 4", "delete", third), (5, "5", "delete", third)]
    assert shown[:5] == [
        (3, "3", "update_before", second),
        (3, "new 3", "update_after", second),
        (4, "4", "update_before", second),
        (4, "new 4", "update_after", second),
        (20, "new 20", "insert", second),
    ]
    assert changed(table, first, second) == found[:5]
    assert changed(table, second) == found[5:]
    assert [r["k"] for r in changed(table, None, first)] == list(range(10))
    reader = table.changes(second, columns=["t"])
    assert reader.schema.names == ["t", "_change", "_snapshot"]
    assert reader.schema.types == [pa.string(), pa.string(), pa.int64()]
    assert sorted(row["t"] for row in reader.read_all().to_pylist()) == ["5", "new 4"]
    old = table.at(snapshot=second)
    assert changed(old, first) == found[:5]
    lake.table("a.b").tag("seen", second)
    assert changed(table, "seen") == found[5:]  # the handle is older than the tag
    assert changed(table, first, "seen") == found[:5]
    assert changed(lake.table("a.b").at(snapshot=first), first, third) == found


def test_without_a_primary_key(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by="k", partition_by="g")
    table.append(rows(range(9)))
    start = table.snapshot
    table.overwrite(rows([0, 33], "new "), filter="g = 0")
    found = changed(table, start)
    assert sorted((r["k"], r["_change"]) for r in found) == [
        (0, "delete"),
        (0, "insert"),
        (3, "delete"),
        (6, "delete"),
        (33, "insert"),
    ]
    assert play(sorted(zip(*rows(range(9)).to_pydict().values(), strict=True)), found) == plain(
        table
    )


def test_what_is_no_change(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    for i in range(3):
        table.append(rows(range(i * 9, i * 9 + 9)))
    table.delete(keys=[1])
    start = table.snapshot
    table.compact()
    table.tag("now")
    table.convert("parquet")
    with table.alter() as a:
        a.rename_column("t", "text")
        a.add_column("x", pa.int32(), default=7)
    assert table.snapshot != start
    assert changed(table, start) == []
    table.upsert(pa.table({"k": [2], "g": [0], "text": ["two"], "x": [1]}))
    assert [tuple(r.values())[:-1] for r in changed(table, start)] == [
        (2, 2, "2", 7, "update_before"),
        (2, 0, "two", 1, "update_after"),
    ]
    assert len(changed(table, None)) == 30


def test_rolled_back(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    first = table.append(rows([1])).snapshot
    second = table.append(rows([2])).snapshot
    assert first is not None
    table.rollback(first)
    third = table.append(rows([3])).snapshot
    assert [(r["k"], r["_snapshot"]) for r in changed(table, first)] == [(3, third)]
    with pytest.raises(nb.InvalidArgumentError, match="not an ancestor"):
        table.changes(second)
    with pytest.raises(nb.InvalidArgumentError, match="comes after it"):
        table.changes(third, first)


def test_what_is_refused(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    first = table.append(rows([1])).snapshot
    table.append(rows([2]))
    table.append(rows([3]))
    with pytest.raises(nb.InvalidArgumentError, match="since: snapshot 7 not found"):
        table.changes(7)
    with pytest.raises(nb.InvalidArgumentError, match="since: tag 'v2' not found; tags: none"):
        table.changes("v2")
    with pytest.raises(nb.InvalidArgumentError, match="until: snapshot 7 not found"):
        table.changes(first, 7)
    with pytest.raises(nb.InvalidArgumentError, match="nowhere"):
        table.changes(first, columns=["nowhere"])
    table.expire(keep=1)
    with pytest.raises(nb.InvalidArgumentError, match="expired or never existed"):
        table.changes(first)
    with pytest.raises(nb.InvalidArgumentError, match="have expired"):
        table.changes(None)
    other = lake.create_table("a.c", pa.table({"_change": [1], "x": [2]}))
    with pytest.raises(nb.InvalidArgumentError, match="a column '_change'"):
        other.changes(None)
    assert changed(other, None, columns=["x"])[0]["_change"] == "insert"


def test_only_what_changed_is_read(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k", partition_by="g")
    for i in range(5):
        table.append(rows(range(i * 99, i * 99 + 99)))
    start = table.snapshot
    touched = {member.file.path for member in table._current.members if member.file.rows == 33}
    appended = table.append(rows(range(5000, 5030)))
    updated = table.upsert(rows([3, 6, 9], "new "))  # of one file of g = 0
    assert (appended.files_added, updated.files_added) == (3, 2)
    opened: list[str] = []

    def opening(path: str) -> Any:
        opened.append(f"file://{path}")
        return open_source(path)

    monkeypatch.setattr(members, "open_source", opening)
    fresh = nb.connect(tmp_path / "lake").table("a.b")
    assert changed(fresh, start, appended.snapshot)[0]["k"] in range(5000, 5030)
    assert len(opened) == 3
    assert not set(opened) & touched
    opened.clear()
    assert len(changed(fresh, appended.snapshot)) == 6
    assert len(opened) == 2
    assert len(set(opened) & touched) == 1


def test_large_commits_come_in_batches(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    table.append(rows(range(100_000)))
    start = table.snapshot
    table.upsert(rows(range(50_000, 150_000), "new "))
    batches = list(table.changes(start))
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    found = pa.Table.from_batches(batches)
    kinds = found.column("_change").to_pylist()
    assert kinds == ["update_before", "update_after"] * 50_000 + ["insert"] * 50_000
    keys = found.column("k").to_pylist()
    assert keys[0:100_000:2] == keys[1:100_000:2] == list(range(50_000, 100_000))


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_replayed(tmp_path_factory: Any, data_format: Any, seed: int) -> None:
    rng = random.Random(seed)
    lake = nb.connect(tmp_path_factory.mktemp("lake"))
    primary = rng.random() < 0.7
    table = lake.create_table(
        "a.b",
        SCHEMA,
        primary_key="k" if primary else None,
        cluster_by=rng.choice(["k", "t", ["g", "k"]]),
        partition_by=rng.choice([(), "g", "bucket(2, k)"]),
        data_format=data_format,
    )
    pasts: list[tuple[int | None, list[tuple[Any, ...]]]] = [(None, [])]
    kinds = ["append", "upsert", "delete", "overwrite", "compact", "partition", "convert"]
    for step in range(9):
        match rng.choice(kinds):
            case "append":
                table.append(rows(range(step * 100, step * 100 + 10)))
            case "upsert" if primary:
                table.upsert(rows(rng.sample(range(step * 100), min(step * 5, 20)), f"{step} "))
            case "delete":
                low = rng.randint(0, 900)
                table.delete(f"k BETWEEN {low} AND {low + 150} AND g <> 1")
            case "overwrite":
                new = rows(range(10_000 + step * 10, 10_000 + step * 10 + 5))
                table.overwrite(new, filter=f"k % 7 = {step}")
            case "compact":
                table.compact(target_bytes=rng.choice([4000, 1 << 20]))
            case "partition":
                with table.alter() as a:
                    a.partition_by(*rng.choice([(), ("g",), ("truncate(10, k)", "g")]))
            case "convert":
                table.convert(rng.choice(["nimble", "parquet"]))
        if table.snapshot != pasts[-1][0]:
            pasts.append((table.snapshot, plain(table)))
    for i, (since, before) in enumerate(pasts):
        for until, after in pasts[i:]:
            if until is not None:
                found = changed(table, since, until)
                assert play(before, found) == after
                if primary:
                    for row in range(len(found)):
                        if found[row]["_change"] == "update_before":
                            assert found[row + 1]["_change"] == "update_after"
                            assert found[row + 1]["k"] == found[row]["k"]


@pytest.mark.parametrize("key", [None, "k"])
def test_shares_have_all_changes_together(
    lake: nb.Catalog, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_changes, "_FILES_OF_SHARE", 1)
    table = lake.create_table("a.b", SCHEMA, primary_key=key, partition_by="bucket(5, k)")
    table.append(rows(range(40)))
    table.tag("start")
    with table.alter() as a:
        a.rename_column("t", "note")
        a.add_column("n", pa.int32(), default=7)
    table.overwrite(
        pa.table({"k": list(range(10, 50)), "note": ["x"] * 40}), filter="k BETWEEN 10 AND 39"
    )
    table.delete("k = 3")
    table.compact()
    for since, columns in ((None, None), ("start", ["note", "k"])):
        wanted = requested_changes(table, since, None, columns)
        shares = pickle.loads(pickle.dumps(wanted.shares()))
        assert len(shares) > len(wanted.snapshots)
        found = [batch for share in shares for batch in share.batches()]
        one, other = pa.Table.from_batches(found, wanted.schema), wanted.reader().read_all()
        assert sorted(one.to_pylist(), key=repr) == sorted(other.to_pylist(), key=repr)
        assert one.num_rows > 40
    assert requested_changes(table, table.snapshot, None, None).shares() == []


def test_a_snapshot_that_expires_while_its_changes_are_read(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k")
    first = table.append(rows([1])).snapshot
    second = table.append(rows([2])).snapshot
    table.delete("k = 2")
    reader = table.changes(first)
    forget_lists()
    table.compact(where_needed=False)
    table.expire(keep=1)
    with pytest.raises(nb.StaleFileError, match=f"snapshot {second} expired while"):
        reader.read_all()
