"""The errors nimblepy raises: one tree, so that ``except NimbleError`` catches all of them.

Faults of the operating system (a missing file, a full disk, a refused permission) stay
:class:`OSError`. Each message names what was read, where, what was found and what was expected.
"""

from __future__ import annotations


class NimbleError(Exception):
    """Base class of every error that nimblepy raises itself."""


class CorruptFileError(NimbleError):
    """The bytes are not a valid nimble file: foreign, truncated or damaged."""


class UnsupportedVersionError(NimbleError):
    """The file needs a newer reader (format version or feature bit), or a pre-release wrote it."""


class InvalidArgumentError(NimbleError, ValueError):
    """An argument has a wrong name, type or value. Nothing was read or written."""


class IndexUnavailableError(NimbleError, LookupError):
    """No index of the file answers a lookup on these columns. The message names those there are."""


class KeyOrderError(NimbleError):
    """Rows declared as presorted are not in the order of the cluster key."""


class DuplicateKeyError(NimbleError):
    """A cluster key declared unique occurs more than once. The message names key and rows."""


class StaleFileError(NimbleError, OSError):
    """A file was replaced after it was opened, or after a manifest was written that names it."""


class ConflictError(NimbleError):
    """Another commit changed what this one was to replace. Nothing was committed.

    But for the kind ``"unknown"``, of which that cannot be said.

    Attributes:
        kind: what collided: ``"files"``, ``"schema"``, ``"reference"``, ``"table"``, ``"keys"``,
            ``"properties"`` where an ``alter`` changes a property or documentation that another
            commit has changed since the block read it,
            ``"attempts"`` where every attempt lost to another commit, or ``"unknown"`` where a
            catalog server did not say whether the commit was made, and it cannot be seen any more.
        base: the snapshot or version that this commit was made for, ``None``: there was none.
        winner: the one that was there in its place.
        files: paths of the files in question.
        keys: the keys in question.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "files",
        base: int | None = None,
        winner: int | None = None,
        files: tuple[str, ...] = (),
        keys: tuple[object, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.base = base
        self.winner = winner
        self.files = files
        self.keys = keys


class MissingExtraError(NimbleError, ImportError):
    """An optional dependency is not installed. The message names the extra that brings it."""


class NimbleMissingOnExecutor(NimbleError, ImportError):
    """The Python that Spark starts cannot import nimblepy."""
