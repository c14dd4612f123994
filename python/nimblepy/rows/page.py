"""Pages of an ordered read. A token says after which row the next page begins.

A token has the key of the last row, and the number of returned rows with this key. So the next
page begins at the right row even if the files have changed. Tokens of local handles have a
checksum, not a signature: a caller that has the handle may read all rows anyway.
"""

from __future__ import annotations

import base64
import decimal
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import Projected
from nimblepy.rows.key_bounds import TypedBound
from nimblepy.rows.request import KeyRange, Ordered, Prefix
from nimblepy.rows.source import RowSource
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey

_CHECKSUM_BYTES = 8
_MOST_ROWS_OF_KEY = 1 << 62


@dataclass(frozen=True, slots=True)
class Page:
    """A page of rows in key order.

    Attributes:
        rows: the rows.
        next: the token of the next page; ``None`` if this is the last page.
        moved: whether the rows are from another snapshot than those of the page before.
    """

    rows: pa.Table
    next: str | None
    moved: bool = False


def read_page(
    source: RowSource,
    request: Ordered,
    columns: Projected,
    *,
    limit: int,
    reverse: bool,
    token: str | None,
    state: str,
) -> Page:
    """Reads the page after ``token``, or the first one.

    Args:
        state: identifies the snapshot of the source.
    """
    schema = source.projected(columns)
    paths = [resolve_column(source.schema, key.column).path for key in request.keys]
    if request.nothing:
        return Page(source.projected(columns).empty_table(), None)
    # The key of the last row is needed, even if the caller did not ask for its columns.
    names = None if columns is None else list(columns)
    if names is not None:
        for path in paths:
            if path[0] not in schema.names and path[0] not in names:
                names.append(path[0])
    needed = None if names is None else tuple(names)
    identity = _identity(request, reverse)
    before = None if token is None else _Position.read(token, identity, request.keys, source.schema)
    if before is None:
        rows = source.read_in_order(request, needed, limit=limit + 1, reverse=reverse, offset=0)
    else:
        rows = _rows_behind(source, request, before, needed, limit + 1, reverse)
    moved = before is not None and before.state != state
    kept = rows.slice(0, limit)
    following = None
    if rows.num_rows > limit:
        keys = [_values_of(kept, path) for path in paths]
        last = _key_at(keys, limit - 1)
        count = 1
        while count < limit and _key_at(keys, limit - 1 - count) == last:
            count += 1
        if count == limit and before is not None and before.key == last:
            count += before.rows_of_key
        following = _Position(state, count, last).text(identity)
    return Page(kept.select(range(len(schema))), following, moved)


