"""Decoders of fixed-width values and booleans: docs/format/encodings.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from nimblepy.errors import CorruptFileError
from second_reader.bits import Array, packed_offsets, unpack_block, unpack_stream
from second_reader.tree import BLOCK, Request, blocks_of, encoding
from second_reader.values import BOOL, BYTES, Strings, Values, ValueType, take, unsigned


def from_bytes(data: bytes, type_: ValueType, count: int) -> Array:
    """Values in their in-memory representation."""
    if type_.kind == "fixed":
        return np.frombuffer(data, np.uint8).reshape(count, type_.width)
    return np.frombuffer(data, type_.dtype, count)


def repeat(value: Array, count: int) -> Array:
    """Repeats an array of one value `count` times; the result is writable."""
    return np.repeat(value, count, axis=0)


@encoding(1)
def constant(r: Request) -> Values:
    if r.type == BYTES:
        return Strings.repeat(r.head.sized(), r.count)
    if r.type == BOOL:
        return np.full(r.count, r.head.flag())
    return repeat(from_bytes(r.head.take(r.type.width), r.type, 1), r.count)


@encoding(6)
def plain(r: Request) -> Values:
    if r.type.width == 0:
        raise r.refuse("plain values")
    part = r.body.part(r.head)
    unit = r.head.varint()
    if not 1 <= unit <= BLOCK or len(part) != r.count * r.type.width:
        raise r.refuse(f"plain part of {len(part)} bytes in units of {unit}")
    step = unit * r.type.width
    for at in range(0, len(part), step):
        r.body.check(part[at : at + step], r.head.u64(), "unit of plain values")
    return from_bytes(part, r.type, r.count)


def packed_blocks(r: Request, num_fields: int) -> Iterator[tuple[int, Array, Array]]:
    """(rows, fields, packed values) of every block of a part of packed integers."""
    if r.type.kind != "int":
        raise r.refuse("packed integers")
    part = r.body.part(r.head)
    width = r.head.u8()
    rows = blocks_of(r.count)
    widths = list(r.head.take(len(rows))) if width == 255 else [width] * len(rows)
    word_bits = 64 if r.type.width == 8 else 32
    if widths and max(widths) > word_bits:
        raise r.refuse(f"packed width of {max(widths)} bits")
    out, at = [], 0
    for count, w in zip(rows, widths, strict=True):
        end = at + 8 * (1 + num_fields) + (count * w + 7) // 8
        block = part[at:end]
        if len(block) != end - at:
            raise r.refuse(f"packed part of {len(part)} bytes")
        r.body.check(block[8:], int.from_bytes(block[:8], "little"), "packed block")
        packed = block[8 * (1 + num_fields) :]
        full = count == BLOCK
        values = unpack_block(packed, w, word_bits) if full else unpack_stream(packed, count, w)
        out.append((count, np.frombuffer(block, "<u8", num_fields, 8), values))
        at = end
    if at != len(part):
        raise r.refuse(f"packed part of {len(part)} bytes, {at} used")
    return iter(out)


def cut(patterns: Array, type_: ValueType) -> Array:
    """64-bit patterns cut to the type's width."""
    return patterns.astype(f"<u{type_.width}").view(type_.dtype)


@encoding(9)
def bit_packed(r: Request) -> Values:
    blocks = [fields[0] + values for _, fields, values in packed_blocks(r, 1)]
    patterns = np.concatenate(blocks) if blocks else np.zeros(0, "<u8")
    values = cut(patterns, r.type)
    return patched(r, values) if r.head.flag() else values


@encoding(10)
def delta(r: Request) -> Values:
    blocks = []
    for _, (first, smallest), values in packed_blocks(r, 2):
        steps = values + smallest
        steps[0] = first
        blocks.append(np.cumsum(steps, dtype="<u8"))
    return cut(np.concatenate(blocks) if blocks else np.zeros(0, "<u8"), r.type)


