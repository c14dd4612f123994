"""The errors that nimblepy raises. ``except NimbleError`` catches all of them.

Errors of the operating system (a missing file, a full disk, a denied permission) remain
:class:`OSError`. Each message says what was read and where, what was found, and what was expected.
"""

from __future__ import annotations


class NimbleError(Exception):
    """Base class of every error that nimblepy raises itself."""


class CorruptFileError(NimbleError):
    """The bytes are not a valid nimble file: truncated, damaged, or of another format."""


class UnsupportedVersionError(NimbleError):
    """The file needs a newer reader (format version or feature bit), or a pre-release wrote it."""


class InvalidArgumentError(NimbleError, ValueError):
    """An argument has a wrong name, type or value. Nothing was read or written."""


class ReplyTooLargeError(InvalidArgumentError):
    """A command has more keys, rows or bytes than the server allows for one command."""


class IndexUnavailableError(NimbleError, LookupError):
    """No index can search these columns. The message names the existing indexes."""


class KeyOrderError(NimbleError):
    """Rows declared as presorted are not in the order of the cluster key."""


class DuplicateKeyError(NimbleError):
    """A key occurs twice, although the cluster key is unique. The message has the key and rows."""


class StaleFileError(NimbleError, OSError):
    """A file was replaced after it was opened, or after a manifest that names it was written."""


class ConflictError(NimbleError):
    """A concurrent commit conflicts with this commit.

    Nothing was committed, unless ``kind`` is ``"unknown"``: then the outcome could not be
    determined.

    Attributes:
        kind: what conflicts: ``"files"``, ``"schema"``, ``"reference"``, ``"table"`` or ``"keys"``.
            ``"properties"``: an ``alter`` changes a property or documentation that another commit
            changed after the block read it. ``"attempts"``: every attempt lost a race against
            another commit. ``"unknown"``: the catalog server did not say whether the commit was
            made, and the table does not show it any more.
        base: the snapshot or version that this commit expected; ``None`` if it expected none.
        winner: the snapshot or version that was found instead.
        files: paths of the conflicting files.
        keys: the conflicting keys.
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
    """An optional dependency is not installed. The message names the extra that installs it."""


class NimbleMissingOnExecutor(NimbleError, ImportError):
    """The Python that Spark starts cannot import nimblepy."""
