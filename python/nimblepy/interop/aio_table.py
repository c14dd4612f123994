"""Tables for asyncio: reads, writes and refreshes run in threads."""

from __future__ import annotations

from nimblepy.interop.aio_rows import AioRows, Awaited
from nimblepy.table.table import Table


def _refresh(table: Table, *, if_older_than: float = 0.0) -> bool:
    """Calls :meth:`nimblepy.Table.refresh`. Returns whether the handle moved."""
    return table.refresh(if_older_than=if_older_than)


class AioTable(AioRows[Table]):
    """A :class:`Table` for asyncio; made by :func:`nimblepy.aio`. Its methods are coroutines.

    A write whose task is cancelled either has not started and does nothing, or it runs to its end
    and commits. With ``batch=`` it can be repeated without adding rows twice.
    """

    append = Awaited(Table.append)
    upsert = Awaited(Table.upsert)
    delete = Awaited(Table.delete)
    overwrite = Awaited(Table.overwrite)
    refresh = Awaited(_refresh, is_function=True)
