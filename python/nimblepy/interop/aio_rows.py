"""Files and datasets for asyncio: each call runs in a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset, source_of_dataset
from nimblepy.io.fork import renew_after_fork
from nimblepy.join.joinable import Joinable
from nimblepy.rows.arguments import Columns
from nimblepy.rows.rows import Rows
from nimblepy.rows.scan import Scan
from nimblepy.rows.source import Filter

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_Handle = TypeVar("_Handle")
_Local = TypeVar("_Local", bound=Joinable)


class Awaited(Generic[_Arguments, _Answer]):
    """Wraps a method of a handle as a coroutine with the same arguments.

    Args:
        is_function: whether to call ``method`` itself, instead of the handle's method that has the
            name of the attribute.
    """

    def __init__(
        self,
        method: Callable[Concatenate[Any, _Arguments], _Answer],
        *,
        is_function: bool = False,
    ) -> None:
        self._function = method if is_function else None
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, instance: AioHandle[Any], owner: type
    ) -> Callable[_Arguments, Coroutine[Any, Any, _Answer]]: ...
    def __get__(self, instance: AioHandle[Any] | None, owner: type) -> Any:
        if instance is None:
            return self
        aio = instance
        method: Callable[..., _Answer] = (
            getattr(aio.rows, self._name)
            if self._function is None
            else functools.partial(self._function, aio.rows)
        )

        @functools.wraps(method, assigned=("__doc__", "__name__"), updated=())
        async def ask(*arguments: _Arguments.args, **keywords: _Arguments.kwargs) -> _Answer:
            return await aio._run(functools.partial(method, *arguments, **keywords))

        return ask


class AioHandle(Generic[_Handle]):
    """A handle whose methods run in threads.

    Attributes:
        rows: the handle. It remains usable.
    """

    def __init__(self, rows: _Handle, concurrency: int) -> None:
        self.rows = rows
        self._concurrency = concurrency
        self._closed = False
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="nimble-aio")

    async def _run(self, question: Callable[[], _Answer]) -> _Answer:
        if self._closed:
            raise InvalidArgumentError(f"{self!r} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    async def close(self) -> None:
        """Waits for running calls. Closes the handle only if :func:`aio` opened it."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<nimblepy.{type(self).__name__} of {self.rows!r}>"


class AioRows(AioHandle[_Local]):
    """The reading methods of a file, dataset or table, as coroutines."""

    def __init__(self, rows: _Local, concurrency: int, *, owns: bool) -> None:
        """
        Args:
            owns: whether to close the handle with this object.
        """
        super().__init__(rows, concurrency)
        self._owns = owns

    async def close(self) -> None:
        """Waits for running calls. Closes the handle only if :func:`aio` opened it."""
        await super().close()
        if self._owns:
            self.rows.close()

    get = Awaited(Rows.get)
    lookup = Awaited(Rows.lookup)
    contains = Awaited(Rows.contains)
    count = Awaited(Rows.count)
    range = Awaited(Rows.range)
    prefix = Awaited(Rows.prefix)
    page = Awaited(Rows.page)
    row_ranges = Awaited(Rows.row_ranges)
    take = Awaited(Rows.take)
    nearest = Awaited(Rows.nearest)
    asof = Awaited(Joinable.asof)
    asof_join = Awaited(Joinable.asof_join)
    sample = Awaited(Rows.sample)
    head = Awaited(Rows.head)
    to_table = Awaited(Rows.to_table)
    to_pandas = Awaited(Rows.to_pandas)
    count_rows = Awaited(Rows.count_rows)
    index_join = Awaited(Joinable.index_join)
    explain = Awaited(Rows.explain)
    verify = Awaited(Rows.verify)

    async def scan(
        self,
        columns: Columns = None,
        *,
        filter: Filter = None,
        params: Parameters = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yields the batches of ``scan``. Each one is decoded when it is requested."""

        def begin() -> Scan:
            return self.rows.scan(
                columns,
                filter=filter,
                params=params,
                batch_rows=batch_rows,
                threads=threads,
                limit=limit,
                offset=offset,
            )

        scan = await self._run(begin)
        batches = scan.to_batches()
        while (batch := await self._run(lambda: next(batches, None))) is not None:
            yield batch


def _refresh_file(file: File) -> bool:
    """Calls :meth:`File.refresh`. Returns whether the file had been replaced."""
    is_stale = file.is_stale
    if is_stale:
        file.refresh()
    return is_stale


def _refresh_dataset(dataset: Dataset) -> bool:
    """Calls :meth:`Dataset.refresh`. Returns whether files had changed."""
    before = source_of_dataset(dataset)
    return source_of_dataset(dataset.refresh()) is not before


class AioFile(AioRows[File]):
    """A :class:`File` for asyncio; made by :func:`aio`. Its methods are coroutines."""

    layout = Awaited(File.layout)

    refresh = Awaited(_refresh_file, is_function=True)


class AioDataset(AioRows[Dataset]):
    """A :class:`Dataset` for asyncio; made by :func:`aio`. Its methods are coroutines."""

    refresh = Awaited(_refresh_dataset, is_function=True)
