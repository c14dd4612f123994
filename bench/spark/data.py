"""The data: dimensions and probes, a table of eight columns, a dataset of very many files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nimblepy as nb

BATCH = 1_000_000
ROWS_PER_FILE = 100


class Data:
    """What the workloads read, made once and kept under ``folder``.

    Args:
        scale: factor on all numbers of rows, of probes and of files.
    """

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self.scale = scale

    def rows(self, at_full_scale: int) -> int:
        return max(1, round(at_full_scale * self.scale))

    def dimension(self, rows: int) -> tuple[str, str]:
        """k, v1, v2, v3 (16 characters), sorted by k: as nimble and as Parquet file."""
        folder = self._folder / f"spark-{short(rows)}"

        def tables() -> Iterator[pa.Table]:
            rng = np.random.default_rng(1)
            for begin in range(0, rows, BATCH):
                n = min(BATCH, rows - begin)
                yield pa.table(
                    {
                        "k": np.arange(begin, begin + n),
                        "v1": rng.integers(0, 1_000_000, n),
                        "v2": rng.random(n),
                        "v3": _words(rng, n),
                    }
                )

        return _both(folder, "dim", tables(), "k")

    def probes(self, number: int, rows: int, extra: int = 1) -> str:
        """Uniformly random keys of a dimension of `rows`, with `extra` columns, as Parquet."""
        folder = self._folder / f"spark-{short(rows)}"
        path = folder / f"probes-{short(number)}-{extra}.parquet"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            rng = np.random.default_rng(2)
            columns = {"k": rng.integers(0, rows, number)}
            columns |= {f"p{i}": rng.integers(0, 1 << 40, number) for i in range(extra)}
            pq.write_table(pa.table(columns), f"{path}.new", row_group_size=max(1, number // 8))
            os.replace(f"{path}.new", path)
        return str(path)

    def wide(self, rows: int) -> tuple[str, str]:
        """Eight columns, sorted by k."""

        def tables() -> Iterator[pa.Table]:
            rng = np.random.default_rng(3)
            for begin in range(0, rows, BATCH):
                n = min(BATCH, rows - begin)
                yield pa.table(
                    {
                        "k": np.arange(begin, begin + n),
                        **{f"i{i}": rng.integers(0, 1 << 20, n) for i in range(4)},
                        **{f"d{i}": np.round(rng.random(n), 4) for i in range(2)},
                        "s": pa.array(rng.integers(0, 1000, n)).cast(pa.string()),
                    }
                )

        return _both(self._folder / f"spark-{short(rows)}", "wide", tables(), "k")

    def many_files(self, files: int) -> str:
        """A dataset of so many small files with disjoint key ranges."""
        directory = self._folder / f"spark-files-{short(files)}"
        if directory.exists():
            return str(directory)
        new = str(directory) + ".new"
        shutil.rmtree(new, ignore_errors=True)
        os.makedirs(new)
        for i in range(files):
            keys = np.arange(i * ROWS_PER_FILE, (i + 1) * ROWS_PER_FILE)
            table = pa.table({"k": keys, "v": keys * 3})
            path = os.path.join(new, f"{i:05d}.nimble")
            nb.write(table, path, cluster_by="k", presorted=True)
        os.replace(new, directory)
        return str(directory)

    def scratch(self, name: str) -> Path:
        """A folder to write into."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"spark-{name}"


def short(number: int) -> str:
    """1_000_000 as 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{letter}"
    return str(number)


def _words(rng: np.random.Generator, n: int) -> pa.Array:
    """Texts of 16 hexadecimal digits."""
    digits = np.frombuffer(rng.bytes(8 * n).hex().encode(), np.uint8)
    offsets = np.arange(n + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(digits))


def _both(folder: Path, name: str, tables: Iterator[pa.Table], key: str) -> tuple[str, str]:
    """The tables, sorted by `key`, as one nimble and one Parquet file."""
    nimble, parquet = folder / f"{name}.nimble", folder / f"{name}.parquet"
    if not (nimble.exists() and parquet.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        first = next(tables)
        new = folder / f"{name}.parquet.new"
        with (
            pq.ParquetWriter(new, first.schema) as own,
            nb.Writer(nimble, first.schema, cluster_by=key, presorted=True) as ours,
        ):
            for table in (first, *tables):
                own.write_table(table)
                ours.write(table)
        os.replace(new, parquet)
    return str(nimble), str(parquet)
