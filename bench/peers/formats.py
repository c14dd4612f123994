"""Columnar formats made for random access: Lance and Vortex."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.peer import NoGoodAnswer, Peer
from nimblepy.io.sync import sync_path


class Lance(Peer):
    name = "lance"
    package = "pylance"
    settings = "BTREE scalar index on the (first) key column"

    @property
    def file_name(self) -> str:
        return "lance.lance"

    def prepare(self) -> None:
        os.environ["LANCE_CPU_THREADS"] = str(self.threads)
        import lance

        self.lance = lance

    def build(self, table: pa.Table) -> None:
        # Lance insists on decimals aligned to 16 bytes, Arrow IPC files promise 8: copy
        copies = (b.take(pa.array(np.arange(b.num_rows))) for b in table.to_batches())
        reader = pa.RecordBatchReader.from_batches(table.schema, copies)
        data = self.lance.write_dataset(reader, str(self.path))
        data.create_scalar_index(self.key[0], "BTREE")

    def open(self) -> None:
        self.data = self.lance.dataset(str(self.path))

    def get(self, key: Any) -> dict[str, Any] | None:
        rows = self.data.to_table(filter=self.key_equals(key)).to_pylist()
        return rows[0] if rows else None

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        name = self.single_key()
        text = ", ".join(repr(v) for v in keys[0].to_pylist())
        return self.data.to_table(columns, filter=f"{name} IN ({text})")

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        return self.data.to_table(columns, filter=self.key_between(lower, upper))

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        passing = pc.field(self.key[0]) == self.literal(self.key[0], first)
        return self.data.to_table(columns, filter=passing)

    def take(self, rows: np.ndarray[Any, Any], columns: list[str] | None) -> pa.Table:
        return self.data.take(rows, columns)

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self.data.scanner(columns=columns, batch_size=65_536).to_batches()

    def to_table(self, columns: list[str] | None) -> pa.Table:
        return self.data.to_table(columns)

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        field = pc.field(column)
        passing = (field >= self.literal(column, lower)) & (field < self.literal(column, upper))
        return pc.sum(self.data.to_table([summed], filter=passing)[summed]).as_py()


class Vortex(Peer):
    name = "vortex"
    package = "vortex-data"
    settings = "default writer, mapped, filter pushed down"

    @property
    def file_name(self) -> str:
        return "vortex.vortex"

    def prepare(self) -> None:
        import vortex
        import vortex.expr

        self.vx = vortex
        self.expr = vortex.expr
        vortex.set_worker_threads(self.threads - 1)  # the caller's thread works too

    def build(self, table: pa.Table) -> None:
        self.vx.io.write(table, str(self.path))
        sync_path(self.path)

    def write_compact(self, table: pa.Table) -> None:
        self.vx.io.VortexWriteOptions.compact().write(table, str(self.path))
        sync_path(self.path)

    def open(self) -> None:
        self.file = self.vx.open(str(self.path), memory_map=True)

    def close(self) -> None:
        del self.file

    def test(self, column: str, operator: str, value: Any) -> Any:
        name = self.expr.column(column)
        scalar = self.vx.array(pa.array([value], self.schema.field(column).type)).scalar_at(0)
        literal = self.expr.literal(scalar.dtype, scalar.as_py())
        return getattr(self.expr, operator)(name, literal)

    def read(self, columns: list[str] | None, passing: Any = None) -> pa.Table:
        return self.file.to_arrow(columns, expr=passing).read_all()

    def get(self, key: Any) -> dict[str, Any] | None:
        values = key if len(self.key) > 1 else (key,)
        tests = [self.test(n, "eq", v) for n, v in zip(self.key, values, strict=True)]
        rows = self.read(None, self.both(tests)).to_pylist()
        return rows[0] if rows else None

    def both(self, tests: list[Any]) -> Any:
        found = tests[0]
        for test in tests[1:]:
            found = self.expr.and_(found, test)
        return found

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        key = self.single_key()
        tests = [self.test(key, "gt_eq", lower), self.test(key, "lt", upper)]
        return self.read(columns, self.both(tests))

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        return self.read(columns, self.test(self.key[0], "eq", first))

    def take(self, rows: np.ndarray[Any, Any], columns: list[str] | None) -> pa.Table:
        return self.file.to_arrow(columns, indices=self.vx.array(pa.array(rows))).read_all()

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self.file.to_arrow(columns)

    def to_table(self, columns: list[str] | None) -> pa.Table:
        return self.read(columns)

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        tests = [self.test(column, "gt_eq", lower), self.test(column, "lt", upper)]
        return pc.sum(self.read([summed], self.both(tests))[summed]).as_py()


class VortexTake(Vortex):
    """An upper bound for the format: the key column lies in memory and numpy searches it."""

    name = "vortex_take"
    borrows_file = True
    settings = "take of rows; the key column is in memory and searched by numpy (upper bound)"

    def prepare(self) -> None:
        super().prepare()
        if not self.dataset.clustered:
            raise NoGoodAnswer

    def open(self) -> None:
        super().open()
        column = self.single_key()
        if not pa.types.is_integer(self.schema.field(column).type):
            raise NoGoodAnswer
        self.keys = self.file.to_arrow([column]).read_all()[column].to_numpy()

    def get(self, key: Any) -> dict[str, Any] | None:
        row = int(np.searchsorted(self.keys, key))
        if row == len(self.keys) or self.keys[row] != key:
            return None
        return self.take(np.array([row], np.uint64), None).to_pylist()[0]

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        wanted = np.sort(keys[0].to_numpy())
        rows = np.searchsorted(self.keys, wanted)
        rows = rows[self.keys[np.minimum(rows, len(self.keys) - 1)] == wanted]
        return self.take(rows.astype(np.uint64), columns)

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        begin, end = np.searchsorted(self.keys, [lower, upper])
        return self.take(np.arange(begin, end, dtype=np.uint64), columns)

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        raise NoGoodAnswer

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        raise NoGoodAnswer

    def to_table(self, columns: list[str] | None) -> pa.Table:
        raise NoGoodAnswer

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        raise NoGoodAnswer
