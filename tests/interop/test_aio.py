"""`nb.aio`: every question of a handle, awaited; many at once; errors and cancellation."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

TABLE = pa.table({"k": range(100), "v": [i * 2 for i in range(100)]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nb.write(TABLE, tmp_path / "f.nimble", cluster_by="k")
    return tmp_path / "f.nimble"


def test_questions_are_awaited(path: Path) -> None:
    async def ask() -> None:
        async with nb.aio(path) as rows:
            assert await rows.get(7) == {"k": 7, "v": 14}
            assert (await rows.lookup([3, 5], columns=["v"])).column("v").to_pylist() == [6, 10]
            assert (await rows.range(3, limit=2)).num_rows == 2
            assert await rows.count_rows("k < 10") == 10
            found = await asyncio.gather(*(rows.get(i, default=i) for i in range(200)))
            assert [x["v"] if isinstance(x, dict) else x for x in found] == [
                i * 2 if i < 100 else i for i in range(200)
            ]
            batches = [b async for b in rows.scan(["k"], filter="k >= 50", batch_rows=7)]
            assert sum(b.num_rows for b in batches) == 50
            assert len(batches) > 1
            with pytest.raises(nb.InvalidArgumentError):
                await rows.get("text")
            assert {"get", "lookup", "refresh"} <= set(dir(rows))
            with pytest.raises(AttributeError, match="nothing"):
                _ = rows.nothing  # type: ignore[attr-defined]
        with pytest.raises(nb.InvalidArgumentError, match="is closed"):
            await rows.get(1)

    asyncio.run(ask())


class Slow:
    """A file whose reads take a while, as those of an object store."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.lock = data, 0, threading.Lock()

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (len(self.data) if whence == 2 else self.at if whence == 1 else 0)
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int = -1) -> bytes:
        time.sleep(0.02)
        end = len(self.data) if size < 0 else self.at + size
        found = self.data[self.at : end]
        self.at += len(found)
        return found


def test_the_loop_goes_on_while_reads_wait(path: Path) -> None:
    async def ask() -> int:
        source: Any = Slow(path.read_bytes())
        rows = nb.aio(nb.open(source, cache_bytes=0), concurrency=4)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert [await rows.get(i) for i in range(5)] == TABLE.slice(0, 5).to_pylist()
        late = asyncio.create_task(rows.get(50))
        await asyncio.sleep(0.005)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert await rows.get(51) == {"k": 51, "v": 102}
        ticking.cancel()
        await rows.close()
        return ticks

    assert asyncio.run(ask()) > 5


@pytest.mark.parametrize("bad", [0, -1, 1.5, 10**6])
def test_bad_concurrency_is_refused(path: Path, bad: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="concurrency"):
        nb.aio(path, concurrency=bad)


def test_a_given_handle_stays_open(path: Path) -> None:
    async def ask(file: nb.File) -> None:
        async with nb.aio(file) as rows:
            assert isinstance(rows, nb.AioFile)
            assert await rows.get(1) == {"k": 1, "v": 2}
            nb.write(TABLE.slice(5), path, cluster_by="k")
            assert (await rows.refresh(), await rows.refresh()) == (True, False)
            assert await rows.get(1) is None
        async with nb.aio(path) as own:
            pass
        assert file.get(6) == {"k": 6, "v": 12}
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            own.rows.get(6)

    asyncio.run(ask(nb.open(path)))


def test_a_dataset_is_refreshed(path: Path) -> None:
    async def ask() -> None:
        async with nb.aio(path.parent) as rows:
            assert isinstance(rows, nb.AioDataset)
            nb.write(TABLE.slice(7), path.parent / "g.nimble", cluster_by="k")
            assert (await rows.refresh(), await rows.refresh()) == (True, False)
            assert (await rows.lookup([8])).num_rows == 2

    asyncio.run(ask())


def test_a_table_is_written(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path / "lake").create_table("a.b", TABLE, primary_key="k")
    follower = table.catalog.table("a.b")

    async def write() -> None:
        rows, other = nb.aio(table), nb.aio(follower)
        assert isinstance(rows, nb.AioTable)
        assert (await rows.upsert([{"k": 1, "v": -1}])).rows_updated == 1
        assert (await rows.append([{"k": 100, "v": 0}])).rows_inserted == 1
        assert (await rows.delete(keys=[2])).rows_deleted == 1
        assert await other.refresh(if_older_than=60) is False
        assert await other.get(2) == {"k": 2, "v": 4}
        assert (await other.refresh(), await other.refresh()) == (True, False)
        assert await other.get(2) is None
        await rows.close()

    asyncio.run(write())
    assert table.get(1) == {"k": 1, "v": -1}


def test_a_cancelled_write_starts_not_or_completes(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from nimblepy.table.testing import commit_hooks

    table = nb.connect(tmp_path / "lake").create_table("a.b", TABLE, primary_key="k")
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        may_end.wait(30)

    async def write() -> None:
        rows = nb.aio(table, concurrency=1)
        running = asyncio.create_task(rows.append([{"k": 100, "v": 0}]))
        waiting = asyncio.create_task(rows.append([{"k": 101, "v": 0}]))
        await asyncio.to_thread(begun.wait)
        for task in (waiting, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        may_end.set()
        await rows.close()  # waits for the running write

    with commit_hooks(before_swap=wait):
        asyncio.run(write())
    assert table.contains([100, 101]).to_pylist() == [True, False]


def test_a_child_of_fork_is_answered(path: Path) -> None:
    """Its threads are not in the child, which used to wait for them for ever."""
    rows = nb.aio(path)
    wanted = asyncio.run(rows.get(7))
    child = os.fork()
    if child == 0:
        found = asyncio.run(asyncio.wait_for(rows.get(7), 30))
        os._exit(7 if found == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
