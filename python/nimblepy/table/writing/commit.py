"""Commits: one compare-and-swap, tried again after what won is looked at."""

from __future__ import annotations

import contextlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from nimblepy.errors import ConflictError, InvalidArgumentError, NimbleError
from nimblepy.io.log import logger
from nimblepy.table import iceberg as ice
from nimblepy.table.base.hooks import swaps_may_lose

_log = logger(__name__)

_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.25
# Who lost so often asks for a turn, in which no other commit can be first ...
_PATIENCE = 2
# ... if the others need not wait longer than seconds for its end, as far as the attempt before
# tells. Programs that use a catalog's database beside this one may give up after five.
_LONGEST_TURN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a change of a table did.

    Attributes:
        snapshot: the snapshot that it made; the one that was there where nothing was to be done.
        rows_inserted, rows_updated, rows_deleted: rows of the table, not of files: a row that is
            moved to a new file is none of them.
        files_added, files_removed: data files.
        bytes_written: of the new data files.
        retries: how often another commit was first.
        seconds: from the call to the end of the commit.
    """

    snapshot: int | None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_written: int = 0
    retries: int = 0
    seconds: float = 0.0


class Change(ABC):
    """A change of a table on its way to a commit."""

    commit: ice.SnapshotCommit

    def is_done(self, metadata: ice.Metadata) -> bool:
        """Whether it has been made before, and is not to be made again."""
        return False

    @abstractmethod
    def rebase(self, base: ice.Metadata, newest: ice.Metadata) -> bool:
        """Makes the change one of ``newest``; false: nothing is left to be done.

        Raises:
            ConflictError: what was committed since ``base`` does not allow it.
        """

    @abstractmethod
    def discard(self) -> None:
        """Removes the files that were written for it, unless its commit is ``doubtful``."""


def run(
    change: Change, metadata: ice.Metadata, reload: Callable[[], ice.Metadata]
) -> tuple[ice.Metadata, int] | None:
    """Commits a change made for ``metadata``: the new metadata, and how often it lost.

    Raises:
        ConflictError: it cannot be made any more, or lost every time. Nothing is left behind but
            what an attempt may name of which the catalog did not say whether it took effect.
        Exception: of the catalog. A commit that took effect all the same is none.
    """
    attempts = _Attempts()
    try:
        while True:
            with contextlib.suppress(ice.SwapLost, ice.FilesGone):
                return change.commit.attempt(metadata), attempts.lost
            attempts.again(metadata)
            # Read once: what landed before it is seen here, and never taken for another's commit.
            newest = reloaded(metadata, reload)
            made = change.commit.has_landed(metadata, newest)
            if made:
                return newest, attempts.lost
            if made is None:
                raise _unknown(metadata, newest, change)
            _log.info(
                "%s: another commit was first, %d times now", ".".join(metadata.name), attempts.lost
            )
            base = metadata.head(change.commit.branch)
            if attempts.lost >= ice.MOST_ATTEMPTS:
                winner = newest.head(change.commit.branch)
                raise ConflictError(
                    f"{'.'.join(metadata.name)}: {attempts.lost} attempts lost to other commits",
                    kind="attempts",
                    base=None if base is None else base.id,
                    winner=None if winner is None else winner.id,
                )
            if change.is_done(newest):
                change.commit.abandon(newest)
                change.discard()
                return None
            if not change.rebase(metadata, newest):
                change.commit.abandon(newest)
                return None
            metadata = newest
    except ice.NoSuchTable:
        _give_up(change, metadata, reload)
        raise _dropped(metadata) from None
    except BaseException as error:
        landed = _give_up(change, metadata, reload)
        if landed is None or not isinstance(error, Exception):
            raise
        _log.warning("%s: it was committed, despite %r", ".".join(metadata.name), error)
        return landed, attempts.lost
    finally:
        attempts.end()


def swapped(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    attempt: Callable[[ice.Metadata], ice.Metadata],
    is_made: Callable[[ice.Metadata], bool],
) -> ice.Metadata:
    """Commits a change that makes no snapshot: the new metadata.

    Args:
        attempt: tries it for the newest metadata.
        is_made: whether the newest metadata has what an attempt was to make. It is asked where the
            catalog did not say whether one took effect, or failed in it.

    Raises:
        ConflictError: every attempt lost, or the table is no longer there.
        Exception: of ``attempt``, unless it took effect.
    """
    doubtful = False
    attempts = _Attempts()
    try:
        while attempts.lost < ice.MOST_ATTEMPTS:
            try:
                return attempt(metadata)
            except ice.SwapLost as error:
                doubtful = doubtful or not error.certain
            except ice.NoSuchTable:
                raise _dropped(metadata) from None
            except NimbleError:
                raise  # the change is not possible, and nothing was sent
            except Exception as error:
                with contextlib.suppress(Exception):
                    newest = reload()
                    if is_made(newest):
                        _log.warning(
                            "%s: it was committed, despite %r", ".".join(metadata.name), error
                        )
                        return newest
                raise
            attempts.again(metadata)
            metadata = reloaded(metadata, reload)
            if doubtful and is_made(metadata):
                return metadata
    finally:
        attempts.end()
    head = metadata.head()
    raise ConflictError(
        f"{'.'.join(metadata.name)}: {attempts.lost} attempts lost to other commits",
        kind="attempts",
        base=None if head is None else head.id,
    )


class _Attempts:
    """The attempts of one commit, so that none loses for ever.

    Chance makes some lose much more often than others, and who takes longer for an attempt than
    the others between two commits would always lose. So who has lost some gets a turn.

    Attributes:
        lost: how many of them other commits were before.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._turn = contextlib.ExitStack()
        self._begun = time.monotonic()

    def again(self, metadata: ice.Metadata) -> None:
        """Waits after an attempt that lost until it is time for the next one."""
        self.end()
        took = time.monotonic() - self._begun
        self.lost += 1
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.lost, 10))
        time.sleep(random.uniform(0, longest))
        others_may_wait = took < _LONGEST_TURN and not swaps_may_lose()
        if self.lost >= _PATIENCE and others_may_wait:
            self._turn.enter_context(ice.turn(metadata))
        self._begun = time.monotonic()

    def end(self) -> None:
        """Lets the others commit, where they were kept from it."""
        self._turn.close()


