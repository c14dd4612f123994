"""Progress of long writes: a bar on a terminal, or a caller's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Progress:
    """Counts rows and shows them.

    Args:
        target: ``True`` shows a bar on standard error; a callable gets ``(rows_done, total)``;
            ``None`` or ``False`` shows nothing.
        total: rows expected, ``None`` where that is not known.
    """

    def __init__(
        self, target: bool | Callable[[int, int | None], object] | None, total: int | None
    ) -> None:
        self._done = 0
        self._total = total
        self._call = target if callable(target) else None
        self._bar: Any = None
        if target is True:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("rows"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task("writing", total=total)
            self._bar.start()

    def advance(self, rows: int) -> None:
        self._done += rows
        if self._call is not None:
            self._call(self._done, self._total)
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, completed=self._done)

    def stage(self, name: str) -> None:
        """What is being done from now on, with the rows that were counted: shown beside the bar."""
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, description=name)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
