"""Parquet through pyarrow: as everybody uses it, and as an expert would tune it for lookups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.peers.peer import NoGoodAnswer, Peer, all_of, as_values
from nimblepy.io.sync import sync_path


class Parquet(Peer):
    name = "parquet"
    package = "pyarrow"
    settings = "pyarrow writer, zstd, its defaults; lookups by dataset filter, mapped"
    row_group_rows: int | None = None

    @property
    def file_name(self) -> str:
        return f"{self.name}.parquet"

    def build(self, table: pa.Table) -> None:
        pq.write_table(
            table,
            self.path,
            compression="zstd",
            row_group_size=self.row_group_rows,
            write_page_index=self.row_group_rows is not None,
        )
        sync_path(self.path)

    def open(self) -> None:
        self.file = pq.ParquetFile(self.path, memory_map=True)
        self.data = ds.dataset(self.path)

    def close(self) -> None:
        self.file.close()

    @property
    def parallel(self) -> bool:
        return self.threads > 1

    def filtered(self, passing: pc.Expression, columns: list[str] | None = None) -> pa.Table:
        return self.data.to_table(columns, filter=passing, use_threads=self.parallel)

    def get(self, key: Any) -> dict[str, Any] | None:
        rows = self.filtered(self.key_equals(key)).to_pylist()
        return rows[0] if rows else None

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        if len(self.key) > 1:
            whole = self.file.read(columns=columns, use_threads=self.parallel)
            names = list(self.key)
            return whole.join(keys, names, join_type="left semi", use_threads=self.parallel)
        return self.filtered(pc.field(self.key[0]).isin(keys[0].combine_chunks()), columns)

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        return self.filtered(self.key_between(lower, upper), columns)

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        return self.filtered(pc.field(self.key[0]) == self.literal(self.key[0], first), columns)

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self.file.iter_batches(columns=columns, use_threads=self.parallel)

    def to_table(self, columns: list[str] | None) -> pa.Table:
        return self.file.read(columns=columns, use_threads=self.parallel)

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        field = pc.field(column)
        passing = (field >= self.literal(column, lower)) & (field < self.literal(column, upper))
        return pc.sum(self.filtered(passing, [summed])[summed]).as_py()


class SmallGroups(Parquet):
    """Row groups of 8K rows, found by binary search over statistics that are kept in memory."""

    name = "parquet_8k"
    settings = "pyarrow, zstd, 8K-row groups; lookups by hand-made search over group statistics"
    row_group_rows = 8_192

    def prepare(self) -> None:
        if not self.dataset.clustered:
            raise NoGoodAnswer  # every group spans all keys

    def open(self) -> None:
        super().open()
        column = self.schema.names.index(self.key[0])
        metadata = self.file.metadata
        statistics = [
            metadata.row_group(i).column(column).statistics for i in range(metadata.num_row_groups)
        ]
        self.firsts = np.array([s.min for s in statistics])
        self.lasts = np.array([s.max for s in statistics])

    def groups(self, lower: Any, upper: Any) -> list[int]:
        """Row groups with keys in the closed range."""
        begin = int(np.searchsorted(self.lasts, lower, "left"))
        end = int(np.searchsorted(self.firsts, upper, "right"))
        return list(range(begin, end))

    def read(self, groups: list[int], columns: list[str] | None, passing: Any) -> pa.Table:
        needed = None if columns is None else list(dict.fromkeys([*self.key, *columns]))
        table = self.file.read_row_groups(groups, columns=needed, use_threads=self.parallel)
        found = table.filter(passing)
        return found if columns is None else found.select(columns)

    def get(self, key: Any) -> dict[str, Any] | None:
        first = key[0] if len(self.key) > 1 else key
        groups = self.groups(first, first)
        if not groups:
            return None
        # the key first: other columns are read only for a key that exists
        table = self.file.read_row_groups(groups, columns=list(self.key), use_threads=False)
        values = key if len(self.key) > 1 else (key,)
        tests = [
            pc.equal(table[name], self.literal(name, value))
            for name, value in zip(self.key, values, strict=True)
        ]
        mask = tests[0]
        for test in tests[1:]:
            mask = pc.and_(mask, test)
        row = pc.index(mask, True).as_py()
        if row < 0:
            return None
        whole = self.file.read_row_groups(groups, use_threads=False)
        return whole.slice(row, 1).to_pylist()[0]

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        raise NoGoodAnswer  # random keys hit every group: the plain file does better

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        first, last = (as_values(key, self.key)[0] for key in (lower, upper))
        return self.read(self.groups(first, last), columns, self.key_between(lower, upper))

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        passing = all_of([pc.field(self.key[0]) == self.literal(self.key[0], first)])
        return self.read(self.groups(first, first), columns, passing)

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        raise NoGoodAnswer  # small groups are for lookups

    def to_table(self, columns: list[str] | None) -> pa.Table:
        raise NoGoodAnswer

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        raise NoGoodAnswer
