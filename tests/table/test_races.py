"""Another commit between the plan of one and its swap, where the order of the two is seen."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from catalog_kinds import needs_sqlite
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

import nimblepy as nb
from nimblepy.table.changing import append, delete
from nimblepy.table.distributed import commit_files, write_rows, write_target
from nimblepy.table.reading import deletes, plan
from nimblepy.table.reading.plan import clear_caches
from nimblepy.table.testing import commit_hooks
from nimblepy.table.upkeep import compact, maintain

Between = Callable[[Callable[[], Any]], None]


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [0] * len(keys)})


def keys(lake: nb.Catalog) -> list[int]:
    return sorted(lake.table("a.b").to_table(["k"]).column("k").to_pylist())


def test_overwrites_meet_an_appended_key(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1, 2), primary_key="k")
    other = lake.table("a.b")
    between(lambda: other.append(rows(5)))
    with pytest.raises(nb.DuplicateKeyError, match="k=5"):
        table.overwrite(rows(5, 6), filter="k = 1")
    assert keys(lake) == [1, 2, 5]
    between(lambda: other.append(rows(7)))
    table.overwrite(rows(7, 8))
    assert keys(lake) == [7, 8]


def test_an_append_meets_a_key_that_is_rolled_back(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1, 2), primary_key="k")
    other = lake.table("a.b")
    first = other.snapshot
    assert first is not None
    other.delete(keys=[2])
    between(lambda: other.rollback(first))
    with pytest.raises(nb.DuplicateKeyError, match="k=2"):
        table.append(rows(2))
    assert keys(lake) == [1, 2]


def test_a_delete_meets_a_rollback(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1, 2))
    other = lake.table("a.b")
    first = other.snapshot
    assert first is not None
    other.delete("k = 1")
    other.append(rows(3, 4))
    between(lambda: other.rollback(first))
    assert table.delete("k IN (1, 3)").rows_deleted == 1
    assert keys(lake) == [2]


def test_a_delete_meets_a_history_that_expired(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1, 2, 3, 4))
    other = lake.table("a.b")

    def replace() -> None:
        other.overwrite(rows(1, 2, 3, 4))
        other.append(rows(9))
        other.expire(keep=1)

    between(replace)
    table.delete("k IN (1, 3)")
    assert keys(lake) == [2, 4, 9]


def test_expire_meets_a_tag(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1))
    first = table.snapshot
    table.append(rows(2))
    between(lambda: lake.table("a.b").tag("kept", first))
    table.expire(keep=1)
    assert table.at(tag="kept").to_table().num_rows == 1


def test_expire_meets_a_rollback(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1))
    first = table.snapshot
    assert first is not None
    table.append(rows(2))
    between(lambda: lake.table("a.b").rollback(first))
    table.expire(keep=1)
    assert keys(lake) == [1]


def test_a_tag_meets_expire(lake: nb.Catalog, between: Between) -> None:
    table = lake.create_table("a.b", rows(1))
    first = table.snapshot
    table.append(rows(2))
    between(lambda: lake.table("a.b").expire(keep=1))
    with pytest.raises(nb.InvalidArgumentError, match=r"not found in a\.b"):
        table.tag("kept", first)


def test_a_commit_in_doubt_took_effect(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("a.b", rows(1))
    commit = type(lake.iceberg).commit_table
    left = ["504 Gateway Timeout"]

    def doubtful(*arguments: Any) -> Any:
        done = commit(*arguments)
        if left:
            raise CommitStateUnknownException(left.pop())
        return done

    monkeypatch.setattr(type(lake.iceberg), "commit_table", doubtful)
    table.append(rows(2))
    assert keys(lake) == [1, 2]


@pytest.mark.parametrize("raised", [TimeoutError("read timed out"), OSError("broken pipe")])
def test_a_commit_took_effect_and_its_answer_was_lost(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    """Who is told of an error tries again, and has the rows twice."""
    table = lake.create_table("a.b", rows(1))
    commit = type(lake.iceberg).commit_table

    def lost(*arguments: Any) -> Any:
        commit(*arguments)
        raise raised

    monkeypatch.setattr(type(lake.iceberg), "commit_table", lost)
    done = table.append(rows(2))
    assert (done.rows_inserted, done.snapshot) == (1, table.snapshot)
    assert keys(lake) == [1, 2]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (TimeoutError("read timed out"), TimeoutError),
        (CommitFailedException("409"), nb.ConflictError),
        (CommitStateUnknownException("504"), nb.ConflictError),
    ],
)
def test_a_commit_took_effect_and_was_forgotten_before_its_answer_was_lost(
    lake: nb.Catalog,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    expected: type[Exception],
) -> None:
    """Its snapshot is gone, and its files are in use; made again, its rows would be there twice."""
    table = lake.create_table("a.b", rows(1))
    _as_of_a_server(monkeypatch)
    other = lake.table("a.b")
    commit = type(lake.iceberg).commit_table

    def lost(*arguments: Any) -> Any:
        commit(*arguments)
        monkeypatch.undo()
        other.append(rows(3))
        other.expire(keep=1)
        _as_of_a_server(monkeypatch)
        raise raised

    monkeypatch.setattr(type(lake.iceberg), "commit_table", lost)
    with pytest.raises(expected) as caught:
        table.append(rows(2))
    assert getattr(caught.value, "kind", "unknown") == "unknown"
    assert keys(lake) == [1, 2, 3]


def _renamed(table: nb.Table) -> None:
    with table.alter() as alter:
        alter.rename_column("k", "l")


@pytest.mark.parametrize("gone", ["dropped", "renamed"])
@pytest.mark.parametrize(
    "change",
    [lambda t: t.append(rows(50)), lambda t: t.delete("k = 3"), lambda t: t.compact(), _renamed],
)
def test_a_table_goes_before_the_swap(
    lake: nb.Catalog, between: Between, change: Callable[[nb.Table], Any], gone: str
) -> None:
    table = four_rows(lake)
    if gone == "dropped":
        between(lambda: lake.drop_table("a.b"))
    else:
        between(lambda: lake.rename_table("a.b", "a.c"))
    with pytest.raises(nb.ConflictError, match=r"a\.b: the table was dropped or renamed"):
        change(table)


class Late:
    """The first commit is in doubt, and takes effect when :meth:`land` is called."""

    def __init__(
        self, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None
    ) -> None:
        from nimblepy.table.writing import commit

        self.error = error or CommitStateUnknownException("504 Gateway Timeout")
        self._commit = lake.iceberg.commit_table
        self._request: tuple[Any, ...] | None = None
        self.requests = 0
        self.before_second: Callable[[], Any] = lambda: None
        self.while_asleep: Callable[[], Any] = lambda: None
        self.lands_at_once = False
        monkeypatch.setattr(lake.iceberg, "commit_table", self._send)
        clock = SimpleNamespace(**vars(time) | {"sleep": lambda _: self.while_asleep()})
        monkeypatch.setattr(commit, "time", clock)

    def _send(self, *request: Any) -> Any:
        self.requests += 1
        if self.requests == 1:
            self._request = request
            if self.lands_at_once:
                self.land()
            raise self.error
        if self.requests == 2:
            self.before_second()
        return self._commit(*request)

    def land(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            self._commit(*request)


CHANGES: dict[str, tuple[Callable[[nb.Table], Any], list[int]]] = {
    "append": (lambda t: t.append(rows(50)), [1, 2, 3, 4, 50]),
    "upsert": (lambda t: t.upsert(rows(3, 50)), [1, 2, 3, 4, 50]),
    "delete": (lambda t: t.delete("k = 3"), [1, 2, 4]),
    "overwrite": (lambda t: t.overwrite(rows(50), filter="k = 3"), [1, 2, 4, 50]),
    "batch": (
        lambda t: commit_files(t, write_rows(rows(50), write_target(t)), batch=("q", 1)),
        [1, 2, 3, 4, 50],
    ),
    "compact": (lambda t: t.compact(), [1, 2, 3, 4]),
    "manifests": (lambda t: t.rewrite_manifests(), [1, 2, 3, 4]),
}


def four_rows(lake: nb.Catalog, **options: Any) -> nb.Table:
    table = lake.create_table("a.b", rows(1, 2), primary_key="k", **options)
    table.append(rows(3))
    table.append(rows(4))
    return table


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("when", ["asleep", "before the second"])
def test_a_commit_in_doubt_lands_late(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str, when: str
) -> None:
    table = four_rows(lake, layout=nb.OTree(["v"])) if kind == "append" else four_rows(lake)
    late = Late(lake, monkeypatch)
    if when == "asleep":
        late.while_asleep = late.land
    else:
        late.before_second = late.land
    change, wanted = CHANGES[kind]
    done = change(table)
    clear_caches()
    assert keys(lake) == wanted
    assert done.snapshot == lake.table("a.b").snapshot
    assert lake.table("a.b").snapshots().num_rows == 4
    assert late.requests == (1 if when == "asleep" else 2)


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("when", ["asleep", "sending"])
def test_a_commit_lands_after_it_was_given_up(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str, when: str
) -> None:
    table = four_rows(lake)
    late = Late(lake, monkeypatch, KeyboardInterrupt() if when == "sending" else None)
    if when == "sending":
        _as_of_a_server(monkeypatch)

    def interrupt() -> None:
        raise KeyboardInterrupt

    late.while_asleep = interrupt
    change, wanted = CHANGES[kind]
    with pytest.raises(KeyboardInterrupt):
        change(table)
    clear_caches()
    assert keys(lake) == [1, 2, 3, 4]
    late.land()
    clear_caches()
    assert keys(lake) == wanted


# What a client may raise of a commit that took effect: of a request that it sent twice, and of an
# answer that is no JSON.
SAID = [CommitFailedException("409 Conflict"), ValueError("Expecting value: line 1 column 1")]


def _as_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from nimblepy.table import iceberg

    monkeypatch.setattr(iceberg.snapshot_commit, "SqliteCatalog", type("AnotherCatalog", (), {}))


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("error", SAID, ids=["conflict", "no answer"])
def test_a_commit_took_effect_that_is_said_to_be_lost(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    """Its manifest list was removed, so that nothing could be read any more."""
    table = four_rows(lake)
    _as_of_a_server(monkeypatch)
    late = Late(lake, monkeypatch, error)
    late.lands_at_once = True
    change, wanted = CHANGES[kind]
    done = change(table)
    clear_caches()
    assert keys(lake) == wanted
    assert done.snapshot == lake.table("a.b").snapshot
    assert late.requests == 1


@pytest.mark.parametrize("kind", CHANGES)
def test_a_commit_that_lost_leaves_nothing_with_a_server(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table, other = four_rows(lake), lake.table("a.b")
    _as_of_a_server(monkeypatch)
    late = Late(lake, monkeypatch, CommitFailedException("409 Conflict"))
    late.while_asleep = lambda: other.tag("first") if not other.tags else None
    change, wanted = CHANGES[kind]
    change(table)
    clear_caches()
    assert keys(lake) == wanted
    assert lake.table("a.b").remove_orphans(older_than=dt.timedelta(0)).files == ()


def _altered(table: nb.Table) -> None:
    with table.alter() as alter:
        alter.add_column("x", pa.int32())
        alter.partition_by("v")
        alter.set_properties({"p": "1"})


def _made(lake: nb.Catalog) -> dict[str, Any]:
    table = lake.table("a.b")
    return {
        "columns": table.schema.names,
        "specs": len(table.iceberg.specs()),
        "property": table.properties.get("p"),
        "tags": list(table.tags),
        "branches": list(table.branches),
        "rows": table.num_rows,
        "distinct": table.health().distinct,
    }


OTHERS: dict[str, tuple[Callable[[nb.Table], Any], dict[str, Any]]] = {
    "alter": (_altered, {"columns": ["k", "v", "x"], "specs": 2, "property": "1"}),
    "rename": (_renamed, {"columns": ["l", "v"]}),
    "tag": (lambda t: t.tag("one"), {"tags": ["one", "tagged"]}),
    "branch": (lambda t: t.branch("one"), {"branches": ["main", "one"]}),
    "drop": (lambda t: t.drop_reference("tagged"), {"tags": []}),
    "rollback": (lambda t: t.rollback(t.tags["tagged"]), {"rows": 2}),
    "analyze": (lambda t: t.analyze(), {"distinct": {"k": 4, "v": 1}}),
}


def _tagged(lake: nb.Catalog) -> nb.Table:
    table = lake.create_table("a.b", rows(1, 2))
    table.tag("tagged")
    table.append(rows(3, 4))
    return table


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize(
    "when", ["at once", "timeout", "said to be lost", "no answer", "asleep", "before the second"]
)
def test_a_commit_without_rows_in_doubt_took_effect(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str, when: str
) -> None:
    table = _tagged(lake)
    before = _made(lake)
    errors = {
        "timeout": TimeoutError("read timed out"),
        "said to be lost": SAID[0],
        "no answer": SAID[1],
    }
    if when in ("said to be lost", "no answer"):
        _as_of_a_server(monkeypatch)
    late = Late(lake, monkeypatch, errors.get(when))
    if when == "asleep":
        late.while_asleep = late.land
    elif when == "before the second":
        late.before_second = late.land
    else:
        late.lands_at_once = True
    change, made = OTHERS[kind]
    change(table)
    assert _made(lake) == {**before, **made}
    assert table.schema.names == lake.table("a.b").schema.names
    assert table.tags == lake.table("a.b").tags
    assert late.requests == (2 if when == "before the second" else 1)
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()


@pytest.mark.parametrize("kind", OTHERS)
def test_a_commit_without_rows_that_did_not_take_effect(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = _tagged(lake)
    before = _made(lake)
    late = Late(lake, monkeypatch, TimeoutError("connect timed out"))
    change, made = OTHERS[kind]
    with pytest.raises(TimeoutError, match="connect timed out"):
        change(table)
    assert _made(lake) == before
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()
    change(table)
    assert _made(lake) == {**before, **made}
    assert late.requests == 2


def test_sketches_whose_commit_lands_after_a_timeout(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _tagged(lake)
    _as_of_a_server(monkeypatch)
    late = Late(lake, monkeypatch, TimeoutError("read timed out"))
    with pytest.raises(TimeoutError):
        table.analyze()
    late.land()
    files = lake.table("a.b").census().filter(pc.field("kind") == "statistics")
    assert files.column("bytes").null_count == 0
    assert files.column("reachable").to_pylist() == [True]


def test_columns_in_doubt_that_were_changed_again(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _tagged(lake)
    late = Late(lake, monkeypatch)

    def overtake() -> None:
        late.land()
        with lake.table("a.b").alter() as alter:
            alter.add_column("y", pa.int32())

    late.while_asleep = overtake
    _renamed(table)
    assert table.schema.names == lake.table("a.b").schema.names == ["l", "v", "y"]


def test_a_commit_in_doubt_that_another_overtook_is_removed(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = four_rows(lake), lake.table("a.b")
    late = Late(lake, monkeypatch)
    overtaken: list[nb.Commit] = []

    def overtake() -> None:
        if not overtaken:
            overtaken.append(other.append(rows(50)))

    late.while_asleep = overtake
    with pytest.raises(nb.DuplicateKeyError, match="k=50"):
        table.append(rows(50))
    with pytest.raises(CommitFailedException):
        late.land()
    assert keys(lake) == [1, 2, 3, 4, 50]
    assert table.refresh().remove_orphans(older_than=dt.timedelta(0)).files == ()


def test_a_table_is_renamed_after_a_commit_that_was_interrupted(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = four_rows(lake)
    commit = lake.iceberg.commit_table

    def interrupted(*request: Any) -> Any:
        commit(*request)
        lake.rename_table("a.b", "a.c")
        raise KeyboardInterrupt

    monkeypatch.setattr(lake.iceberg, "commit_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows(50))
    clear_caches()
    assert lake.table("a.c").to_table().num_rows == 5


def test_a_handle_of_a_table_that_was_replaced(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(1))
    lake.drop_table("a.b")
    lake.create_table("a.b", rows(7))
    for step in (lambda: table.append(rows(2)), table.refresh, table.census):
        with pytest.raises(nb.ConflictError, match="another table has its name"):
            step()
    assert keys(lake) == [7]


def test_one_file_is_added_once(lake: nb.Catalog, between: Between, tmp_path: Path) -> None:
    table = lake.create_table("a.b", rows(1))
    other = lake.table("a.b")
    for name, key in (("first", 2), ("second", 3)):
        nb.write(rows(key), tmp_path / f"{name}.nimble")
    table.add_files(tmp_path / "first.nimble")
    between(lambda: other.add_files(tmp_path / "second.nimble"))
    with pytest.raises(nb.InvalidArgumentError, match=r"second.nimble is already part of a\.b"):
        table.add_files(tmp_path / "second.nimble")
    (tmp_path / "linked").symlink_to(tmp_path)
    with pytest.raises(nb.InvalidArgumentError, match=r"first.nimble is already part of a\.b"):
        table.add_files(tmp_path / "linked" / "first.nimble")
    assert keys(lake) == [1, 2, 3]


@needs_sqlite
def test_files_named_through_links_are_no_orphans(lake: nb.Catalog, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "lake")
    table = nb.connect(tmp_path / "linked").create_table("a.b", rows(1))
    inside = Path(table.location.removeprefix("file://")) / "data"
    nb.write(rows(2), inside / "added.nimble")
    table.add_files((inside / "added.nimble").resolve())
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()
    assert keys(lake) == [1, 2]


SLOW: dict[str, tuple[Any, Callable[[nb.Table], Any], list[int]]] = {
    "append": (append, lambda table: table.append(rows(9)), [1, 2, 3, 9]),
    "overwrite": (delete, lambda table: table.overwrite(rows(9), filter="k = 1"), [2, 3, 9]),
    "compact": (compact, lambda table: table.compact(), [1, 2, 3]),
}


@pytest.mark.parametrize("name", SLOW)
def test_what_writes_long_meets_a_history_that_expired(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(maintain, "KEPT_SNAPSHOTS", 2)
    monkeypatch.setattr(maintain, "_AT_ONCE", 1)
    monkeypatch.setattr(maintain, "YOUNG", dt.timedelta(0), raising=False)
    table = lake.create_table("a.b", rows(1, 2), primary_key="k")
    table.append(rows(3))
    module, act, expected = SLOW[name]
    write, left = module.write_rows, [5]

    def slow(*arguments: Any, **keywords: Any) -> Any:
        found = write(*arguments, **keywords)
        while left:
            left.pop()
            for _ in range(5):
                lake.table("a.b").upsert(rows(1, 2))
        plan.clear_caches()
        return found

    monkeypatch.setattr(module, "write_rows", slow)
    act(table)
    assert not left
    assert keys(lake) == expected


def test_a_conversion_meets_a_commit_while_it_writes(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", rows(1, 2))
    write = delete.write_rows

    def slow(*arguments: Any, **keywords: Any) -> Any:
        found = write(*arguments, **keywords)
        monkeypatch.undo()
        lake.table("a.b").append(rows(3))
        return found

    monkeypatch.setattr(delete, "write_rows", slow)
    with pytest.raises(nb.ConflictError, match="another commit changed the table during convert"):
        table.convert("parquet")
    assert keys(lake) == [1, 2, 3]


def test_a_table_that_is_dropped_while_rows_are_written(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", rows(1, 2))
    write = append.write_rows

    def slow(*arguments: Any, **keywords: Any) -> Any:
        found = write(*arguments, **keywords)
        lake.drop_table("a.b")
        return found

    monkeypatch.setattr(append, "write_rows", slow)
    with pytest.raises(nb.ConflictError, match="dropped"):
        table.append(rows(3))


def test_threads_that_miss_a_delete_file_together(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", rows(1, 2, 3))
    table.delete("k = 2")
    (file,) = (entry.file for entry in table._current.plan.delete_files())
    read, both = deletes._read, threading.Barrier(2)

    def together(file: Any) -> Any:
        both.wait(timeout=60)
        return read(file)

    monkeypatch.setattr(deletes, "_read", together)
    cache = deletes._Cache()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(cache.get, [file, file]))
    assert cache._bytes == sum(len(gone) * 8 for gone in found[0].values()) == 8


def _merge_in(table: nb.Table, *keys: int) -> None:
    table.merge(rows(*keys), on="k").when_not_matched().execute()


def _counted(table: nb.Table) -> None:
    with table.transaction() as tx:
        tx.append(pa.table({"k": [10 + tx.count_rows("v = 0")], "v": [0]}))


# Commits that read what the delete or overwrite removes, but remove nothing themselves, so that
# they call themselves "append"; with the rows of each serial order.
READERS: dict[str, tuple[bool, Callable[[nb.Table], Any], Callable[[nb.Table], Any], Any]] = {
    "delete, merge": (
        False,
        lambda t: t.delete("v = 0"),
        lambda t: _merge_in(t, 1, 7),
        ([], [1, 7]),
    ),
    "delete, upsert": (
        True,
        lambda t: t.delete("v = 0"),
        lambda t: t.upsert(rows(1, 7), when_matched="ignore"),
        ([], [1, 7]),
    ),
    "overwrite, merge": (
        False,
        lambda t: t.overwrite(rows(7), filter="v = 0"),
        lambda t: _merge_in(t, 7),
        ([7],),
    ),
    "delete, transaction": (False, lambda t: t.delete("v = 0"), _counted, ([], [10])),
    "overwrite all, transaction": (
        False,
        lambda t: t.overwrite(rows(5)),
        _counted,
        ([5], [5, 11]),
    ),
}


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("name", READERS)
def test_a_delete_meets_a_commit_that_reads_and_adds(
    lake: nb.Catalog, name: str, data_format: Any
) -> None:
    """It was put before that commit, which had read the rows that it deletes."""
    keyed, change, reader, wanted = READERS[name]
    key = "k" if keyed else None
    table = lake.create_table("a.b", rows(1), primary_key=key, data_format=data_format)
    other, left = lake.table("a.b"), [reader]

    def overtake() -> None:
        if left:
            left.pop()(other)

    with commit_hooks(before_swap=overtake):
        assert change(table).retries == 1
    assert keys(lake) in wanted
    assert keys(lake) == wanted[0], "the order of the snapshots"


def test_a_delete_reads_a_file_once(
    lake: nb.Catalog, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is planned again, only files that came meanwhile are read."""
    table = lake.create_table("a.b", rows(1, 2, 3))
    table.append(rows(4, 5))
    read: list[str] = []
    plain = delete.passing_rows

    def passing_rows(source: Any, where: Any) -> Any:
        read.append(source)
        return plain(source, where)

    monkeypatch.setattr(delete, "passing_rows", passing_rows)
    between(lambda: lake.table("a.b").append(rows(6, 7)))
    assert table.delete("k % 2 = 0").rows_deleted == 3
    assert len(read) == 3
    assert keys(lake) == [1, 3, 5, 7]


