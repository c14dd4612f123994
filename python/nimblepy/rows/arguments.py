"""Checks the arguments that the reading methods have in common."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.integers import at_least as at_least
from nimblepy.schema.many import as_many
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import KeyColumn, SortKey, column_of
from nimblepy.schema.values import show

Columns: TypeAlias = Sequence[ColumnName] | None
# Checked columns; ``None`` means all columns.
Projected: TypeAlias = tuple[ColumnName, ...] | None
On: TypeAlias = str | SortKey | Sequence[KeyColumn] | None
Inclusive: TypeAlias = Literal["[)", "[]", "()", "(]"]

_INCLUSIVE = {"[)": (True, False), "[]": (True, True), "()": (False, False), "(]": (False, True)}
# Limits and offsets are clamped to this, so that their sum fits in 64 bits.
_MOST_ROWS = 1 << 62
# Upper limit for batch_rows.
MOST_BATCH_ROWS = 1 << 30


_Function = TypeVar("_Function", bound=Callable[..., Any])


def passes_on_to(taker: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Adds the keywords of ``taker`` to the signature of a function that passes ``**`` to it."""

    def shown(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own_parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        forwarded = inspect.signature(taker).parameters.values()
        added = [
            p for p in forwarded if p.kind is p.KEYWORD_ONLY and p.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own_parameters, *added])  # type: ignore[attr-defined]
        return function

    return shown


@functools.cache
def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(item.name for item in parameters if item.kind is item.KEYWORD_ONLY)


def check_keywords(function: Callable[..., Any], given: Collection[str]) -> None:
    """Raises TypeError if ``given`` has an unknown keyword, or lacks a required one.

    The error names the keyword.
    """
    accepted = _keywords(function)
    for name in given:
        if name not in accepted:
            near = get_close_matches(name, accepted, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(accepted)}"
            raise TypeError(f"{function.__name__}() has no argument {name!r}; {hint}")
    parameters = inspect.signature(function).parameters
    for name in accepted:
        if parameters[name].default is inspect.Parameter.empty and name not in given:
            raise TypeError(f"{function.__name__}() needs the argument {name!r}")


def column_names(
    columns: Iterable[ColumnName] | None, what: str = "columns"
) -> tuple[ColumnName, ...] | None:
    """Returns ``columns`` as a tuple; ``None`` means all columns.

    An iterator is consumed once.

    Args:
        what: the name of the argument, for messages.

    Raises:
        InvalidArgumentError: ``columns`` is a ``str``, is not a list of names or paths, or has a
            name twice.
    """
    return None if columns is None else _unique(what, columns, (str, tuple))


def on_keys(on: On) -> tuple[KeyColumn, ...] | None:
    """Returns the columns of ``on`` as a tuple, with their directions if the caller gave any.

    ``None`` means the cluster key.
    """
    if on is None or isinstance(on, (str, SortKey)):
        return None if on is None else (on,)
    keys: tuple[KeyColumn, ...] = _unique("on", on, (str, tuple, SortKey))
    if not keys:
        raise InvalidArgumentError("on: no column given")
    return keys


def _unique(argument: str, names: Iterable[Any], kinds: tuple[type, ...]) -> tuple[Any, ...]:
    items = None if isinstance(names, (str, bytes)) or not isinstance(names, Iterable) else names
    unique: tuple[Any, ...] = () if items is None else tuple(items)
    if items is None or not all(isinstance(name, kinds) for name in unique):
        raise InvalidArgumentError(f"{argument}: expected a list of names, got {names!r}")
    if len({output_name(column_of(name)) for name in unique}) != len(unique):
        raise InvalidArgumentError(f"{argument}: a name is given twice: {list(unique)}")
    return unique


def seconds_of(name: str, value: object, *, least: float) -> float:
    """Returns ``value`` as a float, after checking that it is a finite number >= ``least``."""
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    if not least <= seconds < math.inf:
        raise InvalidArgumentError(f"{name}: expected seconds, at least {least:g}, got {value!r}")
    return seconds


def generator_seed(seed: Any) -> int | None:
    """Returns the seed of a random generator; ``None`` draws a new seed for each call."""
    return None if seed is None else at_least("seed", seed, 0)


def row_limit(limit: Any) -> int | None:
    """Returns the maximum number of rows to return; ``None`` means all."""
    return None if limit is None else min(at_least("limit", limit, 0), _MOST_ROWS)


