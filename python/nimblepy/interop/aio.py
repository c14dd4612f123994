"""Files, datasets and tables for asyncio: each call runs in a thread."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset, source_of_dataset
from nimblepy.files.resolve import as_rows
from nimblepy.io.fork import renew_after_fork
from nimblepy.join.joinable import Joinable
from nimblepy.rows.arguments import at_least
from nimblepy.rows.rows import Rows

if TYPE_CHECKING:
    from nimblepy.interop.aio_table import AioTable
    from nimblepy.table.table import Table

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_Handle = TypeVar("_Handle", bound=Joinable)


class Awaited(Generic[_Arguments, _Answer]):
    """A method of a handle as a coroutine, with the same arguments."""

    def __init__(self, method: Callable[Concatenate[Any, _Arguments], _Answer]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, instance: AioRows[Any], owner: type
    ) -> Callable[_Arguments, Coroutine[Any, Any, _Answer]]: ...
    def __get__(self, instance: AioRows[Any] | None, owner: type) -> Any:
        if instance is None:
            return self
        aio, method = instance, getattr(instance.rows, self._name)

        @functools.wraps(method, assigned=("__doc__", "__name__"), updated=())
        async def ask(*arguments: _Arguments.args, **keywords: _Arguments.kwargs) -> _Answer:
            return await aio._run(functools.partial(method, *arguments, **keywords))

        return ask


class AioRows(Generic[_Handle]):
    """Reading methods of a handle as coroutines.

    Attributes:
        rows: the handle. It remains usable.
    """

    def __init__(self, rows: _Handle, concurrency: int, *, owns: bool) -> None:
        """``owns``: close the handle with this object."""
        self.rows = rows
        self._concurrency = concurrency
        self._owns = owns
        self._closed = False
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="nimble-aio")

    get = Awaited(Rows.get)
    lookup = Awaited(Rows.lookup)
    contains = Awaited(Rows.contains)
    count = Awaited(Rows.count)
    range = Awaited(Rows.range)
    prefix = Awaited(Rows.prefix)
    row_ranges = Awaited(Rows.row_ranges)
    take = Awaited(Rows.take)
    sample = Awaited(Rows.sample)
    head = Awaited(Rows.head)
    to_table = Awaited(Rows.to_table)
    to_pandas = Awaited(Rows.to_pandas)
    count_rows = Awaited(Rows.count_rows)
    index_join = Awaited(Joinable.index_join)
    explain = Awaited(Rows.explain)
    verify = Awaited(Rows.verify)

    async def scan(self, *arguments: Any, **keywords: Any) -> AsyncIterator[pa.RecordBatch]:
        """Yields the batches of ``scan``. Each one is decoded when it is requested."""
        scan = await self._run(functools.partial(self.rows.scan, *arguments, **keywords))
        batches = scan.to_batches()
        while (batch := await self._run(lambda: next(batches, None))) is not None:
            yield batch

    async def _run(self, question: Callable[[], _Answer]) -> _Answer:
        if self._closed:
            raise InvalidArgumentError(f"{self!r} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    async def close(self) -> None:
        """Waits for running calls. Closes a handle that :func:`aio` opened, and no other."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)
        if self._owns:
            self.rows.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<nimblepy.{type(self).__name__} of {self.rows!r}>"


class AioFile(AioRows[File]):
    """A :class:`File` for asyncio; made by :func:`aio`. Its methods are coroutines."""

    layout = Awaited(File.layout)

    async def refresh(self) -> bool:
        """:meth:`File.refresh`; returns whether the file had been replaced."""

        def refresh() -> bool:
            is_stale = self.rows.is_stale
            if is_stale:
                self.rows.refresh()
            return is_stale

        return await self._run(refresh)


class AioDataset(AioRows[Dataset]):
    """A :class:`Dataset` for asyncio; made by :func:`aio`. Its methods are coroutines."""

    async def refresh(self) -> bool:
        """:meth:`Dataset.refresh`; returns whether files had changed."""

        def refresh() -> bool:
            before = source_of_dataset(self.rows)
            return source_of_dataset(self.rows.refresh()) is not before

        return await self._run(refresh)


@overload
def aio(source: File, *, concurrency: int = 32) -> AioFile: ...
@overload
def aio(source: Dataset, *, concurrency: int = 32) -> AioDataset: ...
@overload
def aio(source: Table, *, concurrency: int = 32) -> AioTable: ...
@overload
def aio(source: str | os.PathLike[str], *, concurrency: int = 32) -> AioFile | AioDataset: ...
def aio(
    source: Joinable | str | os.PathLike[str], *, concurrency: int = 32
) -> AioFile | AioDataset | AioTable:
    """``source`` for asyncio: ``await nb.aio("s3://bucket/users.nimble").get(7)``.

    For object stores, where calls wait for reads and many can wait at the same time. For a file in
    memory or on a local disk, a plain call is faster than a thread.

    Methods and arguments are those of the handle. Only ``scan`` differs: use ``async for batch in
    a.scan(...)``. If a task is cancelled, a call that waits for a thread is not made. A running
    call continues in its thread, and its answer is dropped.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file or
            dataset, which is opened now and closed by ``close()``. A handle stays open. Open remote
            files in a thread (``asyncio.to_thread(nb.aio, ...)``).
        concurrency: maximum number of running calls, each in its own thread. Others wait.
    """
    if at_least("concurrency", concurrency, 1) > 1024:
        raise InvalidArgumentError(f"concurrency: expected at most 1024, got {concurrency}")
    rows, owns = as_rows(source), not isinstance(source, Joinable)
    if isinstance(rows, File):
        return AioFile(rows, concurrency, owns=owns)
    if isinstance(rows, Dataset):
        return AioDataset(rows, concurrency, owns=owns)
    from nimblepy.interop.aio_table import AioTable
    from nimblepy.table.table import Table

    assert isinstance(rows, Table)
    return AioTable(rows, concurrency, owns=owns)
