"""Decoders of byte strings, and of zstd blocks: docs/format/encodings_strings.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from nimblepy.errors import CorruptFileError
from second_reader.bits import Array, Cursor, packed_offsets, unpack_stream
from second_reader.numbers import from_bytes, present_values
from second_reader.tree import BLOCK, SEGMENT, Request, blocks_of, encoding
from second_reader.values import BOOL, BYTES, Strings, Values, concat, unsigned


@dataclass(frozen=True)
class Lengths:
    """The packed lengths of a segment: W bits each; if W is 0, all lengths are equal."""

    width: int
    fixed: int

    @classmethod
    def read(cls, head: Cursor) -> Lengths:
        width = head.u8()
        fixed = head.varint() if width == 0 else 0
        if width > 48 or fixed >> 48:
            raise CorruptFileError(f"string lengths of {width} bits or {fixed} bytes")
        return cls(width, fixed)

    def size(self, rows: int) -> int:
        return (rows * self.width + 7) // 8

    def read_block(self, data: bytes, rows: int) -> Array:
        if self.width == 0:
            return np.full(rows, self.fixed, np.int64)
        return unpack_stream(data, rows, self.width).astype(np.int64)


def blocks(r: Request, part: bytes, starts: Array) -> Iterator[bytes]:
    """The blocks of a part, after checking their checksums."""
    edges = [0, *starts.tolist(), len(part)] if r.count else [0]
    for begin, end in pairwise(edges):
        if not begin + 8 <= end <= len(part):
            raise r.refuse(f"block [{begin}, {end}) of a part of {len(part)} bytes")
        r.body.check(part[begin + 8 : end], int.from_bytes(part[begin : begin + 8], "little"),
                     "block")  # fmt: skip
        yield part[begin + 8 : end]


def packed_blocks(r: Request) -> Iterator[tuple[Array, bytes]]:
    """Yields, for each block, the lengths of its strings and the bytes after them."""
    if r.type != BYTES:
        raise r.refuse("string blocks")
    shift = r.head.u8()
    if shift > 10:
        raise r.refuse(f"string blocks of 2^{shift} rows")
    lengths = Lengths.read(r.head)
    part = r.body.part(r.head)
    rows = [min(1 << shift, r.count - at) for at in range(0, r.count, 1 << shift)]
    starts = packed_offsets(r.head, max(len(rows) - 1, 0))
    for count, block in zip(rows, blocks(r, part, starts), strict=True):
        yield lengths.read_block(block, count), block[lengths.size(count) :]


def string_blocks(r: Request) -> Iterator[Strings]:
    """Yields the stored strings of each block."""
    for lengths, data in packed_blocks(r):
        strings = Strings.of_lengths(lengths, np.frombuffer(data, np.uint8))
        if int(strings.offsets[-1]) != len(strings.data):
            raise r.refuse(f"lengths that sum to {int(strings.offsets[-1])}")
        yield strings


def joined(parts: list[Strings]) -> Values:
    return concat([*parts]) if parts else Strings.repeat(b"", 0)


@encoding(20)
def plain_bytes(r: Request) -> Values:
    return joined(list(string_blocks(r)))


def read_symbols(head: Cursor) -> tuple[Array, Array]:
    """Bytes (a row of 8 each) and lengths of the 256 codes; those without a symbol are empty."""
    of_length = head.take(8)
    table, sizes = np.zeros((256, 8), np.uint8), np.zeros(256, np.int64)
    if sum(of_length) > 255:
        raise CorruptFileError(f"symbol table of {sum(of_length)} symbols, at most 255")
    code = 0
    for length in range(1, 9):
        for _ in range(of_length[length - 1]):
            table[code, :length] = np.frombuffer(head.take(length), np.uint8)
            sizes[code] = length
            code += 1
    return table, sizes


def expand(strings: Strings, table: Array, sizes: Array) -> Strings:
    """FSST: every code stands for a symbol; 255 escapes the following byte."""
    codes, raw = strings.data, strings.data.tobytes()
    literal = np.zeros(len(codes), bool)
    at = raw.find(b"\xff")
    while at >= 0:
        if at + 1 == len(raw):
            raise CorruptFileError("fsst: the codes end within an escape")
        literal[at + 1] = True
        at = raw.find(b"\xff", at + 2)
    starts = strings.offsets[:-1][np.diff(strings.offsets) > 0]
    if literal[starts].any():
        raise CorruptFileError("fsst: a string ends within an escape")
    produced = np.where(literal, 1, sizes[codes])
    symbols = table[codes]
    symbols[literal, 0] = codes[literal]
    kept = np.arange(8) < produced[:, None]
    ends = np.concatenate([[0], np.cumsum(produced)])
    return Strings(ends[strings.offsets], symbols[kept])


@encoding(21)
def fsst(r: Request) -> Values:
    table, sizes = read_symbols(r.head)
    total = r.head.varint()
    strings = cast(Strings, joined([expand(s, table, sizes) for s in string_blocks(r)]))
    if int(strings.offsets[-1] - strings.offsets[0]) != total:
        raise r.refuse(f"fsst: {int(strings.offsets[-1])} bytes, the head says {total}")
    return strings


@encoding(25)
def template(r: Request) -> Values:
    if r.type != BYTES:
        raise r.refuse("template")
    length = r.head.u8()
    mask = np.unpackbits(np.frombuffer(r.head.take((length + 7) // 8), np.uint8),
                         bitorder="little")  # fmt: skip
    digit_places = np.flatnonzero(mask[:length])
    row = np.zeros(length, np.uint8)
    row[mask[:length] == 0] = np.frombuffer(r.head.take(length - len(digit_places)), np.uint8)
    shapes = [(b >> 5, b & 31) for b in r.head.take(r.head.u8())]
    if sum(n for _, n in shapes) != len(digit_places) or any(kind > 2 for kind, _ in shapes):
        raise r.refuse(f"template with limbs {shapes}")
    out = np.repeat(row[None, :], r.count, axis=0)
    at = 0
    for kind, digits in shapes:
        base = np.uint64(16 if kind else 10)
        alphabet = np.frombuffer([b"0123456789", b"0123456789abcdef", b"0123456789ABCDEF"][kind],
                                 np.uint8)  # fmt: skip
        rest = cast(Array, r.child(unsigned(8), r.count)).copy()
        for place in digit_places[at : at + digits][::-1]:
            out[:, place] = alphabet[(rest % base).astype(np.int64)]
            rest //= base
        if rest.any():
            raise r.refuse("a number with more digits than its limb")
        at += digits
    return Strings.of_lengths(np.full(r.count, length), out.reshape(-1))


def decompress(r: Request, frame: bytes, size: int) -> bytes:
    try:
        raw = pa.Codec("zstd").decompress(frame, decompressed_size=size, asbytes=True)
    except OSError as error:
        raise r.refuse(f"zstd frame of {len(frame)} bytes, {error}") from error
    return cast(bytes, raw)


@encoding(8)
def zstd_blocks(r: Request) -> Values:
    width, rows = r.type.width, r.head.varint()
    if width == 0 or not 1 <= rows <= SEGMENT or rows * width > 16 << 20:
        raise r.refuse(f"zstd blocks of {rows} values")
    part = r.body.part(r.head)
    counts = [min(rows, r.count - at) for at in range(0, r.count, rows)]
    starts = packed_offsets(r.head, max(len(counts) - 1, 0))
    frames = zip(counts, blocks(r, part, starts), strict=True)
    raw = b"".join(decompress(r, frame, count * width) for count, frame in frames)
    return from_bytes(raw, r.type, r.count)


@encoding(5)
def present(r: Request) -> Values:
    if r.type != BYTES:
        return present_values(r)
    count = r.head.varint()
    where = cast(Array, r.child(BOOL, r.count)).astype(bool)
    ranks = packed_offsets(r.head, max(len(blocks_of(r.count)) - 1, 0))
    strings = cast(Strings, r.child(BYTES, count))
    before = np.concatenate([[0], np.cumsum(where)])
    if int(before[-1]) != count or (before[BLOCK : r.count : BLOCK] != ranks).any():
        raise r.refuse(f"present: {int(before[-1])} rows have a string, the head says {count}")
    lengths = np.zeros(r.count, np.int64)
    lengths[where] = np.diff(strings.offsets)
    return Strings.of_lengths(lengths, strings.data[int(strings.offsets[0]) :])


@encoding(24)
def front_coded(r: Request) -> Values:
    if r.type != BYTES:
        raise r.refuse("front coding")
    shift = r.head.u8()
    if shift > 10:
        raise r.refuse(f"front-coded blocks of 2^{shift} rows")
    shared = cast(Array, r.child(unsigned(2), r.count)).tolist()
    rests = cast(Strings, r.child(BYTES, r.count)).to_list()
    out: list[bytes] = []
    for row, (size, rest) in enumerate(zip(shared, rests, strict=True)):
        place = row & ((1 << shift) - 1)
        front = out[row - place + (place & (place - 1))] if place else b""
        if size > len(front):
            raise r.refuse(f"string {row} that shares {size} of {len(front)} bytes")
        out.append(front[:size] + rest)
    lengths = np.array([len(s) for s in out], np.int64)
    return Strings.of_lengths(lengths, np.frombuffer(b"".join(out), np.uint8))


@encoding(27)
def zstd_strings(r: Request) -> Values:
    import zstandard  # pyarrow's zstd has no call for dictionaries

    size, dictionary = r.head.varint(), b""
    if size:
        part = r.body.part(r.head)
        r.body.check(part[8:], int.from_bytes(part[:8], "little"), "zstd dictionary")
        dictionary = decompress(r, part[8:], size)
    total = r.head.varint()
    codec = zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))
    out = []
    for lengths, frame in packed_blocks(r):
        size = int(lengths.sum())
        try:
            raw = codec.decompress(frame, max_output_size=size, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise r.refuse(f"zstd frame of {len(frame)} bytes, {error}") from error
        if len(raw) != size:
            raise r.refuse(f"zstd frame of {len(raw)} bytes where {size} were expected")
        out.append(Strings.of_lengths(lengths, np.frombuffer(raw, np.uint8)))
    strings = cast(Strings, joined(out))
    if int(strings.offsets[-1]) != total:
        raise r.refuse(f"zstd of {int(strings.offsets[-1])} bytes, the head says {total}")
    return strings


def read_phrases(raw: bytes) -> list[bytes]:
    """The section of phrases that a column's segments share."""
    if len(raw) > 2 + 4096 * 17:
        raise CorruptFileError(f"phrases of {len(raw)} bytes")
    cursor = Cursor(raw, "phrases")
    count = cursor.varint()
    if count > 4096:
        raise CorruptFileError(f"{count} phrases, at most 4096")
    phrases = [b""]
    for _ in range(count):
        sizes = cursor.u8()
        shared, size = sizes >> 4, (sizes & 15) + 1
        if shared > len(phrases[-1]) or shared >= size:
            raise CorruptFileError(f"a phrase of {size} bytes shares {shared} of {phrases[-1]!r}")
        phrases.append(phrases[-1][:shared] + cursor.take(size - shared))
    cursor.finish()
    return phrases[1:]


