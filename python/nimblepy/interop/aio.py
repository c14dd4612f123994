"""``nb.aio``: files, datasets, tables, and tables of a server, for asyncio."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset
from nimblepy.files.resolve import as_rows
from nimblepy.interop.aio_remote import AioRemoteTable
from nimblepy.interop.aio_rows import AioDataset, AioFile
from nimblepy.join.joinable import Joinable
from nimblepy.rows.arguments import at_least
from nimblepy.serving.remote import RemoteTable

if TYPE_CHECKING:
    from nimblepy.interop.aio_table import AioTable
    from nimblepy.table.table import Table


@overload
def aio(source: File, *, concurrency: int = 32) -> AioFile: ...
@overload
def aio(source: Dataset, *, concurrency: int = 32) -> AioDataset: ...
@overload
def aio(source: Table, *, concurrency: int = 32) -> AioTable: ...
@overload
def aio(source: RemoteTable, *, concurrency: int = 32) -> AioRemoteTable: ...
@overload
def aio(source: str | os.PathLike[str], *, concurrency: int = 32) -> AioFile | AioDataset: ...
def aio(
    source: Joinable | RemoteTable | str | os.PathLike[str], *, concurrency: int = 32
) -> AioFile | AioDataset | AioTable | AioRemoteTable:
    """Returns ``source`` for asyncio: ``await nb.aio("s3://bucket/users.nimble").get(7)``.

    Use it for object stores, where many calls can wait for reads at the same time. For a file in
    memory or on a local disk, a plain call is faster than a call in a thread.

    Methods and arguments are those of the handle. Only ``scan`` differs: use ``async for batch in
    a.scan(...)``. If a task is cancelled while its call waits for a thread, the call is not made. A
    running call continues in its thread, and its result is dropped.

    Args:
        source: a :class:`File`, :class:`Dataset`, :class:`Table` or :class:`RemoteTable`. Each
            running call to a server has its own connection. Or the path or URI of a file or
            dataset, which is opened now and closed by ``close()``. A handle that you pass remains
            open. Open remote files in a thread (``asyncio.to_thread(nb.aio, ...)``).
        concurrency: maximum number of running calls, each in its own thread. Others wait.
    """
    if at_least("concurrency", concurrency, 1) > 1024:
        raise InvalidArgumentError(f"concurrency: expected at most 1024, got {concurrency}")
    if isinstance(source, RemoteTable):
        return AioRemoteTable(source, concurrency)
    rows, owns = as_rows(source), not isinstance(source, Joinable)
    if isinstance(rows, File):
        return AioFile(rows, concurrency, owns=owns)
    if isinstance(rows, Dataset):
        return AioDataset(rows, concurrency, owns=owns)
    from nimblepy.interop.aio_table import AioTable
    from nimblepy.table.table import Table

    assert isinstance(rows, Table)
    return AioTable(rows, concurrency, owns=owns)