def test_hooks_surround_each_swap(lake: nb.Catalog) -> None:
    table, other = lake.create_table("a.b", rows(1)), lake.table("a.b")
    seen: list[str] = []

    def before() -> None:
        seen.append("before")
        if len(seen) == 1:
            other.append(rows(2))  # calls no hooks

    with commit_hooks(before_swap=before, after_swap=lambda: seen.append("after")):
        assert table.append(rows(3)).retries == 1
        table.tag("x")
    table.append(rows(4))
    assert seen == ["before", "after"] * 3
    with commit_hooks(before_swap=lambda: 1 / 0), pytest.raises(ZeroDivisionError):
        table.append(rows(5))
    with commit_hooks(after_swap=lambda: 1 / 0):  # an answer that is lost
        assert table.append(rows(6)).rows_inserted == 1
    assert keys(lake) == [1, 2, 3, 4, 6]
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()


def _names_swapped(table: nb.Table) -> None:
    with table.alter() as alter:
        alter.rename_column("v", "w")
        alter.add_column("v", pa.int64())
    table.append(pa.table({"k": [9]}))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.overwrite(rows(7), filter="v = 0"),
        lambda t: t.delete("v IS NULL OR v = 0"),
        lambda t: (
            t.merge(pa.table({"k": [1]}), on="k")
            .when_matched(delete=True, condition="target.v = 0")
            .execute()
        ),
    ],
    ids=["overwrite", "delete", "merge"],
)
def test_a_filter_meets_another_column_of_its_name(
    lake: nb.Catalog, between: Between, change: Callable[[nb.Table], Any]
) -> None:
    """It was asked of the new column, but the data had been written for the old one."""
    table = lake.create_table("a.b", rows(1))
    other = lake.table("a.b")
    between(lambda: _names_swapped(other))
    with pytest.raises(nb.ConflictError, match=r"changed which column .v. names") as caught:
        change(table)
    assert caught.value.kind == "schema"
    assert keys(lake) == [1, 9]
    assert table.refresh().remove_orphans(older_than=dt.timedelta(0)).files == ()


def test_records_of_batches_are_not_set_by_hand(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(1))
    for name in ("nimblepy.batch.x", "nimblepy.staged-files"):
        alter = table.alter()
        with pytest.raises(nb.InvalidArgumentError, match="nimblepy itself sets it"):
            alter.set_properties({name: "1"})


def test_a_merge_meets_a_renamed_column_while_it_reads(lake: nb.Catalog) -> None:
    """It was an InvalidArgumentError, though the condition had fit when the merge began."""
    table = lake.create_table("a.b", rows(1))
    other = lake.table("a.b")

    def source() -> Iterator[pa.RecordBatch]:
        with other.alter() as alter:
            alter.rename_column("v", "w")
        yield from rows(1).to_batches()

    reader = pa.RecordBatchReader.from_batches(rows(1).schema, source())
    merge = table.merge(reader, on="k").when_matched(update={"v": "target.v + source.v"})
    with pytest.raises(nb.ConflictError, match="no longer fits") as caught:
        merge.execute()
    assert caught.value.kind == "schema"
    assert keys(lake) == [1]
    assert table.refresh().remove_orphans(older_than=dt.timedelta(0)).files == ()
