"""A client for the tables of a server, with methods of local tables."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import (
    ConflictError,
    IndexUnavailableError,
    InvalidArgumentError,
    NimbleError,
    ReplyTooLargeError,
    StaleFileError,
)
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.rows.arguments import (
    On,
    at_least,
    column_names,
    inclusive_sides,
    row_limit,
    row_offset,
)
from nimblepy.rows.as_numpy import numpy_columns, numpy_row
from nimblepy.rows.keys import GivenKeys, KeyColumns, key_columns, read_keys, typed_keys
from nimblepy.rows.page import Page
from nimblepy.rows.request import key_prefix, key_range
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.protocols import Key, ManyKeys
from nimblepy.schema.types import SortKey
from nimblepy.serving.filter_words import filter_words
from nimblepy.serving.key_text import NoKeyTextError, key_text
from nimblepy.serving.raw import CannotDecodeError, RawReader, read_arrow
from nimblepy.serving.resp_client import Connection, NoTableError, VersionChangedError

# Maximum number of keys in a command. By default, a server accepts at most 10,000.
_KEYS_AT_ONCE = 8192
# Maximum bytes of the keys of one command. Servers accept 8 MiB.
_KEY_BYTES_AT_ONCE = 1 << 20
# Rows of one command, if a read needs several: by default, servers answer at most 100,000.
_ROWS_AT_ONCE = 1 << 15
# How often a call is repeated because the server moved to another snapshot in the middle of it.
_ATTEMPTS = 5
# Seconds before another attempt if the server has not moved to another snapshot.
_PAUSE = 0.25

_MOST_ROWS = 1 << 62

_Answer = TypeVar("_Answer")
_Text = bytes | None


class RemoteLake:
    """The tables of a server. Thread-safe. As a context manager, it closes the connection."""

    def __init__(self, address: str, token: str | None, timeout: float | None) -> None:
        self._connection = Connection(address, token, timeout)

    @property
    def address(self) -> str:
        return self._connection.address

    def tables(self) -> list[str]:
        """Returns the names of the tables, as they appear in Redis keys."""
        with _replies_of(self._connection, "NB.TABLES"):
            return [name.decode() for name in self._connection.ask("NB.TABLES")]

    def table(self, name: str) -> RemoteTable:
        """Returns a handle on a table, by its name in Redis keys.

        Raises:
            InvalidArgumentError: the server has no table of this name.
        """
        try:
            return RemoteTable(self._connection, name)
        except ConflictError:
            names = ", ".join(self.tables()) or "no tables"
            raise InvalidArgumentError(
                f"there is no table {name!r}; the server has {names}"
            ) from None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise _no_attribute(self, name)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<nimblepy.RemoteLake {self.address}>"


class _OtherColumnsError(Exception):
    """The server's table has other columns than the handle knows."""


@dataclass(frozen=True)
class _Shown:
    """What the server said about a table."""

    meta: Mapping[str, Any]
    schema: pa.Schema
    key: list[str]
    cluster: list[SortKey]

    def has_columns_of(self, other: _Shown) -> bool:
        keys = self.key, self.cluster
        return self.schema.equals(other.schema) and keys == (other.key, other.cluster)


