"""Secondary indexes against the rows of the file: docs/format/indexes.md and sorted_index.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nimblepy.errors import CorruptFileError
from second_reader.chunks import check_boundaries, read_chunk
from second_reader.flat import root, unnamed_root
from second_reader.hash_index import HashIndex
from second_reader.metadata import Chunks, SecondaryIndex, Section, pieces, read_chunks
from second_reader.reader import Container


@dataclass
class _Sizes:
    """Adds up the parts of an index."""

    file: Container
    what: str
    total: int = 0

    def section(self, section: Section, what: str) -> bytes:
        self.total += section.size
        return self.file.section(section, f"{self.what}: {what}")


def check_sorted(file: Container, index: SecondaryIndex, keys: list[bytes]) -> None:
    """Checks that the entries are all keys, each followed by its row, in byte order."""
    parts = _Sizes(file, "sorted index")
    t = root(parts.section(index.root, "root"), b"NPYS", "SortedRoot")
    width = t.number("row_width", "<B")
    least = max(1, ((max(len(keys), 1) - 1).bit_length() + 7) // 8)
    if width != least or t.number("num_entries") != len(keys):
        raise CorruptFileError(
            f"{t.number('num_entries')} entries with rows of {width} bytes; {len(keys)} rows need "
            f"{least}"
        )
    expected = sorted(key + row.to_bytes(width, "big") for row, key in enumerate(keys))
    groups = [(Section(*s[:3]), s[3]) for s in t.structs("groups", "<4Q")]
    boundaries = pieces(t.raw("key_bytes"), t.numbers("key_ends", "<u4"), "group boundaries")
    if len(boundaries) != len(groups):
        raise CorruptFileError("not one boundary a group")
    begin = 0
    for number, ((section, end), boundary) in enumerate(zip(groups, boundaries, strict=True)):
        raw = parts.section(section, f"group {number}")
        directory = unnamed_root(raw, "SortedGroup").table("chunks", "ChunkDirectory")
        if directory is None:
            raise CorruptFileError(f"group {number} has no chunks")
        chunks = read_chunks(directory)
        stored = _entries(file, chunks)
        parts.total += chunks.ends[-1]
        if stored != expected[begin:end]:
            raise CorruptFileError(f"group {number}: its entries are not those of the rows")
        check_boundaries(chunks, stored, "key chunks")
        if boundary != stored[-1]:
            raise CorruptFileError(f"group {number}: its boundary is not its last entry")
        begin = end
    if begin != len(expected) or t.raw("first_entry") != (expected[0] if expected else b""):
        raise CorruptFileError(f"{begin} entries of {len(expected)} rows, or another first one")
    if index.num_keys != len(keys) or index.size_bytes != parts.total or index.has_bloom:
        raise CorruptFileError(f"the footer says {index}; {len(keys)} keys, {parts.total} bytes")


def _entries(file: Container, chunks: Chunks) -> list[bytes]:
    out: list[bytes] = []
    at = 0
    for i, (end_row, end) in enumerate(zip(chunks.end_rows, chunks.ends, strict=True)):
        raw = file.bytes_at(chunks.offset + at, end - at, f"key chunk {i} of a sorted index")
        out += read_chunk(raw, end_row - len(out))
        file.tally["checksums"] += 1
        file.tally["key chunks"] += 1
        at = end
    if chunks.offset % 8:
        raise CorruptFileError(f"key stream at {chunks.offset}")
    return out


def check_hash(file: Container, index: SecondaryIndex, keys: list[bytes]) -> None:
    """Checks that there is exactly one entry per row, at the place of its key's hash."""
    parts = _Sizes(file, "hash index")
    stored = HashIndex(parts.section(index.root, "root"), parts.section)
    stored.check(keys)
    actual = (stored.root.num_keys, parts.total, stored.bloom is not None)
    if actual != (index.num_keys, index.size_bytes, index.has_bloom):
        raise CorruptFileError(f"the footer says {index}; keys, bytes and filter are {actual}")


CHECKS: dict[int, Callable[[Container, SecondaryIndex, list[bytes]], None]] = {
    1: check_hash,
    2: check_sorted,
}
