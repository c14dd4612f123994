"""Postscript, footer, groups and zone maps as plain values: docs/format/file.md and groups.md."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from nimblepy.errors import CorruptFileError, UnsupportedVersionError
from second_reader.bits import Array, checksum
from second_reader.flat import Table, root

MAGIC = b"NIMBLEPY"
PRERELEASE_MAGIC = b"NIMBLPY1"
POSTSCRIPT_SIZE = 64
MAJOR = 1
SAMPLED_KEYS = 1
KNOWN_FEATURES = SAMPLED_KEYS


@dataclass(frozen=True)
class Section:
    offset: int = 0
    size: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class SchemaNode:
    name: str
    format: str
    flags: int
    metadata: list[tuple[bytes, bytes]]
    children: list[SchemaNode]
    dictionary: SchemaNode | None


@dataclass(frozen=True)
class KeyColumn:
    path: list[int]
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Cluster:
    columns: list[KeyColumn]
    unique: bool
    boundaries: list[bytes]  # one a group
    first_key: bytes
    bloom: Section


@dataclass(frozen=True)
class SecondaryIndex:
    kind: int  # 1 hash, 2 sorted, 3 vector
    columns: list[KeyColumn]
    root: Section
    num_keys: int
    size_bytes: int
    has_bloom: bool


@dataclass(frozen=True)
class NodeSection:
    node: int
    section: Section
    rows: int = 0


@dataclass(frozen=True)
class SharedDictionary:
    node: int
    count: int
    head: Section
    body: Section


@dataclass(frozen=True)
class Footer:
    num_rows: int
    schema: SchemaNode
    groups: list[tuple[Section, int]]  # and the first row behind the group
    cluster: Cluster | None
    zones: list[NodeSection]
    dictionaries: list[NodeSection]
    phrases: list[NodeSection]
    shared_dictionaries: list[SharedDictionary]
    metadata: list[tuple[bytes, bytes]]
    optional_sections: list[tuple[str, Section]]
    num_stripes: int
    key_stream_bytes: int
    indexes: list[SecondaryIndex]
    place: Section  # of the footer itself
    required_features: int


@dataclass(frozen=True)
class Stripe:
    rows: int
    values: list[int]  # of each stream
    offsets: list[int]
    sizes: list[int]
    heads: list[bytes]


@dataclass(frozen=True)
class Chunks:
    end_rows: list[int]
    ends: list[int]
    offset: int
    boundaries: list[bytes]


@dataclass(frozen=True)
class Group:
    stripes: list[Stripe]
    chunks: Chunks | None


@dataclass(frozen=True)
class ZoneMap:
    end_rows: list[int]
    null_counts: list[int]
    nan_counts: list[int] | None
    value_counts: list[int]
    mins: list[bytes]
    maxes: list[bytes]
    max_exact: list[int]


def pieces(data: bytes, ends: Array, what: str) -> list[bytes]:
    """Splits `data` into byte strings at the offsets `ends`."""
    edges = [0, *ends.tolist()]
    if any(a > b for a, b in pairwise(edges)) or edges[-1] != len(data):
        raise CorruptFileError(f"{what}: ends {edges[-3:]} of {len(data)} bytes")
    return [data[a:b] for a, b in pairwise(edges)]


def _pairs(tables: list[Table]) -> list[tuple[bytes, bytes]]:
    return [(t.raw("key"), t.raw("value")) for t in tables]


def _schema(t: Table, depth: int = 0) -> SchemaNode:
    if depth > 64:
        raise CorruptFileError("schema: types nest deeper than 64")
    dictionary = t.table("dictionary", "SchemaNode")
    return SchemaNode(
        name=t.text("name"),
        format=t.text("format"),
        flags=t.number("flags", "<q"),
        metadata=_pairs(t.tables("metadata", "KeyValue")),
        children=[_schema(c, depth + 1) for c in t.tables("children", "SchemaNode")],
        dictionary=None if dictionary is None else _schema(dictionary, depth + 1),
    )


def _key_columns(t: Table) -> list[KeyColumn]:
    return [
        KeyColumn(
            [int(step) for step in c.numbers("path", "<u4")],
            c.number("descending", "<B") != 0,
            c.number("nulls_first", "<B") != 0,
        )
        for c in t.tables("columns", "KeyColumn")
    ]


def _index(t: Table) -> SecondaryIndex:
    return SecondaryIndex(
        kind=t.number("kind", "<B"),
        columns=_key_columns(t),
        root=Section(*(t.struct("root", "<3Q") or (0, 0, 0))),
        num_keys=t.number("num_keys"),
        size_bytes=t.number("size_bytes"),
        has_bloom=t.number("has_bloom", "<B") != 0,
    )


def _cluster(t: Table) -> Cluster:
    columns = _key_columns(t)
    boundaries = pieces(t.raw("key_bytes"), t.numbers("key_ends", "<u4"), "group boundaries")
    bloom = Section(*(t.struct("bloom", "<3Q") or (0, 0, 0)))
    unique = t.number("unique", "<B") != 0
    return Cluster(columns, unique, boundaries, t.raw("first_key"), bloom)


def read_footer(data: bytes) -> Footer:
    """Reads and checks the postscript and the footer."""
    tail = data[-POSTSCRIPT_SIZE:]
    if tail[56:] == PRERELEASE_MAGIC:
        raise UnsupportedVersionError("written by a pre-release")
    if len(data) < POSTSCRIPT_SIZE + len(MAGIC) or tail[56:] != MAGIC:
        raise CorruptFileError("not a nimblepy file, or cut short: no magic at the end")
    fields = struct.unpack("<5Q2HIQ", tail[:56])
    offset, size, expected, required, _, major, minor, reserved, own = fields
    if own != checksum(tail[:48]):
        raise CorruptFileError("postscript: checksum does not match")
    if not 1 <= major <= MAJOR:
        raise UnsupportedVersionError(f"format version {major}.{minor}, this is a reader of 1")
    if required & ~KNOWN_FEATURES:
        raise UnsupportedVersionError(f"required feature bits {required:#x} are not known")
    if reserved and minor == 0:  # later versions may use them
        raise CorruptFileError(f"postscript: reserved bytes are {reserved:#x}")
    limit = len(data) - POSTSCRIPT_SIZE
    if offset > limit or size > limit - offset:
        raise CorruptFileError(f"footer of {size} bytes at {offset} lies outside of the file")
    place = Section(offset, size, expected)
    raw = data[offset : offset + size]
    if checksum(raw) != expected:
        raise CorruptFileError(f"footer at offset {offset}: checksum does not match")
    t = root(raw, b"NPYF", "Footer")
    schema, cluster = t.table("schema", "SchemaNode"), t.table("cluster", "ClusterRoot")
    if schema is None:
        raise CorruptFileError("footer: no schema")
    return Footer(
        num_rows=t.number("num_rows"),
        schema=_schema(schema),
        groups=[(Section(*s[:3]), s[3]) for s in t.structs("groups", "<4Q")],
        cluster=None if cluster is None else _cluster(cluster),
        zones=[NodeSection(s[0], Section(*s[2:])) for s in t.structs("zones", "<2I3Q")],
        dictionaries=[
            NodeSection(s[0], Section(*s[2:5]), s[5]) for s in t.structs("dictionaries", "<2I4Q")
        ],
        phrases=[NodeSection(s[0], Section(*s[2:])) for s in t.structs("phrases", "<2I3Q")],
        shared_dictionaries=[
            SharedDictionary(s[0], s[1], Section(*s[2:5]), Section(*s[5:]))
            for s in t.structs("shared_dictionaries", "<2I6Q")
        ],
        metadata=_pairs(t.tables("metadata", "KeyValue")),
        optional_sections=[
            (s.text("name"), Section(*(s.struct("section", "<3Q") or (0, 0, 0))))
            for s in t.tables("optional_sections", "OptionalSection")
        ],
        num_stripes=t.number("num_stripes"),
        key_stream_bytes=t.number("key_stream_bytes"),
        indexes=[_index(i) for i in t.tables("indexes", "SecondaryIndex")],
        place=place,
        required_features=required,
    )


def _stripe(t: Table) -> Stripe:
    return Stripe(
        rows=t.number("rows"),
        values=t.numbers("values").tolist(),
        offsets=t.numbers("segment_offsets").tolist(),
        sizes=t.numbers("segment_sizes").tolist(),
        heads=pieces(t.raw("heads"), t.numbers("head_ends", "<u4"), "segment heads"),
    )


def read_chunks(t: Table) -> Chunks:
    chunks = Chunks(
        end_rows=t.numbers("chunk_end_rows").tolist(),
        ends=t.numbers("chunk_ends").tolist(),
        offset=t.number("key_stream_offset"),
        boundaries=pieces(t.raw("key_bytes"), t.numbers("key_ends", "<u4"), "boundaries"),
    )
    if not len(chunks.end_rows) == len(chunks.ends) == len(chunks.boundaries) > 0:
        raise CorruptFileError("key chunks: arrays of different lengths")
    return chunks


def read_group(raw: bytes) -> Group:
    t = root(raw, b"NPYG", "Group")
    c = t.table("chunks", "ChunkDirectory")
    chunks = None if c is None else read_chunks(c)
    return Group([_stripe(s) for s in t.tables("stripes", "Stripe")], chunks)


def read_zone_map(raw: bytes) -> ZoneMap:
    t = root(raw, b"NPYZ", "ZoneMap")
    end_rows, nans = t.numbers("end_rows").tolist(), t.numbers("nan_counts").tolist()
    out = ZoneMap(
        end_rows=end_rows,
        null_counts=t.numbers("null_counts").tolist(),
        nan_counts=nans if nans or not end_rows else None,
        value_counts=t.numbers("value_counts").tolist(),
        mins=pieces(t.raw("min_bytes"), t.numbers("min_ends", "<u4"), "zone minima"),
        maxes=pieces(t.raw("max_bytes"), t.numbers("max_ends", "<u4"), "zone maxima"),
        max_exact=list(t.raw("max_exact")),
    )
    lists = (out.null_counts, out.value_counts, out.mins, out.maxes, out.max_exact)
    if any(len(x) != len(end_rows) for x in [*lists, out.nan_counts or end_rows]):
        raise CorruptFileError("zone map: arrays of different lengths")
    return out
