"""Files, datasets and tables for asyncio: each call runs in a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.resolve import Source, as_rows
from nimblepy.io.fork import renew_after_fork
from nimblepy.rows.arguments import at_least
from nimblepy.rows.rows import Rows

_Answer = TypeVar("_Answer")


class AsyncRows:
    """Reading methods of a file, dataset or table as coroutines.

    Methods and arguments are those of the handle. Only ``scan`` differs: use ``async for batch in
    a.scan(...)``. The handle itself remains usable.

    If a call is cancelled, its thread continues and drops the answer. At most ``concurrency`` calls
    run at a time; others wait.

    Attributes:
        rows: the handle.
    """

    def __init__(self, rows: Rows, concurrency: int) -> None:
        self.rows = rows
        self._concurrency = concurrency
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="nimble-aio")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _AWAITED:
            raise AttributeError(f"nb.aio(...) has no {name!r}; it has {', '.join(_AWAITED)}, scan")
        method = getattr(self.rows, name)

        @functools.wraps(method, assigned=("__doc__", "__name__"), updated=())
        async def ask(*arguments: Any, **keywords: Any) -> Any:
            return await self._run(functools.partial(method, *arguments, **keywords))

        return ask

    async def scan(self, *arguments: Any, **keywords: Any) -> AsyncIterator[pa.RecordBatch]:
        """Yields the batches of ``scan``. Each one is decoded when it is requested."""
        scan = await self._run(functools.partial(self.rows.scan, *arguments, **keywords))
        batches = scan.to_batches()
        while (batch := await self._run(lambda: next(batches, None))) is not None:
            yield batch

    async def _run(self, question: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    async def close(self) -> None:
        """Waits for running calls, then closes the handle."""
        await asyncio.to_thread(self._threads.shutdown, wait=True)
        self.rows.close()

    async def __aenter__(self) -> AsyncRows:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<nimblepy.aio of {self.rows!r}>"


_AWAITED = (
    *("get", "lookup", "contains", "count", "range", "prefix", "row_ranges", "take", "sample"),
    *("head", "to_table", "to_pandas", "count_rows", "index_join", "explain", "layout", "verify"),
)


def aio(source: Source, *, concurrency: int = 32) -> AsyncRows:
    """``source`` for asyncio: ``await nb.aio("s3://bucket/users.nimble").get(7)``.

    For object stores, where calls wait for reads and many can wait at the same time. For a file in
    memory or on a local disk, a plain call is faster than a thread.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file or
            dataset, which is opened now. Open remote files in a thread (``asyncio.to_thread(nb.aio,
            ...)``). ``close()`` and the end of ``async with`` also close a given handle.
        concurrency: maximum number of running calls, each in its own thread.
    """
    if at_least("concurrency", concurrency, 1) > 1024:
        raise InvalidArgumentError(f"concurrency: expected at most 1024, got {concurrency}")
    return AsyncRows(as_rows(source), concurrency)
