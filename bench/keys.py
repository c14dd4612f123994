"""The keys that are asked for: chosen once from a seed, so that all peers get the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import data
from bench.datasets import Dataset

SEED = 20_13
FOLDER = "keys-50k"  # another choice of keys has another name
NUM_POINTS = 50_000
NUM_RANGES = 500
RANGE_ROWS = 1_000
SMALL_BATCH, NUM_SMALL = 10_000, 12
LARGE_BATCH, NUM_LARGE = 100_000, 4


def write(dataset: Dataset, folder: Path) -> None:
    """Writes the key tables of `dataset` as Arrow IPC files into the new `folder`."""
    folder.mkdir()
    for name, table in _choose(dataset).items():
        with pa.ipc.new_file(folder / f"{name}.arrow", table.schema) as out:
            out.write_table(table)


def _choose(dataset: Dataset) -> dict[str, pa.Table]:
    """Tables of key columns: present, absent, batches, ranges (lower and upper) and prefixes."""
    random = np.random.default_rng(SEED)
    keys = dataset.table().select(list(dataset.key)).combine_chunks()
    if not dataset.clustered:
        keys = keys.sort_by([(name, "ascending") for name in dataset.key])
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
        chosen["prefixes"] = _prefixes(dataset, keys, random)
    return chosen


def _prefixes(dataset: Dataset, keys: pa.Table, random: np.random.Generator) -> pa.Table:
    least, most = dataset.prefix_rows
    groups = keys.group_by(dataset.key[0]).aggregate([([], "count_all")])
    count = pc.field("count_all")
    fitting = groups.filter((count >= least) & (count <= most)).select([dataset.key[0]])
    return fitting.take(pa.array(random.permutation(fitting.num_rows)[:NUM_RANGES]))


def _absent(dataset: Dataset, keys: pa.Table, random: np.random.Generator) -> pa.Table:
    """Keys within the range of the present ones that no row has."""
    last = dataset.key[-1]
    if dataset.name == "uuids":
        return data.uuids(NUM_POINTS, seed=SEED).select(["id"])
    if len(dataset.key) > 1:
        # the same first column, beyond its lines or a microsecond later
        kind = keys[last].type
        step = pa.scalar(1, pa.duration("us")) if pa.types.is_timestamp(kind) else 8
        some = keys.take(pa.array(random.integers(0, keys.num_rows, NUM_POINTS)))
        other = pc.add(some[last], step).cast(kind)
        return some.set_column(some.column_names.index(last), last, other)
    present = keys[last].to_numpy()
    wanted = random.integers(int(present[0]), int(present[-1]), NUM_POINTS * 4)
    found = present[np.searchsorted(present, wanted)] == wanted
    return pa.table({last: wanted[~found][:NUM_POINTS]})


class Keys:
    """The chosen keys as a worker uses them: Python values for points, Arrow for batches."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._tables = {p.stem: _read(p) for p in sorted((dataset.folder / FOLDER).iterdir())}
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
