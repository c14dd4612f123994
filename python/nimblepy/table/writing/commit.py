"""Commits changes: plans, swaps the metadata, and plans again if another commit was first."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from nimblepy.errors import ConflictError, InvalidArgumentError, NimbleError
from nimblepy.io.log import logger
from nimblepy.rows.html import html_facts
from nimblepy.table import iceberg as ice
from nimblepy.table.base.hooks import swaps_may_lose
from nimblepy.table.base.model import Snapshot
from nimblepy.table.delta.publish import publish_commit

_log = logger(__name__)

_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.25
# After this many lost races, take the catalog's write lock, unless the previous attempt took longer
# than _LONGEST_TURN seconds. Other programs that use the database may give up after five seconds.
_PATIENCE = 2
_LONGEST_TURN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a change of a table did.

    Attributes:
        snapshot: id of the new snapshot, or of the current one if there was nothing to change.
        rows_inserted, rows_updated, rows_deleted: number of rows. Rows that only move to another
            file do not count.
        files_added, files_removed: number of files.
        bytes_written: bytes of the new files.
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

    def _repr_html_(self) -> str:
        facts = {name.replace("_", " "): value for name, value in asdict(self).items()}
        facts |= {"snapshot": str(self.snapshot), "seconds": f"{self.seconds:.3f}"}
        return html_facts("Commit", facts)


# Called with the table, the operation and the result of each commit.
observers: list[Callable[[str, str, Commit], None]] = []


def report(table: str, operation: str, done: Commit) -> None:
    """Logs a commit in one line, and tells the observers."""
    _log.info(
        "%s: %s: snapshot %s; rows: %d inserted, %d updated, %d deleted; files: %d added, "
        "%d removed; %d retries, %.3f s",
        table,
        operation,
        done.snapshot,
        done.rows_inserted,
        done.rows_updated,
        done.rows_deleted,
        done.files_added,
        done.files_removed,
        done.retries,
        done.seconds,
    )
    for observer in observers:
        try:
            observer(table, operation, done)
        except Exception:  # the commit took effect
            _log.exception("%s: %s: an observer failed", table, operation)


class Change(Protocol):
    """A change of a table that :func:`run` commits."""

    @property
    def commit(self) -> ice.SnapshotCommit:
        """The snapshot to commit."""

    def is_done(self, metadata: ice.Metadata) -> bool:
        """Returns whether the table already has the change, so that it must not be made again."""

    def plan(self, metadata: ice.Metadata) -> bool:
        """Prepares ``commit`` for the newest metadata; called again after each lost race.

        Returns:
            False if there is nothing to commit.

        Raises:
            ConflictError: another commit made the change impossible.
        """

    def discard(self) -> None:
        """Removes the files that were written for the change, unless its commit is ``doubtful``."""


def run(
    change: Change, metadata: ice.Metadata, reload: Callable[[], ice.Metadata]
) -> tuple[ice.Metadata, int] | None:
    """Plans and commits a change, and repeats both until an attempt wins.

    Args:
        metadata: the newest metadata.
        reload: reads the newest metadata again.

    Returns:
        The new metadata, and how often another commit was first; ``None`` if there was nothing to
        commit.

    Raises:
        ConflictError: the change is no longer possible, or every attempt lost. Its files are
            removed unless the outcome of the commit is unknown.
        Exception: an error of the plan or the catalog. If the commit landed despite the error, no
            exception is raised.
    """
    attempts = _Attempts()
    try:
        while True:
            if change.is_done(metadata):
                change.commit.abandon(metadata)
                change.discard()
                return None
            if not change.plan(metadata):
                change.commit.abandon(metadata)
                return None
            with contextlib.suppress(ice.SwapLost, ice.FilesGone):
                made = change.commit.attempt(metadata)
                publish_commit(made, reload)
                return made, attempts.lost
            attempts.again(metadata)
            # Read once: a commit that landed before this read is seen here, and is not mistaken for
            # another writer's commit.
            newest = reloaded(metadata, reload)
            landed = change.commit.has_landed(metadata, newest)
            if landed:
                publish_commit(newest, reload)
                return newest, attempts.lost
            if landed is None:
                raise _unknown(metadata, newest, change)
            check_branch(newest)
            name = ".".join(metadata.name)
            _log.debug("%s: another commit was first, %d times now", name, attempts.lost)
            if attempts.lost >= ice.MOST_ATTEMPTS:
                raise _lost(metadata, attempts.lost, newest.head())
            metadata = newest
    except ice.NoSuchTable:
        _give_up(change, metadata, reload)
        raise dropped(metadata) from None
    except BaseException as error:
        committed = _give_up(change, metadata, reload)
        if committed is None or not isinstance(error, Exception):
            raise
        _log.warning("%s: it was committed, despite %r", ".".join(metadata.name), error)
        return committed, attempts.lost
    finally:
        attempts.end()


def swapped(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    attempt: Callable[[ice.Metadata], ice.Metadata],
    is_made: Callable[[ice.Metadata], bool],
    *,
    operation: str,
) -> ice.Metadata:
    """Commits a change that makes no snapshot, and returns the new metadata.

    Args:
        attempt: tries the change on the newest metadata.
        is_made: whether the newest metadata has the change. Called after an error, or if the
            catalog did not say whether an attempt landed.
        operation: what the log calls the change.

    Raises:
        ConflictError: every attempt lost, or the table was dropped.
        Exception: any error of ``attempt``, unless the change landed.
    """
    start = time.perf_counter()
    attempts = _Attempts()
    newest = _swap_until_made(metadata, reload, attempt, is_made, attempts)
    if newest.metadata_file != metadata.metadata_file:
        if _shown(newest) != _shown(metadata):
            publish_commit(newest, reload)
        head = newest.head()
        done = Commit(
            snapshot=None if head is None else head.id,
            retries=attempts.lost,
            seconds=time.perf_counter() - start,
        )
        report(".".join(newest.name), operation, done)
    return newest


def _shown(metadata: ice.Metadata) -> tuple[object, ...]:
    """Returns what readers of ``main`` see."""
    head = metadata.head(ice.MAIN)
    return None if head is None else head.id, metadata.schema_id


def _swap_until_made(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    attempt: Callable[[ice.Metadata], ice.Metadata],
    is_made: Callable[[ice.Metadata], bool],
    attempts: _Attempts,
) -> ice.Metadata:
    doubtful = False
    try:
        while attempts.lost < ice.MOST_ATTEMPTS:
            try:
                return attempt(metadata)
            except ice.SwapLost as error:
                doubtful = doubtful or not error.certain
            except ice.NoSuchTable:
                raise dropped(metadata) from None
            except Exception as error:
                # A ConflictError of the change itself means that nothing was sent, unless the
                # outcome is unknown.
                if isinstance(error, NimbleError) and getattr(error, "kind", "") != "unknown":
                    raise
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
    raise _lost(metadata, attempts.lost, None)


class _Attempts:
    """Counts and delays the attempts of one commit, so that no writer loses for ever.

    A writer whose attempts take longer than the time between two commits of other writers would
    always lose. So after several lost races, a writer gets exclusive access to the catalog.

    Attributes:
        lost: number of attempts that lost.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._turn = contextlib.ExitStack()
        self._begun = time.monotonic()

    def again(self, metadata: ice.Metadata) -> None:
        """Counts a lost attempt, and waits before the next one."""
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
        """Releases the catalog's write lock, if it was taken."""
        self._turn.close()


