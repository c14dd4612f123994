"""Values of columns as coordinates from 0 to 1, and coordinates as places on one curve."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import Path
from nimblepy.table.base.transforms import column_at
from nimblepy.table.otree.layouts import OTree, Transform, ZOrder, transform_of
from nimblepy.table.otree.stretches import CELLS, MANY, edges_below
from nimblepy.table.otree.tree import BITS, Places, mixed

Floats = np.ndarray[Any, np.dtype[np.float64]]

# Rows from which the space of a commit is found.
SPACE_ROWS = 1 << 16
_KNOTS = 256
# Rows that lie no further than this from those before have their space.
_MOST_DRIFT = 0.05
# Bytes that all texts of a column may begin with, and that are left out.
_LONGEST_PREFIX = 64
_MOST_HASHED = 64
_CHUNK = 10


@dataclass(frozen=True)
class Axis:
    """How the values of one column become coordinates.

    Attributes:
        column: field id.
        prefix: what texts begin with; the next bytes tell them apart.
        knots, ranks: numbers, ascending, and the coordinates that they have.
        nulls: the part of the axis, from 0, that nulls have.
    """

    column: int
    transform: Transform
    knots: Floats
    ranks: Floats
    prefix: bytes = b""
    nulls: float = 0.0

    def coordinates(self, values: pa.Array) -> Floats:
        """From 0 to 1; nulls at 0, NaN at 1."""
        if self.transform == "hash":
            found = _hashed(values) / 2.0**64
        else:
            numbers = _numbers(values, self.prefix)
            found = interpolated(numbers, self.knots, self.ranks)
            found[np.isnan(numbers)] = 1.0
        if self.nulls:
            found = self.nulls + (1.0 - self.nulls) * found
        if values.null_count:
            found[values.is_null().to_numpy(zero_copy_only=False)] = 0.0
        return found


@dataclass(frozen=True)
class Space:
    """The axes of a tree or curve. Rows of one space have comparable places."""

    axes: tuple[Axis, ...]

    def places(self, table: pa.Table) -> Places:
        """The place of each row, of ``tree.BITS`` bits."""
        return interleaved(self.coordinates(table))

    def coordinates(self, table: pa.Table) -> list[Floats]:
        """The coordinates of each row, axis by axis."""
        paths = {field_id_at(table.schema, (name,)): (name,) for name in table.schema.names}
        return [
            axis.coordinates(table.column(paths[axis.column][0]).combine_chunks())
            for axis in self.axes
        ]

    def drift(self, table: pa.Table) -> float:
        """How far rows are from those that the space was made of: 0 not at all, 1 wholly.

        It is the greatest difference between the part of the rows that lies below a place of an
        axis and the part that should.
        """
        found = 0.0
        for axis, coordinates in zip(self.axes, self.coordinates(table), strict=True):
            if axis.transform == "quantiles" and len(coordinates):
                ranks = axis.nulls + (1.0 - axis.nulls) * axis.ranks
                below = np.searchsorted(np.sort(coordinates), ranks) / len(coordinates)
                found = max(found, float(np.abs(below - ranks).max()))
        return found

    def to_json(self) -> str:
        return json.dumps(
            [
                {
                    "column": axis.column,
                    "transform": axis.transform,
                    "prefix": axis.prefix.hex(),
                    "nulls": axis.nulls,
                    "knots": _packed(axis.knots),
                    "ranks": _packed(axis.ranks),
                }
                for axis in self.axes
            ]
        )

    @classmethod
    def from_json(cls, text: str) -> Space:
        """The space of a text.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """
        return cls(
            tuple(
                Axis(
                    column=int(item["column"]),
                    transform=item["transform"],
                    prefix=bytes.fromhex(item["prefix"]),
                    nulls=float(item["nulls"]),
                    knots=_unpacked(item["knots"]),
                    ranks=_unpacked(item["ranks"]),
                )
                for item in json.loads(text)
            )
        )


def _packed(numbers: Floats) -> str:
    return base64.b64encode(numbers.astype("<f8").tobytes()).decode()


def _unpacked(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), "<f8").astype(np.float64)


def space_columns(table: pa.Table, paths: Sequence[Path]) -> pa.Table:
    """The columns of a space alone, each with its field id."""
    fields, columns = [], []
    for i, path in enumerate(paths):
        column = column_at(table, path)
        number = str(field_id_at(table.schema, path)).encode()
        fields.append(pa.field(str(i), column.type, metadata={"PARQUET:field_id": number}))
        columns.append(column)
    return pa.table(columns, schema=pa.schema(fields))


def fit(
    layout: OTree | ZOrder, sample: pa.Table, schema: pa.Schema, known: str | None = None
) -> Space:
    """The space of some rows.

    Args:
        sample: rows as :func:`space_columns` gives them.
        schema: of the table.
        known: the space of rows before, which is kept where these lie as they do.
    """
    before = _known(layout, sample, schema, known)
    if before is not None:
        return before
    axes = []
    for name, column in zip(layout.names, sample.columns, strict=True):
        found = resolve_column(schema, name)
        kind: Transform = "quantiles"
        if isinstance(layout, OTree):
            kind = transform_of(layout, name, found.type)
        axes.append(_axis(field_id_at(schema, found.path), kind, column.combine_chunks()))
    return Space(tuple(axes))


def _known(
    layout: OTree | ZOrder, sample: pa.Table, schema: pa.Schema, known: str | None
) -> Space | None:
    if known is None:
        return None
    try:
        space = Space.from_json(known)
    except (ValueError, TypeError, KeyError):
        return None
    wanted = [field_id_at(schema, resolve_column(schema, name).path) for name in layout.names]
    kinds = [
        transform_of(layout, name, resolve_column(schema, name).type)
        for name in layout.names
        if isinstance(layout, OTree)
    ]
    same = [axis.column for axis in space.axes] == wanted
    if not same or [axis.transform for axis in space.axes] != kinds:
        return None
    if any(axis.transform == "linear" for axis in space.axes):
        return None if _outside(space, sample) else space
    return space if space.drift(sample) <= _MOST_DRIFT else None


def _outside(space: Space, sample: pa.Table) -> bool:
    """Whether values lie beyond the ends of a linear axis."""
    for axis, column in zip(space.axes, sample.columns, strict=True):
        if axis.transform == "linear":
            numbers = _numbers(column.combine_chunks().drop_null(), axis.prefix)
            if np.any((numbers < axis.knots[0]) | (numbers > axis.knots[-1])):
                return True
    return False


def _axis(column: int, transform: Transform, values: pa.Array) -> Axis:
    ends = np.array([0.0, 1.0])
    nulls = values.null_count / len(values) if len(values) else 0.0
    if transform in ("hash", "identity"):
        return Axis(column, transform, ends, ends, nulls=nulls)
    prefix = _common_prefix(values)
    numbers = _numbers(values.drop_null(), prefix)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return Axis(column, transform, ends, ends, prefix, nulls)
    if transform == "linear":
        least, greatest = float(numbers.min()), float(numbers.max())
        knots = np.array([least, greatest if greatest > least else least + 1.0])
        return Axis(column, transform, knots, ends, prefix, nulls)
    numbers.sort()
    at = np.linspace(0, len(numbers) - 1, min(_KNOTS + 1, len(numbers))).astype(np.int64)
    knots, first = np.unique(numbers[at], return_index=True)
    # The last knot is where the axis ends, also where many values are equal to it.
    ranks = first / max(1, len(at) - 1)
    if len(knots) == 1:
        ranks = np.array([0.5])
    return Axis(column, transform, knots, ranks, prefix, nulls)


def interleaved(coordinates: Sequence[Floats]) -> Places:
    """Places from coordinates: binary digits in turns, those of the first axis first."""
    count = len(coordinates)
    bits = min(30, BITS // count)
    rest = BITS - bits * count
    spread = _spread(count)
    found = np.zeros(len(coordinates[0]), np.uint64)
    for i, axis in enumerate(coordinates):
        cells = (axis * (1 << bits)).astype(np.int64)
        np.clip(cells, 0, (1 << bits) - 1, out=cells)
        for low in range(0, bits, _CHUNK):
            part = spread << np.uint64(low * count + count - 1 - i + rest)
            found |= part[(cells >> low) & ((1 << _CHUNK) - 1)]
    return found


def _spread(count: int) -> Places:
    """Numbers of ten bits with ``count - 1`` zeros between any two of them."""
    numbers = np.arange(1 << _CHUNK, dtype=np.uint64)
    found = np.zeros(1 << _CHUNK, np.uint64)
    for bit in range(_CHUNK):
        if bit * count < 64:
            found |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return found


# ------------------------------------------------------------------ numbers between knots


def interpolated(numbers: Floats, knots: Floats, ranks: Floats) -> Floats:
    """What ``np.interp`` gives; of many numbers in half of the time."""
    with np.errstate(over="ignore"):
        widths = np.diff(knots)
    if len(numbers) < MANY or not len(widths) or not np.isfinite(widths).all():
        return np.interp(numbers, knots, ranks)
    with np.errstate(over="ignore", invalid="ignore"):  # far away, and NaN
        at = _segments(numbers, knots[1:-1])
        found: Floats = numbers - knots[at]
        found *= (np.diff(ranks) / widths)[at]
        found += ranks[at]
        np.clip(found, ranks[0], ranks[-1], out=found)
    return found


def _segments(numbers: Floats, inner: Floats) -> Any:
    """How many of these ascending numbers are no greater than each."""
    width = inner[-1] - inner[0] if len(inner) else 0.0
    if not 0.0 < width < np.inf or not np.isfinite(CELLS / width):
        return np.searchsorted(inner, numbers, side="right")

    def cells(values: Floats) -> Any:
        found = (values - inner[0]) * ((CELLS - 1) / width)
        np.fmin(found, CELLS - 1, out=found)
        return np.fmax(found, 0.0, out=found).astype(np.int64)

    return edges_below(numbers, inner, cells, np.nan)


# ------------------------------------------------------------------ values as numbers


def _numbers(values: pa.Array, prefix: bytes) -> Floats:
    """Numbers that are ordered as the values are, where these differ enough; nulls are any."""
    kind = values.type
    if _is_text(kind):
        return _text_numbers(values, prefix)
    if pt.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pt.is_date32(kind):
        values = values.cast(pa.int32())
    elif pt.is_time(kind) or pt.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pt.is_decimal(kind):
        values = values.cast(pa.float64())
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, values.type))
    found: Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind))


def _octets(values: pa.Array) -> tuple[Any, Any, Any]:
    """(bytes, where each value begins, its length); nulls are empty."""
    values = pc.fill_null(values.cast(pa.binary()), b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    data = values.buffers()[2]
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, "u1")
    return octets, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)


def _octet(octets: Any, begin: Any, length: Any, at: int) -> Any:
    """One byte of each value, 0 behind its end."""
    found = octets[np.minimum(begin + at, len(octets) - 1)].astype(np.uint64)
    found[length <= at] = 0
    return found


def _text_numbers(values: pa.Array, prefix: bytes) -> Floats:
    octets, begin, length = _octets(values)
    side = np.zeros(len(begin), np.int8)
    for at, wanted in enumerate(prefix):
        here = _octet(octets, begin, length, at)
        here[length <= at] = 0
        side[(side == 0) & (here < wanted)] = -1
        side[(side == 0) & (here > wanted)] = 1
        side[(side == 0) & (length <= at)] = -1
    found = np.zeros(len(begin), np.uint64)
    for at in range(len(prefix), len(prefix) + 8):
        found = (found << np.uint64(8)) | _octet(octets, begin, length, at)
    numbers: Floats = found.astype(np.float64)
    numbers[side < 0] = -1.0
    numbers[side > 0] = 2.0**65
    return numbers


def _common_prefix(values: pa.Array) -> bytes:
    """What all texts begin with."""
    if not _is_text(values.type):
        return b""
    ends = pc.min_max(values.cast(pa.binary()))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is None:
        return b""
    same = 0
    for a, b in zip(least[:_LONGEST_PREFIX], greatest, strict=False):
        if a != b:
            break
        same += 1
    return bytes(least[:same])


def _hashed(values: pa.Array) -> Places:
    """Numbers of 64 bits that depend on the values alone."""
    if pt.is_nested(values.type):
        values = pa.array([repr(value) for value in values.to_pylist()], pa.string())
    if not _is_text(values.type):
        numbers = _numbers(values, b"")
        return mixed((numbers + 0.0).view(np.uint64))
    octets, begin, length = _octets(values)
    found = mixed(length.astype(np.uint64))
    for at in range(min(_MOST_HASHED, int(length.max(initial=0)))):
        inside = length > at
        found[inside] = mixed(found[inside] ^ _octet(octets, begin, length, at)[inside])
    return found
