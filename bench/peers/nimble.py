"""nimblepy itself, and what of it is measured in another configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.peer import NoGoodAnswer, Peer


class Nimble(Peer):
    name = "nimblepy"
    package = "nimblepy"
    settings = "cluster index on the key (unsorted rows: a hash index), default options, mapped"
    bloom_bits: float | None = None

    @property
    def file_name(self) -> str:
        return f"{self.name}.nimble"

    def prepare(self) -> None:
        import nimblepy
        import nimblepy.file.file  # loaded when first used: not part of the first open
        import nimblepy.file.write

        self.nb = nimblepy
        self.on = {} if self.dataset.clustered else {"on": list(self.key)}

    def build(self, table: pa.Table) -> None:
        self.write(table, self.path, bloom_bits=self.bloom_bits)

    def write(
        self,
        table: pa.Table,
        path: Path,
        *,
        indexed: bool = True,
        bloom_bits: float | None = None,
        compression: str = "balanced",
    ) -> Any:
        options = self.nb.WriteOptions(
            threads=self.threads, cluster_bloom_bits_per_key=bloom_bits, compression=compression
        )
        if not indexed:
            return self.nb.write(table, path, options=options)
        if not self.dataset.clustered:
            return self.nb.write(table, path, indexes=[self.index()], options=options)
        return self.nb.write(
            table, path, cluster_by=list(self.key), presorted=True, options=options
        )

    def index(self) -> Any:
        return self.nb.HashIndex(list(self.key))

    def open(self) -> None:
        self.file = self.nb.open(self.path)

    def close(self) -> None:
        del self.file

    def get(self, key: Any) -> dict[str, Any] | None:
        # `**` of nothing is a tenth of a microsecond
        return self.file.get(key, **self.on) if self.on else self.file.get(key)

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        return self.file.lookup(keys, columns=columns, **self.on)

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        if not self.dataset.clustered:
            raise NoGoodAnswer  # a hash has no order
        return self.file.range(lower, upper, columns=columns)

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        return self.file.prefix(first, columns=columns)

    def take(self, rows: np.ndarray[Any, Any], columns: list[str] | None) -> pa.Table:
        return self.file.take(rows, columns)

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self.file.scan(columns, threads=self.threads).to_reader()

    def to_table(self, columns: list[str] | None) -> pa.Table:
        return self.file.scan(columns, threads=self.threads).to_table()

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        field = pc.field(column)
        passing = (field >= self.literal(column, lower)) & (field < self.literal(column, upper))
        scan = self.file.scan([summed], filter=passing, threads=self.threads)
        return pc.sum(scan.to_table()[summed]).as_py()


class NimbleBloom(Nimble):
    """Absent keys with a filter that is asked before the index."""

    name = "nimblepy_bloom"
    settings = "as nimblepy, with a Bloom filter of 10 bits a key"
    only = frozenset({"get_absent"})
    bloom_bits = 10.0

    def prepare(self) -> None:
        super().prepare()
        if not self.dataset.clustered:
            raise NoGoodAnswer  # the hash index has its own filter already


class NimbleSorted(Nimble):
    """Unsorted rows behind a sorted secondary index instead of a hash."""

    name = "nimblepy_sorted"
    settings = "unsorted rows with a sorted index"
    only = frozenset({"get_hot", "get", "get_absent", "lookup_10k", "lookup_100k", "range_1000"})

    def prepare(self) -> None:
        super().prepare()
        if self.dataset.clustered:
            raise NoGoodAnswer

    def index(self) -> Any:
        return self.nb.SortedIndex(list(self.key))

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        return self.file.range(lower, upper, columns=columns, **self.on)
