"""What is measured on: tables, and which of their columns the workloads touch.

Every table is kept once as an Arrow IPC file that all processes map, so that no peer pays for
making it and memory is shared.  The keys that are asked for are chosen in keys.py.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import data

DAYS = (datetime.date(1995, 3, 1), datetime.date(1995, 3, 25))  # ~1 % of TPC-H's dates


@dataclass(frozen=True)
class Dataset:
    """A table and the columns its workloads touch."""

    name: str
    size: float  # scale factor of TPC-H tables, rows of generated ones
    key: tuple[str, ...]
    few: tuple[str, ...]  # projection of lookups and ranges
    two: tuple[str, ...]  # projection of the narrow scan
    summed: str
    filtered: tuple[str, Any, Any] | None = None  # column, lower, upper: half open, ~1 % pass
    clustered: bool = True  # rows are in key order; otherwise a secondary index finds them
    prefix_rows: tuple[int, int] = (200, 5_000)  # rows of the prefixes that are asked for
    folder: Path = field(default=Path(), compare=False)

    @property
    def scaled(self) -> bool:
        return self.name in data.TPCH_TABLES

    @property
    def label(self) -> str:
        return f"{self.name}-{self.size:g}" if self.scaled else f"{self.name}-{short(self.size)}"

    @property
    def arguments(self) -> list[str]:
        """The options of the command line that name it."""
        size = ["--sf", f"{self.size:g}"] if self.scaled else ["--rows", f"{self.size:.0f}"]
        return ["--dataset", self.name, *size]

    def table(self) -> pa.Table:
        """The rows in the order of the file, mapped."""
        with pa.memory_map(str(self.folder / "source.arrow")) as source:
            return pa.ipc.open_file(source).read_all()


def short(rows: float) -> str:
    """1_000_000 as 1M."""
    if rows % 1_000_000 == 0:
        return f"{rows / 1_000_000:.0f}M"
    return f"{rows / 1_000:.0f}K" if rows % 1_000 == 0 else f"{rows:.0f}"


_KNOWN = {
    "orders": Dataset(
        "orders",
        1,
        key=("o_orderkey",),
        few=("o_orderkey", "o_totalprice", "o_orderdate"),
        two=("o_totalprice", "o_orderdate"),
        summed="o_totalprice",
        filtered=("o_orderdate", *DAYS),
    ),
    "lineitem": Dataset(
        "lineitem",
        1,
        key=("l_orderkey", "l_linenumber"),
        few=("l_orderkey", "l_linenumber", "l_extendedprice"),
        two=("l_extendedprice", "l_shipdate"),
        summed="l_extendedprice",
        filtered=("l_shipdate", *DAYS),
        prefix_rows=(1, 7),
    ),
    "events": Dataset(
        "events",
        1_000_000,
        key=("user_id", "ts"),
        few=("user_id", "ts", "kind", "price"),
        two=("duration_ms", "clicks"),
        summed="clicks",
        filtered=("duration_ms", 6_000, 1 << 30),
    ),
    "uuids": Dataset(
        "uuids",
        5_000_000,
        key=("id",),
        few=("id", "value", "amount"),
        two=("value", "amount"),
        summed="value",  # no filtered sum: it would not fit 64 bits
    ),
    # rows arrive in no order: key-value stores sort them, nimblepy has a secondary index
    "unsorted": Dataset(
        "unsorted",
        5_000_000,
        key=("key",),
        few=("key", "value", "kind"),
        two=("value", "kind"),
        summed="value",
        clustered=False,
    ),
    "numbers": Dataset(
        "numbers",
        1_000_000,
        key=("key",),
        few=("key", "value", "amount"),
        two=("value", "amount"),
        summed="value",
        filtered=("value", 0, 10_000),
    ),
}
NAMES = tuple(_KNOWN)


def known(name: str, scale_factor: float | None = None, rows: int | None = None) -> Dataset:
    """The dataset `name`: of TPC-H at a scale factor, or generated with a number of rows."""
    if name not in _KNOWN:
        raise ValueError(f"no dataset {name!r}: expected one of {', '.join(NAMES)}")
    found = _KNOWN[name]
    found = replace(found, size=(scale_factor if found.scaled else rows) or found.size)
    return replace(found, folder=data.cache_dir() / "bench" / found.label)


def prepare(dataset: Dataset) -> None:
    """Writes the table and the keys, where they are not there yet."""
    from bench import keys

    dataset.folder.mkdir(parents=True, exist_ok=True)
    target = dataset.folder / "source.arrow"
    if not target.exists():
        with data.announced(f"making {dataset.label}"), data.made_whole(target) as scratch:
            _write(dataset, scratch / "it")
            (scratch / "it").rename(target)
    folder = dataset.folder / keys.FOLDER
    if not folder.exists():
        with (
            data.announced(f"choosing keys of {dataset.label}"),
            data.made_whole(folder) as scratch,
        ):
            keys.write(dataset, scratch / folder.name)
            (scratch / folder.name).rename(folder)


def _write(dataset: Dataset, path: Path) -> None:
    writer = None
    for table in _pieces(dataset):
        writer = writer or pa.ipc.new_file(os.fspath(path), table.schema)
        writer.write_table(table, max_chunksize=1 << 20)
    assert writer is not None
    writer.close()


def _pieces(dataset: Dataset) -> Iterator[pa.Table]:
    rows = int(dataset.size)
    if dataset.scaled:
        yield from data.tpch_batches(dataset.name, dataset.size)
    elif dataset.name == "events":
        yield data.events(rows)
    elif dataset.name == "uuids":
        yield data.uuids(rows).sort_by("id")
    elif dataset.name == "unsorted":
        yield data.unsorted(rows)
    else:
        yield from data.numbers(rows)
