"""The systems that are compared, behind one small interface.

A peer builds its files, opens them, and answers questions in its own best way: what it returns is
its natural result, and `as_table` turns that into Arrow afterwards, outside the measured time.  A
question a peer has no good answer for raises NoGoodAnswer and is left out of the report.

Each peer runs in a process of its own (worker.py), so imports of packages wait until it is made.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.datasets import Dataset


class NoGoodAnswer(Exception):
    """A peer cannot do what is asked, or no user would do it that way."""


class Peer(ABC):
    """One system with one configuration over one dataset.

    Keys of several columns are tuples; batches of keys are tables of the key columns.
    """

    name: str
    package: str  # distribution that must be installed
    settings: str  # one line: the configuration, for the report
    borrows_file = False  # reads the file of the peer that has built it before
    only: frozenset[str] | None = None  # workloads it is made for; None: all

    def __init__(self, dataset: Dataset, threads: int) -> None:
        self.dataset = dataset
        self.threads = threads
        self.key = dataset.key
        self.schema = dataset.table().schema
        self.path = dataset.folder / self.file_name
        self.prepare()

    @property
    def file_name(self) -> str:
        return f"{self.name}.{self.package}"

    @classmethod
    def version(cls) -> str | None:
        try:
            return version(cls.package)
        except PackageNotFoundError:
            return None

    def prepare(self) -> None:  # noqa: B027 - most peers need it, not all
        """Imports and settings; not part of any time."""

    @abstractmethod
    def build(self, table: pa.Table) -> None:
        """Writes `table`, in key order, as the files under `self.path`."""

    @abstractmethod
    def open(self) -> None: ...

    def close(self) -> None:  # noqa: B027
        """Lets go of the file, so that open can be measured again."""

    @abstractmethod
    def get(self, key: Any) -> dict[str, Any] | None:
        """All columns of one row."""

    def lookup(self, keys: pa.Table, columns: list[str]) -> Any:
        raise NoGoodAnswer

    def range(self, lower: Any, upper: Any, columns: list[str]) -> Any:
        """Rows with lower <= key < upper."""
        raise NoGoodAnswer

    def prefix(self, first: Any, columns: list[str]) -> Any:
        """Rows whose first key column is `first`."""
        raise NoGoodAnswer

    def take(self, rows: np.ndarray[Any, Any], columns: list[str] | None) -> Any:
        """Rows by number: any order, duplicates kept."""
        raise NoGoodAnswer

    def batches(self, columns: list[str] | None) -> Iterable[Any]:
        """All rows, in pieces that need not be kept."""
        raise NoGoodAnswer

    def to_table(self, columns: list[str] | None) -> Any:
        return pa.Table.from_batches(self.batches(columns))

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        raise NoGoodAnswer

    def as_table(self, answer: Any) -> pa.Table:
        return answer

    def size_bytes(self) -> int:
        if self.path.is_dir():
            return sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())
        return self.path.stat().st_size

    def remove(self) -> None:
        if self.path.is_dir():
            shutil.rmtree(self.path)
        self.path.unlink(missing_ok=True)

    def key_equals(self, key: Any) -> pc.Expression:
        values = as_values(key, self.key)
        tests = [pc.field(n) == self.literal(n, v) for n, v in zip(self.key, values, strict=True)]
        return all_of(tests)

    def key_between(self, lower: Any, upper: Any) -> pc.Expression:
        bounds = (self.literals(lower), self.literals(upper))
        return between([pc.field(name) for name in self.key], *bounds)

    def literals(self, key: Any) -> tuple[Any, ...]:
        values = as_values(key, self.key)
        return tuple(self.literal(n, v) for n, v in zip(self.key, values, strict=True))

    def literal(self, column: str, value: Any) -> pa.Scalar:
        """A scalar of the column's own type: otherwise Arrow casts the column, row by row."""
        return pa.scalar(value, self.schema.field(column).type)

    def single_key(self) -> str:
        """The key column, where only that is supported."""
        if len(self.key) > 1:
            raise NoGoodAnswer
        return self.key[0]


def all_of(tests: list[Any]) -> Any:
    found = tests[0]
    for test in tests[1:]:
        found = found & test
    return found


def as_values(key: Any, columns: tuple[str, ...]) -> tuple[Any, ...]:
    return key if len(columns) > 1 else (key,)


def between(fields: list[Any], lower: tuple[Any, ...], upper: tuple[Any, ...]) -> Any:
    """lower <= fields < upper as tuples compare, for anything with the operators of expressions.

    The first column is bounded by itself as well, since that is what statistics can answer.
    """
    if len(fields) == 1:
        return (fields[0] >= lower[0]) & (fields[0] < upper[0])
    (first, last), (low, low_last), (high, high_last) = fields, lower, upper
    outer = (first >= low) & (first <= high)
    begun = (first > low) | (last >= low_last)
    return outer & begun & ((first < high) | (last < high_last))


# name -> module and class; the order is that of the report
_HOMES = {
    "nimblepy": ("nimble", "Nimble"),
    "nimblepy_bloom": ("nimble", "NimbleBloom"),
    "nimblepy_sorted": ("nimble", "NimbleSorted"),
    "parquet": ("parquet", "Parquet"),
    "parquet_8k": ("parquet", "SmallGroups"),
    "lmdb": ("kv", "Lmdb"),
    "rocksdb": ("kv", "RocksDb"),
    "sqlite": ("sqlite", "Sqlite"),
    "duckdb": ("engines", "DuckDb"),
    "duckdb_parquet": ("engines", "DuckDbParquet"),
    "polars": ("engines", "Polars"),
    "lance": ("formats", "Lance"),
    "vortex": ("formats", "Vortex"),
    "vortex_take": ("formats", "VortexTake"),
    "arrow_mmap": ("arrow", "ArrowMapped"),
}
NAMES = tuple(_HOMES)
KEY_VALUE = ("lmdb", "rocksdb", "sqlite")
NOT_DECODING = ("arrow_mmap",)  # hands out its file's own memory
COLUMNAR = tuple(
    n for n in NAMES if not n.startswith("nimblepy") and n not in KEY_VALUE + NOT_DECODING
)


def peer_class(name: str) -> type[Peer]:
    module, cls = _HOMES[name]
    return getattr(import_module(f"bench.peers.{module}"), cls)


def installed_version(name: str) -> str | None:
    """Version of the peer's package, None where it is missing."""
    return peer_class(name).version()