def row_offset(offset: Any) -> int:
    """Returns the number of rows to skip."""
    return min(at_least("offset", offset, 0), _MOST_ROWS)


def thread_count(threads: Any) -> int:
    """Returns the number of threads for the core; 0 means one per processor."""
    return 0 if threads is None else min(at_least("threads", threads, 1), 1 << 16)


def inclusive_sides(text: str) -> tuple[bool, bool]:
    """Returns whether the lower bound and whether the upper bound belong to the range."""
    if not isinstance(text, str) or text not in _INCLUSIVE:
        raise InvalidArgumentError(
            f"inclusive: expected one of {', '.join(map(repr, _INCLUSIVE))}, got {text!r}"
        )
    return _INCLUSIVE[text]


def row_bounds(row_range: Any, num_rows: int) -> tuple[int, int]:
    """Returns ``row_range`` as half-open row numbers ``(begin, end)``; ``None`` means all rows."""
    if row_range is None:
        return 0, num_rows
    try:
        if isinstance(row_range, range):
            raise TypeError("a range of two numbers would be mistaken for (begin, end)")
        begin, end = map(operator.index, row_range)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"row_range: expected (begin, end), got {row_range!r}") from None
    if not 0 <= begin <= end <= num_rows:
        raise InvalidArgumentError(
            f"row_range: expected 0 <= begin <= end <= {num_rows}, got ({begin}, {end})"
        )
    return begin, end


def row_numbers(rows: Any, num_rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Returns row numbers below ``num_rows`` from a list, a numpy array or an Arrow array."""
    many = as_many(rows)
    if many is None:
        raise InvalidArgumentError(f"rows: expected many row numbers, got {show(rows)}")
    rows = many
    if isinstance(rows, np.ma.MaskedArray) and np.ma.getmaskarray(rows).any():
        raise InvalidArgumentError("rows: masked values are not row numbers")
    if isinstance(rows, pa.Table) and rows.num_columns == 1:
        rows = rows.column(0)
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if rows.null_count:
            raise InvalidArgumentError("rows: nulls are not row numbers")
        rows = (
            rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
        )
    try:
        array = np.asarray(rows)
    except (TypeError, ValueError):
        raise InvalidArgumentError("rows: expected integers in one dimension") from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        what = f"{array.ndim} dimensions" if array.ndim != 1 else str(array.dtype)
        raise InvalidArgumentError(
            f"rows: expected a list or an array of integers in one dimension, got {what}"
        )
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.dtype.kind == "i" and int(array.min()) < 0:
        raise InvalidArgumentError(f"rows: {int(array.min())} is below 0")
    if int(array.max()) >= num_rows:
        raise InvalidArgumentError(
            f"rows: {int(array.max())} is beyond the last row, {num_rows - 1} ({num_rows} rows)"
            if num_rows
            else f"rows: row {int(array.max())}, but there are no rows"
        )
    return array.astype(np.uint64)


def is_many(keys: Any) -> bool:
    """Returns whether ``keys`` contains several keys. A scalar, tuple or dict is one key."""
    if isinstance(keys, (str, bytes, tuple, Mapping)):
        return False
    return hasattr(keys, "__len__") or hasattr(keys, "__iter__")


def check_one(key: Any, names: Sequence[str]) -> None:
    """Rejects an empty key, and a scalar if the key has several columns."""
    if isinstance(key, (tuple, list, Mapping)) and not key:
        raise InvalidArgumentError(f"key {key!r}: it has no value; the key is {', '.join(names)}")
    if len(names) > 1 and not isinstance(key, (tuple, list, Mapping)):
        raise InvalidArgumentError(
            f"key {key!r}: the key has {len(names)} columns ({', '.join(names)}); "
            "pass a tuple or a dict, or for a key of one column name it in on="
        )


def sample_size(fraction: float | None, n: int) -> int:
    """Returns the number of rows of a sample. Raises an error if a fraction is also given."""
    if fraction is not None:
        raise InvalidArgumentError("sample: give a fraction or n, not both")
    return at_least("n", n, 0)


def checked_fraction(fraction: float | None) -> float:
    """Returns ``fraction`` as a float.

    Raises:
        InvalidArgumentError: ``fraction`` is not a number from 0 to 1.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise InvalidArgumentError(f"fraction: expected a number from 0 to 1, got {fraction!r}")
    if not 0 <= fraction <= 1:
        raise InvalidArgumentError(f"fraction: expected a number from 0 to 1, got {fraction!r}")
    return float(fraction)