def reloaded(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> ice.Metadata:
    """The newest metadata after a lost attempt.

    Raises:
        ConflictError: the table is no longer there.
    """
    try:
        return reload()
    except InvalidArgumentError:
        raise _dropped(metadata) from None


def _unknown(metadata: ice.Metadata, newest: ice.Metadata, change: Change) -> ConflictError:
    base, winner = (some.head(change.commit.branch) for some in (metadata, newest))
    return ConflictError(
        f"{'.'.join(metadata.name)}: whether a commit took effect cannot be known, since the "
        "snapshots expired that followed the one it was made for; look whether its rows are there",
        kind="unknown",
        base=None if base is None else base.id,
        winner=None if winner is None else winner.id,
    )


def _dropped(metadata: ice.Metadata) -> ConflictError:
    name = ".".join(metadata.name)
    return ConflictError(f"{name}: it was dropped or renamed", kind="table")


def _give_up(
    change: Change, metadata: ice.Metadata, reload: Callable[[], ice.Metadata]
) -> ice.Metadata | None:
    """Removes what was written, unless the commit took effect or that cannot be known.

    It cannot where the table is not found: it may have been renamed after the commit.

    Returns:
        The newest metadata, if the commit took effect.
    """
    with contextlib.suppress(Exception):
        newest = reload()
        if change.commit.has_landed(metadata, newest):
            return newest
        change.commit.abandon(metadata)
        change.discard()
    return None
