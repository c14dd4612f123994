"""Columnar files with built-in indexes: scans like Parquet, point lookups like a key-value store.

Names are loaded when first used (PEP 562): ``import nimblepy`` costs a millisecond, and a tool that
only needs, say, the option classes does not load the native core.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nimblepy.input import own_rows

if TYPE_CHECKING:
    from nimblepy.advise.advice import IndexAdvice, advise_indexes
    from nimblepy.errors import (
        ConflictError,
        CorruptFileError,
        DuplicateKeyError,
        IndexUnavailableError,
        InvalidArgumentError,
        KeyOrderError,
        MissingExtraError,
        NimbleError,
        NimbleMissingOnExecutor,
        StaleFileError,
        UnsupportedVersionError,
    )
    from nimblepy.file.add_index import add_index, drop_index
    from nimblepy.file.convert import convert
    from nimblepy.file.file import File
    from nimblepy.file.open import open
    from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
    from nimblepy.file.write import Writer, write
    from nimblepy.files.dataset import Dataset, open_dataset
    from nimblepy.files.resolve import index_join
    from nimblepy.interop.aio import aio
    from nimblepy.interop.arrow_dataset import arrow_dataset
    from nimblepy.interop.duckdb import duckdb
    from nimblepy.interop.polars import scan_polars
    from nimblepy.rows.plan import LayoutNode, Plan
    from nimblepy.rows.scan import Scan
    from nimblepy.schema.types import FileSummary, IndexInfo, IoStats, SortKey, starts_with
    from nimblepy.table.catalog import Catalog, connect
    from nimblepy.table.otree.layouts import OTree, Sorted, ZOrder
    from nimblepy.table.table import Table
    from nimblepy.table.writing.commit import Commit

__version__ = "0.1.0"

# Public name -> module that defines it. A name missing here is not public.
_HOMES = {
    "Catalog": "table.catalog",
    "connect": "table.catalog",
    "Commit": "table.writing.commit",
    "Table": "table.table",
    "ConflictError": "errors",
    "CorruptFileError": "errors",
    "Dataset": "files.dataset",
    "DuplicateKeyError": "errors",
    "File": "file.file",
    "FileSummary": "schema.types",
    "HashIndex": "file.options",
    "IndexAdvice": "advise.advice",
    "IndexInfo": "schema.types",
    "IndexUnavailableError": "errors",
    "InvalidArgumentError": "errors",
    "IoStats": "schema.types",
    "KeyOrderError": "errors",
    "LayoutNode": "rows.plan",
    "MissingExtraError": "errors",
    "NimbleError": "errors",
    "NimbleMissingOnExecutor": "errors",
    "OTree": "table.otree.layouts",
    "Plan": "rows.plan",
    "Scan": "rows.scan",
    "SortKey": "schema.types",
    "Sorted": "table.otree.layouts",
    "SortedIndex": "file.options",
    "StaleFileError": "errors",
    "UnsupportedVersionError": "errors",
    "WriteOptions": "file.options",
    "Writer": "file.write",
    "ZOrder": "table.otree.layouts",
    "add_index": "file.add_index",
    "advise_indexes": "advise.advice",
    "aio": "interop.aio",
    "arrow_dataset": "interop.arrow_dataset",
    "convert": "file.convert",
    "drop_index": "file.add_index",
    "duckdb": "interop.duckdb",
    "index_join": "files.resolve",
    "open": "file.open",
    "open_dataset": "files.dataset",
    "scan_polars": "interop.polars",
    "starts_with": "schema.types",
    "write": "file.write",
}

__all__ = [
    "Catalog",
    "Commit",
    "ConflictError",
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
    "MissingExtraError",
    "NimbleError",
    "NimbleMissingOnExecutor",
    "OTree",
    "Plan",
    "Scan",
    "SortKey",
    "Sorted",
    "SortedIndex",
    "StaleFileError",
    "Table",
    "UnsupportedVersionError",
    "WriteOptions",
    "Writer",
    "ZOrder",
    "add_index",
    "advise_indexes",
    "aio",
    "arrow_dataset",
    "connect",
    "convert",
    "drop_index",
    "duckdb",
    "index_join",
    "open",
    "open_dataset",
    "scan_polars",
    "starts_with",
    "write",
]


def _open_rows(path: str) -> object:
    from nimblepy.files.resolve import as_rows

    return as_rows(path)


own_rows.open_rows = _open_rows


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
