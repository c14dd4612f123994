"""Which cubes lie in which files, kept beside the metadata in one Puffin file for each commit.

Nothing depends on these: a file whose blob is lost or damaged says in its footer what it has, and
its rows have their weights. Cubes of several commits are merged by putting them together, in any
order, so that a commit that lost a race names its own again beside those of the winner.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import Cube, DataFile, FileCubes, Snapshot
from nimblepy.table.base.puffin import Blob, puffin_bytes, read_puffin
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Numbers

# Where a snapshot's summary names the Puffin files, which lie beside the metadata.
BLOBS = "nimblepy.otree"
# Blobs that a snapshot names before they are written as one.
MOST_BLOBS = 20
# Where the footer of a file repeats its cubes.
CUBES = "nimblepy.otree"
_KIND = "nimblepy-otree-v1"
# Blobs that a process keeps.
_KEPT = 64
# Footers that it remembers.
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
    """The cubes of some files.

    Attributes:
        files: their paths.
        spaces: how their values became places.
        table: one row for each cube in a file: ``file`` and ``space`` by position, and the fields
            of :class:`nimblepy.table.base.model.Cube`.
    """

    def __init__(self, files: Sequence[str], spaces: Sequence[str], table: pa.Table) -> None:
        self.files = list(files)
        self.spaces = list(spaces)
        self.table = table

    @classmethod
    def of_files(cls, found: Iterable[tuple[str, FileCubes]]) -> Blocks:
        """Those that files were written with."""
        files: list[str] = []
        spaces: dict[str, int] = {}
        rows: list[tuple[int, ...]] = []
        for path, item in found:
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
        """All of these; each file once, and only ``live`` ones if that is given."""
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
        """Positions of files."""
        return {path: i for i, path in enumerate(self.files)}

    @cached_property
    def weights(self) -> tuple[Numbers, Numbers]:
        """The least and the greatest weight of each file."""
        least = np.full(len(self.files), 1 << 31, np.int64)
        most = np.full(len(self.files), -(1 << 31) - 1, np.int64)
        np.minimum.at(least, self.column("file"), self.column("least"))
        np.maximum.at(most, self.column("file"), self.column("most"))
        return least, most

    def find(self, paths: pa.Array) -> Numbers:
        """Positions of files, -1 of those that are not here."""
        found = pc.index_in(paths.cast(pa.string()), self._paths)
        numbers: Numbers = pc.fill_null(found, -1).to_numpy()
        return numbers

    @cached_property
    def _paths(self) -> pa.Array:
        return pa.array(self.files, pa.string())

    def weights_at(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The least and the greatest weight of files by position; of -1, of any file."""
        ends = zip(self.weights, (LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS - 1), strict=True)
        least, most = (np.append(end, unknown)[numbers] for end, unknown in ends)
        return least, most

    def of(self, path: str) -> FileCubes | None:
        """The cubes of one file."""
        number = self.by_path.get(path)
        if number is None:
            return None
        rows = self.table.take(pa.array(np.flatnonzero(self.column("file") == number))).to_pylist()
        cubes = tuple(Cube(r["bits"], r["prefix"], r["least"], r["most"], r["rows"]) for r in rows)
        return FileCubes(self.spaces[rows[0]["space"]], cubes) if rows else None

    # ------------------------------------------------------------------ as a Puffin file

    def to_bytes(self) -> bytes:
        """A Puffin file with one blob."""
        payload = b"".join(map(_stream, (self.table, _texts(self.files), _texts(self.spaces))))
        properties = {"crc32": str(zlib.crc32(payload))}
        return puffin_bytes([Blob(kind=_KIND, payload=payload, properties=properties)])[0]

    @classmethod
    def from_bytes(cls, octets: bytes) -> Blocks:
        """What :meth:`to_bytes` made.

        Raises:
            ValueError: it is something else, or damaged.
        """
        try:
            return cls._from_bytes(octets)
        except BAD_BYTES as error:
            raise ValueError(f"no blob of cubes, or damaged: {error}") from error

    @classmethod
    def _from_bytes(cls, octets: bytes) -> Blocks:
        (blob,) = read_puffin(octets)
        if blob.kind != _KIND:
            raise ValueError(f"a blob of type {blob.kind!r}")
        payload = blob.payload
        if zlib.crc32(payload) != int(blob.properties["crc32"]):
            raise ValueError("its checksum is another")
        source = pa.BufferReader(payload)
        table, files, spaces = (pa.ipc.open_stream(source).read_all() for _ in range(3))
        table.validate(full=True)
        if table.schema != _SCHEMA or files.schema != _TEXTS or spaces.schema != _TEXTS:
            raise ValueError(f"columns {table.schema.names}")
        found = cls(files.column(0).to_pylist(), spaces.column(0).to_pylist(), table)
        for name, count in (("file", len(files)), ("space", len(spaces))):
            numbers = found.column(name)
            if len(numbers) and not (0 <= int(numbers.min()) <= int(numbers.max()) < count):
                raise ValueError(f"a {name} beyond {count}")
        return found


