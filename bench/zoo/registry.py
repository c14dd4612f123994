"""Columns by name: a generator each, seeded by the name, so that a column is the same everywhere.

Modules of generators register theirs when they are imported; nothing is made before it is wanted.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import data

Random = np.random.Generator
Values = np.ndarray[Any, Any] | pa.Array | pa.ChunkedArray
Make = Callable[[Random, int], Values]

# families, in the order of the report
MODULES = ("numbers", "texts", "nested", "tables")


@dataclass(frozen=True)
class Column:
    """One column: `make(random, rows)` gives its values, at most `rows` of them."""

    name: str
    family: str
    make: Make

    def table(self, rows: int) -> pa.Table:
        """The column as a table of its own, from the cache where it was made before."""
        path = self.folder(rows) / "source.arrow"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with data.made_whole(path) as scratch:
                made = self._made(rows)
                with pa.ipc.new_file(str(scratch / "it"), made.schema) as out:
                    out.write_table(made)
                (scratch / "it").rename(path)
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()

    def folder(self, rows: int) -> Path:
        """Where its files are kept: another one when the code that makes it has changed."""
        source = inspect.getsource(inspect.getmodule(self.make) or inspect)
        version = hashlib.blake2b(source.encode(), digest_size=4).hexdigest()
        return data.cache_dir() / "zoo" / str(rows) / f"{self.name}-{version}"

    def _made(self, rows: int) -> pa.Table:
        values = self.make(seeded(self.name), rows)
        if isinstance(values, np.ndarray):
            values = pa.array(values)
        return pa.table({"value": values}).combine_chunks()


def seeded(name: str) -> Random:
    return np.random.default_rng(zlib.crc32(name.encode()))


_COLUMNS: dict[str, Column] = {}


def add(family: str, name: str, make: Make) -> None:
    if name in _COLUMNS:
        raise ValueError(f"two columns are called {name!r}")
    _COLUMNS[name] = Column(name, family, make)


def column(family: str) -> Callable[[Make], Make]:
    """Registers a function under its name."""

    def register(make: Make) -> Make:
        add(family, make.__name__, make)
        return make

    return register


def chosen(pattern: str = "") -> list[Column]:
    """Columns whose `family/name` the regular expression finds."""
    for module in MODULES:
        import_module(f"bench.zoo.{module}")
    wanted = re.compile(pattern)
    return [c for c in _COLUMNS.values() if wanted.search(f"{c.family}/{c.name}")]
