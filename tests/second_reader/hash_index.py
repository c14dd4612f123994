"""The hash index by docs/format/hash_index.md: candidate rows of a key, and every rule of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from nimblepy.errors import CorruptFileError
from second_reader.bits import Cursor, key_hash, unpack_stream
from second_reader.chunks import BloomFilter
from second_reader.flat import root
from second_reader.metadata import Section

PART_BLOCKS = 8192
_ONE = 1 << 64

ReadSection = Callable[[Section, str], bytes]


@dataclass(frozen=True)
class HashRoot:
    num_rows: int
    num_entries: int
    num_keys: int
    partitions: list[Section]
    bloom_parts: list[Section]


def read_hash_root(raw: bytes) -> HashRoot:
    t = root(raw, b"NPYH", "HashIndex")
    out = HashRoot(
        t.number("num_rows"),
        t.number("num_entries"),
        t.number("num_keys"),
        [Section(*s) for s in t.structs("partitions", "<QQQ")],
        [Section(*s) for s in t.structs("bloom_parts", "<QQQ")],
    )
    if not out.num_keys <= out.num_entries <= out.num_rows or not out.partitions:
        raise CorruptFileError(f"hash index: {out.num_keys} keys of {out.num_entries} rows")
    return out


@dataclass(frozen=True)
class Entry:
    """One entry: its position in the partition, and its rows."""

    bucket: int
    fingerprint: int
    rows: list[int]


class Partition:
    """All entries of a partition, in order."""

    def __init__(self, raw: bytes, num_rows: int) -> None:
        cursor = Cursor(raw, "hash partition")
        count, self.buckets = cursor.u32(), cursor.u32()
        self.fingerprint_bits, value_bits, end_bits = cursor.u8(), cursor.u8(), cursor.u8()
        width = self.fingerprint_bits + value_bits
        if cursor.u8() or not self.fingerprint_bits or width > 57 or end_bits > 32:
            raise CorruptFileError("hash partition: impossible header")
        packed = cursor.take((self.buckets * end_bits + 7) // 8)
        ends = unpack_stream(packed, self.buckets, end_bits).tolist()
        packed = cursor.take((count * width + 7) // 8)
        words = unpack_stream(packed, count, width).tolist()
        if any(cursor.take(8)):
            raise CorruptFileError("hash partition: its padding is not zero")
        self._lists = cursor.take(cursor.remaining)
        self._num_rows = num_rows
        if not ends or ends[-1] != count or any(a > b for a, b in pairwise([0, *ends])):
            raise CorruptFileError("hash partition: buckets overlap")
        mask = (1 << self.fingerprint_bits) - 1
        self.entries: list[Entry] = []
        for bucket, (begin, end) in enumerate(pairwise([0, *ends])):
            for word in words[begin:end]:
                rows = self._rows(word >> self.fingerprint_bits)
                self.entries.append(Entry(bucket, word & mask, rows))

    def _rows(self, value: int) -> list[int]:
        if value < self._num_rows:
            return [value]
        cursor = Cursor(self._lists[value - self._num_rows :], "list of rows")
        rows, more = [cursor.varint()], True
        while more:
            head, base, width = cursor.varint(), cursor.varint(), cursor.u8()
            count, more = head >> 1, bool(head & 1)
            if not 0 < count < 1024 or width > 64:
                raise CorruptFileError("list of rows: impossible block")
            gaps = unpack_stream(cursor.take((count * width + 7) // 8), count, width)
            for gap in gaps.tolist():
                rows.append(rows[-1] + 1 + base + gap)
            if rows[-1] >= self._num_rows:
                raise CorruptFileError(f"list of rows: row {rows[-1]} of {self._num_rows}")
        return rows

    def digits(self, fraction: int) -> tuple[int, int]:
        """Bucket and fingerprint."""
        product = fraction * self.buckets
        return product // _ONE, (product % _ONE) >> (64 - self.fingerprint_bits)


class HashIndex:
    """A hash index whose root is `raw`; `section` gives the verified bytes of a section."""

    def __init__(self, raw: bytes, section: ReadSection) -> None:
        self.root = read_hash_root(raw)
        self._section = section
        self.bloom: BloomFilter | None = None
        if self.root.bloom_parts:
            sizes = [s.size for s in self.root.bloom_parts]
            if any(size != PART_BLOCKS * 32 for size in sizes[:-1]) or sizes[-1] > PART_BLOCKS * 32:
                raise CorruptFileError(f"Bloom filter parts of {sizes} bytes")
            parts = [section(s, "Bloom filter part") for s in self.root.bloom_parts]
            self.bloom = BloomFilter(b"".join(parts))

    def partition(self, number: int) -> Partition | None:
        section = self.root.partitions[number]
        if not section.size:
            return None
        return Partition(self._section(section, f"hash partition {number}"), self.root.num_rows)

    def place(self, key: bytes) -> tuple[int, int]:
        """The partition of a key, and the fraction of it that its hash is at."""
        return divmod(key_hash(key) * len(self.root.partitions), _ONE)

    def candidates(self, key: bytes) -> list[int]:
        """The rows that may have a key, ascending."""
        if self.bloom is not None and not self.bloom.might_contain(key):
            return []
        number, fraction = self.place(key)
        partition = self.partition(number)
        if partition is None:
            return []
        place = partition.digits(fraction)
        row_lists = [e.rows for e in partition.entries if (e.bucket, e.fingerprint) == place]
        return sorted(row for rows in row_lists for row in rows)

    def check(self, keys: list[bytes]) -> None:
        """Raises CorruptFileError unless this is the index over the keys of all rows in order."""
        expected: dict[int, dict[int, list[int]]] = {}
        for row, key in enumerate(keys):
            number, fraction = self.place(key)
            expected.setdefault(number, {}).setdefault(fraction, []).append(row)
        counts = (self.root.num_rows, self.root.num_entries, self.root.num_keys)
        hashes = sum(len(f) for f in expected.values())
        if counts != (len(keys), len(keys), hashes):
            raise CorruptFileError(
                f"hash index of {counts} rows, entries and keys; "
                f"{len(keys)} rows have {hashes} keys"
            )
        for number in range(len(self.root.partitions)):
            self._check_partition(number, expected.get(number, {}))
        missing = [k for k in keys if self.bloom is not None and not self.bloom.might_contain(k)]
        if missing:
            raise CorruptFileError(f"the Bloom filter lacks key {missing[0].hex()}")

    def _check_partition(self, number: int, expected: dict[int, list[int]]) -> None:
        partition = self.partition(number)
        if partition is None:
            if expected:
                raise CorruptFileError(f"hash partition {number} is missing")
            return
        expected_entries = list(_flatten(partition, expected))
        stored = [(e.bucket, e.fingerprint, row) for e in partition.entries for row in e.rows]
        if stored != expected_entries:
            at = next((i for i, (a, b) in enumerate(zip(stored, expected_entries, strict=False))
                       if a != b), min(len(stored), len(expected_entries)))  # fmt: skip
            raise CorruptFileError(
                f"hash partition {number}: row {at} of its entries is not what the columns say"
            )


def _flatten(
    partition: Partition, expected: dict[int, list[int]]
) -> Iterator[tuple[int, int, int]]:
    for fraction in sorted(expected):
        for row in expected[fraction]:
            yield (*partition.digits(fraction), row)
