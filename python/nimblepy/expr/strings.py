"""Text functions of SQL. Positions count characters from 1."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import Value, full, rows_of
from nimblepy.expr.casts import each_value


def with_options(kernel: Callable[..., Value]) -> Callable[..., Value]:
    """A kernel whose arguments after the first are options of pyarrow's, as one of columns.

    It is called once for constants, else once for each distinct combination of them.
    """

    def compute(value: Value, *options: Value) -> Value:
        if all(isinstance(option, pa.Scalar) for option in options):
            if not all(option.is_valid for option in options):
                return pa.nulls(rows_of(value), kernel_type(kernel, value, options))
            return kernel(value, *(option.as_py() for option in options))
        rows = rows_of(value, *options)
        columns = [full(option, rows) for option in options]
        value = full(value, rows)
        names = [str(i) for i in range(len(columns))]
        table = pa.table([*columns, pa.array(np.arange(rows))], [*names, "row"])
        groups = table.group_by(names).aggregate([("row", "list")]).to_pylist()
        pieces: list[pa.Array | None] = []
        places: list[np.ndarray[Any, Any]] = []
        for group in groups:
            at = pa.array(group["row_list"])
            given = [group[name] for name in names]
            taken = value.take(at)
            if None in given:
                pieces.append(None)
            else:
                pieces.append(kernel(taken, *given))
            places.append(np.asarray(at))
        found = next((piece.type for piece in pieces if piece is not None), None)
        if found is None:
            found = kernel_type(kernel, value, options)
        filled = [
            pa.nulls(len(at), found) if piece is None else piece
            for piece, at in zip(pieces, places, strict=True)
        ]
        if not filled:
            return pa.array([], found)
        order = np.argsort(np.concatenate(places))
        return pa.concat_arrays(filled).take(pa.array(order))

    return compute


def kernel_type(kernel: Callable[..., Value], value: Value, options: tuple[Value, ...]) -> Any:
    """The type of results, tried on no rows with options that any kernel takes."""
    samples = [1 if pa.types.is_integer(option.type) else "a" for option in options]
    return kernel(pa.array([], value.type), *samples).type


def substring(value: Value, start: int, length: int | None = None) -> Value:
    """From a position, which counts from the end where it is negative; as DuckDB has it."""
    if start > 0:
        start -= 1
    elif start == 0:
        length = None if length is None else length - 1
        if length is not None and length < 0:
            return pc.utf8_slice_codeunits(value, 0, 0)
    if length is None:
        return pc.utf8_slice_codeunits(value, start)
    stop = start + length
    if length < 0:
        if start >= 0:
            start, stop = max(stop, 0), start
        else:
            start, stop = stop, start
    if start == stop:
        return pc.utf8_slice_codeunits(value, 0, 0)
    if start < 0 <= stop:
        return pc.utf8_slice_codeunits(value, start)
    if start < 0:
        # In two steps: pyarrow starts late where both ends are before the text.
        return pc.utf8_slice_codeunits(pc.utf8_slice_codeunits(value, 0, stop), start - stop)
    return pc.utf8_slice_codeunits(value, start, stop)


def left(value: Value, count: int) -> Value:
    return pc.utf8_slice_codeunits(value, 0, count)


def right(value: Value, count: int) -> Value:
    if count == 0:
        return pc.utf8_slice_codeunits(value, 0, 0)
    return pc.utf8_slice_codeunits(value, -count)


def trimmer(kernel: Callable[..., Value]) -> Callable[..., Value]:
    return lambda value, characters=" ": kernel(value, characters) if characters else value


def replace(value: Value, old: str, new: str) -> Value:
    return pc.replace_substring(value, old, new) if old else value


def repeat(value: Value, times: int) -> Value:
    return pc.binary_repeat(value, max(times, 0))


def is_ascii(value: Value) -> bool:
    """Whether all characters are one byte, so that the kernels of bytes give the same answers."""
    data = None if isinstance(value, pa.Scalar) else value.buffers()[2]
    return data is not None and (data.size == 0 or np.frombuffer(data, np.int8).min() >= 0)


def faster(kernel: Callable[..., Value], of_ascii: Callable[..., Value]) -> Callable[..., Value]:
    """A kernel of text that has a quicker one for ASCII."""
    return lambda value: (of_ascii if is_ascii(value) else kernel)(value)


# Places that are looked at together: their hits stay in a processor's cache.
_CACHED = 1 << 16


def holds(value: Value, part: str | bytes) -> Value:
    """Whether a text has a part; quicker than pyarrow's own test."""
    found = None if isinstance(value, pa.Scalar) else _found_at_once(value, part)
    return pc.greater_equal(pc.find_substring(value, part), 0) if found is None else found


