"""Decodes manifests into columns: statistics of many files without one object per file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from nimblepy.errors import CorruptFileError
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import Content, DataFile, Entry, Metrics, Vector
from nimblepy.table.base.moved import Translation
from nimblepy.table.iceberg.avro import (
    Container,
    MakeDecoder,
    Reader,
    Source,
    fields_by_id,
    reader_of,
    without_null,
)
from nimblepy.table.iceberg.maps import Maps, MapsReader, skipper_of
from nimblepy.table.iceberg.pruning import Counts, End, comparable, partition_array

Numbers = np.ndarray[Any, np.dtype[np.int64]]

# Number of files above which only some columns are in memory at a time.
MANY = 1 << 16

# Field ids in the schema of a manifest entry, from Iceberg's specification.
_STATUS, _SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE, _DATA_FILE = 0, 1, 3, 4, 2
_CONTENT, _PATH, _FORMAT, _PARTITION, _ROWS, _BYTES = 134, 100, 101, 102, 103, 104
_SORT_ORDER, _EQUALITY_IDS = 140, 135
# The data file of a deletion vector, its offset in a Puffin file, and its size.
_VECTOR = (143, 144, 145)
_FIRST_ROW_ID = 142
_MAPS = {"values": 109, "nulls": 110, "nans": 137, "lower": 125, "upper": 128}
_ADDED, _DELETED = 1, 2
# Snapshot id, data sequence number, file sequence number, and data file of an entry.
RawEntry: TypeAlias = tuple[int | None, int, int, bytes]
_CONTENTS: tuple[Content, ...] = ("data", "position deletes", "equality deletes")
# Maximum number of file descriptions that the columns of a manifest cache.
_KEPT_ENTRIES = 64
# The same for new deletion vectors. Each commit replaces the vectors of the files that it touches.
KEPT_VECTORS = 1024


class FileColumns(ABC):
    """Live files of one partition spec, as columns.

    Attributes:
        spec_id: Partition spec of all files.
        rows, sizes: Rows and bytes of each file.
        sequences: Sequence number of the snapshot that added each file.
        derived: Cache of values that were computed from these columns.
    """

    spec_id: int
    rows: Numbers
    sizes: Numbers
    sequences: Numbers
    derived: dict[Any, Any]

    @property
    def num_files(self) -> int:
        return len(self.rows)

    @abstractmethod
    def counts(self, what: Counts, number: int) -> pa.Array | None:
        """Counts as int64 by file, null if unknown; ``None`` if unknown for all files."""

    @abstractmethod
    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        """Returns the bounds as ``pruning.comparable`` makes them; ``None`` without bounds."""

    @abstractmethod
    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        """Returns the partition values in the form of ``pruning.comparable``."""

    @abstractmethod
    def entry(self, file: int) -> Entry:
        """Returns the complete description of one file."""

    @property
    @abstractmethod
    def paths(self) -> pa.Array:
        """string"""

    def paths_of(self, files: Numbers) -> pa.Array:
        """Returns the paths of some of the files."""
        return self.paths.take(pa.array(files))

    def pieces(self) -> Iterator[FileColumns]:
        """Yields the same files in pieces. At most ``MANY`` files are in memory at a time."""
        yield self

    @property
    @abstractmethod
    def manifest_numbers(self) -> Numbers:
        """The manifest of each file, as a number within these columns."""

    @property
    @abstractmethod
    def formats(self) -> pa.Array:
        """string"""

    @property
    @abstractmethod
    def sort_orders(self) -> pa.Array:
        """int32"""

    @property
    @abstractmethod
    def first_row_ids(self) -> pa.Array | None:
        """int64; ``None`` if the snapshot has no row ids."""


class ManifestFiles(FileColumns):
    """The live files of one manifest."""

    def __init__(
        self,
        path: str,
        spec_id: int,
        sequences: Numbers,
        columns: dict[int, list[Any]],
        metrics: dict[str, Maps],
        first_row_id: int | None = None,
    ) -> None:
        """Makes columns.

        Args:
            columns: Python values of each file, by field id of the data file.
            first_row_id: the first row id of the manifest.
        """
        self.path = path
        self.first_row_id = first_row_id
        self.spec_id = spec_id
        self.sequences = sequences
        self.rows = np.array(columns[_ROWS], dtype=np.int64)
        self.sizes = np.array(columns[_BYTES], dtype=np.int64)
        self._paths = pa.array(columns[_PATH], pa.string())
        count = len(self.rows)
        self._formats = pa.array(columns[_FORMAT], pa.string()).dictionary_encode()
        self._contents = np.array(columns.get(_CONTENT) or [0] * count, dtype=np.int8)
        orders = columns.get(_SORT_ORDER) or [None] * count
        self._equality_ids = columns.get(_EQUALITY_IDS)
        self._vectors = [columns.get(number) for number in _VECTOR]
        self._row_ids = _row_ids(columns.get(_FIRST_ROW_ID), self.rows, first_row_id)
        self._sort_orders = pa.array(orders, pa.int32())
        # few distinct values are common
        numbers: dict[tuple[Any, ...], int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in columns[_PARTITION]]
        self._partitions = list(numbers)
        self._codes = np.array(codes, dtype=np.int32)
        self._metrics = metrics
        self._bounds: dict[tuple[str, int, pa.DataType], pa.Array] = {}
        self._entries: dict[int, Entry] = {}
        self.derived = {}

    def translate(self, translation: Translation) -> None:
        """Replaces the paths by the current paths of the files."""
        self._paths = translation.paths(self._paths)

    @property
    def num_bytes(self) -> int:
        """Approximate bytes in memory."""
        maps = sum(item.num_bytes for item in self._metrics.values())
        return 40 * self.num_files + int(self._paths.nbytes) + maps

    @property
    def paths(self) -> pa.Array:
        return self._paths

    @property
    def manifest_numbers(self) -> Numbers:
        return np.zeros(self.num_files, dtype=np.int64)

    @property
    def formats(self) -> pa.Array:
        return self._formats.dictionary_decode()

    @property
    def sort_orders(self) -> pa.Array:
        return self._sort_orders

    @property
    def first_row_ids(self) -> pa.Array | None:
        return None if self._row_ids is None else pa.array(self._row_ids)

    def counts(self, what: Counts, number: int) -> pa.Array | None:
        return self._metrics[what].column(number)

    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        if number not in self._metrics[end].numbers:
            return None
        bounds = self._bounds.get((end, number, kind))
        if bounds is None:
            try:
                bounds = comparable(kind, self._metrics[end].column(number))
            except ValueError as error:
                raise CorruptFileError(f"{self.path}: column {number}: {error}") from error
            self._bounds[end, number, kind] = bounds
        return bounds

    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        values = [values[place] for values in self._partitions]
        return partition_array(values, kind).take(pa.array(self._codes))

    def entry(self, file: int) -> Entry:
        entry = self._entries.get(file)
        if entry is None:
            entry = self._entry(file)
            if len(self._entries) < _KEPT_ENTRIES:
                self._entries[file] = entry
        return entry

    def keep_entry(self, file: int, entry: Entry) -> None:
        """Keeps the description of a file that the caller has."""
        self._entries[file] = entry

    def _vector(self, file: int) -> Vector | None:
        data_files, offsets, sizes = self._vectors
        if not (data_files and offsets and sizes):
            return None
        return vector_of(data_files[file], offsets[file], sizes[file])

    def _entry(self, file: int) -> Entry:
        metrics: dict[str, Any] = {what: maps.of(file) for what, maps in self._metrics.items()}
        described = DataFile(
            path=self._paths[file].as_py(),
            format=self._formats[file].as_py().upper(),
            rows=int(self.rows[file]),
            bytes=int(self.sizes[file]),
            content=_CONTENTS[self._contents[file]],
            spec_id=self.spec_id,
            partition=self._partitions[self._codes[file]],
            metrics=Metrics(**metrics),
            sort_order_id=self._sort_orders[file].as_py(),
            equality_ids=ascending_ids(self._equality_ids[file]) if self._equality_ids else (),
            vector=self._vector(file),
            first_row_id=None if self._row_ids is None else int(self._row_ids[file]),
        )
        return Entry(described, int(self.sequences[file]), self.path)


def _row_ids(
    own: Sequence[int | None] | None, rows: Numbers, first_row_id: int | None
) -> Numbers | None:
    """Returns the first row id of each data file; ``None`` if the snapshot has no row ids.

    Args:
        own: the ids that the manifest stores. Files without one inherit it from the manifest.
    """
    if first_row_id is None:
        return None
    inherits = np.array([value is None for value in own or [None] * len(rows)], dtype=np.bool_)
    counted = np.cumsum(np.where(inherits, rows, 0))
    stored = np.array([0 if value is None else value for value in own or [0] * len(rows)])
    ids: Numbers = np.where(inherits, first_row_id + counted - rows, stored).astype(np.int64)
    return ids


def vector_of(data_file: str | None, offset: int | None, size: int | None) -> Vector | None:
    """Returns the place of a deletion vector, if a file has one."""
    if data_file is None or offset is None or size is None:
        return None
    return Vector(data_file=data_file, offset=offset, size=size)


def ascending_ids(ids: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the distinct field ids of a delete file, in one order."""
    return tuple(sorted(set(ids or ())))