class RemoteTable:
    """A table of a server. Thread-safe.

    Each call is answered from one snapshot, the newest of the server when the call begins. Two
    calls may see different snapshots. If a call has too many keys or rows for one command, the
    handle sends several commands. If the server gets a new snapshot between two of them, the handle
    repeats the call, at most 5 times. If the columns of the table have changed, the handle reads
    them again and repeats the call.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._raw = RawReader(connection, name)
        self.name = name
        self.refresh()

    def refresh(self) -> RemoteTable:
        """Reads the columns, the keys and the snapshot from the server. Returns this handle.

        Raises:
            ConflictError: the server does not serve the table any more.
        """
        try:
            self._shown = self._asked()
        except NoTableError:
            raise self._dropped() from None
        return self

    def _dropped(self) -> ConflictError:
        return ConflictError(
            f"{self.name}: the server has no such table; it was dropped or renamed",
            kind="table",
        )

    def _asked(self) -> _Shown:
        with _replies_of(self._connection, "NB.META"):
            reply = self._connection.ask("NB.META", self.name)
            meta = {key.decode(): value for key, value in zip(reply[::2], reply[1::2], strict=True)}
            order = [entry.decode().split(" ") for entry in meta["cluster_order"]]
            cluster = [
                SortKey(
                    " ".join(words[2:]),
                    descending=words[0] == "desc",
                    nulls_first=words[1] == "first",
                )
                for words in order
            ]
            key = [name.decode() for name in meta["key"]]
            int(meta["rows"])
            meta["version"].decode()
        with _replies_of(self._connection, "NB.SCHEMA"):
            return _Shown(meta, self._asked_schema(), key, cluster)

    def _asked_schema(self) -> pa.Schema:
        """Returns the columns, but not unions and run-ends, which Arrow replies cannot have."""
        try:
            return read_arrow(self._connection.ask("NB.SCHEMA", self.name, "AS", "ARROW")).schema
        except InvalidArgumentError as error:
            if "cannot be sent as Arrow" not in str(error):
                raise
        fields = []
        for name, *_ in self._connection.ask("NB.SCHEMA", self.name):
            words = ["AS", "ARROW", "COLS", 1, name, "KEYS", 0]
            try:
                fields += read_arrow(self._connection.ask("NB.MGET", self.name, *words)).schema
            except InvalidArgumentError as error:
                if "cannot be sent as Arrow" not in str(error):
                    raise
        return pa.schema(fields)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise _no_attribute(self, name)

    # One attribute, because another thread may refresh the handle.
    @property
    def _meta(self) -> Mapping[str, Any]:
        return self._shown.meta

    @property
    def _schema(self) -> pa.Schema:
        return self._shown.schema

    @property
    def _key(self) -> list[str]:
        return self._shown.key

    @property
    def _cluster(self) -> list[SortKey]:
        return self._shown.cluster

    def _with_newest_columns(self, read: Callable[[], _Answer]) -> _Answer:
        """Calls ``read``. If the columns of the table have changed, reads them and calls it again.

        ``read`` must not consume an iterator of the caller.
        """
        for _ in range(_ATTEMPTS):
            before = self._shown
            try:
                return read()
            except ReplyTooLargeError:
                raise
            except NoTableError:
                raise self._dropped() from None
            except _OtherColumnsError:
                self.refresh()
            except InvalidArgumentError:  # it may name a column that is new to this handle
                self.refresh()
                if self._shown.has_columns_of(before):
                    raise
        raise StaleFileError(
            f"{self.name}: the table changed during each of {_ATTEMPTS} attempts; call again later"
        )

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
        self,
        key: Key,
        columns: Sequence[str] | None = None,
        *,
        on: On = None,
        default: Any = None,
        null_equals: bool = False,
        as_numpy: bool = False,
    ) -> dict[str, Any] | None:
        """Returns a row as a dict, or ``default`` if no row has the key.

        See :meth:`nimblepy.Table.get`.
        """
        self._refuse(on=on, null_equals=null_equals)
        names = column_names(columns)
        keys = read_keys([key])
        rows = self._with_newest_columns(
            lambda: self._with_members(
                names, lambda sent: self._lookup(keys, sent, None, is_first=True)
            )
        )
        if not rows.num_rows:
            return default  # type: ignore[no-any-return]
        return numpy_row(rows) if as_numpy else rows.slice(0, 1).to_pylist()[0]

    def _refuse(self, **arguments: Any) -> None:
        """Raises for arguments of local tables that servers do not support."""
        for name, value in arguments.items():
            if value is not None and value is not False:
                raise InvalidArgumentError(
                    f"{self.name}: a server does not support {name}=; it finds rows by the primary "
                    "key or the cluster key, and a null equals no key"
                )

    def lookup(
        self,
        keys: ManyKeys,
        *,
        on: On = None,
        columns: Sequence[str] | None = None,
        probe_row: str | None = None,
        null_equals: bool = False,
        missing: str = "drop",
        as_numpy: bool = False,
    ) -> pa.Table:
        """Returns all rows that match any of ``keys``. See :meth:`nimblepy.Table.lookup`.

        Cost: one command for every 8,192 keys or 1 MiB of keys, and more if the server answers
            that a reply would be too large.

        Raises:
            StaleFileError: the server got a new snapshot during each of 5 attempts.
        """
        self._refuse(on=on, null_equals=null_equals)
        if missing not in ("drop", "null"):
            raise InvalidArgumentError(f"missing: expected 'drop' or 'null', got {missing!r}")
        # An iterator can be read only once.
        given, names = read_keys(keys), column_names(columns)
        look_up = self._lookup if missing == "drop" else self._lookup_or_null

        def read() -> pa.Table:
            name = self._free_name(probe_row, names)
            rows = self._with_members(names, lambda sent: look_up(given, sent, name))
            if name == probe_row:
                return rows
            return rows.rename_columns([str(probe_row), *rows.schema.names[1:]])

        rows = self._with_newest_columns(read)
        return numpy_columns(rows) if as_numpy else rows

    def _free_name(self, probe_row: str | None, columns: Any) -> str | None:
        """Returns a name for ``probe_row`` that no column has, also none that is only sent."""
        if probe_row is None:
            return None
        schema = self._schema
        shown = schema.names
        if columns is not None:
            shown = [resolve_column(schema, name).name for name in columns]
        if not isinstance(probe_row, str) or probe_row in shown:
            raise InvalidArgumentError(f"probe_row: expected a new name, got {probe_row!r}")
        name = probe_row
        while name in schema.names:
            name += "#"
        return name

    def _lookup_or_null(self, given: GivenKeys, columns: Any, probe_row: str | None) -> pa.Table:
        """The rows of each key, and a row of nulls for a key without rows."""
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

    def contains(
        self, keys: ManyKeys, *, on: On = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        """Returns for each key whether any row has the key."""
        return pc.greater(self.count(keys, on=on, null_equals=null_equals), 0)

    def count(self, keys: ManyKeys, *, on: On = None, null_equals: bool = False) -> pa.Int64Array:
        """Returns for each key the number of rows that have the key."""
        self._refuse(on=on, null_equals=null_equals)

        def ask(at: list[str], _: int, part: Sequence[_Text]) -> list[int]:
            asked = [text for text in part if text is not None]
            if not asked:
                return [0] * len(part)
            answers = iter(self._connection.ask(*at, "NB.COUNT", self.name, *asked))
            return [0 if text is None else next(answers) for text in part]

        given = read_keys(keys)
        counts = self._with_newest_columns(lambda: self._in_parts(self._texts(given), ask))
        return pa.array([count for part in counts for count in part], pa.int64())

    def range(
        self,
        lower: Key = None,
        upper: Key = None,
        *,
        on: On = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        after: Key = None,
        offset: int = 0,
        filter: Filter = None,
        params: Parameters = None,
        accept: str = "auto",
    ) -> pa.Table:
        """Returns the rows between two bounds, in key order. See :meth:`nimblepy.Table.range`.

        Args:
            filter, params: return only rows that pass this filter over columns of the cluster key;
                see :meth:`nimblepy.Table.scan`. The server evaluates it before it reads other
                columns.
            accept: the form in which the server sends the rows. ``"arrow"``: decoded, as Arrow.
                ``"raw"``: as the encoded blocks of its files, which this process decodes. The
                server does so for at least 512 neighbouring rows of a file, if the columns are not
                nested and have not changed since the file was written. It sends other rows as
                Arrow. Blocks take less time of the server and fewer bytes, and more time of this
                process. ``"auto"``: ``"raw"`` for a server on another machine, otherwise
                ``"arrow"``.
        """
        self._refuse(on=on)
        names, skipped = column_names(columns), row_offset(offset)
        most = None if limit is None else at_least("limit", limit, 0) + skipped

        def read() -> pa.Table:
            command = self._command_from(lower, upper, inclusive, reverse, after)
            words = self._filter(filter, params)
            return self._with_members(
                names,
                lambda sent: self._read_in_order(command, words, sent, most, reverse, accept),
            )

        return self._with_newest_columns(read).slice(skipped)

    def _command_from(
        self, lower: Key, upper: Key, inclusive: str, reverse: bool, after: Key
    ) -> list[str | bytes] | None:
        sides = inclusive_sides(inclusive)
        if after is not None:
            if isinstance(after, Mapping):
                row: Mapping[Any, object] = after
                names = [key.column for key in self._ordered()]
                absent = [name for name in names if name not in row]
                if absent:
                    raise InvalidArgumentError(
                        f"after: the row has no {absent[0]!r}; expected the cluster key "
                        f"({', '.join(map(str, names))})"
                    )
                after = tuple(row[name] for name in names)
            if reverse:
                if upper is not None:
                    raise InvalidArgumentError("give upper or after, not both")
                upper, sides = after, (sides[0], False)
            else:
                if lower is not None:
                    raise InvalidArgumentError("give lower or after, not both")
                lower, sides = after, (False, sides[1])
        return self._range_command(lower, upper, sides)

    def prefix(
        self,
        prefix: Key,
        *,
        on: On = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        offset: int = 0,
        null_equals: bool = False,
        filter: Filter = None,
        params: Parameters = None,
        accept: str = "auto",
    ) -> pa.Table:
        """Returns the rows whose leading key columns equal ``prefix``, in key order.

        See :meth:`nimblepy.Table.prefix`, and :meth:`range` for ``filter`` and ``accept``.
        """
        self._refuse(on=on, null_equals=null_equals)
        names, skipped = column_names(columns), row_offset(offset)
        most = None if limit is None else at_least("limit", limit, 0) + skipped

        def read() -> pa.Table:
            command = self._prefix_command(prefix)
            words = self._filter(filter, params)
            return self._with_members(
                names,
                lambda sent: self._read_in_order(command, words, sent, most, reverse, accept),
            )

        return self._with_newest_columns(read).slice(skipped)

    def page(
        self,
        prefix: Key = None,
        *,
        lower: Key = None,
        upper: Key = None,
        on: On = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int = 200,
        reverse: bool = False,
        filter: Filter = None,
        params: Parameters = None,
        token: str | None = None,
    ) -> Page:
        """Returns one page of rows in key order. See :meth:`nimblepy.Table.page`.

        ``filter`` is as for :meth:`range`; give the same for all pages.

        The server signs the page tokens. Servers that have the same ``token`` for clients accept
        the page tokens of each other, even after a restart. Without a ``token``, page tokens are
        valid until the server stops. If a reply would be too large, the page has fewer rows than
        ``limit``.
        """
        self._refuse(on=on)
        names, most = column_names(columns), at_least("limit", limit, 1)
        if token is not None and (not isinstance(token, str) or not token):
            raise InvalidArgumentError(
                f"page: token {token!r} is damaged; begin again without a token"
            )
        if prefix is not None and (lower is not None or upper is not None):
            raise InvalidArgumentError("give prefix or bounds, not both")

        def read() -> Page:
            if prefix is None:
                command = self._range_command(lower, upper, inclusive_sides(inclusive))
            else:
                command = self._prefix_command(prefix)
            following: list[Page] = []

            def read_rows(sent: list[str] | None) -> pa.Table:
                schema = self._projected(sent)
                if command is None:
                    following.append(Page(schema.empty_table(), None))
                else:
                    words = [*self._filter(filter, params), "AS", "ARROW", *self._columns(sent)]
                    shown = [*command, *words, *["REVERSE"][: int(reverse)]]
                    page = self._read_page(shown, schema, most, token, filter is not None)
                    following.append(page)
                return following[-1].rows

            rows = self._with_members(names, read_rows)
            return replace(following[-1], rows=rows)

        return self._with_newest_columns(read)

    def _read_page(
        self,
        command: list[str | bytes],
        schema: pa.Schema,
        left: int,
        token: str | None,
        is_filtered: bool,
    ) -> Page:
        has_moved = False
        while True:
            try:
                following, reply, moved = self._connection.ask(
                    *command, "LIMIT", str(left), "PAGE", token or ""
                )
                rows, has_moved = read_arrow(reply), has_moved or bool(moved)
                # The server tests a limited number of rows at a time.
                if rows.num_rows or following is None or not is_filtered:
                    break
                token = following.decode()
            except ReplyTooLargeError:
                if left == 1:
                    raise
                left = min(left, _ROWS_AT_ONCE) // 2
        text = None if following is None else following.decode()
        return Page(_shown_as(rows, schema), text, has_moved)

    def _range_command(
        self, lower: Key, upper: Key, sides: tuple[bool, bool]
    ) -> list[str | bytes] | None:
        """The command for a range; ``None`` if no row can be in it."""
        keys = self._ordered()
        wanted = key_range(lower, upper, sides, key_columns(self._schema, keys), keys)
        if wanted.nothing:
            return None
        low = self._bound(wanted.lower.values, "-")
        high = self._bound(wanted.upper.values, "+")
        shown = "[("[not wanted.lower.inclusive] + "])"[not wanted.upper.inclusive]
        return ["NB.RANGE", self.name, low, high, "INCLUSIVE", shown]

    def _filter(self, filter: Filter, params: Parameters) -> list[str | bytes]:
        """The option of a command that filters its rows."""
        bound = with_params(filter, params)
        if bound is None:
            return []
        paths = [resolve_column(self._schema, key.column).path for key in self._ordered()]
        keys = [path[0] for path in paths if len(path) == 1]
        return ["FILTER", *filter_words(bound, self._schema, keys)]

    def _prefix_command(self, prefix: Key) -> list[str | bytes] | None:
        """The command for a prefix; ``None`` if no row can have it."""
        keys = self._ordered()
        request = key_prefix(prefix, key_columns(self._schema, keys), keys)
        if not request.nothing and not request.values:
            return self._range_command(None, None, (True, False))
        if request.nothing or any(not value.is_valid for value in request.values):
            return None
        try:
            text = key_text(request.values, self._types(keys[: len(request.values)]))
        except NoKeyTextError:
            return None
        return ["NB.PREFIX", self.name, text, *["STARTS"][: int(request.starts_with)]]

    def _lookup(
        self, keys: Any, columns: Any, probe_row: str | None, is_first: bool = False
    ) -> pa.Table:
        schema = self._projected(columns)
        if probe_row is not None:
            schema = pa.schema([pa.field(probe_row, pa.int64(), nullable=False), *schema])
        # Concatenating Arrow tables without columns loses the number of rows.
        name = "#" if probe_row is None and not schema.names else probe_row
        sent = ["AS", "ARROW", "MISSING", "SKIP", *self._columns(columns)]
        if name is not None:
            sent += ["PROBE", name]
        if not is_first:
            sent += ["ALL"]

        def ask(at: list[str], begin: int, part: Sequence[_Text]) -> pa.Table | None:
            asked = [text for text in part if text is not None]
            if not asked:
                return None
            words: list[str | bytes] = ["NB.MGET", self.name, *sent, "KEYS", str(len(asked))]
            words += asked
            try:
                rows = read_arrow(self._connection.ask(*at, *words))
            except ReplyTooLargeError:
                if is_first or len(part) > 1 or self._key != [key.column for key in self._cluster]:
                    raise
                rows = self._rows_of_key(at, asked[0], columns)
                if name is not None:
                    field = pa.field(name, pa.int64(), nullable=False)
                    places = pa.repeat(pa.scalar(begin, pa.int64()), rows.num_rows)
                    arrays = [places, *rows.columns]
                    rows = pa.table(arrays, schema=pa.schema([field, *rows.schema]))
                return rows
            if name is not None and (begin or len(asked) < len(part)):
                places = [begin + i for i, text in enumerate(part) if text is not None]
                taken = pa.chunked_array(
                    [pa.array(places, pa.int64()).take(rows[0].combine_chunks())]
                )
                rows = rows.set_column(0, rows.schema.field(0), taken)
            return rows

        answers = self._in_parts(self._texts(keys, is_first), ask)
        parts = [rows for rows in answers if rows is not None]
        if name != probe_row:
            return _without_columns(sum(rows.num_rows for rows in parts))
        return pa.concat_tables(
            [schema.empty_table(), *(_shown_as(rows, schema) for rows in parts)]
        )

    def _rows_of_key(self, at: list[str], text: bytes, columns: Any) -> pa.Table:
        """Reads the rows of a cluster key page by page."""
        command: list[str | bytes] = ["NB.PREFIX", self.name, text, "AS", "ARROW"]
        command += self._columns(columns)
        schema = self._projected(columns)
        return self._read_pages(at or self._at_this_version(), command, schema, None, "ARROW")

    def _in_parts(
        self,
        texts: Sequence[_Text],
        ask: Callable[[list[str], int, Sequence[_Text]], _Answer],
    ) -> list[_Answer]:
        """Returns the answers to parts of the keys, in order, all from one snapshot.

        ``ask(at, begin, part)`` sends one command for ``part``, which begins at key ``begin``.
        ``at`` are the words before the command.
        """

        def read(at: list[str]) -> list[_Answer]:
            answers: list[_Answer] = []
            begin, most = 0, _KEYS_AT_ONCE
            while begin < len(texts):
                part = texts[begin : begin + _number_of(texts, begin, most)]
                if not at and len(part) < len(texts):
                    at = self._at_this_version()
                try:
                    answers.append(ask(at, begin, part))
                except ReplyTooLargeError:
                    if len(part) == 1:
                        raise
                    most = len(part) // 2
                    continue
                begin += len(part)
            return answers

        return self._of_one_snapshot(read)

    def _of_one_snapshot(self, read: Callable[[list[str]], _Answer]) -> _Answer:
        """Calls ``read`` until all of its commands found the same snapshot.

        Raises:
            FileNotFoundError: a file is missing, and the server does not move to another snapshot.
            StaleFileError: the table changed during each attempt.
        """
        versions: list[str] = []  # with a missing file
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return read([])
            except StaleFileError as error:
                if not isinstance(error, VersionChangedError):
                    versions.append(self._at_this_version()[1])
                    if attempt < _ATTEMPTS and versions[-1] == versions[0]:
                        time.sleep(_PAUSE)
                if attempt < _ATTEMPTS:
                    continue
                if len(versions) == _ATTEMPTS and len(set(versions)) == 1:
                    raise FileNotFoundError(
                        errno.ENOENT,
                        f"{self.name}: {error}; the server has had the same snapshot for "
                        f"{_ATTEMPTS} attempts; look for the missing file with nimble verify",
                    ) from error
                raise StaleFileError(
                    f"{self.name}: {_ATTEMPTS} attempts failed: {error}; if one call sends many "
                    "commands, read less at once"
                ) from error
        raise AssertionError("the loop returns or raises")

    def _at_this_version(self) -> list[str]:
        """Arguments that make a later command fail if the table has changed since."""
        reply = self._connection.ask("NB.META", self.name)
        meta = dict(zip(reply[::2], reply[1::2], strict=True))
        return ["NB.AT", meta[b"version"].decode()]

    def _texts(self, keys: Any, is_one: bool = False) -> list[bytes | None]:
        """Returns the text of each key; ``None`` if no row can have the key."""
        if not self._key:
            raise IndexUnavailableError(f"{self.name}: there is no primary key and no cluster key")
        given = read_keys(keys)
        if not len(given.columns[0]):
            return []
        if given.width < len(self._key):
            raise InvalidArgumentError(
                f"keys: got {given.width} of the {len(self._key)} key columns "
                f"{', '.join(self._key)}; expected all of them; to search by the first columns, "
                "call prefix()"
            )
        order = [SortKey(name) for name in self._key]
        columns: KeyColumns = key_columns(self._schema, order)
        values, usable = typed_keys(given, columns)
        types = self._types(order)

        def text_of(row: tuple[pa.Scalar, ...]) -> bytes | None:
            try:
                return key_text(row, types) if all(value.is_valid for value in row) else None
            except NoKeyTextError:
                return None

        return [
            text_of(row) if usable is None or usable[i] else None
            for i, row in enumerate(zip(*values, strict=True))
        ]

    def _ordered(self) -> list[SortKey]:
        if not self._cluster:
            raise IndexUnavailableError(
                f"{self.name}: there is no cluster key, so rows are unordered"
            )
        return self._cluster

    def _types(self, keys: Sequence[SortKey]) -> list[pa.DataType]:
        return [resolve_column(self._schema, key.column).type for key in keys]

    def _bound(self, values: Sequence[pa.Scalar], unbounded: str) -> str | bytes:
        if not values:
            return unbounded
        text = key_text(values, self._types(self._cluster[: len(values)]))
        return b"\\" + text if text in (b"-", b"+") else text

    def _with_members(self, columns: Any, read: Callable[[list[str] | None], pa.Table]) -> pa.Table:
        """Returns the columns of a result, which may be members of structs.

        ``read(names)`` reads top-level columns: servers send whole columns only.
        """
        if columns is None:
            return read(None)
        schema = self._schema
        asked = [resolve_column(schema, name) for name in columns]
        sent = list(dict.fromkeys(column.path[0] for column in asked))
        rows = read(sent)
        if all(len(column.path) == 1 for column in asked):
            return rows
        if any(not rows.schema.field(name).type.equals(schema.field(name).type) for name in sent):
            raise _OtherColumnsError  # another thread refreshed the handle
        fields = [field for field in rows.schema if field.name not in sent]
        arrays = [rows[field.name] for field in fields]
        for column in asked:
            top, *members = column.path
            array = rows[top]
            for member in members:
                array = pc.struct_field(array, member)
            field = pa.field(column.name, column.type) if members else rows.schema.field(top)
            fields.append(field)
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _projected(self, columns: Any) -> pa.Schema:
        if columns is None:
            return self._schema
        for name in columns:
            if name not in self._schema.names:
                raise InvalidArgumentError(f"no column {name!r} in {self.name}")
        return pa.schema([self._schema.field(name) for name in columns])

    def _columns(self, columns: Any) -> list[str]:
        """Returns the COLS option. Without it, the server sends all columns of its snapshot."""
        return [] if columns is None else ["COLS", str(len(columns)), *columns]

    def _read_in_order(
        self,
        command: list[str | bytes] | None,
        filter: list[str | bytes],
        columns: Any,
        limit: int | None,
        reverse: bool,
        accept: str,
    ) -> pa.Table:
        schema, most = self._projected(columns), row_limit(limit)
        if accept not in ("auto", "arrow", "raw"):
            raise InvalidArgumentError(f"accept: expected 'auto', 'arrow' or 'raw', got {accept!r}")
        if command is None:
            return schema.empty_table()
        version = self._meta["version"].decode()
        is_raw = accept == "raw" or (accept == "auto" and not self._connection.is_local)
        shown = [*filter, *self._columns(columns), *["REVERSE"][: int(reverse)]]

        def read_as(form: str) -> pa.Table:
            options = ["AS", form, *shown]
            limits = [] if most is None else ["LIMIT", str(most)]
            # Encoded blocks do not name their columns, so require the version that is known here.
            at = ["NB.AT", version] if form == "RAW" and columns is None else []
            try:
                try:
                    _, rows = self._connection.ask(*at, *command, *options, *limits)
                    return self._rows_of(rows, schema, form)
                except ReplyTooLargeError:
                    pinned = at or self._at_this_version()
                    return self._read_pages(pinned, [*command, *options], schema, most, form)
            except VersionChangedError:
                if at:
                    raise _OtherColumnsError from None
                raise

        def read(_: list[str]) -> pa.Table:
            if is_raw:
                try:
                    return read_as("RAW")
                except CannotDecodeError:
                    pass
            return read_as("ARROW")

        return self._of_one_snapshot(read)

    def _rows_of(self, reply: bytes, schema: pa.Schema, form: str) -> pa.Table:
        if form == "ARROW":
            return _shown_as(read_arrow(reply), schema)
        return self._raw.rows(reply, schema)

    def _read_pages(
        self,
        at: list[str],
        command: list[str | bytes],
        schema: pa.Schema,
        limit: int | None,
        form: str,
    ) -> pa.Table:
        """Reads rows of one snapshot page by page, because one reply cannot hold them."""
        parts = [schema.empty_table()]
        token: bytes | None = b""
        left, at_once = _MOST_ROWS if limit is None else limit, _ROWS_AT_ONCE
        while token is not None and left:
            asked = min(left, at_once)
            try:
                token, rows, _ = self._connection.ask(
                    *at, *command, "LIMIT", str(asked), "PAGE", token
                )
            except ReplyTooLargeError:
                if asked == 1:
                    raise
                at_once = asked // 2
                continue
            parts.append(self._rows_of(rows, schema, form))
            left -= parts[-1].num_rows
        if not schema.names:
            return _without_columns(sum(part.num_rows for part in parts))
        return pa.concat_tables(parts)

    def __repr__(self) -> str:
        return (
            f"<nimblepy.RemoteTable {self.name!r} of {self._connection.address}: "
            f"{self.num_rows:,} rows, {len(self._schema)} columns>"
        )


@contextmanager
def _replies_of(connection: Connection, command: str) -> Iterator[None]:
    """Raises ConnectionError if a reply is not the reply to ``command`` of a server."""
    try:
        yield
    except NimbleError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConnectionError(
            f"{connection.address}: expected the reply of a nimblepy server to {command}: {error!r}"
        ) from error


def _no_attribute(handle: RemoteLake | RemoteTable, name: str) -> AttributeError:
    kind = type(handle).__name__
    public = ", ".join(name for name in vars(type(handle)) if not name.startswith("_"))
    return AttributeError(
        f"{kind!r} object has no attribute {name!r}: tables of a server are read-only, and have "
        f"fewer methods than local ones; open the lake itself. {kind} has {public}",
        name=name,
        obj=handle,
    )


def _shown_as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns rows with the handle's types.

    Raises:
        _OtherColumnsError: the server has other columns.
    """
    if rows.schema.names != schema.names or rows.schema.types != schema.types:
        raise _OtherColumnsError
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _without_columns(count: int) -> pa.Table:
    return pa.table({"#": pa.nulls(count)}).select([])


def _number_of(texts: Sequence[_Text], begin: int, most: int) -> int:
    """Number of keys from ``begin`` on for one command: at least 1."""
    held = 0
    for number, text in enumerate(texts[begin : begin + most]):
        held += 0 if text is None else len(text)
        if held > _KEY_BYTES_AT_ONCE and number:
            return number
    return min(most, len(texts) - begin)
