"""Maps values of columns to coordinates from 0 to 1, and coordinates to places on a Z-order curve.

All mappings are monotonic, except the transform ``"hash"``.
"""

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

# Sample size for fitting the space of a commit.
SPACE_ROWS = 1 << 16
_KNOTS = 256
# New rows reuse the existing space if their drift (see Space.drift) is at most this.
_MOST_DRIFT = 0.05
# Maximum bytes of a common prefix that is removed from texts before computing coordinates.
_LONGEST_PREFIX = 64
_MOST_HASHED = 64
_CHUNK = 10


@dataclass(frozen=True)
class Axis:
    """The mapping from the values of one column to coordinates.

    Attributes:
        column: field id.
        prefix: common prefix of the texts; only the next 8 bytes determine the coordinate.
        knots, ranks: ascending numbers and their coordinates, for linear interpolation.
        nulls: the fraction of the axis, from 0, that is reserved for nulls.
    """

    column: int
    transform: Transform
    knots: Floats
    ranks: Floats
    prefix: bytes = b""
    nulls: float = 0.0

    def coordinates(self, values: pa.Array) -> Floats:
        """Returns the coordinates of values, from 0 to 1. Nulls are at 0, NaN is at 1."""
        if self.transform == "hash":
            coordinates = _hashed(values) / 2.0**64
        else:
            numbers = _numbers(values, self.prefix)
            coordinates = interpolated(numbers, self.knots, self.ranks)
            coordinates[np.isnan(numbers)] = 1.0
        if self.nulls:
            coordinates = self.nulls + (1.0 - self.nulls) * coordinates
        if values.null_count:
            coordinates[values.is_null().to_numpy(zero_copy_only=False)] = 0.0
        return coordinates