_KINDS: dict[str, pa.DataType] = {
    "values": pa.int64(),
    "nulls": pa.int64(),
    "nans": pa.int64(),
    "lower": pa.binary(),
    "upper": pa.binary(),
}
# Greater than the sequence number of every commit.
_NEVER = 1 << 62


def files_of_no_manifest(files: Sequence[DataFile], spec_id: int) -> ManifestFiles:
    """Returns data files that are in no snapshot yet, of one partition spec, as columns."""
    return new_files(files, spec_id, "", _NEVER)


def new_files(
    files: Sequence[DataFile],
    spec_id: int,
    path: str,
    sequence: int,
    first_row_id: int | None = None,
) -> ManifestFiles:
    """Returns new files of one partition spec as the content of the manifest at ``path``."""
    columns: dict[int, list[Any]] = {
        _CONTENT: [_CONTENTS.index(file.content) for file in files],
        _PATH: [file.path for file in files],
        _FORMAT: [file.format for file in files],
        _PARTITION: [file.partition for file in files],
        _ROWS: [file.rows for file in files],
        _BYTES: [file.bytes for file in files],
        _SORT_ORDER: [file.sort_order_id for file in files],
        _EQUALITY_IDS: [file.equality_ids for file in files],
        _FIRST_ROW_ID: [file.first_row_id for file in files],
    }
    vectors = [file.vector for file in files]
    if any(vectors):
        places = [
            (None, None, None) if v is None else (v.data_file, v.offset, v.size) for v in vectors
        ]
        columns |= dict(zip(_VECTOR, map(list, zip(*places, strict=True)), strict=True))
    own = [sequence if file.sequence is None else file.sequence for file in files]
    sequences = np.array(own, dtype=np.int64)
    metrics = {
        what: Maps.from_dicts([getattr(file.metrics, what) for file in files], kind)
        for what, kind in _KINDS.items()
    }
    made = ManifestFiles(path, spec_id, sequences, columns, metrics, first_row_id)
    for i, file in enumerate(files[:KEPT_VECTORS]):
        if file.vector is not None:
            made.keep_entry(i, Entry(file, int(sequences[i]), path))
    return made