@dataclass(frozen=True, slots=True)
class _Position:
    """The end of a page."""

    state: str
    rows_of_key: int
    key: list[Any]  # as JSON types, see _plain()

    def text(self, identity: str) -> str:
        fields = [identity, self.state, self.rows_of_key, self.key]
        body = json.dumps(fields, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")

    @staticmethod
    def read(token: str, identity: str, keys: Sequence[SortKey], schema: pa.Schema) -> _Position:
        try:
            held = base64.b64decode(
                token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
            )
            body = held[_CHECKSUM_BYTES:]
            if held[:_CHECKSUM_BYTES] != _checksum(body):
                raise ValueError("the checksum is wrong")
            of, state, rows_of_key, key = json.loads(body)
            if type(rows_of_key) is not int or not 0 < rows_of_key < _MOST_ROWS_OF_KEY:
                raise ValueError("a wrong number of rows")
            if of == identity:  # the key has these columns
                for value, column in zip(key, keys, strict=True):
                    _scalar(value, resolve_column(schema, column.column).type)
        except (
            *(AttributeError, TypeError, ValueError, OverflowError, RecursionError),
            *(pa.ArrowException, decimal.DecimalException),
        ):
            raise InvalidArgumentError(
                f"page: token {token!r} is damaged; begin again without a token"
            ) from None
        if of != identity:
            raise InvalidArgumentError(
                "page: the token belongs to other bounds or another key; give the bounds of the "
                "first page"
            )
        return _Position(state, rows_of_key, key)


def _rows_behind(
    source: RowSource,
    request: Ordered,
    before: _Position,
    columns: Projected,
    limit: int,
    reverse: bool,
) -> pa.Table:
    """Reads the other rows with the last key, then the rows with later keys."""
    types = [resolve_column(source.schema, key.column).type for key in request.keys]
    key = tuple(_scalar(value, type) for value, type in zip(before.key, types, strict=True))
    equal = KeyRange(request.keys, TypedBound(key, True), TypedBound(key, True))
    rows = source.read_in_order(
        equal, columns, limit=limit, reverse=reverse, offset=before.rows_of_key
    )
    if rows.num_rows == limit:
        return rows
    if isinstance(request, Prefix):
        shared = request.values[:-1] if request.starts_with else request.values
        lower = upper = TypedBound(shared, True)
    else:
        lower, upper = request.lower, request.upper
    if reverse:
        upper = TypedBound(key, False)
    else:
        lower = TypedBound(key, False)
    later = source.read_in_order(
        KeyRange(request.keys, lower, upper),
        columns,
        limit=limit - rows.num_rows,
        reverse=reverse,
        offset=0,
    )
    if isinstance(request, Prefix) and request.starts_with:
        place = len(request.values) - 1
        path = resolve_column(source.schema, request.keys[place].column).path
        later = later.slice(0, _number_with_start(_values_of(later, path), request.values[-1]))
    return pa.concat_tables([rows, later]) if rows.num_rows else later


def _number_with_start(values: pa.ChunkedArray, start: pa.Scalar) -> int:
    """Number of values at the front that begin with ``start``. They are in key order."""
    pattern = start.as_py()
    if isinstance(pattern, bytes):
        values = values.cast(pa.large_binary())
    begins = pc.fill_null(pc.starts_with(values, pattern), False)
    first_other = pc.index(begins, False).as_py()
    return len(values) if first_other < 0 else int(first_other)


def _values_of(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    values = rows[path[0]]
    for name in path[1:]:
        values = pc.struct_field(values, name)
    if isinstance(values.type, pa.DictionaryType):
        values = values.cast(values.type.value_type)
    return values


def _key_at(keys: Sequence[pa.ChunkedArray], row: int) -> list[Any]:
    return [_plain(values[row]) for values in keys]


def _plain(value: pa.Scalar) -> Any:
    """Converts a value to JSON types without loss. Equal keys give equal results."""
    if not value.is_valid:
        return None
    type = value.type
    if isinstance(value, pa.ExtensionScalar):
        return _plain(value.value)
    if pa.types.is_temporal(type):
        return value.value
    if pa.types.is_floating(type):
        return repr(float(value.as_py()) + 0.0)  # -0.0 and 0.0 are equal keys
    if pa.types.is_decimal(type):
        return str(value.as_py())
    held = value.as_py()
    return held.hex() if isinstance(held, bytes) else held


def _scalar(plain: Any, type: pa.DataType) -> pa.Scalar:
    """The reverse of :func:`_plain`."""
    if isinstance(type, pa.DictionaryType):
        type = type.value_type
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if plain is None:
        return pa.scalar(None, type)
    if pa.types.is_temporal(type):
        width = pa.int32() if type.bit_width == 32 else pa.int64()
        return pa.array([plain], width).view(type)[0]
    if pa.types.is_floating(type):
        return pa.scalar(float(plain), pa.float64()).cast(type)
    if pa.types.is_decimal(type):
        return pa.scalar(decimal.Decimal(plain), type)
    if isinstance(plain, str) and not _is_text(type):
        plain = bytes.fromhex(plain)
    return pa.scalar(plain, type)


def _is_text(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)
    )


def _identity(request: Ordered, reverse: bool) -> str:
    """Returns a hash of the arguments that all pages of one request share."""
    if isinstance(request, Prefix):
        bounds: list[Any] = [[_plain(value) for value in request.values], request.starts_with]
    else:
        bounds = [
            [[_plain(value) for value in bound.values], bound.inclusive]
            for bound in (request.lower, request.upper)
        ]
    keys = [[str(key.column), key.descending, key.nulls_first] for key in request.keys]
    kind = type(request).__name__
    return hashlib.sha256(json.dumps([kind, keys, bounds, reverse]).encode()).hexdigest()[:16]


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:_CHECKSUM_BYTES]