def reloaded(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> ice.Metadata:
    """Reads the newest metadata.

    Raises:
        ConflictError: the table was dropped or renamed.
    """
    try:
        return reload()
    except InvalidArgumentError:
        raise dropped(metadata) from None


def _lost(metadata: ice.Metadata, count: int, winner: Snapshot | None) -> ConflictError:
    base = metadata.head()
    return ConflictError(
        f"{'.'.join(metadata.name)}: {count} attempts lost to other commits; try again later",
        kind="attempts",
        base=None if base is None else base.id,
        winner=None if winner is None else winner.id,
    )


def _unknown(metadata: ice.Metadata, newest: ice.Metadata, change: Change) -> ConflictError:
    base, winner = (some.head() for some in (metadata, newest))
    return ConflictError(
        f"{'.'.join(metadata.name)}: the outcome of a commit could not be determined, because the "
        "snapshots after its parent have expired; check whether its rows are "
        "in the table",
        kind="unknown",
        base=None if base is None else base.id,
        winner=None if winner is None else winner.id,
    )


def check_branch(metadata: ice.Metadata) -> None:
    """Raises ConflictError if the branch that is read and written was dropped."""
    branch = metadata.branch
    reference = metadata.references.get(branch)
    if branch != ice.MAIN and (reference is None or reference.kind != "branch"):
        raise ConflictError(
            f"{'.'.join(metadata.name)}: branch {branch!r} was dropped", kind="reference"
        )


def dropped(metadata: ice.Metadata) -> ConflictError:
    """Returns the error for a change of a table that no longer exists."""
    name = ".".join(metadata.name)
    return ConflictError(f"{name}: the table was dropped or renamed", kind="table")


def _give_up(
    change: Change, metadata: ice.Metadata, reload: Callable[[], ice.Metadata]
) -> ice.Metadata | None:
    """Removes the files of a failed change.

    Returns the newest metadata if the change landed after all, and then keeps the files.

    If an attempt was made and the table is not found, the files are kept: the table may have been
    renamed after the commit.
    """
    if not change.commit.was_attempted:
        change.commit.abandon(metadata)
        change.discard()
        return None
    with contextlib.suppress(Exception):
        newest = reload()
        if change.commit.has_landed(metadata, newest):
            return newest
        change.commit.abandon(metadata)
        change.discard()
    return None
