"""The formats that are compared, over one column; rows are asked for by number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.datasets import Dataset
from bench.peers.formats import Lance, Vortex
from bench.peers.nimble import Nimble
from bench.peers.parquet import Parquet
from bench.peers.peer import NoGoodAnswer, Peer
from bench.zoo.registry import Column
from nimblepy.io.sync import sync_path

KEY = "row"


class NimbleColumn(Nimble):
    settings = "no key (rows one at a time: a file with a key), default options, mapped"
    compression = "balanced"

    @property
    def keyed(self) -> Path:
        return self.path.with_suffix(".keyed")

    def build(self, table: pa.Table) -> None:
        self.write(table, self.path, indexed=False, compression=self.compression)

    def close(self) -> None:
        super().close()
        self.__dict__.pop("by_row", None)
        self.keyed.unlink(missing_ok=True)

    def get(self, key: Any) -> dict[str, Any] | None:
        if "by_row" not in self.__dict__:
            source = self.dataset.table()
            table = source.append_column(KEY, pa.array(np.arange(source.num_rows)))
            options = self.nb.WriteOptions(threads=1, compression=self.compression)
            self.nb.write(table, self.keyed, cluster_by=KEY, presorted=True, options=options)
            self.by_row = self.nb.open(self.keyed)
            self.columns = source.column_names
        return self.by_row.get(key, self.columns)


class CompactColumn(NimbleColumn):
    name = "compact"
    compression = "compact"


class ParquetColumn(Parquet):
    """No lookups: they are measured elsewhere."""

    name = "parquet"
    level = 1

    def build(self, table: pa.Table) -> None:
        pq.write_table(table, self.path, compression="zstd", compression_level=self.level)
        sync_path(self.path)

    def get(self, key: Any) -> dict[str, Any] | None:
        raise NoGoodAnswer


class ParquetColumn3(ParquetColumn):
    name = "parquet_3"
    level = 3


class VortexColumn(Vortex):
    def get(self, key: Any) -> dict[str, Any] | None:
        return self.take(np.array([key]), None).to_pylist()[0]


class LanceColumn(Lance):
    settings = "a dataset without index"

    def build(self, table: pa.Table) -> None:
        self.lance.write_dataset(table, str(self.path))

    def get(self, key: Any) -> dict[str, Any] | None:
        return self.take(np.array([key]), None).to_pylist()[0]


SYSTEMS: dict[str, type[Peer]] = {
    "nimblepy": NimbleColumn,
    "compact": CompactColumn,
    "vortex": VortexColumn,
    "parquet": ParquetColumn,
    "parquet_3": ParquetColumn3,
    "lance": LanceColumn,
}
OURS = ("nimblepy", "compact")
USUAL = ("nimblepy", "vortex", "parquet", "parquet_3")


def system_over(name: str, column: Column, rows: int, threads: int) -> Peer:
    column.table(rows)  # made, where it is not there yet
    folder = column.folder(rows)
    return SYSTEMS[name](Dataset(column.name, rows, (), (), (), "", folder=folder), threads)


def build(system: Peer, *, again: bool) -> None:
    """Builds its file where there is none; complete or not at all, as others may build it too."""
    if system.path.exists() and not again:
        return
    kept = system.path
    system.path = kept.with_name(f"{os.getpid()}-{kept.name}")
    try:
        system.build(system.dataset.table())
        built, system.path = system.path, kept
        system.remove()
        built.rename(kept)
    finally:
        system.path = kept