@encoding(22)
def phrases(r: Request) -> Values:
    if r.type != BYTES:
        raise r.refuse("phrases")
    count = r.head.varint()
    if count > 4096:
        raise r.refuse(f"{count} phrases")
    table = cast(Strings, r.child(BYTES, count)).to_list()
    if not all(1 <= len(phrase) <= 16 for phrase in table):
        raise r.refuse("phrases of other lengths than 1 to 16")
    return of_codes(r, table)


@encoding(23)
def shared_phrases(r: Request) -> Values:
    if r.type != BYTES or (r.shared.phrases is None and r.count):
        raise r.refuse("phrases in a stream that does not have them")
    return of_codes(r, r.shared.phrases or [])


def of_codes(r: Request, phrases: list[bytes]) -> Values:
    width = r.head.u8()
    if not 1 <= width <= 12:
        raise r.refuse(f"codes of {width} bits")
    total = r.head.varint()
    table = phrases + [b""] * ((1 << width) - len(phrases))
    out: list[bytes] = []
    for lengths, data in packed_blocks(r):
        codes = int(lengths.sum())
        if len(data) != (codes * width + 7) // 8:
            raise r.refuse(f"{codes} codes of {width} bits in {len(data)} bytes")
        pieces = [table[code] for code in unpack_stream(data, codes, width).tolist()]
        ends = [0, *np.cumsum(lengths).tolist()]
        out += [b"".join(pieces[begin:end]) for begin, end in pairwise(ends)]
    sizes = np.array([len(s) for s in out], np.int64)
    if int(sizes.sum()) != total:
        raise r.refuse(f"phrases of {int(sizes.sum())} bytes, the head says {total}")
    return Strings.of_lengths(sizes, np.frombuffer(b"".join(out), np.uint8))


@encoding(26)
def numbered_text(r: Request) -> Values:
    if r.type != BYTES:
        raise r.refuse("numbered text")
    count = r.head.u8()
    if not 1 <= count <= 16:
        raise r.refuse(f"text with {count} numbers")
    shapes = cast(Strings, r.child(BYTES, r.count)).to_list()
    numbers = [cast(Array, r.child(unsigned(8), r.count)).tolist() for _ in range(count)]
    out: list[bytes] = []
    for row, shape in enumerate(shapes):
        pieces = re.split(rb"([\x00-\x08])", shape)  # text, mark, text, ..., text
        if len(pieces) // 2 > count:
            raise r.refuse(f"{len(pieces) // 2} numbers in string {row}, at most {count}")
        for k, mark in enumerate(pieces[1::2]):
            digits = b"%d" % numbers[k][row]
            if 0 < mark[0] < len(digits):
                raise r.refuse(f"number {digits!r} in {mark[0]} digits")
            pieces[2 * k + 1] = digits.rjust(mark[0], b"0")
        out.append(b"".join(pieces))
    lengths = np.array([len(s) for s in out], np.int64)
    return Strings.of_lengths(lengths, np.frombuffer(b"".join(out), np.uint8))
