"""What handles on tables hold of the system: descriptors, mappings and the space of old files."""

from __future__ import annotations

import linecache
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.files import open_files
from nimblepy.files.open_files import OpenFiles

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux")

# Used by programs of their own, as a limit cannot be raised again.
PROGRAM = """
import resource, sys
import pyarrow as pa
import nimblepy as nb
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
lake = nb.connect(sys.argv[1])
"""


def rows(*keys: int, value: int = 0) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def held(directory: Path) -> tuple[int, int, int]:
    """Files below a directory that this process has open, has mapped, and still has after they
    were removed.
    """
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # of the list itself
            continue
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
    opened = [path for path in links if path.startswith(str(directory))]
    mapped = {path for path in mapped if path.startswith(str(directory))}
    gone = sum("(deleted)" in path for path in (*opened, *mapped))
    return len(opened), len(mapped), gone


def run(directory: Path, limit: int, program: str) -> None:
    command = [sys.executable, "-c", PROGRAM + program, str(directory), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_handle_that_follows_a_table_closes_files(lake: nb.Catalog, tmp_path: Path) -> None:
    # A handle kept each file open that was ever part of the table: the readers and writers of a
    # service ran out of descriptors within minutes.
    writer = lake.create_table("a.b", rows(*range(10)), primary_key="k")
    reader = lake.table("a.b")
    for i in range(30):
        writer.upsert(rows(5, value=i))
        assert reader.refresh().get(5) == {"k": 5, "v": i}
    opened, mapped, _ = held(tmp_path)
    assert opened <= 2
    assert mapped <= 8


def test_a_handle_that_follows_by_filtered_scans_closes_files(
    lake: nb.Catalog, tmp_path: Path
) -> None:
    # Such scans never plan all files, by which a handle sees which of them left the table.
    table = lake.create_table("a.b", rows(*range(10)), primary_key="k")
    reader = lake.table("a.b")
    for i in range(100):
        table.upsert(rows(5, value=i))
        assert reader.refresh().to_table(filter="k = 5")["v"].to_pylist() == [i]
    assert held(tmp_path)[1] <= 50


def test_a_handle_that_follows_columns_closes_files(lake: nb.Catalog, tmp_path: Path) -> None:
    # The files that were read with an older schema stayed open as long as the handle.
    table = lake.create_table("a.b", rows(*range(10)), primary_key="k")
    for i in range(20):
        with table.alter() as alter:
            alter.add_column(f"c{i}", pa.int64())
        assert table.get(3)[f"c{i}"] is None
    assert held(tmp_path)[1] <= 4


def test_removed_files_give_their_space_back(lake: nb.Catalog, tmp_path: Path) -> None:
    # Files that expire() removed stayed open, so the disk was no emptier than before.
    table = lake.create_table("a.b", rows(0), primary_key="k")
    for i in range(1, 20):
        table.append(rows(i))
    reader = lake.table("a.b")
    assert table.to_table().num_rows == reader.to_table().num_rows == 20
    assert [table.get(i) for i in (3, 19)] == [{"k": 3, "v": 0}, {"k": 19, "v": 0}]
    table.compact(where_needed=False)
    table.expire(keep=1)
    reader.refresh()
    assert held(tmp_path)[2] == 0
    assert table.to_table().num_rows == reader.to_table().num_rows == 20


def test_a_scan_goes_on_after_its_files_were_removed(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", rows(*range(1000)), primary_key="k")
    reader = table.scan(batch_rows=100).to_reader()
    first = reader.read_next_batch()
    table.overwrite(rows(1))
    table.expire(keep=1)
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 1000
    del reader, first
    assert table.to_table().num_rows == 1
    assert held(tmp_path)[2] == 0


def test_a_handle_that_is_let_go_closes_its_files(lake: nb.Catalog, tmp_path: Path) -> None:
    # A handle and its files kept each other alive until Python looked for cycles.
    lake.create_table("a.b", rows(1), primary_key="k").append(rows(2))
    with lake.table("a.b").alter() as alter:
        alter.add_column("w", pa.int64(), default=7)
    before = held(tmp_path)[1]
    table = lake.table("a.b")
    assert table.get(1) == {"k": 1, "v": 0, "w": 7}
    assert table.lookup([1, 2]).num_rows == 2
    assert held(tmp_path)[1] > before
    del table
    assert held(tmp_path)[1] == before


def test_append_closes_the_files_that_it_checks(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", rows(0), primary_key="k", partition_by=["k"])
    before = held(tmp_path)
    table.append(rows(*range(1, 50)))
    assert held(tmp_path) == before


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with tables of 300 files each."""
    directory = tmp_path_factory.mktemp("many") / "lake"
    lake = nb.connect(directory)
    for name in ("a.b", "a.c"):
        lake.create_table(name, rows(*range(300)), primary_key="k", partition_by=["k"])
    return directory


@pytest.mark.parametrize("limit", [64, 256])
def test_tables_of_more_files_than_descriptors(many: Path, limit: int) -> None:
    # Each handle opened up to half of the descriptors of the process, so that two of them, or one
    # and its caller, ran out of them.
    run(
        many,
        limit,
        """
for name in ("a.b", "a.c"):
    t = lake.table(name)
    assert t.to_table().num_rows == 300
    assert all(t.get(k) == {"k": k, "v": 0} for k in range(300))
    assert t.lookup(range(300)).num_rows == 300
    assert t.count_rows("v = 0") == 300
    globals()[name[-1]] = t
assert b.get(7) == c.get(7) == {"k": 7, "v": 0}
open("/dev/null").close()
""",
    )


def test_changes_of_more_files_than_descriptors(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake")
    lake.create_table("a.b", rows(*range(150)), primary_key="k", partition_by=["k"])
    run(
        tmp_path / "lake",
        64,
        """
t = lake.table("a.b")
t.upsert(pa.table({"k": range(150), "v": [1] * 150}))
assert t.count_rows("v = 1") == 150
with t.alter() as alter:
    alter.partition_by()
t.compact(where_needed=False)
t.expire(keep=1)
assert t.count_rows("v = 1") == 150
""",
    )


@pytest.mark.parametrize("mapped", [True, False])
def test_datasets_of_more_files_than_descriptors(tmp_path: Path, mapped: bool) -> None:
    (tmp_path / "lake").mkdir()
    for i in range(120):
        nb.write(rows(2 * i, 2 * i + 1), tmp_path / "lake" / f"{i:03}.nimble", cluster_by="k")
    run(
        tmp_path / "lake",
        64,
        f"""
for most in (1000, 128):
    d = nb.open_dataset(sys.argv[1], mmap={mapped}, max_open_files=most)
    assert d.to_table().num_rows == 240
    assert all(d.get(k) == {{"k": k, "v": 0}} for k in range(240))
    assert d.lookup(range(240)).num_rows == 240
    assert d.take(range(239, 0, -2)).num_rows == 120
    globals()[f"kept{{most}}"] = d
""",
    )


class Steps:
    """Calls a function before one line of the pool of open files, in what a block does."""

    def __init__(self, line: int, call: Callable[[], None]) -> None:
        self._left = line
        self._call = call
        self.called = False

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != open_files.__file__:
            return None
        # A signal cannot come between the last line of a block and the release of its lock.
        code = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not code.strip().startswith("with "):
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                self.called = True
                self._call()
        return self._trace

    def __enter__(self) -> Steps:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


class Few:
    """Six files, of which the process may keep three open, for two owners."""

    def __init__(self, directory: Path, use_descriptors: bool) -> None:
        self.paths = [str(directory / f"{i}.nimble") for i in range(6)]
        for i, path in enumerate(self.paths):
            nb.write(rows(i), path)
        self.owners = [OpenFiles(use_descriptors=use_descriptors) for _ in range(2)]

    def read(self) -> None:
        for i, path in enumerate(self.paths):
            for owner in self.owners:
                assert owner.get(path, None, lambda path=path: nb.open(path)).num_rows == 1, i

    def check(self) -> None:
        self.read()
        self.read()
        assert sum(map(len, self.owners)) == 3


@pytest.fixture(params=[False, True])
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Few:
    made = Few(tmp_path, request.param)
    if request.param:
        monkeypatch.setattr(open_files, "most_descriptors", lambda: 3)
    else:
        monkeypatch.setattr(open_files, "MOST_OPEN_FILES", 3)
    made.check()
    return made


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_pool_goes_on_after_an_interrupt_at_any_line(few: Few) -> None:
    # A file that the pool had forgotten and its owner still had raised KeyError from then on.
    for line in range(1000):
        steps = Steps(line, interrupt)
        try:
            with steps:
                few.owners[line % 2].get(few.paths[5], None, lambda: nb.open(few.paths[5]))
                few.owners[line % 2].get(few.paths[0], None, lambda: nb.open(few.paths[0]))
        except KeyboardInterrupt:
            pass
        few.check()
        if not steps.called:
            break
    assert 20 < line < 999


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_pool_goes_on_in_a_child_forked_at_any_line(few: Few) -> None:
    # A child had the half of what another thread was changing.
    failed: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            try:
                few.check()
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            failed.append(line)

    for line in range(random.randrange(3), 1000, 3):  # an odd step uses both owners
        with Steps(line, fork) as steps:
            few.owners[line % 2].get(few.paths[5], None, lambda: nb.open(few.paths[5]))
            few.owners[line % 2].get(few.paths[0], None, lambda: nb.open(few.paths[0]))
        few.check()
        if not steps.called:
            break
    assert failed == []
    assert 20 < line < 999
