"""Hooks: functions that are called around each compare-and-swap of a table's metadata."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

Hook = Callable[[], object]

_installed: list[tuple[Hook | None, Hook | None]] = []


class _Running(threading.local):
    """Whether this thread runs a hook. Commits inside a hook call no hooks."""

    is_inside = False


_running = _Running()


@contextlib.contextmanager
def installed_hooks(before: Hook | None, after: Hook | None) -> Iterator[None]:
    """Calls ``before`` and ``after`` around the swaps of all threads until the block ends."""
    item = (before, after)
    _installed.append(item)
    try:
        yield
    finally:
        _installed.remove(item)


def swaps_may_lose() -> bool:
    """Returns whether a hook runs before swaps. It may commit from any thread."""
    return any(before is not None for before, _ in _installed)


@contextlib.contextmanager
def around_swap() -> Iterator[None]:
    """Surrounds one compare-and-swap with the hooks."""
    if not _installed or _running.is_inside:
        yield
        return
    hooks = list(_installed)
    _call(before for before, _ in hooks)
    try:
        yield
    finally:
        _call(after for _, after in hooks)


def _call(hooks: Iterator[Hook | None]) -> None:
    _running.is_inside = True
    try:
        for hook in hooks:
            if hook is not None:
                hook()
    finally:
        _running.is_inside = False