@encoding(2)
def run_length(r: Request) -> Values:
    num_runs = r.head.varint()
    first_runs = np.cumsum([0] + [r.head.varint() for _ in blocks_of(r.count)[1:]])
    ends = cast(Array, r.child(unsigned(4), num_runs)).astype(np.int64)
    values = r.child(r.type, num_runs)
    lengths = np.diff(ends, prepend=0)
    if (lengths <= 0).any() or int(lengths.sum()) != r.count:
        raise r.refuse(f"run ends {ends[:8]}...")
    starts = np.arange(0, r.count, BLOCK)
    if r.count and (first_runs != np.searchsorted(ends, starts, "right")).any():
        raise CorruptFileError("run length: first runs of blocks do not fit the run ends")
    return take(values, np.repeat(np.arange(num_runs), lengths))


@encoding(3)
def dictionary(r: Request) -> Values:
    if r.type == BOOL:
        raise r.refuse("dictionary")
    count = r.head.varint()
    codes = _codes(r, count)
    return take(r.child(r.type, count), codes)


@encoding(4)
def shared_dictionary(r: Request) -> Values:
    count, values = r.head.varint(), r.shared.dictionary
    codes = _codes(r, count)
    if values is None or r.shared.type != r.type or count > len(values):
        raise r.refuse(f"{count} values of a dictionary that the stream does not share")
    return take(values, codes)


@encoding(13)
def split_int(r: Request) -> Values:
    low_bits = r.head.u8()
    if r.type.kind != "int" or r.type.width not in (4, 8) or not 0 < low_bits < 8 * r.type.width:
        raise r.refuse(f"split int at bit {low_bits}")
    high = cast(Array, r.child(r.type, r.count))
    low = cast(Array, r.child(unsigned(r.type.width), r.count))
    pattern = high.astype(low.dtype) << low.dtype.type(low_bits) | low
    return cast(Array, pattern.view(high.dtype))


def _codes(r: Request, count: int) -> Array:
    """A code for each row, of a dictionary of `count` values."""
    width = 1 if count <= 256 else 2 if count <= 65536 else 4
    codes = cast(Array, r.child(unsigned(width), r.count))
    if r.count and int(codes.max()) >= count:
        raise r.refuse(f"dictionary: code {int(codes.max())} of {count} values")
    return codes.astype(np.int64)


def patch_rows(r: Request) -> Array:
    """Reads the rows of all exceptions, in ascending order."""
    counts = [r.head.varint() for _ in blocks_of(r.count)]
    if r.head.flag():
        raw = r.head.sized()
    else:
        part, at, raw = r.body.part(r.head), 0, b""
        for n in filter(None, counts):
            group = part[at + 8 : at + 8 + 2 * n]
            expected = int.from_bytes(part[at : at + 8], "little")
            r.body.check(group, expected, "positions of exceptions")
            raw += group
            at += 8 + 2 * n
        if at != len(part):
            raise r.refuse(f"positions of exceptions in {len(part)} bytes")
    if len(raw) != 2 * sum(counts):
        raise r.refuse(f"{sum(counts)} exceptions in {len(raw)} bytes")
    blocks = np.repeat(np.arange(len(counts)), counts)
    inside = np.frombuffer(raw, "<u2").astype(np.int64)
    rows = blocks * BLOCK + inside
    if (inside >= BLOCK).any() or (np.diff(rows) <= 0).any() or (rows >= r.count).any():
        raise r.refuse("rows of exceptions")
    return rows


def patched(r: Request, values: Array) -> Array:
    """Replaces values by the exceptions that follow in the head."""
    rows = patch_rows(r)
    exceptions = cast(Array, r.child(r.type, len(rows)))
    out = values.copy()
    out[rows] = exceptions
    return out


@encoding(7)
def sparse(r: Request) -> Values:
    if not 1 <= r.type.width <= 32:
        raise r.refuse("sparse values")
    common = from_bytes(r.head.take(r.type.width), r.type, 1)
    return patched(r, repeat(common, r.count))


@encoding(15)
def alp(r: Request) -> Values:
    e, f = r.head.u8(), r.head.u8()
    if r.type.kind != "float" or not f <= e <= 18:
        raise r.refuse(f"alp exponents {e} and {f}")
    ints = cast(Array, r.child(ValueType("int", r.type.width, True), r.count))
    # two multiplications in this order: a single one rounds differently
    exact = ints.astype(np.float64) * float(f"1e{f}") * float(f"1e-{e}")
    values = exact.astype(r.type.dtype)
    return patched(r, values) if r.head.flag() else values


