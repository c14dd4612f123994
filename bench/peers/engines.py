"""Query engines: DuckDB over its own file and over Parquet, Polars over Parquet."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bench.peers.parquet import Parquet
from bench.peers.peer import Peer, as_values, between


class DuckDb(Peer):
    name = "duckdb"
    package = "duckdb"
    settings = "native file, unique ART index on the key, prepared statements"

    def prepare(self) -> None:
        import duckdb

        self.duckdb = duckdb

    def connect(self, path: str, *, read_only: bool) -> Any:
        connection = self.duckdb.connect(path, read_only=read_only)
        connection.execute(f"SET threads = {self.threads}")
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def build(self, table: pa.Table) -> None:
        with self.connect(str(self.path), read_only=False) as connection:
            connection.register("source", table)
            connection.execute("CREATE TABLE t AS SELECT * FROM source")
            connection.execute(f"CREATE UNIQUE INDEX by_key ON t ({', '.join(self.key)})")
            connection.execute("CHECKPOINT")

    def open(self) -> None:
        self.connection = self.connect(str(self.path), read_only=True)
        self.source = "t"

    def close(self) -> None:
        self.connection.close()

    def get(self, key: Any) -> dict[str, Any] | None:
        tests = " AND ".join(f"{name} = ?" for name in self.key)
        values = list(key) if len(self.key) > 1 else [key]
        row = self.connection.execute(
            f"SELECT * FROM {self.source} WHERE {tests}", values
        ).fetchone()
        return None if row is None else dict(zip(self.schema.names, row, strict=True))

    def arrow(self, query: str, values: list[Any] | None = None) -> pa.Table:
        return self.connection.sql(query, params=values).to_arrow_table()

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        self.connection.register("wanted", keys)
        names = ", ".join(f"t.{name}" for name in columns)
        same = " AND ".join(f"t.{name} = w.{name}" for name in self.key)
        return self.arrow(f"SELECT {names} FROM {self.source} t JOIN wanted w ON {same}")

    def range(self, lower: Any, upper: Any, columns: list[str]) -> pa.Table:
        names, first = ", ".join(columns), self.key[0]
        low, high = as_values(lower, self.key), as_values(upper, self.key)
        if len(self.key) == 1:
            tests = f"{first} >= ? AND {first} < ?"
            return self.arrow(f"SELECT {names} FROM {self.source} WHERE {tests}", [*low, *high])
        # as `between`: DuckDB's comparison of rows answers through no zone map
        last = self.key[1]
        tests = f"{first} BETWEEN ? AND ? AND ({first} > ? OR {last} >= ?)"
        tests += f" AND ({first} < ? OR {last} < ?)"
        values = [low[0], high[0], *low, *high]
        return self.arrow(f"SELECT {names} FROM {self.source} WHERE {tests}", values)

    def prefix(self, first: Any, columns: list[str]) -> pa.Table:
        return self.arrow(
            f"SELECT {', '.join(columns)} FROM {self.source} WHERE {self.key[0]} = ?", [first]
        )

    def batches(self, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        names = "*" if columns is None else ", ".join(columns)
        query = self.connection.sql(f"SELECT {names} FROM {self.source}")
        return query.to_arrow_reader(65_536)

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        query = f"SELECT sum({summed}) FROM {self.source} WHERE {column} >= ? AND {column} < ?"
        return self.connection.execute(query, [lower, upper]).fetchone()[0]


class DuckDbParquet(DuckDb):
    name = "duckdb_parquet"
    settings = "over the Parquet file (zstd, pyarrow defaults), metadata cached"
    borrows_file = True

    @property
    def file_name(self) -> str:
        return "parquet.parquet"

    def build(self, table: pa.Table) -> None:
        Parquet(self.dataset, self.threads).build(table)

    def open(self) -> None:
        self.connection = self.connect(":memory:", read_only=False)
        self.connection.execute("SET parquet_metadata_cache = true")
        self.source = f"read_parquet('{self.path}')"


class Polars(Peer):
    name = "polars"
    package = "polars"
    settings = "lazy scan of the Parquet file (zstd, pyarrow defaults)"
    borrows_file = True

    @property
    def file_name(self) -> str:
        return "parquet.parquet"

    def prepare(self) -> None:
        import polars

        self.pl = polars

    def build(self, table: pa.Table) -> None:
        Parquet(self.dataset, self.threads).build(table)

    def open(self) -> None:
        self.frame = self.pl.scan_parquet(self.path)

    def literal_for(self, column: str, value: Any) -> Any:
        # a literal of another unit would cast the column
        if isinstance(value, datetime.datetime):
            return self.pl.lit(value, self.pl.Datetime("us", "UTC"))
        return self.pl.lit(value)

    def get(self, key: Any) -> dict[str, Any] | None:
        values = key if len(self.key) > 1 else (key,)
        tests = [
            self.pl.col(name) == self.literal_for(name, value)
            for name, value in zip(self.key, values, strict=True)
        ]
        found = self.frame.filter(*tests).collect()
        return found.row(0, named=True) if len(found) else None

    def lookup(self, keys: pa.Table, columns: list[str]) -> Any:
        wanted = self.pl.from_arrow(keys).lazy()
        return self.frame.join(wanted, on=list(self.key), how="semi").select(columns).collect()

    def range(self, lower: Any, upper: Any, columns: list[str]) -> Any:
        bounds = []
        for key in (lower, upper):
            values = zip(self.key, as_values(key, self.key), strict=True)
            bounds.append(tuple(self.literal_for(n, v) for n, v in values))
        passing = between([self.pl.col(name) for name in self.key], *bounds)
        return self.frame.filter(passing).select(columns).collect()

    def prefix(self, first: Any, columns: list[str]) -> Any:
        return self.frame.filter(self.pl.col(self.key[0]) == first).select(columns).collect()

    def batches(self, columns: list[str] | None) -> Iterable[Any]:
        frame = self.frame if columns is None else self.frame.select(columns)
        return [frame.collect()]

    def to_table(self, columns: list[str] | None) -> Any:
        return next(iter(self.batches(columns))).to_arrow()

    def filtered_sum(self, summed: str, column: str, lower: Any, upper: Any) -> Any:
        field = self.pl.col(column)
        passing = self.frame.filter((field >= lower) & (field < upper))
        return passing.select(self.pl.col(summed).sum()).collect().item()

    def as_table(self, answer: Any) -> pa.Table:
        return answer if isinstance(answer, pa.Table) else answer.to_arrow()
