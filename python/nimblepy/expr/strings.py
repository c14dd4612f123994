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
    """Makes a kernel whose options may be columns from a kernel with constant options.

    The kernel is called once if all options are constant, otherwise once per distinct combination.
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
        result_type = next((piece.type for piece in pieces if piece is not None), None)
        if result_type is None:
            result_type = kernel_type(kernel, value, options)
        filled = [
            pa.nulls(len(at), result_type) if piece is None else piece
            for piece, at in zip(pieces, places, strict=True)
        ]
        if not filled:
            return pa.array([], result_type)
        order = np.argsort(np.concatenate(places))
        return pa.concat_arrays(filled).take(pa.array(order))

    return compute


def kernel_type(kernel: Callable[..., Value], value: Value, options: tuple[Value, ...]) -> Any:
    """The type of the results, from a call with no rows and sample options."""
    samples = [1 if pa.types.is_integer(option.type) else "a" for option in options]
    return kernel(pa.array([], value.type), *samples).type


def substring(value: Value, start: int, length: int | None = None) -> Value:
    """``substr`` with DuckDB's semantics; a negative position counts from the end."""
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
        # Two steps, because pyarrow is wrong if both ends are before the start of the text.
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
    """Whether all characters are ASCII, so that kernels for bytes give the same results."""
    data = None if isinstance(value, pa.Scalar) else value.buffers()[2]
    return data is not None and (data.size == 0 or np.frombuffer(data, np.int8).min() >= 0)


def faster(kernel: Callable[..., Value], of_ascii: Callable[..., Value]) -> Callable[..., Value]:
    """A text kernel that uses a faster kernel for ASCII."""
    return lambda value: (of_ascii if is_ascii(value) else kernel)(value)


# Number of positions to test together, so that the results stay in the processor's cache.
_CACHED = 1 << 16


def holds(value: Value, part: str | bytes) -> Value:
    """Whether a text contains a part; faster than pyarrow's own kernel."""
    result = None if isinstance(value, pa.Scalar) else _found_at_once(value, part)
    return pc.greater_equal(pc.find_substring(value, part), 0) if result is None else result


def _found_at_once(array: pa.Array, part: str | bytes) -> pa.Array | None:
    """:func:`holds` for all texts at once: searches two bytes of the part with vector operations.

    Returns ``None`` if there is too little text, or if so many positions have both bytes that
    pyarrow's kernel is as fast.
    """
    part_bytes = np.frombuffer(part.encode() if isinstance(part, str) else part, np.uint8)
    _, ends, data = array.buffers()
    if len(part_bytes) < 2 or len(array) < 1024 or data is None:
        return None
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: Any = np.frombuffer(ends, np.int64 if large else np.int32)[array.offset :][
        : len(array) + 1
    ]
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    places = len(octets) - len(part_bytes) + 1
    if places <= 0:
        return None
    # Choose the two rarest bytes of the part, by their frequency in the first texts.
    often = np.bincount(octets[:4096], minlength=256)[part_bytes]
    first, second = np.argsort(often, kind="stable")[:2]
    count, parts = 0, []
    for at in range(0, places, _CACHED):
        end = min(at + _CACHED, places)
        hits = np.zeros(_CACHED, np.bool_)
        here = hits[: end - at]
        np.equal(octets[at + first : end + first], part_bytes[first], out=here)
        here &= octets[at + second : end + second] == part_bytes[second]
        count += int(np.count_nonzero(here))
        if count * 4 * len(octets) > end * len(array):  # in more than every fourth text
            return None
        parts.append(np.flatnonzero(here) + at)
    begins = np.concatenate(parts)
    for i in set(range(len(part_bytes))) - {first, second}:
        begins = begins[octets[begins + i] == part_bytes[i]]
    begins += offsets[0]
    row = np.searchsorted(offsets, begins.astype(offsets.dtype), side="right") - 1
    inside = begins + len(part_bytes) <= offsets[row + 1]
    has_part = np.zeros(len(array), np.bool_)
    has_part[row[inside]] = True
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(has_part, mask=nulls)


def position(value: Value, part: str) -> Value:
    """The 1-based position of the first occurrence of a part; 0 if it does not occur."""
    positions = pc.add(pc.find_substring(value, part), 1).cast(pa.int64())
    if is_ascii(value):
        return positions
    return each_value(value, lambda s: None if s is None else s.find(part) + 1, pa.int64())


def concatenated(*values: Value) -> Value:
    """``||``: concatenates text or bytes; null if an argument is null."""
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
    """``concat``: concatenates text; nulls are ignored."""
    # Not null_handling="skip": pyarrow then omits rows in which all arguments are null.
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

    pc.match_like cannot be used: it always treats backslash as an escape character.
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
    """Converts fixed-size binary to binary, since the search kernels do not support the former."""
    fixed = pa.types.is_fixed_size_binary(value.type)
    return value.cast(pa.binary()) if fixed else value


def starts_with(value: Value, prefix: str) -> Value:
    return pc.starts_with(_searchable(value), prefix)


def like(value: Value, pattern: str, escape: str | None = None, ignore_case: bool = False) -> Value:
    value = _searchable(value)
    if not ignore_case and escape is None and "_" not in pattern:
        # Substring kernels are faster than regular expressions.
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
