"""The encoding tree of a segment: heads are read in pre-order, parts of the body as they come.

docs/format/encodings.md: a head begins with the encoding's id; each encoding then defines what
follows; children stand in place. A leaf names its part of the body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from nimblepy.errors import CorruptFileError
from second_reader.bits import Cursor, checksum
from second_reader.values import Values, ValueType

BLOCK = 1024
SEGMENT = 131072
MAX_DEPTH = 6
IN_PIECES = 1  # instead of a part's place
MAX_PIECES = SEGMENT // BLOCK


@dataclass
class Body:
    """The bytes of a segment's body, or of a child's inline body, with the parts that were used."""

    data: bytes
    tally: Counter[str]
    parts: list[tuple[int, int]] = field(default_factory=list)

    def part(self, head: Cursor) -> bytes:
        """Reads the part of a leaf: an offset and a size, or several pieces."""
        begin = head.varint()
        if begin != IN_PIECES:
            if begin % 8:
                raise CorruptFileError(f"part at byte {begin} of a body, not a multiple of 8")
            return self._take(begin, head.varint())
        count = head.varint()
        if not 2 <= count <= MAX_PIECES:
            raise CorruptFileError(f"part of {count} pieces, not 2 to {MAX_PIECES}")
        self.tally["parts in pieces"] += 1
        at, pieces = 0, []
        for _ in range(count):
            at = (at + 7) // 8 * 8 + 8 * head.varint()
            pieces.append(self._take(at, head.varint()))
            at += len(pieces[-1])
            if not pieces[-1]:
                raise CorruptFileError(f"empty piece of a part at byte {at} of a body")
        return b"".join(pieces)

    def _take(self, begin: int, size: int) -> bytes:
        if begin > len(self.data) or size > len(self.data) - begin:
            raise CorruptFileError(
                f"{size} bytes of a part at {begin} of a body of {len(self.data)} bytes"
            )
        self.parts.append((begin, begin + size))
        return self.data[begin : begin + size]

    def check(self, data: bytes, expected: int, what: str) -> None:
        self.tally["checksums"] += 1
        if checksum(data) != expected:
            raise CorruptFileError(f"{what} of {len(data)} bytes: checksum does not match")

    def finish(self) -> None:
        """All bytes belong to one part each, but for zeros that align the next part.

        A part that a nullable column's values share with its validity is named twice.
        """
        at = 0
        for begin, end in sorted(set(self.parts)):
            if begin < at or begin - at >= 8 or any(self.data[at:begin]):
                raise CorruptFileError(f"body parts {sorted(self.parts)}: a gap or an overlap")
            at = max(at, end)
        if at != len(self.data):
            raise CorruptFileError(f"body of {len(self.data)} bytes: nothing uses those from {at}")


@dataclass
class Shared:
    """Data that the segments of a stream share."""

    phrases: list[bytes] | None = None
    dictionary: Values | None = None
    type: ValueType | None = None  # of the dictionary


@dataclass(frozen=True)
class Request:
    """A request to a decoder: `count` values of `type`, at nesting depth `depth`."""

    head: Cursor
    body: Body
    type: ValueType
    count: int
    depth: int = 0
    shared: Shared = field(default_factory=Shared)

    def child(self, type_: ValueType, count: int) -> Values:
        """The values of the next nested encoding in the head."""
        if not self.head.flag():
            return decode(self._nested(self.body, type_, count))
        inline = Body(self.head.sized(), self.body.tally)
        values = decode(self._nested(inline, type_, count))
        inline.finish()
        return values

    def _nested(self, body: Body, type_: ValueType, count: int) -> Request:
        return Request(self.head, body, type_, count, self.depth + 1, self.shared)

    def refuse(self, what: str) -> CorruptFileError:
        return CorruptFileError(f"{what}: not possible for {self.count} values of {self.type}")


Decoder = Callable[[Request], Values]
DECODERS: dict[int, tuple[str, Decoder]] = {}


def encoding(number: int) -> Callable[[Decoder], Decoder]:
    """Registers the decoder of an encoding id."""

    def register(decoder: Decoder) -> Decoder:
        DECODERS[number] = (decoder.__name__, decoder)
        return decoder

    return register


def decode(request: Request) -> Values:
    """The values of the tree whose head begins at the cursor."""
    number = request.head.u8()
    if request.depth >= MAX_DEPTH:
        raise CorruptFileError(f"encodings are nested more than {MAX_DEPTH} deep")
    if number not in DECODERS:
        raise CorruptFileError(f"unknown encoding id {number}")
    name, decoder = DECODERS[number]
    request.body.tally[f"encoding {name}"] += 1
    values = decoder(request)
    if len(values) != request.count:
        raise CorruptFileError(f"{name}: {len(values)} values instead of {request.count}")
    return values


def blocks_of(count: int) -> list[int]:
    """The number of rows of each block."""
    return [min(BLOCK, count - at) for at in range(0, count, BLOCK)]
