"""Progress of long work: a bar on a terminal, or a caller's function."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias

ProgressArg: TypeAlias = bool | Callable[[int, int | None], object] | None


class Progress:
    """Counts rows, or other things, and shows how many are done.

    Args:
        target: ``True`` shows a bar on standard error if that is a terminal, and in Jupyter if
            ipywidgets is installed; a callable gets ``(done, total)``; ``None`` or ``False`` shows
            nothing.
        total: how many there will be, ``None`` where that is not known.
        stage: what is being done, shown beside the bar.
        unit: what is counted.

    The bar appears with the first call of :meth:`advance` or :meth:`stage` and stays until
    :meth:`finish`: an object that is made and then not used leaves nothing behind.
    """

    def __init__(
        self, target: ProgressArg, total: int | None, *, stage: str = "writing", unit: str = "rows"
    ) -> None:
        self._target = target
        self._done = 0
        self._total = total
        self._stage = stage
        self._unit = unit
        self._bar: Any = None

    def advance(self, count: int) -> None:
        self._done += count
        if callable(self._target):
            self._target(self._done, self._total)
        self._show()

    def stage(self, name: str) -> None:
        """Says what is being done from now on."""
        self._stage = name
        self._show()

    def finish(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._target = None

    def _show(self) -> None:
        if self._target is not True:
            return
        if self._bar is None:
            self._bar = _bar(self._unit)
            self._bar.add_task(self._stage, total=self._total)
            self._bar.start()
        task = self._bar.tasks[0].id
        self._bar.update(task, completed=self._done, description=self._stage)


def _bar(unit: str) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=_console(),
        transient=True,
    )


def _console() -> Any:
    """Standard error; a console that writes nothing if no bar can be drawn there."""
    from rich.console import Console

    console = Console(stderr=True)
    drawn = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    return console if drawn else Console(stderr=True, quiet=True, force_jupyter=False)
