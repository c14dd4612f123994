"""verify_file: everything that docs/format says about a file, checked against its bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nimblepy.errors import CorruptFileError
from second_reader.chunks import BloomFilter, check_boundaries, check_order, held_keys
from second_reader.column_bloom import SECTION, ColumnBloom, read_column_blooms
from second_reader.columns import StripeData
from second_reader.indexes import CHECKS
from second_reader.keys import stripe_keys
from second_reader.metadata import (
    MAGIC,
    SAMPLED_KEYS,
    Group,
    SecondaryIndex,
    ZoneMap,
    read_zone_map,
)
from second_reader.reader import Container, Source
from second_reader.vector_index import check_vectors, stripe_vectors
from second_reader.zones import check_zones, has_zones

VECTOR = 3


@dataclass
class Report:
    """What was checked, and the problems that were found."""

    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{count:>12,}  {name}" for name, count in sorted(self.counts.items())]
        lines += [f"problem: {p}" for p in self.problems]
        return "\n".join([*lines, "ok" if self.ok else f"{len(self.problems)} problems"])


class _Walk:
    """One pass over a file. Problems are recorded, and the other parts are still checked."""

    def __init__(self, file: Container, problems: list[str]) -> None:
        self.file = file
        self.problems = problems
        self.before: bytes | None = None  # the key of the row before
        self.num_stripes = 0
        self.zones: dict[int, tuple[ZoneMap, int]] = {}
        self.bloom: BloomFilter | None = None
        self.column_blooms: list[ColumnBloom] = []
        self.index_keys: list[list[bytes]] = [[] for _ in file.footer.indexes]
        self.vectors: dict[int, list[Any]] = {
            number: [] for number, i in enumerate(file.footer.indexes) if i.kind == VECTOR
        }

    def attempt(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (CorruptFileError, OSError, ValueError, IndexError, OverflowError) as error:
            self.problems.append(f"{what}: {error}")

    def run(self) -> None:
        self.attempt("file", self.open_side_sections)
        first_row = 0
        for index, (_, end_row) in enumerate(self.file.footer.groups):
            begin = first_row

            def one_group(index: int = index, begin: int = begin, end: int = end_row) -> None:
                self.group(index, begin, end)

            self.attempt(f"group {index}", one_group)
            first_row = end_row
        self.attempt("footer", lambda: self.totals(first_row))
        self.secondary_indexes()
        self.attempt("dictionaries", self.dictionaries)
        self.attempt("layout", self.coverage)

    def secondary_indexes(self) -> None:
        for number, index in enumerate(self.file.footer.indexes):
            check, keys = CHECKS.get(index.kind), self.index_keys[number]
            if number in self.vectors:
                self.attempt(f"index {number}", partial(self.vector_index, number, index))
                self.file.tally["secondary indexes"] += 1
            elif check is None:
                self.problems.append(f"index {number}: kind {index.kind} is not known")
            else:
                self.attempt(f"index {number}", partial(check, self.file, index, keys))
                self.file.tally["secondary indexes"] += 1

    def vector_index(self, number: int, index: SecondaryIndex) -> None:
        parts = self.vectors[number]
        if parts:
            x = np.concatenate([x for x, _ in parts])
            check_vectors(self.file, index, x, np.concatenate([there for _, there in parts]))

    def open_side_sections(self) -> None:
        footer = self.file.footer
        if self.file.data[:8] != MAGIC:
            raise CorruptFileError("the file does not begin with the magic")
        for ref in footer.zones:
            what = f"zone map of node {ref.node}"
            zones = read_zone_map(self.file.section(ref.section, what))
            nodes = self.file.plan.nodes
            if ref.node in self.zones or ref.node >= len(nodes) or not has_zones(nodes[ref.node]):
                raise CorruptFileError(f"{what}: the column cannot have one")
            self.zones[ref.node] = (zones, 0)
        for shared in self.file.shared.values():
            self.file.tally["phrases"] += len(shared.phrases or [])
            if shared.dictionary is not None:
                self.file.tally["shared dictionaries"] += 1
        if footer.cluster is not None and footer.cluster.bloom.size:
            self.bloom = BloomFilter(self.file.section(footer.cluster.bloom, "Bloom filter"))
        for name, section in footer.optional_sections:
            raw = self.file.section(section, f"optional section {name!r}")
            if name == SECTION:
                self.column_blooms = read_column_blooms(raw, self.file)

    def group(self, index: int, first_row: int, end_row: int) -> None:
        group = self.file.group(index)
        rows = sum(s.rows for s in group.stripes)
        if rows != end_row - first_row or any(not 0 < s.rows < 2**31 for s in group.stripes):
            raise CorruptFileError(f"{rows} rows, the footer says {end_row - first_row}")
        keys: list[bytes] = []
        row = first_row
        for stripe in group.stripes:
            data = self.file.stripe(self.file.plan, stripe)
            self.stripe(row, data, keys)
            row += stripe.rows
        self.num_stripes += len(group.stripes)
        self.keys(index, group, keys, first_row)

    def stripe(self, row: int, data: StripeData, keys: list[bytes]) -> None:
        for node, (zones, done) in list(self.zones.items()):
            column = self.file.plan.nodes[node]
            try:
                done += check_zones(zones, column, [(row, data)], done)
            except CorruptFileError as error:
                del self.zones[node]  # the start of the next zone is unknown
                self.problems.append(f"zone map of column {column.schema.name!r}: {error}")
                continue
            self.zones[node] = (zones, done)
        for bloom in self.column_blooms:
            bloom.check_stripe(row, data)
        cluster = self.file.footer.cluster
        if cluster is not None:
            keys += stripe_keys(data, cluster.columns, self.file.dictionary)
        for number, index in enumerate(self.file.footer.indexes):
            if number in self.vectors:
                self.vectors[number].append(stripe_vectors(data, index.columns[0].path))
                continue
            self.index_keys[number] += stripe_keys(data, index.columns, self.file.dictionary)

    def keys(self, index: int, group: Group, expected: list[bytes], first_row: int) -> None:
        """Compares the keys of a group's rows with its part of the index."""
        cluster, chunks = self.file.footer.cluster, group.chunks
        if (cluster is None) != (chunks is None):
            raise CorruptFileError("key chunks without a cluster key, or the other way round")
        if cluster is None or chunks is None:
            return
        stored: list[bytes] = []
        at = 0
        for i, (end_row, end) in enumerate(zip(chunks.end_rows, chunks.ends, strict=True)):
            raw = self.file.bytes_at(chunks.offset + at, end - at, f"key chunk {i}")
            begin = len(stored)
            sampled = self.file.footer.required_features & SAMPLED_KEYS != 0
            held, step = held_keys(raw, end_row - begin, sampled)
            # What a sampled chunk leaves out is in the columns alone.
            keys = held if step == 1 else expected[begin:end_row]
            if step > 1 and keys[::step] != held:
                raise CorruptFileError(f"sampled keys of key chunk {i} are not those of the rows")
            stored += keys
            self.file.tally["checksums"] += 1
            self.file.tally["key chunks"] += 1
            at = end
        if stored != expected:
            row = next((i for i, (a, b) in enumerate(zip(stored, expected, strict=False))
                        if a != b), min(len(stored), len(expected)))  # fmt: skip
            raise CorruptFileError(f"the key of row {first_row + row} is not that of its columns")
        if chunks.offset % 8:
            raise CorruptFileError(f"key stream at {chunks.offset}")
        check_order(self.before, stored, cluster, first_row)
        check_boundaries(chunks, stored, "key chunks")
        self.before = stored[-1]
        if index == 0 and cluster.first_key != stored[0]:
            raise CorruptFileError("first_key of the footer is not the key of row 0")
        if index >= len(cluster.boundaries) or cluster.boundaries[index] != stored[-1]:
            raise CorruptFileError("the group's boundary is not its last key")
        self.file.tally["keys"] += len(stored)
        if self.bloom is not None:
            missing = [k for k in set(stored) if not self.bloom.might_contain(k)]
            if missing:
                raise CorruptFileError(f"the Bloom filter lacks key {missing[0].hex()}")

    def totals(self, rows: int) -> None:
        footer = self.file.footer
        if footer.num_rows != rows or footer.num_stripes != self.num_stripes:
            raise CorruptFileError(
                f"{footer.num_rows} rows in {footer.num_stripes} stripes, found {rows} in "
                f"{self.num_stripes}"
            )
        if footer.cluster is not None and len(footer.cluster.boundaries) != len(footer.groups):
            raise CorruptFileError("not one boundary key a group")
        for bloom in self.column_blooms:
            bloom.check_done(rows)
        for node, (zones, done) in self.zones.items():
            if done != len(zones.end_rows):
                raise CorruptFileError(f"zone map of node {node}: {done} zones were expected")

    def dictionaries(self) -> None:
        for node in self.file.plan.nodes:
            if node.layout == "dictionary":
                self.file.dictionary(node)

    def coverage(self) -> None:
        """Checks that every byte belongs to one part, and that gaps are zero padding."""
        file, place = self.file, self.file.footer.place
        used = [*file.used, (0, 8, "magic")]
        used.append((place.offset, place.offset + place.size, "footer"))
        if place.offset + place.size != len(file.data) - 64:
            raise CorruptFileError("the postscript does not follow the footer")
        at = 0
        for begin, end, what in sorted(used):
            if begin < at or begin - at >= 64 or any(file.data[at:begin]):
                raise CorruptFileError(f"{what} at {begin}: the bytes from {at} are not padding")
            at = end


def verify_file(source: Source) -> Report:
    """Checks a whole file (a path, or its bytes) without any code of the core.

    Every checksum, offset and length; every segment decoded; the keys of all rows rebuilt from
    the columns and compared with the key stream, its boundaries, order, uniqueness and Bloom
    filter; zone maps against the values; no byte that belongs to nothing.

    Raises:
        OSError: the file cannot be read.
        UnsupportedVersionError: a newer version, or a required feature bit that is not known.
    """
    report = Report()
    try:
        file = Container(source)
    except CorruptFileError as error:
        report.problems.append(str(error))
        return report
    walk = _Walk(file, report.problems)
    walk.run()
    report.counts = {"rows": file.footer.num_rows, "bytes": len(file.data), **file.tally}
    report.counts |= {"groups": len(file.footer.groups), "stripes": walk.num_stripes}
    report.counts["zone maps"] = len(walk.zones)
    return report