def manifest_files(
    container: Container,
    decoder: MakeDecoder,
    *,
    path: str,
    spec_id: int,
    partition: Sequence[int],
    deletes: bool,
    sequence: int | None,
    first_row_id: int | None = None,
    raw: list[RawEntry] | None = None,
) -> ManifestFiles:
    """Decodes a manifest.

    Args:
        partition: Field ids of the partition spec.
        deletes: Whether it lists delete files instead of data files.
        sequence: Sequence number of the manifest. Files that it added inherit it.
        first_row_id: First row id of the manifest.
        raw: Receives the live entries, in the order of the files.

    Raises:
        CorruptFileError: the bytes do not match the schema.

    Cost: some microseconds per file.
    """
    try:
        source = Source(container.records, decoder)
        sequences, columns, metrics = _decoded(container, source, sequence or 0, raw)
        _check_contents(columns, deletes)
        _by_spec(columns, container.schema, partition)
        return ManifestFiles(path, spec_id, sequences, columns, metrics, first_row_id)
    except BAD_BYTES as error:
        raise CorruptFileError(f"{path}: not a manifest: {error!r}") from error


def _decoded(
    container: Container,
    source: Source,
    inherited: int,
    raw: list[RawEntry] | None,
) -> tuple[Numbers, dict[int, list[Any]], dict[str, Maps]]:
    """Returns the sequence numbers, columns and metrics for ``ManifestFiles``."""
    fields = fields_by_id(container.schema)
    place = next((i for i, (number, _) in enumerate(fields) if number == _DATA_FILE), None)
    if place is None:
        raise ValueError("its entries have no field data_file")
    readers = [(number, reader_of(kind, source)) for number, kind in fields if number != _DATA_FILE]
    before, after = readers[:place], readers[place:]
    maps = {number: MapsReader(_KINDS[what]) for what, number in _MAPS.items()}
    read_fields = {_CONTENT, _PATH, _FORMAT, _PARTITION, _ROWS, _BYTES, _SORT_ORDER, _EQUALITY_IDS}
    read_fields.update((*_VECTOR, _FIRST_ROW_ID))
    columns: dict[int, list[Any]] = {}
    forget = deque[Any](maxlen=0).append
    file_readers: list[tuple[Reader, Callable[[Any], None]]] = []
    for number, kind in fields_by_id(fields[place][1]):
        if number in maps:
            file_readers.append(maps[number].reader_of(kind, source))
        elif number in read_fields:
            columns[number] = []
            file_readers.append((reader_of(kind, source), columns[number].append))
        else:
            file_readers.append((skipper_of(kind, source), forget))
    sequences: list[int] = []
    live: list[bool] = []
    tell, size, records = source.tell, source.size, container.records
    for _ in range(container.count):
        head = {number: read() for number, read in before}
        begin = tell()
        for read, keep in file_readers:
            keep(read())
        end = tell()
        if after:
            head |= {number: read() for number, read in after}
        if end > size or after:
            source.check()
        status = head[_STATUS]
        live.append(status != _DELETED)
        own_sequence = head.get(_SEQUENCE)
        if own_sequence is None:
            own_sequence = inherited if status == _ADDED else 0
        sequences.append(own_sequence)
        if raw is not None and live[-1]:
            same = head.get(_FILE_SEQUENCE)
            own = own_sequence if same is None else same
            raw.append((head.get(_SNAPSHOT), own_sequence, own, records[begin:end]))
    source.at_end()
    metrics = {what: maps[number].result(container.count) for what, number in _MAPS.items()}
    order = np.array(sequences, dtype=np.int64)
    if not all(live):
        columns = {number: list(compress(values, live)) for number, values in columns.items()}
        metrics = {what: item.filter(np.array(live)) for what, item in metrics.items()}
        order = order[live]
    return order, columns, metrics


