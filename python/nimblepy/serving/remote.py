"""A client for the tables of a server, with methods of local tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.rows.arguments import inclusive_sides, row_limit
from nimblepy.rows.keys import KeyColumns, key_columns, read_keys, typed_keys
from nimblepy.rows.request import key_prefix, key_range
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.protocols import Key, ManyKeys
from nimblepy.schema.types import SortKey
from nimblepy.serving.key_text import key_text
from nimblepy.serving.resp_client import Connection

# Maximum number of keys in a command. By default, a server accepts at most 10,000.
_KEYS_AT_ONCE = 8192


class RemoteLake:
    """The tables of a server. Thread-safe. As a context manager, it closes the connection."""

    def __init__(self, address: str, token: str | None, timeout: float | None) -> None:
        self._connection = Connection(address, token, timeout)

    @property
    def address(self) -> str:
        return self._connection.address

    def tables(self) -> list[str]:
        """Returns the names of the tables, as they appear in Redis keys."""
        return [name.decode() for name in self._connection.ask("NB.TABLES")]

    def table(self, name: str) -> RemoteTable:
        """Returns a handle on a table, by its name in Redis keys."""
        return RemoteTable(self._connection, name)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<nimblepy.RemoteLake {self.address}>"


class RemoteTable:
    """A table of a server. Thread-safe.

    The server answers each command from its newest snapshot. A call with more than 8,192 keys
    sends several commands, which may see different snapshots. The handle keeps the columns that
    the table had when the handle was opened or last refreshed.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name
        self.refresh()

    def refresh(self) -> RemoteTable:
        """Reads the columns, the keys and the snapshot from the server. Returns this handle."""
        reply = self._connection.ask("NB.META", self.name)
        meta = {key.decode(): value for key, value in zip(reply[::2], reply[1::2], strict=True)}
        self._meta = meta
        self._schema = _read(self._connection.ask("NB.SCHEMA", self.name, "AS", "ARROW")).schema
        order = [entry.decode().split(" ") for entry in meta["cluster_order"]]
        self._key = [name.decode() for name in meta["key"]]
        self._cluster = [
            SortKey(
                " ".join(words[2:]),
                descending=words[0] == "desc",
                nulls_first=words[1] == "first",
            )
            for words in order
        ]
        return self

    @property
    def schema(self) -> pa.Schema:
        """Columns and types."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """Number of rows at the last :meth:`refresh`."""
        return int(self._meta["rows"])

    @property
    def snapshot(self) -> int | None:
        """Id of the snapshot at the last :meth:`refresh`; ``None`` for files."""
        held = self._meta["snapshot"]
        return None if held is None else int(held)

    @property
    def cluster_by(self) -> list[SortKey]:
        """The sort order of the rows; empty if they are not sorted."""
        return list(self._cluster)

    def get(
        self, key: Key, columns: str | Sequence[str] | None = None, *, default: Any = None
    ) -> dict[str, Any] | None:
        """Returns a row as a dict, or ``default`` if no row has the key.

        See :meth:`nimblepy.Table.get`.
        """
        rows = self._lookup([key], columns, None, is_first=True)
        row: dict[str, Any] | None = rows.slice(0, 1).to_pylist()[0] if rows.num_rows else default
        return row

    def lookup(
        self,
        keys: ManyKeys,
        *,
        columns: str | Sequence[str] | None = None,
        probe_row: str | None = None,
        missing: str = "drop",
    ) -> pa.Table:
        """Returns all rows that match any of ``keys``. See :meth:`nimblepy.Table.lookup`.

        Cost: one command for every 8,192 keys.
        """
        if missing not in ("drop", "null"):
            raise InvalidArgumentError(f"missing: expected 'drop' or 'null', got {missing!r}")
        if missing == "drop":
            return self._lookup(keys, columns, probe_row)
        given = read_keys(keys)  # an iterator can be read only once
        name = probe_row or "#"
        while probe_row is None and name in self._schema.names:
            name += "#"
        rows = self._lookup(given, columns, name)
        count = len(self._texts(given))
        absent = pc.invert(pc.is_in(pa.array(range(count)), value_set=rows[name]))
        positions = pa.array(range(count)).filter(absent)
        probe, *others = rows.schema
        fields = [probe, *(field.with_nullable(True) for field in others)]
        nulls = [pa.nulls(len(positions), field.type) for field in fields]
        nulls[0] = positions
        schema = pa.schema(fields)
        both = pa.concat_tables([rows.cast(schema), pa.Table.from_arrays(nulls, schema=schema)])
        order = pc.sort_indices(both[name]) if len(positions) else None
        both = both if order is None else both.take(order)
        return both if probe_row is not None else both.drop_columns([name])

    def contains(self, keys: ManyKeys) -> pa.BooleanArray:
        """Returns for each key whether any row has the key."""
        return pc.greater(self.count(keys), 0)

    def count(self, keys: ManyKeys) -> pa.Int64Array:
        """Returns for each key the number of rows that have the key."""
        texts = self._texts(keys)
        counts: list[int] = []
        for begin in range(0, len(texts), _KEYS_AT_ONCE):
            part = texts[begin : begin + _KEYS_AT_ONCE]
            asked = [text for text in part if text is not None]
            answers = iter(self._connection.ask("NB.COUNT", self.name, *asked) if asked else ())
            counts += [0 if text is None else next(answers) for text in part]
        return pa.array(counts, pa.int64())

    def range(
        self,
        lower: Key = None,
        upper: Key = None,
        *,
        inclusive: str = "[)",
        columns: str | Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        after: Key = None,
    ) -> pa.Table:
        """Returns the rows between two bounds, in key order. See :meth:`nimblepy.Table.range`."""
        sides = inclusive_sides(inclusive)
        if after is not None:
            if isinstance(after, Mapping):
                row: Mapping[Any, object] = after
                after = tuple(row[key.column] for key in self._ordered())
            if reverse:
                if upper is not None:
                    raise InvalidArgumentError("give upper or after, not both")
                upper, sides = after, (sides[0], False)
            else:
                if lower is not None:
                    raise InvalidArgumentError("give lower or after, not both")
                lower, sides = after, (False, sides[1])
        keys = self._ordered()
        wanted = key_range(lower, upper, sides, key_columns(self._schema, keys), keys)
        if wanted.nothing:
            return self._projected(columns).empty_table()
        low = self._bound(wanted.lower.values, "-")
        high = self._bound(wanted.upper.values, "+")
        shown = "[("[not wanted.lower.inclusive] + "])"[not wanted.upper.inclusive]
        return self._read_in_order(
            ["NB.RANGE", self.name, low, high, "INCLUSIVE", shown], columns, limit, reverse
        )

    def prefix(
        self,
        prefix: Key,
        *,
        columns: str | Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Returns the rows whose leading key columns equal ``prefix``, in key order.

        See :meth:`nimblepy.Table.prefix`.
        """
        keys = self._ordered()
        request = key_prefix(prefix, key_columns(self._schema, keys), keys)
        if request.nothing or any(not value.is_valid for value in request.values):
            return self._projected(columns).empty_table()
        text = key_text(request.values, self._types(keys[: len(request.values)]))
        starts = ["STARTS"] if request.starts_with else []
        return self._read_in_order(["NB.PREFIX", self.name, text, *starts], columns, limit, reverse)

    def _lookup(
        self, keys: Any, columns: Any, probe_row: str | None, is_first: bool = False
    ) -> pa.Table:
        schema = self._projected(columns)
        if probe_row is not None:
            if not isinstance(probe_row, str) or probe_row in schema.names:
                raise InvalidArgumentError(f"probe_row: expected a new name, got {probe_row!r}")
            schema = pa.schema([pa.field(probe_row, pa.int64(), nullable=False), *schema])
        texts = self._texts(keys, is_first)
        parts = []
        options = ["AS", "ARROW", "MISSING", "SKIP", *self._columns(columns)]
        if probe_row is not None:
            options += ["PROBE", probe_row]
        if not is_first:
            options += ["ALL"]
        for begin in range(0, len(texts), _KEYS_AT_ONCE):
            part = texts[begin : begin + _KEYS_AT_ONCE]
            asked = [text for text in part if text is not None]
            if not asked:
                continue
            reply = self._connection.ask("NB.MGET", self.name, *options, "KEYS", len(asked), *asked)
            rows = _read(reply)
            if probe_row is not None and (begin or len(asked) < len(part)):
                places = [begin + i for i, text in enumerate(part) if text is not None]
                taken = pa.chunked_array(
                    [pa.array(places, pa.int64()).take(rows[0].combine_chunks())]
                )
                rows = rows.set_column(0, rows.schema.field(0), taken)
            parts.append(rows)
        return pa.concat_tables([schema.empty_table(), *(_as(rows, schema) for rows in parts)])

    def _texts(self, keys: Any, is_one: bool = False) -> list[bytes | None]:
        """Returns the text of each key; ``None`` if no row can have the key."""
        if not self._key:
            raise IndexUnavailableError(f"{self.name}: it has no key")
        given = read_keys(keys)
        order = [SortKey(name) for name in self._key]
        columns: KeyColumns = key_columns(self._schema, order)
        values, usable = typed_keys(given, columns)
        types = self._types(order)
        return [
            key_text(row, types)
            if (usable is None or usable[i]) and all(value.is_valid for value in row)
            else None
            for i, row in enumerate(zip(*values, strict=True))
        ]

    def _ordered(self) -> list[SortKey]:
        if not self._cluster:
            raise IndexUnavailableError(f"{self.name}: the rows have no order")
        return self._cluster

    def _types(self, keys: Sequence[SortKey]) -> list[pa.DataType]:
        return [resolve_column(self._schema, key.column).type for key in keys]

    def _bound(self, values: Sequence[pa.Scalar], unbounded: str) -> str | bytes:
        if not values:
            return unbounded
        text = key_text(values, self._types(self._cluster[: len(values)]))
        return b"\\" + text if text in (b"-", b"+") else text

    def _projected(self, columns: Any) -> pa.Schema:
        if columns is None:
            return self._schema
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if name not in self._schema.names:
                raise InvalidArgumentError(f"no column {name!r} in {self.name}")
        return pa.schema([self._schema.field(name) for name in names])

    def _columns(self, columns: Any) -> list[str]:
        """Returns the COLS option. It lists all columns, because the server may have new ones."""
        names = self._projected(columns).names
        return ["COLS", str(len(names)), *names]

    def _read_in_order(
        self, command: list[str | bytes], columns: Any, limit: int | None, reverse: bool
    ) -> pa.Table:
        schema = self._projected(columns)
        most = row_limit(limit)
        options = ["AS", "ARROW", *self._columns(columns)]
        if most is not None:
            options += ["LIMIT", str(most)]
        if reverse:
            options += ["REVERSE"]
        _, rows = self._connection.ask(*command, *options)
        return _as(_read(rows), schema)

    def __repr__(self) -> str:
        return (
            f"<nimblepy.RemoteTable {self.name!r} of {self._connection.address}: "
            f"{self.num_rows:,} rows, {len(self._schema)} columns>"
        )


def _read(reply: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(reply)) as stream:
        return stream.read_all()


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Casts rows to the handle's types, because the server may have newer ones."""
    return rows if rows.schema.equals(schema) else rows.cast(schema)
