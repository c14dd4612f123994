"""Arrow IPC, mapped, with a binary search by numpy: what nothing to decode looks like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.peer import NoGoodAnswer, Peer, as_values
from nimblepy.io.sync import sync_path


class ArrowMapped(Peer):
    """Rows as one uncompressed record batch, found by `searchsorted` in the mapped key column.

    Scans are left out: they read nothing until somebody looks at the values.
    """

    name = "arrow_mmap"
    package = "pyarrow"
    settings = "one uncompressed record batch, mapped; numpy searchsorted in the key column"

    @property
    def file_name(self) -> str:
        return "mapped.arrow"

    def prepare(self) -> None:
        if not self.dataset.clustered:
            raise NoGoodAnswer  # there is no order to search in

    def build(self, table: pa.Table) -> None:
        whole = table.combine_chunks()
        with pa.ipc.new_file(str(self.path), whole.schema) as out:
            out.write_table(whole)
        sync_path(self.path)

    def open(self) -> None:
        self.source = pa.memory_map(str(self.path))
        self.table = pa.ipc.open_file(self.source).read_all()
        self.columns = [column.chunk(0) for column in self.table.columns]
        self.keys = [self.searchable(self.table[name].chunk(0)) for name in self.key]

    def close(self) -> None:
        del self.keys, self.columns, self.table
        self.source.close()

    @staticmethod
    def searchable(column: pa.Array) -> np.ndarray[Any, Any]:
        """A numpy view without a copy."""
        if pa.types.is_string(column.type):
            offsets = np.frombuffer(column.buffers()[1], np.int32)
            width = int(offsets[1] - offsets[0])
            if int(offsets[len(column)]) != width * len(column):
                raise NoGoodAnswer  # numpy searches strings of one width only
            return np.frombuffer(column.buffers()[2], f"S{width}")[: len(column)]
        kind = np.int32 if column.type.bit_width == 32 else np.int64
        return np.frombuffer(column.buffers()[1], kind)[: len(column)]

    def plain(self, key: Any) -> list[Any]:
        """The key as it compares with `searchable`."""
        values = as_values(key, self.key)
        out: list[Any] = []
        for name, value in zip(self.key, values, strict=True):
            kind = self.schema.field(name).type
            if pa.types.is_string(kind):
                out.append(value.encode())
            else:
                out.append(value if isinstance(value, int) else pa.scalar(value, kind).value)
        return out

    def place(self, key: Any) -> tuple[int, bool]:
        """First row not below the key, and whether it is the key's."""
        begin, end = 0, len(self.keys[0])
        values = self.plain(key)
        for column, value in zip(self.keys[:-1], values[:-1], strict=True):
            part = column[begin:end]
            end = begin + int(np.searchsorted(part, value, "right"))
            begin += int(np.searchsorted(part, value))
        begin += int(np.searchsorted(self.keys[-1][begin:end], values[-1]))
        return begin, begin < end and bool(self.keys[-1][begin] == values[-1])

    def get(self, key: Any) -> dict[str, Any] | None:
        row, found = self.place(key)
        if not found:
            return None
        return {n: c[row].as_py() for n, c in zip(self.schema.names, self.columns, strict=True)}

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        if len(self.key) > 1:
            columns_of_keys = [column.to_pylist() for column in keys.columns]
            places = [self.place(key) for key in zip(*columns_of_keys, strict=True)]
            rows = np.array([row for row, found in places if found])
        else:
            column = keys[0].combine_chunks()
            wanted = np.sort(self.searchable(column))
            rows = np.searchsorted(self.keys[0], wanted)
            inside = np.minimum(rows, len(self.keys[0]) - 1)
            rows = rows[self.keys[0][inside] == wanted]
        return self.table.select(columns).take(pa.array(rows))

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        begin, end = self.place(lower)[0], self.place(upper)[0]
        return self.table.select(columns).slice(begin, end - begin)

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        value = first.encode() if isinstance(first, str) else first
        begin, end = (int(np.searchsorted(self.keys[0], value, side)) for side in ("left", "right"))
        return self.table.select(columns).slice(begin, end - begin)

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        values = self.table[column]
        low, high = self.literal(column, lower), self.literal(column, upper)
        mask = pc.and_(pc.greater_equal(values, low), pc.less(values, high))
        return pc.sum(self.table[summed].filter(mask)).as_py()
