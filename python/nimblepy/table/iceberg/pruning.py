"""Finds the files that may have rows for a filter, from the statistics of all files at once.

A filter becomes two trees of tests: one of the statistics of files, and one, projected through the
transforms of a partition spec, of their partition values (:mod:`nimblepy.table.iceberg.pruner`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema.decimals import decimal_bytes, scaled
from nimblepy.schema.plain import plain_type

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Counts: TypeAlias = Literal["values", "nulls", "nans"]
End: TypeAlias = Literal["lower", "upper"]
# Comparisons follow IEEE 754 and are false for nulls: NaN differs from every number.
Op: TypeAlias = Literal[
    "is null",
    "not null",
    "is nan",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "starts with",
]

# Maximum number of values of an ``in`` that are compared with bounds.
_MOST_VALUES = 200


@dataclass(frozen=True, slots=True)
class Always:
    """A constant test."""

    passes: bool


@dataclass(frozen=True, slots=True)
class Both:
    """A test that joins two tests by AND or OR."""

    left: Test
    right: Test
    either: bool


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A test of one column.

    Attributes:
        number: field id of the column, or position of the field in the partition spec.
        kind: Arrow type of the values.
        values: the values to compare with, in Iceberg's in-memory form.
    """

    op: Op
    number: int
    kind: pa.DataType
    values: tuple[Any, ...] = ()


Test: TypeAlias = Always | Both | Leaf


class Files(Protocol):
    """Statistics of files of one partition spec, as columns."""

    @property
    @abstractmethod
    def num_files(self) -> int: ...

    @property
    @abstractmethod
    def rows(self) -> np.ndarray[Any, np.dtype[np.int64]]: ...

    @abstractmethod
    def counts(self, what: Counts, number: int) -> pa.Array | None:
        """Counts as int64, null if unknown; ``None`` if unknown for all files."""

    @abstractmethod
    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        """Returns the bounds in the form of :func:`comparable`, null if missing; ``None`` if no
        file has bounds.
        """

    @abstractmethod
    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        """Returns the partition values in the form of :func:`comparable`."""


def may_match(files: Files, test: Test) -> Mask:
    """Returns which files may have rows that pass, as far as their statistics show."""
    rows = files.rows
    mask = _evaluate(test, files.num_files, lambda leaf: _by_metrics(files, leaf))
    passes: Mask = ((rows != 0) & mask) | (rows < 0)
    return passes


def partition_passes(files: Files, test: Test) -> Mask:
    """Returns which files have partition values that pass."""
    return _evaluate(test, files.num_files, lambda leaf: _by_partition(files, leaf))


def _evaluate(test: Test, count: int, leaf: Any) -> Mask:
    match test:
        case Always(passes):
            return np.full(count, passes)
        case Both(left, right, either):
            first = _evaluate(left, count, leaf)
            if first.all() if either else not first.any():
                return first
            second = _evaluate(right, count, leaf)
            return first | second if either else first & second
    mask: Mask = leaf(test)
    return mask


# ------------------------------------------------------------------ values


