"""SQLite: one table WITHOUT ROWID, whose rows lie in the tree of the primary key."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench import packed
from bench.peers.peer import Peer, as_values
from nimblepy.io.sync import sync_path

INSERT_ROWS = 1 << 16


class Sqlite(Peer):
    name = "sqlite"
    package = "sqlite"  # comes with Python
    settings = "WITHOUT ROWID, mapped, immutable; decimals as integers, dates as days, decoded"

    @property
    def file_name(self) -> str:
        return "sqlite.db"

    @classmethod
    def version(cls) -> str | None:
        import sqlite3

        return sqlite3.sqlite_version

    def prepare(self) -> None:
        import sqlite3

        self.sqlite3 = sqlite3
        self.layout = packed.Layout(self.schema)
        self.convert = [self.converter(f) for f in self.layout.fields]
        self.wheres = " AND ".join(f"{name} = ?" for name in self.key)

    @staticmethod
    def converter(field: packed.Field) -> Callable[[Any], Any] | None:
        """From what SQLite stores to the Python value."""
        if pa.types.is_boolean(field.kind):
            return bool
        if pa.types.is_list(field.kind):
            return lambda v: list(struct.unpack(f"<{len(v) // 4}f", v))
        return field.python

    def build(self, table: pa.Table) -> None:
        if not self.dataset.clustered:
            table = table.sort_by([(name, "ascending") for name in self.key])
        with self.sqlite3.connect(self.path) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            names = ", ".join(self.schema.names)
            connection.execute(
                f"CREATE TABLE t ({names}, PRIMARY KEY ({', '.join(self.key)})) WITHOUT ROWID"
            )
            marks = ", ".join("?" * len(self.schema))
            for batch in table.to_batches(INSERT_ROWS):
                connection.executemany(f"INSERT INTO t VALUES ({marks})", self.rows(batch))
        connection.close()
        sync_path(self.path)

    def rows(self, batch: pa.RecordBatch) -> Any:
        columns = []
        for field, column in zip(self.layout.fields, batch.columns, strict=True):
            values = field.values(column)
            if pa.types.is_list(field.kind):
                values = [None if v is None else packed.Layout.to_bytes(v) for v in values]
            columns.append(values)
        return zip(*columns, strict=True)

    def open(self) -> None:
        self.connection = self.sqlite3.connect(f"file:{self.path}?immutable=1", uri=True)
        self.connection.execute(f"PRAGMA mmap_size = {1 << 36}")
        self.connection.execute("PRAGMA cache_size = -65536")

    def close(self) -> None:
        self.connection.close()

    def bound(self, key: Any) -> tuple[Any, ...]:
        """The key as it is stored."""
        return tuple(map(self.stored, self.key, as_values(key, self.key)))

    def stored(self, column: str, value: Any) -> Any:
        kind = self.schema.field(column).type
        if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return value
        field = packed.Field(kind)
        return field.values(pa.array([value], kind))[0]

    def get(self, key: Any) -> dict[str, Any] | None:
        row = self.connection.execute(
            f"SELECT * FROM t WHERE {self.wheres}", self.bound(key)
        ).fetchone()
        if row is None:
            return None
        return {
            name: value if make is None or value is None else make(value)
            for name, make, value in zip(self.schema.names, self.convert, row, strict=True)
        }

    def lookup(self, keys: pa.Table, columns: list[str]) -> Any:
        query = f"SELECT {', '.join(columns)} FROM t WHERE {self.wheres}"
        stored = [packed.Field(c.type).values(c.chunk(0)) for c in keys.combine_chunks().columns]
        execute = self.connection.cursor().execute
        found = [execute(query, key).fetchone() for key in sorted(zip(*stored, strict=True))]
        return columns, [row for row in found if row is not None]

    def range(self, lower: Any, upper: Any, columns: list[str]) -> Any:
        key = f"({', '.join(self.key)})"
        marks = f"({', '.join('?' * len(self.key))})"
        query = f"SELECT {', '.join(columns)} FROM t WHERE {key} >= {marks} AND {key} < {marks}"
        values = (*self.bound(lower), *self.bound(upper))
        return columns, self.connection.execute(query, values).fetchall()

    def prefix(self, first: Any, columns: list[str]) -> Any:
        query = f"SELECT {', '.join(columns)} FROM t WHERE {self.key[0]} = ?"
        return columns, self.connection.execute(query, (first,)).fetchall()

    def as_table(self, answer: Any) -> pa.Table:
        return packed.as_table(self.layout, *answer)