@encoding(16)
def split_float(r: Request) -> Values:
    low_bits = r.head.u8()
    bits = r.type.width * 8
    if r.type.kind != "float" or not bits - 16 <= low_bits < bits:
        raise r.refuse(f"split at bit {low_bits}")
    word = unsigned(r.type.width)
    high = cast(Array, r.child(unsigned(2), r.count)).astype(word.dtype)
    low = cast(Array, r.child(word, r.count))
    shift = np.array(low_bits, word.dtype)
    return cast(Array, ((high << shift) | low).view(r.type.dtype))


def wide(r: Request, what: str) -> int:
    if r.type.kind != "fixed" or r.type.width not in (16, 32):
        raise r.refuse(what)
    return r.type.width


@encoding(14)
def narrow(r: Request) -> Values:
    width = wide(r, "narrow")
    low = cast(Array, r.child(ValueType("int", 8, True), r.count))
    sign = np.where(low < 0, 0xFF, 0).astype(np.uint8)
    high = np.repeat(sign[:, None], width - 8, axis=1)
    return np.hstack([np.ascontiguousarray(low).view(np.uint8).reshape(-1, 8), high])


@encoding(18)
def bitmap(r: Request) -> Values:
    if r.type != BOOL:
        raise r.refuse("bitmap")
    part, at, out = r.body.part(r.head), 0, []
    for count in blocks_of(r.count):
        end = at + 8 + (count + 7) // 8
        bits = part[at + 8 : end]
        r.body.check(bits, int.from_bytes(part[at : at + 8], "little"), "block of bits")
        unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        out.append(unpacked[:count].astype(bool))
        at = end
    if at != len(part):
        raise r.refuse(f"bitmap part of {len(part)} bytes")
    return np.concatenate(out) if out else np.zeros(0, bool)


@encoding(19)
def sparse_bits(r: Request) -> Values:
    if r.type != BOOL:
        raise r.refuse("sparse bits")
    common = r.head.flag()
    out = np.full(r.count, common)
    out[patch_rows(r)] = not common
    return out


def present_values(r: Request) -> Array:
    """Present, for fixed-width values; strings.py has the decoder for strings."""
    if not 1 <= r.type.width <= 32:
        raise r.refuse("present values")
    count = r.head.varint()
    common = from_bytes(r.head.take(r.type.width), r.type, 1)
    where = cast(Array, r.child(BOOL, r.count)).astype(bool)
    ranks = packed_offsets(r.head, max(len(blocks_of(r.count)) - 1, 0))
    before = np.concatenate([[0], np.cumsum(where)])
    if int(before[-1]) != count or (before[BLOCK : r.count : BLOCK] != ranks).any():
        raise r.refuse(f"present: {int(before[-1])} rows have a value, the head says {count}")
    out = repeat(common, r.count)
    out[where] = cast(Array, r.child(r.type, count))
    return out


@encoding(12)
def scaled(r: Request) -> Values:
    base, step, divisor = r.head.u64(), r.head.u64(), r.head.varint()
    if r.type.kind != "int" or divisor == 0:
        raise r.refuse(f"scaled by {divisor}")
    multiples = cast(Array, r.child(unsigned(r.type.width), r.count)).astype("<u8")
    rows = np.arange(r.count, dtype="<u8")
    factors = np.array([base, step, divisor], "<u8")
    return cut(factors[0] + rows * factors[1] + multiples * factors[2], r.type)


@encoding(11)
def differences(r: Request) -> Values:
    if r.type.kind != "int":
        raise r.refuse("differences")
    firsts = cast(Array, r.child(r.type, len(blocks_of(r.count))))
    steps = cast(Array, r.child(ValueType("int", r.type.width, True), r.count)).astype("<i8")
    steps = steps.view("<u8").copy()
    steps[::BLOCK] = firsts.astype("<i8").view("<u8")
    blocks = [np.cumsum(steps[i : i + BLOCK], dtype="<u8") for i in range(0, r.count, BLOCK)]
    return cut(np.concatenate(blocks) if blocks else np.zeros(0, "<u8"), r.type)


@encoding(17)
def float_bits(r: Request) -> Values:
    if r.type.kind != "float":
        raise r.refuse("bits of floats")
    bits = cast(Array, r.child(unsigned(r.type.width), r.count))
    return np.ascontiguousarray(bits).view(r.type.dtype)