def storage(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which values of a type are compared: numbers, bytes, or decimals."""
    kind = plain_type(kind)
    if pt.is_date32(kind):
        return pa.int32()
    if pt.is_time(kind) or pt.is_timestamp(kind):
        return pa.int64()
    if pt.is_string(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def comparable(kind: pa.DataType, stored: pa.Array) -> pa.Array:
    """Converts bounds from Iceberg's single-value serialization to values of ``storage(kind)``.

    If a column was narrower when a file was written, its bounds are narrower too.

    Raises:
        ValueError: a bound has an impossible length for the type.
    """
    compared_type = storage(kind)
    if pt.is_binary(compared_type):
        return stored
    if pt.is_decimal(compared_type):
        decimals = [
            None if v is None else _decimal(v, compared_type.scale) for v in stored.to_pylist()
        ]
        return pa.array(decimals, pa.decimal256(76, compared_type.scale))
    width = 1 if pt.is_boolean(compared_type) else compared_type.bit_width // 8
    sizes = pc.binary_length(stored)
    ends = pc.min_max(sizes)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is None:
        return pa.nulls(len(stored), pa.uint8() if pt.is_boolean(compared_type) else compared_type)
    if least == most == width:
        return _fixed_values(stored, compared_type)
    if width == 8 and least in (4, 8) and most in (4, 8):
        narrow = pa.float32() if pt.is_floating(compared_type) else pa.int32()
        is_narrow = pc.fill_null(pc.equal(sizes, 4), False)
        before = _fixed_values(pc.if_else(is_narrow, stored, None), narrow)
        now = _fixed_values(pc.if_else(is_narrow, None, stored), compared_type)
        return pc.coalesce(before.cast(compared_type), now)
    raise ValueError(
        f"a column of {kind} has bounds of {least} to {most} bytes, which its type cannot have"
    )


def original(bounds: pa.Array, kind: pa.DataType, end: End) -> pa.Array:
    """Converts bounds from the form of :func:`comparable` to the column's type.

    Writers may truncate bounds of binary columns. Truncated bounds of fixed-size binary are
    extended to their length. Bounds of UUIDs are bytes.
    """
    kind = plain_type(kind)
    if pt.is_boolean(kind) or pt.is_decimal(kind):
        return bounds.cast(kind)
    if pt.is_string(kind):
        return pa.Array.from_buffers(
            kind, len(bounds), bounds.buffers(), bounds.null_count, bounds.offset
        )
    if pt.is_fixed_size_binary(kind):
        return _of_length(bounds, kind.byte_width, b"\0" if end == "lower" else b"\xff").cast(kind)
    return bounds.cast(kind)


def _of_length(values: pa.Array, width: int, rest: bytes) -> pa.Array:
    if pc.all(pc.equal(pc.binary_length(values), width)).as_py():
        return values
    filled = (None if v is None else v[:width].ljust(width, rest) for v in values.to_pylist())
    return pa.array(filled, pa.binary())


def _fixed_values(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the bytes of one length as little-endian numbers."""
    dtype = np.dtype(np.uint8 if pt.is_boolean(kind) else kind.to_pandas_dtype()).newbyteorder("<")
    mask = stored.is_null().to_numpy(zero_copy_only=False)
    made = np.zeros(len(stored), dtype=dtype)
    there = pa.concat_arrays([stored.drop_null()])  # the bytes of these values only, without gaps
    ends = np.frombuffer(there.buffers()[1], dtype=np.int32)[there.offset :][: len(there) + 1]
    raw = there.buffers()[2]
    if raw is not None and len(there):
        made[~mask] = np.frombuffer(raw[int(ends[0]) : int(ends[-1])], dtype=dtype)
    return pa.array(made, mask=mask)


def _decimal(stored: bytes, scale: int) -> Decimal:
    return scaled(int.from_bytes(stored, "big", signed=True), scale)


def stored_bytes(kind: pa.DataType, value: Any) -> bytes:
    """Converts a value of ``storage`` to Iceberg's single-value serialization."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        return decimal_bytes(value, kind.scale)
    return np.array(value, dtype=kind.to_pandas_dtype()).astype(f"<{_code(kind)}").tobytes()


def _code(kind: pa.DataType) -> str:
    return str(np.dtype(kind.to_pandas_dtype()).str[1:])


def stored_form(value: Any) -> Any:
    """Converts a value from Iceberg's in-memory form to the form of arrays of ``storage``."""
    if isinstance(value, str):
        return value.encode()
    return getattr(value, "bytes", value)


def partition_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns the partition values in the form in which they are compared."""
    compared_type = storage(kind)
    if pt.is_binary(compared_type):
        return pa.array([stored_form(value) for value in values], compared_type)
    if pt.is_boolean(compared_type):
        return pa.array(values, pa.bool_()).cast(pa.uint8())
    if pt.is_decimal(compared_type):
        return pa.array(values, pa.decimal256(76, compared_type.scale))
    return pa.array(values, compared_type)


# ------------------------------------------------------------------ statistics


def _by_metrics(files: Files, leaf: Leaf) -> Mask:
    count = files.num_files
    op, number = leaf.op, leaf.number
    if op == "is null":
        return ~_is_zero(files.counts("nulls", number), count)
    if op == "is nan":
        none = _is_zero(files.counts("nans", number), count)
        return ~(none | _all_of(files, "nulls", number))
    if op == "not null":
        return ~_all_of(files, "nulls", number)
    nothing = _all_of(files, "nulls", number)
    if op in ("!=", "not in"):
        return ~nothing & ~_all_one_of(files, leaf)
    if op == "starts with":
        return ~nothing & _may_start(files, leaf)
    nothing |= _all_of(files, "nans", number)
    if op == "in" and len(leaf.values) > _MOST_VALUES:
        return ~nothing
    return ~nothing & _may_compare(files, leaf)


def _all_one_of(files: Files, leaf: Leaf) -> Mask:
    """Returns whether all values of a file are equal, and equal to one of the leaf's values."""
    none = np.zeros(files.num_files, dtype=np.bool_)
    lower = files.bound("lower", leaf.number, leaf.kind)
    upper = files.bound("upper", leaf.number, leaf.kind)
    if lower is None or upper is None:
        return none
    mask = _true(pc.equal(lower, upper))
    if pt.is_floating(leaf.kind):
        mask &= _is_zero(files.counts("nans", leaf.number), files.num_files)
    return mask & _is_one_of(lower, leaf) if mask.any() else none


def _is_one_of(values: pa.Array, leaf: Leaf) -> Mask:
    literals = pa.array([_scalar(value, leaf.kind).as_py() for value in leaf.values], values.type)
    if pt.is_floating(values.type):  # hashes distinguish -0.0 from 0.0
        zero = pa.scalar(0.0, values.type)
        values, literals = pc.add(values, zero), pc.add(literals, zero)
    return _true(pc.is_in(values, literals)) & ~_null(values)


def _may_compare(files: Files, leaf: Leaf) -> Mask:
    """Compares bounds with values. A lower bound of NaN counts as unknown bounds."""
    op, values = leaf.op, [_scalar(value, leaf.kind) for value in leaf.values]
    count = files.num_files
    mask = np.ones(count, dtype=np.bool_)
    if op in ("<", "<="):
        lower = files.bound("lower", leaf.number, leaf.kind)
        compare = pc.less if op == "<" else pc.less_equal
        return mask if lower is None else _true(compare(lower, values[0])) | _unknown(lower)
    if op in (">", ">="):
        upper = files.bound("upper", leaf.number, leaf.kind)
        compare = pc.greater if op == ">" else pc.greater_equal
        return mask if upper is None else _true(compare(upper, values[0])) | _unknown(upper)
    lower = files.bound("lower", leaf.number, leaf.kind)
    upper = files.bound("upper", leaf.number, leaf.kind)
    if op == "==":
        if lower is not None:
            mask &= _true(pc.less_equal(lower, values[0])) | _unknown(lower)
        if upper is not None:
            mask &= _true(pc.greater_equal(upper, values[0])) | _unknown(upper)
        if lower is not None:
            mask |= _nan(lower)
        return mask
    return _may_be_in(values, lower, upper, count)


def _may_be_in(
    values: list[pa.Scalar], lower: pa.Array | None, upper: pa.Array | None, count: int
) -> Mask:
    """Returns whether at least one of some values is between the bounds."""
    between = np.zeros(count, dtype=np.bool_)
    above = np.zeros(count, dtype=np.bool_)
    no_lower = np.ones(count, dtype=np.bool_) if lower is None else _null(lower)
    no_upper = np.ones(count, dtype=np.bool_) if upper is None else _null(upper)
    for value in values:
        over = no_lower if lower is None else _true(pc.less_equal(lower, value)) | no_lower
        under = no_upper if upper is None else _true(pc.greater_equal(upper, value)) | no_upper
        above |= over
        between |= over & under
    if upper is not None:
        between |= above & _nan(upper)
    if lower is not None:
        between |= _nan(lower)
    return between


def _may_start(files: Files, leaf: Leaf) -> Mask:
    prefix = stored_form(leaf.values[0])
    mask = np.ones(files.num_files, dtype=np.bool_)
    lower = files.bound("lower", leaf.number, leaf.kind)
    if lower is not None:
        mask &= ~_true(pc.greater(pc.binary_slice(lower, 0, len(prefix)), pa.scalar(prefix)))
    upper = files.bound("upper", leaf.number, leaf.kind)
    if upper is not None:
        mask &= ~_true(pc.less(pc.binary_slice(upper, 0, len(prefix)), pa.scalar(prefix)))
    return mask


def _all_of(files: Files, what: Counts, number: int) -> Mask:
    """Returns whether all values are null, or all are NaN: the count is known and not zero."""
    values, some = files.counts("values", number), files.counts(what, number)
    if values is None or some is None:
        return np.zeros(files.num_files, dtype=np.bool_)
    same = _true(pc.equal(values, some))
    return same & ~_is_zero(values, files.num_files)


def _is_zero(counts: pa.Array | None, count: int) -> Mask:
    return np.zeros(count, dtype=np.bool_) if counts is None else _true(pc.equal(counts, 0))


# ------------------------------------------------------------------ partition values


def _by_partition(files: Files, leaf: Leaf) -> Mask:
    values = files.partition(leaf.number, leaf.kind)
    op = leaf.op
    if op in ("is null", "not null"):
        return _null(values) if op == "is null" else ~_null(values)
    if op == "is nan":
        return _nan(values)
    if op in ("in", "not in"):
        mask = _is_one_of(values, leaf)
        return mask if op == "in" else ~mask & ~_null(values)
    if op == "starts with":
        return _true(pc.starts_with(values, stored_form(leaf.values[0])))
    scalar = _scalar(leaf.values[0], leaf.kind)
    return _true(_COMPARE[op](values, scalar))


_COMPARE = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    if pt.is_boolean(kind):
        return pa.scalar(int(value), pa.uint8())
    compared_type = storage(kind)
    if pt.is_decimal(compared_type):
        compared_type = pa.decimal256(76, compared_type.scale)
    return pa.scalar(stored_form(value), compared_type)


def _true(array: pa.Array) -> Mask:
    """Returns a mask of the true values; false for false and null."""
    if array.null_count:
        array = pc.fill_null(array, False)
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _null(array: pa.Array) -> Mask:
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _nan(array: pa.Array) -> Mask:
    if not pt.is_floating(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    return _true(pc.is_nan(array))


def _unknown(bounds: pa.Array) -> Mask:
    """Returns a mask of the bounds that are missing or NaN."""
    return _null(bounds) | _nan(bounds)


class SortedValues:
    """Ascending values of one type, for comparison with bounds.

    Attributes:
        nans: number of NaNs, which are not among the values.
    """

    def __init__(self, kind: pa.DataType, values: pa.Array) -> None:
        """Sorts values.

        Args:
            values: distinct values of the type, without nulls.
        """
        self.kind = kind
        stored = partition_array(values.to_pylist(), kind) if _is_object(kind) else _plain(values)
        self.nans = int(_nan(stored).sum())
        self.values = np.unique(_numpy(stored)[~_nan(stored)])

    def up_to(self, bounds: pa.Array, *, inclusive: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Returns, for each bound, the number of smaller values.

        The result is arbitrary for unknown bounds.
        """
        filled = _numpy(bounds)
        counts = np.zeros(len(bounds), dtype=np.int64)
        has_bound = ~_unknown(bounds)
        counts[has_bound] = np.searchsorted(
            self.values, filled[has_bound], "right" if inclusive else "left"
        )
        return counts


def _is_object(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind) or pt.is_boolean(kind))


def _plain(values: pa.Array) -> pa.Array:
    compared_type = storage(values.type)
    return values if values.type == compared_type else values.cast(compared_type)


def _numpy(values: pa.Array) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any]
    if pt.is_integer(values.type) or pt.is_floating(values.type):
        filled = pc.fill_null(values, 0) if values.null_count else values
        result = filled.to_numpy(zero_copy_only=False)
        return result
    result = np.empty(len(values), dtype=object)
    result[:] = values.to_pylist()
    return result


def key_hits(
    files: Files, number: int, values: SortedValues
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns how many of the values each file can have in a column by its statistics."""
    count, total = files.num_files, len(values.values)
    hits = np.full(count, total, dtype=np.int64)
    lower = files.bound("lower", number, values.kind)
    upper = files.bound("upper", number, values.kind)
    # If the lower bound is NaN, the bounds are unknown.
    untrusted = np.zeros(count, dtype=np.bool_) if lower is None else _nan(lower)
    if upper is not None:
        hits = np.where(_unknown(upper) | untrusted, hits, values.up_to(upper, inclusive=True))
    if lower is not None:
        hits -= np.where(_unknown(lower), 0, values.up_to(lower, inclusive=False))
    hits = np.maximum(hits, 0)
    hits[_all_of(files, "nans", number)] = 0
    if values.nans:
        hits[~_is_zero(files.counts("nans", number), count)] += values.nans
    hits[_all_of(files, "nulls", number) | (files.rows == 0)] = 0
    return hits