def _check_contents(columns: dict[int, list[Any]], deletes: bool) -> None:
    wrong = set(columns.get(_CONTENT, ())) - ({1, 2} if deletes else {0})
    if wrong:
        raise ValueError(f"content {wrong} in a manifest of {'deletes' if deletes else 'data'}")


def _by_spec(columns: dict[int, list[Any]], schema: Any, partition: Sequence[int]) -> None:
    """Puts partition values, which a file may store in any order, into the spec's order."""
    record = without_null(dict(fields_by_id(dict(fields_by_id(schema))[_DATA_FILE]))[_PARTITION])
    places = {number: i for i, (number, _) in enumerate(fields_by_id(record))}
    order = [places[number] for number in partition]
    if order != list(range(len(places))):
        columns[_PARTITION] = [tuple(values[i] for i in order) for values in columns[_PARTITION]]


class Selection:
    """Some files of several sets of columns, in any order.

    Attributes:
        parts: the sets of columns.
        part, row: the position of each file.
    """

    def __init__(self, parts: Sequence[FileColumns], part: Numbers, row: Numbers) -> None:
        self.parts = parts
        self.part = part
        self.row = row

    @classmethod
    def of(cls, parts: Sequence[FileColumns], rows: Sequence[Numbers]) -> Selection:
        """Returns the files ``rows`` of each part."""
        # int32 saves memory, because there may be a million files
        part = np.repeat(np.arange(len(parts), dtype=np.int32), [len(item) for item in rows])
        row = np.concatenate([item.astype(np.int32, copy=False) for item in rows] or [part])
        return cls(parts, cast(Numbers, part), cast(Numbers, row))

    def beside(self, part: FileColumns) -> Selection:
        """Returns these files, followed by all files of another part."""
        part_numbers = np.full(part.num_files, len(self.parts), dtype=np.int64)
        row = np.arange(part.num_files, dtype=np.int64)
        return Selection(
            [*self.parts, part],
            np.concatenate((self.part, part_numbers)),
            np.concatenate((self.row, row)),
        )

    def __len__(self) -> int:
        return len(self.row)

    def entry(self, at: int) -> Entry:
        return self.parts[int(self.part[at])].entry(int(self.row[at]))

    def take(self, order: Numbers) -> Selection:
        return Selection(self.parts, self.part[order], self.row[order])

    @property
    def rows(self) -> Numbers:
        """Rows of each file."""
        return cast(Numbers, self.gather([part.rows for part in self.parts], np.int64))

    @property
    def sizes(self) -> Numbers:
        """Bytes of each file."""
        return cast(Numbers, self.gather([part.sizes for part in self.parts], np.int64))

    @property
    def paths(self) -> pa.Array:
        return self.arrays([part.paths for part in self.parts])

    def paths_of(self, files: Numbers) -> pa.Array:
        """Returns the paths of some files, in any order. Cost: reads only these paths."""
        some = self.take(files)
        path_arrays = [part.paths_of(some.row[some.part == i]) for i, part in enumerate(some.parts)]
        order = np.argsort(some.part, kind="stable")
        at = np.empty(len(order), dtype=np.int64)
        at[order] = np.arange(len(order))
        return pa.chunked_array(path_arrays, pa.string()).take(pa.array(at)).combine_chunks()

    def gather(self, columns: Sequence[np.ndarray[Any, Any]], kind: Any) -> Any:
        """Returns a numpy column of the files, gathered from those of all parts."""
        result = np.zeros(len(self), dtype=kind)
        for i, places, rows in self._by_part():
            result[places] = columns[i][rows]
        return result

    def arrays(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Returns an Arrow column of the files, gathered from those of all parts."""
        if not columns:
            return pa.nulls(0)
        if len(columns) == 1:
            whole = len(columns[0]) == len(self) and (self.row == np.arange(len(self))).all()
            return columns[0] if whole else columns[0].take(pa.array(self.row))
        starts = np.cumsum([0, *(len(part) for part in columns)])
        at = pa.array(starts[self.part] + self.row)
        return pa.chunked_array(columns).take(at).combine_chunks()

    def _by_part(self) -> Iterator[tuple[int, Any, Numbers]]:
        if len(self.parts) == 1:
            yield 0, slice(None), self.row
            return
        order = np.argsort(self.part, kind="stable")
        ends = np.searchsorted(self.part[order], np.arange(len(self.parts) + 1))
        for i in range(len(self.parts)):
            places = order[ends[i] : ends[i + 1]]
            if len(places):
                yield i, places, self.row[places]
