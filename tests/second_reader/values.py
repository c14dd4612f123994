"""What decoders give back: numpy arrays, and byte strings as offsets plus bytes.

By kind of stream: bool arrays; ints and floats of their width; opaque values as a matrix of bytes,
one row a value; byte strings as `Strings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from second_reader.bits import Array


@dataclass(frozen=True)
class ValueType:
    """The type of a stream's values: docs/format/streams.md."""

    kind: str  # "bool", "int", "float", "fixed", "bytes"
    width: int = 0
    signed: bool = False

    @property
    def dtype(self) -> str:
        """numpy's name of an int or float type."""
        letter = "f" if self.kind == "float" else "i" if self.signed else "u"
        return f"<{letter}{self.width}"


BOOL = ValueType("bool")
BYTES = ValueType("bytes")


def unsigned(width: int) -> ValueType:
    return ValueType("int", width)


class Strings:
    """Byte strings: string i is data[offsets[i]:offsets[i + 1]]."""

    def __init__(self, offsets: Array, data: Array) -> None:
        self.offsets = offsets  # int64, one more than strings
        self.data = data  # uint8

    @classmethod
    def of_lengths(cls, lengths: Array, data: Array) -> Strings:
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths.astype(np.int64), out=offsets[1:])
        return cls(offsets, data)

    @classmethod
    def repeat(cls, value: bytes, count: int) -> Strings:
        lengths = np.full(count, len(value), np.int64)
        return cls.of_lengths(lengths, np.tile(np.frombuffer(value, np.uint8), count))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def slice(self, begin: int, end: int) -> Strings:
        return Strings(self.offsets[begin : end + 1], self.data)

    def take(self, rows: Array) -> Strings:
        starts = self.offsets[:-1][rows]
        lengths = np.diff(self.offsets)[rows]
        out = Strings.of_lengths(lengths, self.data)
        total = int(out.offsets[-1])
        places = np.repeat(starts - out.offsets[:-1], lengths) + np.arange(total)
        return Strings(out.offsets, self.data[places])

    def to_list(self) -> list[bytes]:
        raw, ends = self.data.tobytes(), self.offsets.tolist()
        return [raw[ends[i] : ends[i + 1]] for i in range(len(self))]


Values = Array | Strings


def byte_size(values: Values) -> int:
    """Of all values, without the offsets of strings."""
    if isinstance(values, Strings):
        return int(values.offsets[-1] - values.offsets[0])
    return values.nbytes


def take(values: Values, rows: Array) -> Values:
    return values.take(rows) if isinstance(values, Strings) else values[rows]


def slice_of(values: Values, begin: int, end: int) -> Values:
    return values.slice(begin, end) if isinstance(values, Strings) else values[begin:end]


def concat(parts: list[Values]) -> Values:
    """All parts one after the other; at least one."""
    arrays = [p for p in parts if not isinstance(p, Strings)]
    if arrays:
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    strings = [p for p in parts if isinstance(p, Strings)]
    if len(strings) == 1:
        return strings[0]
    lengths = np.concatenate([np.diff(s.offsets) for s in strings])
    used = [s.data[int(s.offsets[0]) : int(s.offsets[-1])] for s in strings]
    return Strings.of_lengths(lengths, np.concatenate(used))
