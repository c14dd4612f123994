"""Tables of a server for asyncio: calls run in threads, each on a connection of its own."""

from __future__ import annotations

from nimblepy.interop.aio_rows import AioHandle, Awaited
from nimblepy.serving.remote import RemoteTable


def _refresh(table: RemoteTable) -> bool:
    """Calls :meth:`nimblepy.RemoteTable.refresh`. Returns whether the snapshot is another one."""
    before = table.snapshot
    return table.refresh().snapshot != before


class AioRemoteTable(AioHandle[RemoteTable]):
    """A :class:`RemoteTable` for asyncio; made by :func:`nimblepy.aio`.

    Its methods are coroutines.
    """

    get = Awaited(RemoteTable.get)
    lookup = Awaited(RemoteTable.lookup)
    contains = Awaited(RemoteTable.contains)
    count = Awaited(RemoteTable.count)
    range = Awaited(RemoteTable.range)
    prefix = Awaited(RemoteTable.prefix)
    page = Awaited(RemoteTable.page)
    refresh = Awaited(_refresh, is_function=True)
