"""Stores which cubes each data file contains, in one Puffin file per commit.

The Puffin files are next to the metadata, and their blobs are a cache: if a blob is lost or
damaged, the footers of the data files also contain the cubes, and the rows contain their weights.
Blobs of several commits are merged by concatenation in any order, so a commit that lost a race
simply adds its blob to those of the winner.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.cached import cached_property
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import Cube, DataFile, FileCubes, Snapshot
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.puffin import Blob, puffin_bytes, read_puffin
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Numbers

# Key in a snapshot's summary for the names of its Puffin files, which are next to the metadata.
BLOBS = "nimblepy.otree"
# Maximum number of blobs that a snapshot names. More blobs are merged into one.
MOST_BLOBS = 20
# Key in a data file's metadata for the cubes of the file.
CUBES = "nimblepy.otree"
_KIND = "nimblepy-otree-v1"
# Capacity of the process-wide cache of blobs.
_KEPT = 64
# Capacity of the process-wide cache of footers.
_MOST_FOOTERS = 1 << 16

_SCHEMA = pa.schema(
    {
        "file": pa.int32(),
        "space": pa.int32(),
        "bits": pa.uint8(),
        "prefix": pa.uint64(),
        "least": pa.int32(),
        "most": pa.int32(),
        "rows": pa.int64(),
    }
)
_TEXTS = pa.schema({"text": pa.string()})


class Blocks:
    """The cubes of some data files.

    Attributes:
        files: paths of the files.
        spaces: the distinct spaces (see :class:`nimblepy.table.otree.space.Space`), as JSON.
        table: one row per cube and file: positions in ``files`` and ``spaces``, and the fields of
            :class:`nimblepy.table.base.model.Cube`.
    """

    def __init__(self, files: Sequence[str], spaces: Sequence[str], table: pa.Table) -> None:
        self.files = list(files)
        self.spaces = list(spaces)
        self.table = table

    @classmethod
    def of_files(cls, new_files: Iterable[tuple[str, FileCubes]]) -> Blocks:
        """Returns the blocks of newly written files, from pairs of a path and the file's cubes."""
        files: list[str] = []
        spaces: dict[str, int] = {}
        rows: list[tuple[int, ...]] = []
        for path, item in new_files:
            space = spaces.setdefault(item.space, len(spaces))
            for cube in item.cubes:
                facts = (cube.bits, cube.prefix, cube.least, cube.most, cube.rows)
                rows.append((len(files), space, *facts))
            files.append(path)
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(values, kind.type) for values, kind in zip(columns, _SCHEMA, strict=True)
        ]
        return cls(files, list(spaces), pa.Table.from_arrays(arrays, schema=_SCHEMA))

    @classmethod
    def merged(cls, parts: Sequence[Blocks], live: set[str] | None = None) -> Blocks:
        """Concatenates blocks. Each file appears once; with ``live``, only live files are kept."""
        files: dict[str, int] = {}
        spaces: dict[str, int] = {}
        tables = []
        for part in parts:
            new = [path not in files and (live is None or path in live) for path in part.files]
            used = np.flatnonzero(np.array(new, np.bool_)[part.column("file")])
            numbers = np.array(
                [
                    files.setdefault(p, len(files)) if n else -1
                    for p, n in zip(part.files, new, strict=True)
                ],
                np.int32,
            )
            at = np.array([spaces.setdefault(text, len(spaces)) for text in part.spaces], np.int32)
            table = part.table.take(pa.array(used))
            for name, by in (("file", numbers), ("space", at)):
                position = table.schema.get_field_index(name)
                column = pa.array(by[table.column(name).to_numpy()], pa.int32())
                table = table.set_column(position, _SCHEMA.field(name), column)
            tables.append(table)
        return cls(list(files), list(spaces), pa.concat_tables([_SCHEMA.empty_table(), *tables]))

    def __len__(self) -> int:
        return len(self.files)

    def column(self, name: str) -> Any:
        return self.table.column(name).to_numpy()

    @cached_property
    def by_path(self) -> dict[str, int]:
        """The position of each file in ``files``."""
        return {path: i for i, path in enumerate(self.files)}

    @cached_property
    def weights(self) -> tuple[Numbers, Numbers]:
        """The minimum and maximum weight of each file."""
        least = np.full(len(self.files), 1 << 31, np.int64)
        most = np.full(len(self.files), -(1 << 31) - 1, np.int64)
        np.minimum.at(least, self.column("file"), self.column("least"))
        np.maximum.at(most, self.column("file"), self.column("most"))
        return least, most

    def find(self, paths: pa.Array) -> Numbers:
        """Returns the positions of files in ``files``; -1 for unknown files."""
        positions = pc.index_in(paths.cast(pa.string()), self._paths)
        filled: Numbers = pc.fill_null(positions, -1).to_numpy()
        return filled

    @cached_property
    def _paths(self) -> pa.Array:
        return pa.array(self.files, pa.string())

    def weights_at(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the minimum and maximum weight of files by position.

        Position -1 gives the full range.
        """
        ends = zip(self.weights, (LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS - 1), strict=True)
        least, most = (np.append(end, unknown)[numbers] for end, unknown in ends)
        return least, most

    def of(self, path: str) -> FileCubes | None:
        """Returns the cubes of one file; ``None`` if they are unknown."""
        number = self.by_path.get(path)
        if number is None:
            return None
        rows = self.table.take(pa.array(np.flatnonzero(self.column("file") == number))).to_pylist()
        cubes = tuple(Cube(r["bits"], r["prefix"], r["least"], r["most"], r["rows"]) for r in rows)
        return FileCubes(self.spaces[rows[0]["space"]], cubes) if rows else None

    # ------------------------------------------------------------------ as a Puffin file

    def to_bytes(self) -> bytes:
        """Returns a Puffin file with one blob."""
        payload = b"".join(map(_stream, (self.table, _texts(self.files), _texts(self.spaces))))
        properties = {"crc32": str(zlib.crc32(payload))}
        return puffin_bytes([Blob(kind=_KIND, payload=payload, properties=properties)])[0]

    @classmethod
    def from_bytes(cls, octets: bytes) -> Blocks:
        """Reads the bytes that :meth:`to_bytes` made.

        Raises:
            ValueError: the bytes have another format or are damaged.
        """
        try:
            return cls._from_bytes(octets)
        except BAD_BYTES as error:
            raise ValueError(f"cube blob cannot be read: {error}") from error

    @classmethod
    def _from_bytes(cls, octets: bytes) -> Blocks:
        (blob,) = read_puffin(octets)
        if blob.kind != _KIND:
            raise ValueError(f"blob type is {blob.kind!r}; expected {_KIND!r}")
        payload = blob.payload
        if zlib.crc32(payload) != int(blob.properties["crc32"]):
            raise ValueError("checksum mismatch")
        source = pa.BufferReader(payload)
        table, files, spaces = (pa.ipc.open_stream(source).read_all() for _ in range(3))
        table.validate(full=True)
        if table.schema != _SCHEMA or files.schema != _TEXTS or spaces.schema != _TEXTS:
            raise ValueError(f"unexpected columns {table.schema.names}")
        blocks = cls(files.column(0).to_pylist(), spaces.column(0).to_pylist(), table)
        for name, count in (("file", len(files)), ("space", len(spaces))):
            numbers = blocks.column(name)
            if len(numbers) and not (0 <= int(numbers.min()) <= int(numbers.max()) < count):
                raise ValueError(f"{name} number out of range; expected less than {count}")
        return blocks


def _texts(values: Sequence[str]) -> pa.Table:
    return pa.table({"text": pa.array(values, pa.string())}, schema=_TEXTS)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# ------------------------------------------------------------------ blobs of a snapshot


def blob_names(snapshots: Iterable[Snapshot]) -> list[str]:
    """Returns the names of the blobs of the newest snapshot that names any.

    Commits of other Iceberg writers do not name blobs; the blobs of earlier snapshots then apply.

    Args:
        snapshots: a snapshot, then its ancestors.
    """
    for snapshot in snapshots:
        names = named_blobs(snapshot)
        if names:
            return names
    return []


def named_blobs(snapshot: Snapshot) -> list[str]:
    """Returns the names of the blobs in the summary of one snapshot."""
    text = snapshot.summary.get(BLOBS, "")
    return [name for name in text.split(",") if name and "/" not in name]


_kept: OrderedDict[str | tuple[str, ...], Blocks] = OrderedDict()
_footers: OrderedDict[str, FileCubes | None] = OrderedDict()


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    cache[key] = value
    while len(cache) > most:
        cache.popitem(last=False)


def read_blobs(paths: Sequence[str], read: Callable[[str], bytes]) -> Blocks:
    """Returns the cubes in the blobs. Ignores blobs that cannot be read.

    Cost: reads each blob once per process, while the cache holds it.
    """
    key = tuple(paths)
    cached = _kept.get(key)
    if cached is not None:
        return cached
    parts = []
    for path in paths:
        blocks = _kept.get(path)
        if blocks is None:
            try:
                blocks = Blocks.from_bytes(read(path))
            except (OSError, ValueError):
                continue
            translation = translation_of(path)
            if translation is not None:
                files = list(map(translation.path, blocks.files))
                blocks = Blocks(files, blocks.spaces, blocks.table)
            _keep(_kept, path, blocks, _KEPT)
        parts.append(blocks)
    merged = parts[0] if len(parts) == 1 else Blocks.merged(parts)
    if len(parts) == len(paths):
        _keep(_kept, key, merged, _KEPT)
    return merged


def rebuilt(
    cubes: Blocks, paths: pa.Array, footer: Callable[[int], Mapping[str, Any] | None]
) -> Blocks:
    """Returns the cubes of files that are missing from ``cubes``, read from the footers of the
    files.

    Args:
        footer: returns the metadata of a file, by its position in ``paths``.

    Cost: opens each missing file once per process, while the cache holds it.
    """
    with_cubes = []
    for i in np.flatnonzero(cubes.find(paths) < 0).tolist():
        path = paths[i].as_py()
        if path not in _footers:
            _keep(_footers, path, _in_footer(footer(i)), _MOST_FOOTERS)
        file_cubes = _footers[path]
        if file_cubes is not None:
            with_cubes.append((path, file_cubes))
    return Blocks.of_files(with_cubes)


def _in_footer(footer: Mapping[str, Any] | None) -> FileCubes | None:
    text = None if footer is None else footer.get(CUBES)
    if text is None:
        return None
    try:
        file_cubes = FileCubes.from_json(text)
        Blocks.of_files([("", file_cubes)])  # fails if a number does not fit its column
    except BAD_BYTES:
        return None
    return file_cubes


def forget_blobs() -> None:
    """Clears the caches of blobs and footers."""
    _kept.clear()
    _footers.clear()


def new_blocks(files: Iterable[DataFile]) -> Blocks:
    """Returns the cubes of files that are being committed."""
    return Blocks.of_files((file.path, file.cubes) for file in files if file.cubes is not None)
