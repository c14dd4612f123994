"""The only package that imports pyiceberg: catalogs, metadata, manifests and commits.

The rest of nimblepy uses the plain values of :mod:`nimblepy.table.base.model`. pyiceberg validates
and writes the metadata. This package makes snapshots and manifests, and retries commits, with
pyiceberg's public classes. :mod:`nimblepy.table.iceberg.private` contains all uses of names that
are not public.

This package exports the names of :mod:`nimblepy.table.iceberg.public`. It imports them on first use
(PEP 562), because importing pyiceberg takes most of the time to open a catalog.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nimblepy.table.iceberg.public import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.public"), name)
    globals()[name] = value
    return value
