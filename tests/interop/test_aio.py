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
            with pytest.raises(AttributeError, match="lookup"):
                _ = rows.nothing
        with pytest.raises((nb.InvalidArgumentError, RuntimeError)):
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


def test_a_child_of_fork_is_answered(path: Path) -> None:
    """Its threads are not in the child, which used to wait for them for ever."""
    rows = nb.aio(path)
    wanted = asyncio.run(rows.get(7))
    child = os.fork()
    if child == 0:
        found = asyncio.run(asyncio.wait_for(rows.get(7), 30))
        os._exit(7 if found == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
