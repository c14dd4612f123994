"""What a writer does after a failure, beside other threads, in a child of fork(), and to what it
replaces.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy import _core

pytestmark = pytest.mark.sanitizer

CODES = pa.dictionary(pa.int8(), pa.string())
SCHEMA = pa.schema({"k": pa.int64(), "c": CODES, "v": pa.int64()})
SMALL = pa.table({"k": [1, 2, 3]})


def rows(begin: int, count: int, values: int) -> pa.RecordBatch:
    """Rows with up to 100 different texts in `c`, beginning at text number `values`."""
    texts = [f"text {values + i % 100}" for i in range(count)]
    column = pa.array(texts).dictionary_encode().cast(CODES)
    numbers = range(begin, begin + count)
    return pa.record_batch([numbers, column, numbers], schema=SCHEMA)


def left_behind(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# ---- after a failure ----


@pytest.mark.parametrize("presorted", [False, True])
def test_write_that_failed_ends_the_file_and_the_old_one_stays(
    tmp_path: Path, presorted: bool
) -> None:
    # Half of a batch had been taken: later rows came out with another row's values.
    path = tmp_path / "a.nimble"
    nb.write(SMALL, path)
    writer = nb.Writer(path, SCHEMA, cluster_by="k", presorted=presorted)
    writer.write(rows(0, 100, 0))
    with pytest.raises(nb.InvalidArgumentError, match="different values"):
        writer.write(rows(100, 100, 100))
    for _ in range(2):
        with pytest.raises(nb.InvalidArgumentError, match=r"failed before.*different values"):
            writer.write(rows(100, 100, 0))
        with pytest.raises(nb.InvalidArgumentError, match=r"failed before.*different values"):
            writer.close()
    writer.abort()
    assert left_behind(tmp_path) == ["a.nimble"]
    assert nb.open(path).to_table().equals(SMALL)


def test_write_that_failed_and_was_passed_over_is_told_at_the_end_of_the_block(
    tmp_path: Path,
) -> None:
    def batches() -> object:
        yield rows(0, 10, 0)
        raise LookupError("no more")

    writer = nb.Writer(tmp_path / "a.nimble", SCHEMA, cluster_by="k")
    with pytest.raises(LookupError):
        writer.write(batches())
    with pytest.raises(nb.InvalidArgumentError, match="no more"), writer:
        pass
    assert left_behind(tmp_path) == []


# ---- threads ----


@pytest.mark.parametrize("cluster_by", [None, "k"])
def test_writer_used_by_many_threads_takes_every_row(
    tmp_path: Path, cluster_by: str | None
) -> None:
    path = tmp_path / "a.nimble"
    with nb.Writer(path, SCHEMA, cluster_by=cluster_by) as writer:
        some = [rows(i * 1000, 1000, 0) for i in range(40)]
        threads = [
            threading.Thread(target=lambda i=i: [writer.write(b) for b in some[i::4]])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    table = nb.open(path).to_table()
    assert sorted(table["k"].to_pylist()) == list(range(40_000))
    assert table["k"].equals(table["v"])


def test_writer_closed_during_a_write_has_all_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    writer = nb.Writer(path, SCHEMA, cluster_by="k")
    begun = threading.Event()

    def batches() -> object:
        for i in range(20):
            yield rows(i * 1000, 1000, 0)
            begun.set()

    thread = threading.Thread(target=lambda: writer.write(batches()))
    thread.start()
    begun.wait()
    assert writer.close().num_rows == 20_000
    thread.join()


def test_core_writer_refuses_everything_after_close(tmp_path: Path) -> None:
    writer = nb.Writer(tmp_path / "a.nimble", SMALL.schema)
    core = writer._core
    core.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        core.finish()  # dereferenced null
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        core.write(SMALL.to_batches()[0])
    writer.abort()
    with pytest.raises(nb.InvalidArgumentError, match="was aborted"):
        writer.close()


# ---- children of fork() ----

FORKING = """
import os, sys
import pyarrow as pa
import pyarrow.fs as pafs
import nimblepy as nb

path, what, remote = sys.argv[1], sys.argv[2], sys.argv[3] == "remote"
filesystem = pafs.SubTreeFileSystem(path, pafs.LocalFileSystem()) if remote else None
table = pa.table({"k": list(range(50_000, 0, -1))})
index = [nb.HashIndex("k")]
options = nb.WriteOptions(sort_memory_bytes=1 << 20, index_memory_bytes=1 << 20)
place = "a.nimble" if remote else path + "/a.nimble"
with nb.Writer(place, table.schema, cluster_by="k", indexes=index, options=options,
               filesystem=filesystem) as writer:
    writer.write(table)
    child = os.fork()
    if child == 0:
        sys.stderr.close()
        if what == "exit":
            sys.exit(0)
        if what == "write":
            writer.write(table)
        if what == "abort":
            writer.abort()
            sys.exit(0)
        if what == "core":
            try:
                writer._core.finish()
            finally:
                writer._core.close()
    if child != 0:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == (0 if what in ("exit", "abort") else 1), status
        writer.write(table)
