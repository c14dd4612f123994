"""The only package that imports pyiceberg: catalogs, metadata, manifests and commits.

The rest of nimblepy sees the plain values of :mod:`nimblepy.table.base.model`. pyiceberg validates
and writes the metadata. Snapshots, manifests and the retries of commits are made here, from its
public classes. :mod:`nimblepy.table.iceberg.private` has the few names that are not public.

The names of :mod:`nimblepy.table.iceberg.public` are names of this package. They are imported on
first use (PEP 562), because pyiceberg takes most of the time to open a catalog.
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
