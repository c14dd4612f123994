"""Tools for tests of programs that change tables at the same time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from nimblepy.table.base.hooks import installed_hooks


def commit_hooks(
    *,
    before_swap: Callable[[], object] | None = None,
    after_swap: Callable[[], object] | None = None,
) -> AbstractContextManager[None]:
    """Calls functions around each compare-and-swap of a table, until the block ends.

    A test that commits in ``before_swap`` makes the surrounding commit lose its race, so that it is
    planned again. Swaps of all tables and threads of this process call the functions, including
    swaps that change columns, tags or properties, or expire snapshots. Swaps that a hook itself
    makes do not call them. Normally a commit that has lost several races locks out other commits.
    With ``before_swap`` it does not, so other threads and programs can commit in each call.

    Args:
        before_swap: called without arguments in the committing thread, when all files are written
            but the pointer in the catalog has not moved. An exception aborts the commit, which then
            has no effect.
        after_swap: called in the same way after the swap, whether it took effect or not. An
            exception is treated like a lost answer of the catalog.

    Example:
        >>> with commit_hooks(before_swap=lambda: other.append(rows)):  # doctest: +SKIP
        ...     table.delete("k = 1")
    """
    return installed_hooks(before_swap, after_swap)
