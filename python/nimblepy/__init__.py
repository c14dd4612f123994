"""Columnar files with built-in indexes: scans like Parquet, point lookups like a key-value store.

Names are loaded when first used (PEP 562): ``import nimblepy`` costs a millisecond, and a tool that
only needs, say, the option classes does not load the native core.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nimblepy.advice import IndexAdvice, advise_indexes
    from nimblepy.conversion import convert
    from nimblepy.dataset import Dataset, open_dataset
    from nimblepy.errors import (
        CorruptFileError,
        DuplicateKeyError,
        IndexUnavailableError,
        InvalidArgumentError,
        KeyOrderError,
        NimbleError,
        StaleFileError,
        UnsupportedVersionError,
    )
    from nimblepy.indexing import add_index, drop_index
    from nimblepy.interop import scan_polars
    from nimblepy.join import index_join
    from nimblepy.options import HashIndex, SortedIndex, WriteOptions
    from nimblepy.reader import File, Scan, open
    from nimblepy.tree_types import LayoutNode, Plan
    from nimblepy.types import FileSummary, IndexInfo, IoStats, SortKey, starts_with
    from nimblepy.writer import Writer, write

__version__ = "0.1.0"

# Public name -> module that defines it. A name missing here is not public.
_HOMES = {
    "CorruptFileError": "errors",
    "Dataset": "dataset",
    "DuplicateKeyError": "errors",
    "File": "reader",
    "FileSummary": "types",
    "HashIndex": "options",
    "IndexAdvice": "advice",
    "IndexInfo": "types",
    "IndexUnavailableError": "errors",
    "InvalidArgumentError": "errors",
    "IoStats": "types",
    "KeyOrderError": "errors",
    "LayoutNode": "tree_types",
    "NimbleError": "errors",
    "Plan": "tree_types",
    "Scan": "reader",
    "SortKey": "types",
    "SortedIndex": "options",
    "StaleFileError": "errors",
    "UnsupportedVersionError": "errors",
    "WriteOptions": "options",
    "Writer": "writer",
    "add_index": "indexing",
    "advise_indexes": "advice",
    "convert": "conversion",
    "drop_index": "indexing",
    "index_join": "join",
    "open": "reader",
    "open_dataset": "dataset",
    "scan_polars": "interop",
    "starts_with": "types",
    "write": "writer",
}

__all__ = [
    "CorruptFileError",
    "Dataset",
    "DuplicateKeyError",
    "File",
    "FileSummary",
    "HashIndex",
    "IndexAdvice",
    "IndexInfo",
    "IndexUnavailableError",
    "InvalidArgumentError",
    "IoStats",
    "KeyOrderError",
    "LayoutNode",
    "NimbleError",
    "Plan",
    "Scan",
    "SortKey",
    "SortedIndex",
    "StaleFileError",
    "UnsupportedVersionError",
    "WriteOptions",
    "Writer",
    "add_index",
    "advise_indexes",
    "convert",
    "drop_index",
    "index_join",
    "open",
    "open_dataset",
    "scan_polars",
    "starts_with",
    "write",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nimblepy' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f"nimblepy.{home}"), name)
    except ImportError as error:
        if find_spec("nimblepy._core") is not None:
            raise
        raise ImportError(
            f"nimblepy.{name} needs the compiled core nimblepy._core, which is not installed here. "
            "Run `pip install .` in the source tree (a C++ compiler is enough), or install a wheel."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
