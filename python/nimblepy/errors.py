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
    """The file is well formed, but needs a newer reader (format version or feature bit)."""


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
    """Another commit changed what this one was to replace. Nothing was committed."""


class MissingExtraError(NimbleError, ImportError):
    """An optional dependency is not installed. The message names the extra that brings it."""


class NimbleMissingOnExecutor(NimbleError, ImportError):
    """The Python that Spark starts cannot import nimblepy."""
