"""What is measured on: tables in key order, and the keys that are asked for.

Every table is kept once as an Arrow IPC file that all processes map, so that no peer pays for
making it and memory is shared.  Keys come from a seed: all peers get the same ones.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import data

SEED = 20_13
NUM_POINTS = 4_000
NUM_RANGES = 500
RANGE_ROWS = 1_000
SMALL_BATCH, NUM_SMALL = 10_000, 12
LARGE_BATCH, NUM_LARGE = 100_000, 4


@dataclass(frozen=True)
class Dataset:
    """A table and the columns its workloads touch."""

    name: str
    size: float  # scale factor of TPC-H, rows of the generated tables
    key: tuple[str, ...]
    few: tuple[str, ...]  # projection of lookups and ranges
    two: tuple[str, ...]  # projection of the narrow scan
    summed: str
    filtered: tuple[str, Any, Any] | None = None  # column, lower, upper: half open, ~1 % pass
    folder: Path = field(default=Path(), compare=False)

    @property
    def label(self) -> str:
        return f"{self.name}-{self.size:g}"

    def table(self) -> pa.Table:
        """The rows in key order, mapped."""
        with pa.memory_map(str(self.folder / "source.arrow")) as source:
            return pa.ipc.open_file(source).read_all()


def known(name: str, scale_factor: float, rows: int | None = None) -> Dataset:
    """The dataset `name`: orders at a scale factor, events or uuids with a number of rows."""
    if name == "orders":
        days = (datetime.date(1995, 3, 1), datetime.date(1995, 3, 25))
        found = Dataset(
            name,
            scale_factor,
            key=("o_orderkey",),
            few=("o_orderkey", "o_totalprice", "o_orderdate"),
            two=("o_totalprice", "o_orderdate"),
            summed="o_totalprice",
            filtered=("o_orderdate", *days),
        )
    elif name == "events":
        found = Dataset(
            name,
            rows or 1_000_000,
            key=("user_id", "ts"),
            few=("user_id", "ts", "kind", "price"),
            two=("duration_ms", "clicks"),
            summed="clicks",
            filtered=("duration_ms", 6_000, 1 << 30),
        )
    elif name == "uuids":
        found = Dataset(
            name,
            rows or 5_000_000,
            key=("id",),
            few=("id", "value"),
            two=("id", "value"),
            summed="value",  # no filtered sum: it would not fit 64 bits
        )
    else:
        raise ValueError(f"no dataset {name!r}: expected orders, events or uuids")
    folder = data.cache_dir() / "bench" / found.label
    return Dataset(**{**vars(found), "folder": folder})


def prepare(dataset: Dataset) -> None:
    """Writes the table and the keys, where they are not there yet."""
    dataset.folder.mkdir(parents=True, exist_ok=True)
    target = dataset.folder / "source.arrow"
    if not target.exists():
        with data.announced(f"making {dataset.label}"), data.made_whole(target) as scratch:
            _write(dataset, scratch / "it")
            (scratch / "it").rename(target)
    if not (dataset.folder / "keys").exists():
        with (
            data.announced(f"choosing keys of {dataset.label}"),
            data.made_whole(dataset.folder / "keys") as scratch,
        ):
            (scratch / "keys").mkdir()
            for name, table in _choose(dataset).items():
                with pa.ipc.new_file(scratch / "keys" / f"{name}.arrow", table.schema) as out:
                    out.write_table(table)
            (scratch / "keys").rename(dataset.folder / "keys")


def _write(dataset: Dataset, path: Path) -> None:
    writer = None
    for table in _pieces(dataset):
        writer = writer or pa.ipc.new_file(os.fspath(path), table.schema)
        writer.write_table(table, max_chunksize=1 << 20)
    assert writer is not None
    writer.close()


def _pieces(dataset: Dataset) -> Iterator[pa.Table]:
    if dataset.name == "orders":
        yield from data.tpch_batches("orders", dataset.size)
    elif dataset.name == "events":
        yield data.events(int(dataset.size))
    else:
        yield data.uuids(int(dataset.size)).sort_by("id")


def _choose(dataset: Dataset) -> dict[str, pa.Table]:
    """Tables of key columns: present, absent, batches, ranges (lower and upper) and prefixes."""
    random = np.random.default_rng(SEED)
    keys = dataset.table().select(list(dataset.key)).combine_chunks()
    rows = keys.num_rows

    def at(positions: np.ndarray[Any, Any]) -> pa.Table:
        return keys.take(pa.array(positions))

    begin = random.integers(0, max(1, rows - RANGE_ROWS - 1), NUM_RANGES)
    chosen = {
        "present": at(random.integers(0, rows, NUM_POINTS)),
        "absent": _absent(dataset, keys, random),
        "lower": at(begin),
        "upper": at(np.minimum(begin + RANGE_ROWS, rows - 1)),
    }
    for name, size, count in (("small", SMALL_BATCH, NUM_SMALL), ("large", LARGE_BATCH, NUM_LARGE)):
        for i in range(count):
            wanted = random.choice(rows, min(size, rows), replace=False)
            chosen[f"{name}-{i}"] = at(wanted)
    if len(dataset.key) > 1:
        groups = keys.group_by(dataset.key[0]).aggregate([([], "count_all")])
        middle = groups.filter(
            (pc.field("count_all") >= 200) & (pc.field("count_all") <= 5_000)
        ).select([dataset.key[0]])
        order = random.permutation(middle.num_rows)[:NUM_RANGES]
        chosen["prefixes"] = middle.take(pa.array(order))
    return chosen


def _absent(dataset: Dataset, keys: pa.Table, random: np.random.Generator) -> pa.Table:
    """Keys within the range of the present ones that no row has."""
    last = keys[dataset.key[-1]].combine_chunks()
    if dataset.name == "orders":
        wanted = random.integers(1, last[-1].as_py(), NUM_POINTS * 2)
        values = pa.array(wanted)
        missing = values.filter(pc.invert(pc.is_in(values, last)))
        return pa.table({dataset.key[0]: missing.slice(0, NUM_POINTS)})
    if dataset.name == "uuids":
        return data.uuids(NUM_POINTS, seed=SEED).select(["id"])
    some = keys.take(pa.array(random.integers(0, keys.num_rows, NUM_POINTS)))
    other = pc.add(some[dataset.key[1]], pa.scalar(1, pa.duration("us")))
    return some.set_column(1, dataset.key[1], other)


class Keys:
    """The chosen keys as a worker uses them: Python values for points, Arrow for batches."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._tables = {p.stem: _read(p) for p in sorted((dataset.folder / "keys").iterdir())}
        self.present = self._values("present")
        self.absent = self._values("absent")
        self.ranges = list(zip(self._values("lower"), self._values("upper"), strict=True))
        self.prefixes = [r[0] for r in self._rows("prefixes")]
        self.small = self._batches("small")
        self.large = self._batches("large")

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        if name not in self._tables:
            return []
        return [tuple(row.values()) for row in self._tables[name].to_pylist()]

    def _values(self, name: str) -> list[Any]:
        rows = self._rows(name)
        return rows if len(self._dataset.key) > 1 else [row[0] for row in rows]

    def _batches(self, name: str) -> list[pa.Table]:
        return [t for n, t in self._tables.items() if n.startswith(f"{name}-")]


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_file(source).read_all().combine_chunks()