@dataclass(frozen=True)
class Space:
    """The axes of a tree or curve. Places in the same space can be compared."""

    axes: tuple[Axis, ...]

    def places(self, table: pa.Table) -> Places:
        """Returns the place of each row on the curve, a number of ``tree.BITS`` bits."""
        return interleaved(self.coordinates(table))

    def coordinates(self, table: pa.Table) -> list[Floats]:
        """Returns the coordinates of each row, axis by axis."""
        paths = {field_id_at(table.schema, (name,)): (name,) for name in table.schema.names}
        return [
            axis.coordinates(table.column(paths[axis.column][0]).combine_chunks())
            for axis in self.axes
        ]

    def drift(self, table: pa.Table) -> float:
        """Returns how much the distribution of rows differs from the rows that the space was fitted
        to.

        0 means equal, 1 completely different. It is the maximum difference between the two
        cumulative distributions at the knots of all axes (as in the Kolmogorov-Smirnov test).
        """
        greatest_difference = 0.0
        for axis, coordinates in zip(self.axes, self.coordinates(table), strict=True):
            if axis.transform == "quantiles" and len(coordinates):
                ranks = axis.nulls + (1.0 - axis.nulls) * axis.ranks
                below = np.searchsorted(np.sort(coordinates), ranks) / len(coordinates)
                greatest_difference = max(greatest_difference, float(np.abs(below - ranks).max()))
        return greatest_difference

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
        """Reads the text that :meth:`to_json` made.

        Raises:
            ValueError, TypeError, KeyError: the text has another format.
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
    """Projects a table to the columns of a space, each with its field id."""
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
    """Fits a space to a sample of rows.

    Args:
        sample: rows as :func:`space_columns` returns them.
        schema: the schema of the table.
        known: the space of earlier rows; returned if these rows have a similar distribution.
    """
    before = _known(layout, sample, schema, known)
    if before is not None:
        return before
    axes = []
    for name, column in zip(layout.names, sample.columns, strict=True):
        resolved = resolve_column(schema, name)
        kind: Transform = "quantiles"
        if isinstance(layout, OTree):
            kind = transform_of(layout, name, resolved.type)
        axes.append(_axis(field_id_at(schema, resolved.path), kind, column.combine_chunks()))
    return Space(tuple(axes))


def _known(
    layout: OTree | ZOrder, sample: pa.Table, schema: pa.Schema, text: str | None
) -> Space | None:
    if text is None:
        return None
    try:
        space = Space.from_json(text)
    except (ValueError, TypeError, KeyError):
        return None
    columns = [field_id_at(schema, resolve_column(schema, name).path) for name in layout.names]
    kinds = [
        transform_of(layout, name, resolve_column(schema, name).type)
        for name in layout.names
        if isinstance(layout, OTree)
    ]
    same = [axis.column for axis in space.axes] == columns
    if not same or [axis.transform for axis in space.axes] != kinds:
        return None
    if any(axis.transform == "linear" for axis in space.axes):
        return None if _outside(space, sample) else space
    return space if space.drift(sample) <= _MOST_DRIFT else None


def _outside(space: Space, sample: pa.Table) -> bool:
    """Returns whether a value is outside the range of a linear axis."""
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
    # Equal knots have the rank of the first one, so the last rank is below 1 if many values are
    # equal to the maximum.
    ranks = first / max(1, len(at) - 1)
    if len(knots) == 1:
        ranks = np.array([0.5])
    return Axis(column, transform, knots, ranks, prefix, nulls)


def interleaved(coordinates: Sequence[Floats]) -> Places:
    """Interleaves the bits of coordinates to places; the first axis has the highest bit."""
    count = len(coordinates)
    bits = min(30, BITS // count)
    rest = BITS - bits * count
    spread = _spread(count)
    places = np.zeros(len(coordinates[0]), np.uint64)
    for i, axis in enumerate(coordinates):
        cells = (axis * (1 << bits)).astype(np.int64)
        np.clip(cells, 0, (1 << bits) - 1, out=cells)
        for low in range(0, bits, _CHUNK):
            part = spread << np.uint64(low * count + count - 1 - i + rest)
            places |= part[(cells >> low) & ((1 << _CHUNK) - 1)]
    return places


def _spread(count: int) -> Places:
    """Returns all ten-bit numbers with ``count - 1`` zero bits inserted between adjacent bits."""
    numbers = np.arange(1 << _CHUNK, dtype=np.uint64)
    spread = np.zeros(1 << _CHUNK, np.uint64)
    for bit in range(_CHUNK):
        if bit * count < 64:
            spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return spread


# ------------------------------------------------------------------ numbers between knots


def interpolated(numbers: Floats, knots: Floats, ranks: Floats) -> Floats:
    """Computes ``np.interp``, faster for many numbers."""
    with np.errstate(over="ignore", divide="ignore"):
        widths = np.diff(knots)
        slopes = np.diff(ranks) / widths  # infinite if neighbouring knots are denormal numbers
    finite = np.isfinite(widths).all() and np.isfinite(slopes).all()
    if len(numbers) < MANY or not len(widths) or not finite:
        return np.interp(numbers, knots, ranks)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN
        at = _segments(numbers, knots[1:-1])
        results: Floats = numbers - knots[at]
        results *= slopes[at]
        results += ranks[at]
        np.clip(results, ranks[0], ranks[-1], out=results)
    return results


def _segments(numbers: Floats, inner: Floats) -> Any:
    """Returns the number of elements of ``inner`` (ascending) that are <= each number."""
    width = inner[-1] - inner[0] if len(inner) else 0.0
    if not 0.0 < width < np.inf or not np.isfinite(CELLS / width):
        return np.searchsorted(inner, numbers, side="right")

    def cells(values: Floats) -> Any:
        cells = (values - inner[0]) * ((CELLS - 1) / width)
        np.fmin(cells, CELLS - 1, out=cells)
        return np.fmax(cells, 0.0, out=cells).astype(np.int64)

    return edges_below(numbers, inner, cells, np.nan)


# ------------------------------------------------------------------ values as numbers


def _numbers(values: pa.Array, prefix: bytes) -> Floats:
    """Maps values to floats monotonically; close values may become equal. Nulls are arbitrary."""
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
    numbers: Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind))


def _octets(values: pa.Array) -> tuple[Any, Any, Any]:
    """Returns (bytes, offset of each value, length of each value). Nulls are empty."""
    values = pc.fill_null(values.cast(pa.binary()), b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    data = values.buffers()[2]
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, "u1")
    return octets, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)


def _octet(octets: Any, begin: Any, length: Any, at: int) -> Any:
    """Returns the byte at position ``at`` of each value; 0 past its end."""
    octet = octets[np.minimum(begin + at, len(octets) - 1)].astype(np.uint64)
    octet[length <= at] = 0
    return octet


def _text_numbers(values: pa.Array, prefix: bytes) -> Floats:
    octets, begin, length = _octets(values)
    side = np.zeros(len(begin), np.int8)
    for at, expected in enumerate(prefix):
        here = _octet(octets, begin, length, at)
        here[length <= at] = 0
        side[(side == 0) & (here < expected)] = -1
        side[(side == 0) & (here > expected)] = 1
        side[(side == 0) & (length <= at)] = -1
    bits = np.zeros(len(begin), np.uint64)
    for at in range(len(prefix), len(prefix) + 8):
        bits = (bits << np.uint64(8)) | _octet(octets, begin, length, at)
    numbers: Floats = bits.astype(np.float64)
    numbers[side < 0] = -1.0
    numbers[side > 0] = 2.0**65
    return numbers


def _common_prefix(values: pa.Array) -> bytes:
    """Returns the longest common prefix of all texts, up to ``_LONGEST_PREFIX`` bytes."""
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
    """Returns a 64-bit hash of each value, the same in all processes."""
    if pt.is_nested(values.type):
        values = pa.array([repr(value) for value in values.to_pylist()], pa.string())
    if not _is_text(values.type):
        numbers = _numbers(values, b"")
        return mixed((numbers + 0.0).view(np.uint64))
    octets, begin, length = _octets(values)
    hashes = mixed(length.astype(np.uint64))
    for at in range(min(_MOST_HASHED, int(length.max(initial=0)))):
        inside = length > at
        hashes[inside] = mixed(hashes[inside] ^ _octet(octets, begin, length, at)[inside])
    return hashes
