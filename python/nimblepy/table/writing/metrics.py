"""Collects the statistics of a file's columns by field id, for manifests.

Bounds follow Iceberg: they exclude nulls and NaN, and texts are truncated to a few characters. In a
truncated upper bound the last possible character is incremented. If that is impossible, there is no
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.kinds import is_list
from nimblepy.schema.plain import plain_array, plain_type
from nimblepy.schema.values import successor
from nimblepy.schema.variant import is_variant
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Metrics
from nimblepy.table.base.values import internal_value

# Maximum characters of a text bound, and maximum bytes of a binary bound.
BOUND_LENGTH = 16
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class MetricsCollector:
    """Collects the statistics of rows while they are written.

    Cost: one pass over the columns of each batch.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._values: dict[int, int] = {}
        self._nulls: dict[int, int] = {}
        self._nans: dict[int, int] = {}
        self._ends: dict[int, tuple[pa.DataType, pa.Scalar, pa.Scalar]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        for field, column in zip(self._schema, batch.columns, strict=True):
            for leaf, values, bounded in _leaves(field, column):
                self._add(leaf, values, bounded)

    def _add(self, field: pa.Field, values: pa.Array, bounded: bool) -> None:
        number = field_id_of(field)
        if number is None:
            return
        kind = field.type
        self._values[number] = self._values.get(number, 0) + len(values)
        self._nulls[number] = self._nulls.get(number, 0) + values.null_count
        if pt.is_floating(kind):
            nan = pc.is_nan(values)
            count = pc.sum(nan).as_py() or 0
            self._nans[number] = self._nans.get(number, 0) + count
            if count:
                values = values.filter(pc.invert(nan))
        bounded = bounded and not is_variant(field)
        if not bounded or pt.is_nested(kind) or values.null_count == len(values):
            return
        values, kind = plain_array(values), plain_type(kind)  # UUIDs become their bytes
        ends = pc.min_max(values.cast(pa.binary()) if pt.is_fixed_size_binary(kind) else values)
        least, greatest = ends["min"], ends["max"]
        bounds = self._ends.get(number)
        if bounds is not None:
            both = pc.min_max(pa.array([bounds[1], bounds[2], least, greatest], least.type))
            least, greatest = both["min"], both["max"]
        self._ends[number] = kind, least, greatest

    def result(self) -> Metrics:
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for number, (kind, least, greatest) in self._ends.items():
            lower[number] = _lower(kind, least)
            above = _upper(kind, greatest)
            if above is not None:
                upper[number] = above
        return Metrics(
            values=self._values, nulls=self._nulls, nans=self._nans, lower=lower, upper=upper
        )


def _leaves(field: pa.Field, column: pa.Array) -> Iterator[tuple[pa.Field, pa.Array, bool]]:
    """Yields columns with values, below structs, lists and maps. Columns in lists have no bounds.

    The field ids are those of ``field``; the rows may have none.
    """
    kind = field.type
    if pt.is_struct(kind):
        for i, child in enumerate(column.flatten()):
            yield from _leaves(kind.field(i), child)
    elif is_list(kind):
        for leaf, values, _ in _leaves(kind.value_field, column.flatten()):
            yield leaf, values, False
    elif pt.is_map(kind):
        pairs = pa.struct([column.type.key_field, column.type.item_field])
        entries = column.cast(pa.list_(pairs)).flatten()
        for part, values in zip((kind.key_field, kind.item_field), entries.flatten(), strict=True):
            for leaf, inner, _ in _leaves(part, values):
                yield leaf, inner, False
    else:
        yield field, column, True


def _lower(kind: pa.DataType, scalar: pa.Scalar) -> bytes:
    value = internal_value(kind, scalar)
    if isinstance(value, (str, bytes)):
        value = value[:BOUND_LENGTH]
    return ice.bound_bytes(kind, value)


def _upper(kind: pa.DataType, scalar: pa.Scalar) -> bytes | None:
    value: Any = internal_value(kind, scalar)
    if isinstance(value, str) and len(value) > BOUND_LENGTH:
        value = raised(value[:BOUND_LENGTH])
    elif isinstance(value, bytes) and len(value) > BOUND_LENGTH:
        value = successor(value[:BOUND_LENGTH])
    return None if value is None else ice.bound_bytes(kind, value)


def raised(text: str) -> str | None:
    """Returns the smallest text above all texts that begin with ``text``.

    ``None`` if there is no such text.
    """
    for at in range(len(text) - 1, -1, -1):
        code = ord(text[at])
        if code < _LAST_CHARACTER:
            code += 1
            if code in _SURROGATES:
                code = _SURROGATES.stop
            return text[:at] + chr(code)
    return None
