"""Handles on tables: where they are, shared by threads, after interrupts, pickles and forks."""

from __future__ import annotations

import linecache
import multiprocessing
import os
import pickle
import random
import sys
import threading
import time
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy.file import versions
from nimblepy.files import source
from nimblepy.table import handle as handle_module
from nimblepy.table.reading import plan


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", rows(0), primary_key="k")


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.int64())})


def test_a_late_commit_does_not_move_the_handle_back(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thread that was still expiring snapshots set the handle back to its own commit, after
    # another thread had committed through it: that thread no longer saw its own row.
    plain = handle_module.expire_by_default
    newer: list[nb.Commit] = []

    def expire(*arguments: Any) -> Any:
        if not newer:
            newer.append(nb.Commit(snapshot=None))
            newer[0] = table.append(rows(2))
        return plain(*arguments)

    monkeypatch.setattr(handle_module, "expire_by_default", expire)
    older = table.append(rows(1))
    assert older.snapshot != newer[0].snapshot == table.snapshot
    assert table.get(2) == {"k": 2, "v": 2}
    assert table.count_rows() == 3
    # A rollback makes an older snapshot the newest, which is no way back.
    assert older.snapshot is not None
    assert table.rollback(older.snapshot).snapshot == older.snapshot
    assert table.get(2) is None
    assert table.refresh().count_rows() == 2


def _dropped_tag(table: nb.Table) -> nb.Table:
    return table.tag("y").drop_reference("y")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.tag("x"),
        lambda table: table.branch("x"),
        _dropped_tag,
        lambda table: table.expire(keep=1),
    ],
    ids=["tag", "branch", "drop_reference", "expire"],
)
def test_refresh_shows_columns_that_others_added_before_a_tag(
    lake: nb.Catalog, table: nb.Table, change: Any
) -> None:
    # A tag made the handle take the newest metadata without its columns, and refresh() then found
    # nothing new.
    table.append(rows(1))
    with lake.table("a.b").alter() as alter:
        alter.add_column("w", pa.int64(), default=7)
    change(table)
    assert table.schema.names == ["k", "v"]  # it did not change columns itself
    assert table.refresh().schema.names == ["k", "v", "w"]
    assert table.get(1) == {"k": 1, "v": 1, "w": 7}


def test_a_tag_keeps_the_handle_where_it_is(lake: nb.Catalog, table: nb.Table) -> None:
    checked = table.snapshot
    other = lake.table("a.b").append(rows(1))
    table.tag("checked")
    assert (table.snapshot, table.tags) == (checked, {"checked": checked})
    assert table.count_rows() == 1
    assert other.snapshot in table.snapshots()["snapshot_id"].to_pylist()
    assert table.branch("audit").branches["audit"] == checked
    assert table.refresh().snapshot == other.snapshot


def test_an_interrupt_leaves_a_handle_at_one_position(lake: nb.Catalog, table: nb.Table) -> None:
    # An interrupt between two lines of a move left the snapshot of one version with the rows of
    # another. Here each line is interrupted in turn.
    other = lake.table("a.b")
    interrupted = 0
    for at in range(200):
        keys = table.count_rows()
        other.append(rows(keys))
        with other.alter() as alter:
            alter.add_column(f"c{at}", pa.int64())
        columns = len(table.schema)
        before = (table.snapshot, keys, columns)
        after = (other.snapshot, keys + 1, columns + 1)
        try:
            with _Interrupt(at):
                table.refresh()
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        found = (table.snapshot, table.count_rows(), len(table.schema))
        assert found in (before, after)
        assert (table.get(keys) is not None) == (found == after)
        table.refresh()
        assert (table.snapshot, table.count_rows(), len(table.schema)) == after
    assert interrupted > 5


class _Interrupt:
    """Raises KeyboardInterrupt before one of the lines by which a handle moves."""

    def __init__(self, line: int) -> None:
        self._left = line

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        here = frame.f_code.co_filename in (versions.__file__, handle_module.__file__)
        here = here and frame.f_code.co_name in ("show", "move", "following")
        # A signal cannot come between the last line of a block and the release of its lock.
        code = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if here and event == "line" and not code.strip().startswith("with "):
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


@pytest.mark.parametrize("behind", [False, True])
def test_unpickled_handles_write(lake: nb.Catalog, table: nb.Table, behind: bool) -> None:
    # A handle could be written to or not after pickling, depending on who committed meanwhile.
    sent = pickle.dumps(table)
    if behind:
        lake.table("a.b").append(rows(1))
        with lake.table("a.b").alter() as alter:
            alter.add_column("w", pa.int64())
    again = pickle.loads(sent)
    assert (again.snapshot, again.schema) == (table.snapshot, table.schema)
    assert again.count_rows() == 1
    assert again.upsert(rows(2)).rows_inserted == 1
    assert again.count_rows() == 2 + behind
    assert again.refresh().snapshot == lake.table("a.b").snapshot
    assert ("w" in again.schema.names) == behind