assert child != 0
with nb.open(path + "/a.nimble", verify="full") as file:
    assert file.get(500) == {"k": 500} and file.num_rows == 100_000
"""


@pytest.mark.no_sanitizer
@pytest.mark.parametrize("place", ["local", "remote"])
@pytest.mark.parametrize("what", ["exit", "leave", "write", "abort", "core"])
def test_child_of_fork_leaves_its_parents_file_alone(tmp_path: Path, what: str, place: str) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path), what, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert left_behind(tmp_path) == ["a.nimble"]


# ---- interrupts ----


@pytest.mark.parametrize("rewrite", [False, True])
def test_interrupt_in_the_last_phase_leaves_the_old_file(tmp_path: Path, rewrite: bool) -> None:
    path = tmp_path / "a.nimble"
    temporary = tmp_path / ".a.nimble.0.nimble-tmp"
    random = np.random.default_rng(1)  # several MB, whatever the encoding
    large = pa.table({name: random.integers(0, 1 << 62, 1 << 19) for name in "kv"})
    nb.write(large if rewrite else SMALL, path)
    old = path.read_bytes()
    looked = []

    def work() -> None:
        if rewrite:
            nb.add_index(path, nb.SortedIndex("k"))
        else:
            nb.write(large, path, cluster_by="k")

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        # Bytes are there only once the last phase has begun to write.
        if temporary.exists() and temporary.stat().st_size > 0:
            signal.setitimer(signal.ITIMER_REAL, 0)  # one interrupt: the clean-up has time
            looked.append(True)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert looked == [True]
    assert path.read_bytes() == old
    assert left_behind(tmp_path) == ["a.nimble"]


# ---- what is replaced ----


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_replacing_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.nimble"
    nb.write(SMALL, path)
    path.chmod(mode)
    nb.write(SMALL, path)
    assert mode_of(path) == mode
    nb.add_index(path, nb.HashIndex("k"))
    assert mode_of(path) == mode
    nb.drop_index(path, "k")
    assert mode_of(path) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_replacing_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(SMALL, path)
    os.chown(path, 12345, 12346)
    path.chmod(0o640)
    nb.add_index(path, nb.HashIndex("k"))
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (12345, 12346, 0o640)


def test_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    target, link = tmp_path / "sub" / "a.nimble", tmp_path / "link.nimble"
    link.symlink_to("sub/a.nimble")
    nb.write(SMALL, link)  # leads to nothing yet
    nb.add_index(link, nb.HashIndex("k"))
    assert link.is_symlink()
    assert not target.is_symlink()
    assert len(nb.open(target).indexes) == 1
    assert left_behind(tmp_path / "sub") == ["a.nimble"]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_special_file_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "special"
    if kind == "pipe":
        os.mkfifo(path)
    elif os.geteuid() == 0:
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("no devices here")
    else:
        path = Path("/dev/null")
    with pytest.raises(nb.InvalidArgumentError, match="regular file"):
        nb.write(SMALL, path)
    assert not path.is_file()
    assert kind == "device" or left_behind(tmp_path) == ["special"]


def test_path_with_a_null_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(SMALL, path)
    cut = f"{path}\0junk"
    with pytest.raises(ValueError, match=r"null (byte|character)"):
        nb.open(cut)
    with pytest.raises(ValueError, match=r"null (byte|character)"):
        nb.write(SMALL, cut)
    with pytest.raises(ValueError, match=r"null (byte|character)"):
        nb.add_index(path, nb.HashIndex("k"), output=cut)
    with pytest.raises((ValueError, OSError)):
        nb.open_dataset(cut)
    assert left_behind(tmp_path) == ["a.nimble"]


# ---- a call out of a call ----


@pytest.mark.parametrize("what", ["close", "write"])
def test_call_made_by_the_data_is_refused_and_changes_nothing(tmp_path: Path, what: str) -> None:
    batch = SMALL.to_batches()[0]
    with nb.Writer(tmp_path / "t.nimble", SMALL.schema) as writer:

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(3):
                yield batch
                with pytest.raises(nb.InvalidArgumentError, match="busy"):
                    writer.close() if what == "close" else writer.write(SMALL)

        writer.write(pa.RecordBatchReader.from_batches(SMALL.schema, batches()))
    assert nb.open(tmp_path / "t.nimble").num_rows == 9


class Sink:
    """A target that ends the writer which writes to it."""

    core: Any = None
    refused = 0

    def write(self, data: bytes) -> None:
        with pytest.raises(nb.InvalidArgumentError, match="busy"):
            self.core.finish()
        self.refused += 1


def test_core_writer_that_refuses_an_end_in_a_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, make = Sink(), _core.Writer
    monkeypatch.setattr(_core, "Writer", lambda _target, *others: make(sink, *others))
    writer = nb.Writer(tmp_path / "t.nimble", SMALL.schema)
    sink.core = writer._core
    writer.write(SMALL)
    assert writer.close().num_rows == 3
    assert sink.refused > 0