def _texts(values: Sequence[str]) -> pa.Table:
    return pa.table({"text": pa.array(values, pa.string())}, schema=_TEXTS)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# ------------------------------------------------------------------ those of a snapshot


def blob_names(snapshots: Iterable[Snapshot]) -> list[str]:
    """Names of the blobs that a snapshot has, which comes first, then those before it.

    A commit of another writer names none; then those of the last one that does hold.
    """
    for snapshot in snapshots:
        found = named_blobs(snapshot)
        if found:
            return found
    return []


def named_blobs(snapshot: Snapshot) -> list[str]:
    """Names of the blobs that the summary of a snapshot itself has."""
    text = snapshot.summary.get(BLOBS, "")
    return [name for name in text.split(",") if name and "/" not in name]


_kept: OrderedDict[str | tuple[str, ...], Blocks] = OrderedDict()
_footers: OrderedDict[str, FileCubes | None] = OrderedDict()


def _keep(known: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    known[key] = value
    while len(known) > most:
        known.popitem(last=False)


def read_blobs(paths: Sequence[str], read: Callable[[str], bytes]) -> Blocks:
    """The cubes of some blobs, as far as these can be read. Cost: each is read once."""
    key = tuple(paths)
    known = _kept.get(key)
    if known is not None:
        return known
    parts = []
    for path in paths:
        found = _kept.get(path)
        if found is None:
            try:
                found = Blocks.from_bytes(read(path))
            except (OSError, ValueError):
                continue
            _keep(_kept, path, found, _KEPT)
        parts.append(found)
    merged = parts[0] if len(parts) == 1 else Blocks.merged(parts)
    if len(parts) == len(paths):
        _keep(_kept, key, merged, _KEPT)
    return merged


def rebuilt(
    cubes: Blocks, paths: pa.Array, footer: Callable[[int], Mapping[str, Any] | None]
) -> Blocks:
    """The cubes of files that blobs do not have, as the footers of the files repeat them.

    Args:
        footer: gives what the footer of a file says, by its position in ``paths``.

    Cost: opens those files, once as long as the process remembers them.
    """
    found = []
    for i in np.flatnonzero(cubes.find(paths) < 0).tolist():
        path = paths[i].as_py()
        if path not in _footers:
            _keep(_footers, path, _in_footer(footer(i)), _MOST_FOOTERS)
        known = _footers[path]
        if known is not None:
            found.append((path, known))
    return Blocks.of_files(found)


def _in_footer(said: Mapping[str, Any] | None) -> FileCubes | None:
    text = None if said is None else said.get(CUBES)
    if text is None:
        return None
    try:
        found = FileCubes.from_json(text)
        Blocks.of_files([("", found)])  # whose columns may be too narrow
    except BAD_BYTES:
        return None
    return found


def forget_blobs() -> None:
    """Forgets what was read of blobs and footers, so that it is read again."""
    _kept.clear()
    _footers.clear()


def new_blocks(files: Iterable[DataFile]) -> Blocks:
    """The cubes of files that are being committed."""
    return Blocks.of_files((file.path, file.cubes) for file in files if file.cubes is not None)