def test_an_unpickled_handle_of_an_empty_table_refreshes(lake: nb.Catalog) -> None:
    table = lake.create_table("a.c", rows(0).schema)
    sent = pickle.dumps(table)
    table.append(rows(1))
    again = pickle.loads(sent)
    assert again.snapshot is None
    assert again.count_rows() == 0
    assert again.refresh().count_rows() == 1


def test_unpickled_handles_of_the_past_stay_read_only(table: nb.Table) -> None:
    past = pickle.loads(pickle.dumps(table.at(snapshot=table.snapshot)))
    with pytest.raises(nb.InvalidArgumentError, match="read-only"):
        past.append(rows(1))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_handle_in_a_forked_child_writes(lake: nb.Catalog, table: nb.Table) -> None:
    lake.table("a.b").append(rows(1))  # the handle is behind
    child = multiprocessing.get_context("fork").Process(target=table.upsert, args=(rows(2),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert table.count_rows() == 1
    assert table.refresh().count_rows() == 3


def test_threads_share_a_handle(lake: nb.Catalog, table: nb.Table) -> None:
    _share(lake, table, seconds=2.0, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_threads_share_a_handle_for_long(lake: nb.Catalog, table: nb.Table, seed: int) -> None:
    _share(lake, table, seconds=10.0, seed=seed)


def _share(lake: nb.Catalog, table: nb.Table, *, seconds: float, seed: int) -> None:
    """Threads change a table through one handle, beside another handle, while one thread checks.

    Checked: snapshots go forward in the order of commits; rows that were committed through the
    handle are visible from then on; the columns are those of a version that has the snapshot.
    """
    committed: set[int] = set()
    errors: list[BaseException] = []
    over = threading.Event()
    other = lake.table("a.b")

    def write(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        for i in range(1, 10_000):
            if over.is_set():
                return
            if number == 0:
                other.upsert(rows(10_000 + i))
            key = number * 100_000 + i
            what = chance.choice(["upsert", "upsert", "tag", "expire", "refresh", "alter"])
            try:
                if what == "upsert":
                    done = table.upsert(pa.table({"k": [key], "v": [key]}))
                    assert table.get(key)["v"] == key
                    assert done.snapshot is not None
                    committed.add(key)
                elif what == "tag":
                    assert table.tag(f"t{key}").tags[f"t{key}"]
                    table.drop_reference(f"t{key}")
                elif what == "expire":
                    table.expire(keep=30)
                elif what == "refresh":
                    table.refresh()
                elif len(table.schema) < 12:
                    with table.alter() as alter:
                        alter.add_column(f"c{key}", pa.int64())
                    assert f"c{key}" in table.schema.names
            except nb.ConflictError as error:
                if error.kind != "attempts":
                    raise
            except nb.InvalidArgumentError as error:  # the snapshot of a tag may have expired
                if "no snapshot" not in str(error):
                    raise

    def check() -> None:
        sequence = columns = 0
        while not over.is_set():
            keys = set(committed)
            at = table._at
            assert at.rows.plan._snapshot.id == at.snapshot.id
            shown = at.metadata.schema(at.schema_id)
            assert at.rows.schema.names == shown.names
            assert at.snapshot is not None
            assert at.snapshot.sequence >= sequence
            assert len(shown) >= columns
            sequence, columns = at.snapshot.sequence, len(shown)
            for key in random.Random(len(keys)).sample(sorted(keys), min(5, len(keys))):
                assert table.get(key) is not None
            if keys:
                assert len(table.lookup(sorted(keys))) == len(keys)

    def run(work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            errors.append(error)
            over.set()

    threads = [threading.Thread(target=run, args=(write, number)) for number in range(4)]
    threads.append(threading.Thread(target=run, args=(check,)))
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert committed
    table.refresh()
    assert len(table.lookup(sorted(committed))) == len(committed)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_scans_pickle(lake: nb.Catalog, data_format: Any) -> None:
    # "cannot pickle 'FileSet' object": scans of files could be sent to other processes, those of
    # tables could not.
    table = lake.create_table(
        "a.d", rows(*range(100)), primary_key="k", partition_by=["bucket(4, k)"],
        data_format=data_format,
    )  # fmt: skip
    table.delete("k < 10")
    with table.alter() as alter:
        alter.add_column("w", pa.int64(), default=7)
    for scan in (
        table.scan(),
        table.scan(["w", "k"], filter="k > 90"),
        table.scan(filter="v >= $least", params={"least": 50}, limit=7, offset=2),
        table.scan(row_range=(5, 50), batch_rows=3),
        table.at(snapshot=table.snapshot).scan(),
    ):
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(scan))))
        assert again.to_table().equals(scan.to_table())
        assert again.to_table().num_rows > 0
    with table.transaction() as tx:
        tx.upsert(rows(1000))
        with pytest.raises(TypeError, match="transaction"):
            pickle.dumps(tx.scan())


def _first_batch(table: nb.Table) -> Any:
    reader = table.scan(batch_rows=1, threads=1).to_reader()
    reader.read_next_batch()
    return reader


READS = {
    "get": lambda table: table.get(3),
    "lookup": lambda table: table.lookup([3, 4]),
    "count": lambda table: table.count([3, 4]),
    "count_rows": lambda table: table.count_rows("v > 2"),
    "scan": lambda table: table.to_table(),
    "filter": lambda table: table.to_table(filter="v > 2"),
    "take": lambda table: table.take([0, 1]),
    "range": lambda table: table.range(1, 3),
    "sample": lambda table: table.sample(0.5),
    "num_rows": lambda table: table.num_rows,
    "reader": lambda table: _first_batch(table).read_all(),
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_a_read_of_an_expired_snapshot_says_so(
    lake: nb.Catalog, what: str, data_format: Any
) -> None:
    # It was a FileNotFoundError of some data file, as if the file had been lost.
    table = lake.create_table(
        "a.d", rows(*range(10)), primary_key="k", partition_by="bucket(4, k)",
        data_format=data_format,
    )  # fmt: skip
    table.delete(keys=[9])
    table = lake.table("a.d")
    other = lake.table("a.d")
    other.overwrite(rows(3, 4))
    other.expire(keep=1)
    plan.clear_caches()
    with pytest.raises(nb.StaleFileError, match=rf"a\.d: snapshot {table.snapshot} .*refresh\(\)"):
        READS[what](table)
    READS[what](table.refresh())


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_a_reader_says_that_its_snapshot_expired(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any
) -> None:
    monkeypatch.setattr(source, "_PREPARED", 2)  # files that are opened together
    table = lake.create_table(
        "a.d", rows(*range(10)), partition_by="k", data_format=data_format
    )  # fmt: skip
    reader = _first_batch(table)
    other = lake.table("a.d")
    other.overwrite(rows(3))
    other.expire(keep=1)
    with pytest.raises(nb.StaleFileError, match=r"snapshot \d+ has expired"):
        reader.read_all()


def test_a_lost_file_is_not_taken_for_an_expired_snapshot(lake: nb.Catalog) -> None:
    lake.create_table("a.d", rows(*range(10)), primary_key="k")
    table = lake.table("a.d")
    path = table.census().filter(pc.field("kind") == "data")["path"][0].as_py()
    os.remove(path)
    with pytest.raises(
        FileNotFoundError, match=f"a.d: a file of snapshot {table.snapshot} is missing"
    ) as raised:
        table.get(3)
    assert raised.value.filename == path
    assert "a.d" in str(raised.value)


def test_an_unpickled_handle_of_an_expired_snapshot_can_be_refreshed(lake: nb.Catalog) -> None:
    table = lake.create_table("a.e", rows(*range(10)), primary_key="k")
    pickled = pickle.dumps(lake.table("a.e"))
    table.upsert(rows(3))
    table.expire(keep=1)
    plan.clear_caches()
    read: nb.Table = pickle.loads(pickled)
    assert read.snapshot != table.snapshot
    with pytest.raises(nb.StaleFileError, match=rf"a\.e: snapshot {read.snapshot} has expired"):
        read.get(3)
    assert read.refresh() is read
    assert read.get(3) == {"k": 3, "v": 3}
    moved: nb.Table = pickle.loads(pickled)
    moved.upsert(rows(11))  # it can write, like the handle that was pickled
    assert moved.num_rows == 11


def test_a_lost_manifest_list_is_not_taken_for_an_expired_snapshot(lake: nb.Catalog) -> None:
    # The message said that the snapshot had expired, and that refresh() would help.
    table = lake.create_table("a.d", rows(*range(10)), primary_key="k")
    (path,) = table.census().filter(pc.field("kind") == "manifest list")["path"].to_pylist()
    os.remove(path)
    plan.clear_caches()
    lost = lake.table("a.d")
    for call in (lambda: lost.get(3), lost.files, lost.verify, lost.compact, lost.remove_orphans):
        with pytest.raises(FileNotFoundError, match="is missing") as raised:
            call()
        assert raised.value.filename.endswith(os.path.basename(path))
        assert "refresh()" not in str(raised.value)


def test_close_closes_files_that_another_thread_lost(lake: nb.Catalog) -> None:
    # A thread that moves the handle forgets the files that it does not show. Another one may have
    # moved it to them meanwhile.
    table = lake.create_table("a.l", rows(*range(10)), primary_key="k")
    assert table.get(3) == {"k": 3, "v": 3}
    reading = table._at.rows.reading
    table._readings.clear()
    assert len(reading.open_files) == 1
    table.close()
    assert len(reading.open_files) == 0
