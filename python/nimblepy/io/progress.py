"""Progress of long operations: a bar on a terminal, or calls of a function."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias

ProgressArg: TypeAlias = bool | Callable[[int, int | None], object] | None


class Progress:
    """Counts rows, or other units, and shows how many are done.

    Args:
        target: ``True`` shows a bar on standard error if that is a terminal, or in Jupyter if
            ipywidgets is installed. A callable is called with ``(done, total)``. ``None`` or
            ``False`` shows nothing.
        total: the expected total; ``None`` if unknown.
        stage: name of the current step, shown next to the bar.
        unit: name of the counted unit.

    The first call of :meth:`advance` or :meth:`stage` shows the bar, and :meth:`finish` removes it.
    An unused object shows nothing.
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
        """Sets the name of the current step."""
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
    """Returns a console for standard error; a quiet one if it cannot show a progress bar."""
    from rich.console import Console

    console = Console(stderr=True)
    drawn = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    return console if drawn else Console(stderr=True, quiet=True, force_jupyter=False)
