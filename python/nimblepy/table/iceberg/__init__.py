"""The only package that imports pyiceberg: catalogs, metadata, manifests and commits.

What the rest of nimblepy sees are the plain values of :mod:`nimblepy.table.base.model`. pyiceberg
writes and validates the metadata; the snapshots, their manifests and the retries of commits are
made here, from its public classes. The few things that are not public are checked when it is
loaded, so that a version that moved them says so at once.

The names of :mod:`nimblepy.table.iceberg.public` are names of this package, loaded with the first
that is used (PEP 562): pyiceberg is most of what a catalog of a directory takes to load.
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
