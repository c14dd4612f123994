"""Watch: a thread that moves a handle on a table to new snapshots."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from typing import Any

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.table.handle import TableHandle, TableState, id_of

_log = logger(__name__)

# All watches. The set also keeps each watch alive in a child process, which does not have its
# thread.
_running: set[Watch] = set()


class Watch:
    """Follows a table in a thread; made by :meth:`nimblepy.Table.watch`. A context manager.

    Attributes:
        table: the handle that the thread moves.
    """

    def __init__(self, table: TableHandle, callback: Callable[[Any], object], poll: float) -> None:
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise InvalidArgumentError(
                f"callback: expected a plain function of the table, got {callback!r}; "
                "start a coroutine with asyncio.run_coroutine_threadsafe"
            )
        self.table = table
        self._callback = callback
        self._poll = poll
        self._problem = ""
        state = TableState(table)
        state.check_follows()
        self._seen = _seen(state)
        self._start()
        _running.add(self)

    def _start(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="nimble-watch", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        state = TableState(self.table)
        stop = self._stop
        try:
            while not stop.wait(self._poll) and not state.is_closed:
                self._refresh(state)
                seen = _seen(state)
                if seen != self._seen and not stop.is_set():
                    self._seen = seen
                    try:
                        self._callback(self.table)
                    except Exception:
                        _log.exception("%s: watch: the callback failed", state.name)
        finally:  # SystemExit of the callback too
            _running.discard(self)

    def _refresh(self, state: TableState) -> None:
        """Refreshes the handle. Logs a repeated error once; the next check tries again."""
        try:
            state.refresh()
            self._problem = ""
        except Exception as error:
            problem = repr(error)
            if problem != self._problem and not state.is_closed:
                _log.warning("%s: watch: refresh failed: %s", state.name, problem)
            self._problem = problem

    @property
    def is_running(self) -> bool:
        """Whether the thread follows the table."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread, after waiting for a running callback. The handle stops moving."""
        _running.discard(self)
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = f"every {self._poll} s" if self.is_running else "closed"
        return f"<nimblepy.Watch of {TableState(self.table).name!r}: {how}>"


def _seen(state: TableState) -> tuple[int | None, int]:
    """Returns the ids of the snapshot and schema that the handle shows.

    Other callers may move the handle, too.
    """
    at = state.shown
    return id_of(at.snapshot), at.schema_id


def _restart() -> None:
    """Starts the threads again in a child process, which has only the thread that forked."""
    for watch in list(_running):
        watch._start()


# Registered after the locks of nimblepy.io.fork, which are renewed first.
os.register_at_fork(after_in_child=_restart)