def _found_at_once(array: pa.Array, part: str | bytes) -> pa.Array | None:
    """:func:`holds` for all texts as one: two bytes of the part are looked for in all of it.

    pyarrow looks at each byte of each text by itself. ``None`` where there is too little text for
    that, or where so many places have both bytes that pyarrow is as quick.
    """
    wanted = np.frombuffer(part.encode() if isinstance(part, str) else part, np.uint8)
    _, ends, data = array.buffers()
    if len(wanted) < 2 or len(array) < 1024 or data is None:
        return None
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: Any = np.frombuffer(ends, np.int64 if large else np.int32)[array.offset :][
        : len(array) + 1
    ]
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    places = len(octets) - len(wanted) + 1
    if places <= 0:
        return None
    # The two that are rarest, going by the first texts.
    often = np.bincount(octets[:4096], minlength=256)[wanted]
    first, second = np.argsort(often, kind="stable")[:2]
    count, parts = 0, []
    for at in range(0, places, _CACHED):
        end = min(at + _CACHED, places)
        hits = np.zeros(_CACHED, np.bool_)
        here = hits[: end - at]
        np.equal(octets[at + first : end + first], wanted[first], out=here)
        here &= octets[at + second : end + second] == wanted[second]
        count += int(np.count_nonzero(here))
        if count * 4 * len(octets) > end * len(array):  # in every fourth text
            return None
        parts.append(np.flatnonzero(here) + at)
    begins = np.concatenate(parts)
    for i in set(range(len(wanted))) - {first, second}:
        begins = begins[octets[begins + i] == wanted[i]]
    begins += offsets[0]
    row = np.searchsorted(offsets, begins.astype(offsets.dtype), side="right") - 1
    inside = begins + len(wanted) <= offsets[row + 1]
    found = np.zeros(len(array), np.bool_)
    found[row[inside]] = True
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(found, mask=nulls)


def position(value: Value, wanted: str) -> Value:
    """Where a text begins first, 0: nowhere."""
    found = pc.add(pc.find_substring(value, wanted), 1).cast(pa.int64())
    if is_ascii(value):
        return found
    return each_value(value, lambda s: None if s is None else s.find(wanted) + 1, pa.int64())


def concatenated(*values: Value) -> Value:
    """``||`` and, of text, nothing where one is null."""
    large = any(
        pa.types.is_large_string(v.type) or pa.types.is_large_binary(v.type) for v in values
    )
    if large:
        is_text = any(
            pa.types.is_large_string(v.type) or pa.types.is_string(v.type) for v in values
        )
        values = tuple(v.cast(pa.large_string() if is_text else pa.large_binary()) for v in values)
    empty = pa.scalar("", values[0].type) if values[0].type != pa.binary() else pa.scalar(b"")
    return pc.binary_join_element_wise(*values, empty)


def concat(*values: Value) -> Value:
    """``concat`` passes over nulls."""
    # Not null_handling="skip": pyarrow then leaves rows out in which all are null.
    return concatenated(*(pc.coalesce(value, pa.scalar("", value.type)) for value in values))


def _flags(options: str, pattern: str) -> str:
    for option in options:
        if option not in "ics":
            raise InvalidArgumentError(
                f"option {option!r} of a regular expression; there are i, c, s"
            )
    flags = "".join(option for option in "is" if option in options)
    return f"(?{flags}){pattern}" if flags else pattern


def matches(value: Value, pattern: str, options: str = "") -> Value:
    """Whether a part of the text matches an RE2 expression."""
    return pc.match_substring_regex(value, _flags(options, pattern))


def matches_whole(value: Value, pattern: str, options: str = "") -> Value:
    return pc.match_substring_regex(value, rf"\A(?:{_flags(options, pattern)})\z")


def like_parts(pattern: str, escape: str | None) -> tuple[str, str]:
    """The literal text before the first wildcard, and the whole pattern as a regular expression.

    Not pc.match_like: it takes backslash for an escape character, which SQL has only on request.
    """
    if escape is not None and len(escape) > 1:
        raise InvalidArgumentError(f"ESCAPE takes one character, got {escape!r}")
    prefix, regex, fixed = "", "", True
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if not character:
                raise InvalidArgumentError(
                    f"LIKE pattern {pattern!r} ends with its escape character"
                )
        elif character in "%_":
            regex += ".*" if character == "%" else "."
            fixed = False
            continue
        regex += re.escape(character)
        prefix += character if fixed else ""
    return prefix, regex


def _searchable(value: Value) -> Value:
    """The kernels that look for text take byte strings too, but none of a fixed width."""
    fixed = pa.types.is_fixed_size_binary(value.type)
    return value.cast(pa.binary()) if fixed else value


def starts_with(value: Value, prefix: str) -> Value:
    return pc.starts_with(_searchable(value), prefix)


def like(value: Value, pattern: str, escape: str | None = None, ignore_case: bool = False) -> Value:
    value = _searchable(value)
    if not ignore_case and escape is None and "_" not in pattern:
        # Kernels that look for text are faster than expressions.
        inner = pattern.strip("%")
        if "%" not in inner and pattern:
            before, after = pattern.startswith("%"), pattern.endswith("%")
            if not inner:
                return pc.match_substring(value, "")
            if before and after:
                return holds(value, inner)
            if before:
                return pc.ends_with(value, inner)
            if after:
                return pc.starts_with(value, inner)
    _, regex = like_parts(pattern, escape)
    return pc.match_substring_regex(value, rf"(?s)\A(?:{regex})\z", ignore_case=ignore_case)


def ilike(value: Value, pattern: str, escape: str | None = None) -> Value:
    return like(value, pattern, escape, ignore_case=True)
