"""Presents many Parquet files and their index as one source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, IndexUnavailableError
from nimblepy.file.source import FileSource
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.open_files import most_together
from nimblepy.files.source import FilesSource
from nimblepy.foreign.build import first_rows_of, row_numbers
from nimblepy.foreign.child import IndexedParquet
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.pages import PageReader
from nimblepy.foreign.records import HASH, ROW, IndexRecord, key_hashes
from nimblepy.foreign.row_reader import Indexed, row_reader
from nimblepy.io.lru_cache import LruCache
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import Compiled, SingleRows
from nimblepy.rows.plan import DetailValue, Plan
from nimblepy.rows.request import Keys, Request, Where
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import OnKeys, Reader, RowSource
from nimblepy.schema.names import ColumnName, show_names
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, column_of, format_bytes

# Number of entries whose row numbers are read at once.
_ENTRIES_AT_ONCE = 1 << 17
# For each row of all files, whether it is selected.
RowMask = np.ndarray[Any, np.dtype[np.bool_]]
# For each file, whether a call is about it.
FileMask = np.ndarray[Any, np.dtype[np.bool_]]

_ROW = (ROW,)
_HASHES = (HASH,)


class IndexedFiles(FilesSource):
    """Parquet files in their indexed versions. Immutable.

    Attributes:
        record: the description of the index and of the files, from the index file.
        index: the open index file.
    """

    kind = "index of Parquet files"

    def __init__(
        self,
        path: str,
        index: FileSource,
        record: IndexRecord,
        paths: Paths,
        pages: _core.ParquetPages,
        pickled: tuple[Any, ...],
        child: type[IndexedParquet] = IndexedParquet,
        readers: LruCache[PageReader] | None = None,
    ) -> None:
        super().__init__()
        self.path = path
        self.index = index
        self.record = record
        self.num_files = len(record.files)
        self.bounds = None
        self.pages = pages
        self._first_rows = first_rows_of(record.files)
        readers = LruCache(most_together()) if readers is None else readers
        self._readers = readers
        self._children = [
            child(file, record.schema, paths, pages, readers) for file in record.files
        ]
        self._pickled = pickled

    def __reduce__(self) -> tuple[Any, ...]:
        return self._pickled

    # ------------------------------------------------------------------ description

    @property
    def schema(self) -> pa.Schema:
        _ = self.index.schema  # raises if it is closed
        return self.record.schema

    @property
    def size_bytes(self) -> int:
        """Total bytes of the Parquet files and of the index."""
        return sum(file.size_bytes for file in self.record.files) + self.index.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return {}

    @property
    def cluster_by(self) -> list[SortKey]:
        """Empty: the files are in any order. Calls without ``on`` use the key of the index."""
        return []

    @property
    def unique(self) -> bool:
        return False

    @property
    def indexes(self) -> list[IndexInfo]:
        return [
            IndexInfo(
                kind=self.record.kind,
                columns=self.record.sort_keys,
                size_bytes=self.index.size_bytes,
                num_keys=self.index.num_rows,
            )
        ]

    @property
    def io_stats(self) -> IoStats:
        """Reads of the index and of pages. Reads by pyarrow are not counted."""
        reads, size, rounds, _ = self.pages.stats
        own = IoStats(reads=reads, bytes_read=size, data_reads=reads, rounds=rounds)
        return self.index.io_stats + own

    def reset_io_stats(self) -> None:
        self.index.reset_io_stats()
        self.pages.reset_stats()

    @property
    def first_rows(self) -> Positions:
        return self._first_rows

    def child(self, file: int) -> IndexedParquet:
        return self._children[file]

    def name_of(self, file: int) -> str:
        return self.record.files[file].path

    def check(self, files: Sequence[int] | None = None) -> None:
        """Raises an error if one of ``files`` changed after it was indexed. Default: all files."""
        for file in range(self.num_files) if files is None else files:
            self._children[file].check()

    def damage(self) -> Iterator[Exception]:
        try:
            self.index.verify()
        except CorruptFileError as error:
            yield error
        yield from super().damage()

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        made: Any = None
        match reader:
            case SingleRows(columns, on):
                made = row_reader(
                    Indexed(self.record, self.index, self._children), columns, self.on_columns(on)
                )
        return made  # type: ignore[no-any-return]

    def close(self) -> None:
        self.index.close()
        self._readers.clear()

    # ------------------------------------------------------------------ finding

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        keys = self.record.sort_keys
        if on is not None and self.record.kind == "sorted":
            return self.index.index_keys(on, ordered=ordered)
        if self.record.kind == "hash":
            if ordered:
                raise IndexUnavailableError(
                    f"{self.path}: a hash index on ({', '.join(self.record.keys)}) has no order; "
                    'nb.index_files(..., kind="sorted") makes an index for ranges'
                )
            if on is not None and {column_of(key) for key in on} != set(self.record.keys):
                shown = show_names(map(column_of, on))
                raise IndexUnavailableError(
                    f"{self.path}: no index on ({shown}); it is a hash index on "
                    f"({', '.join(self.record.keys)})"
                )
        return keys

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if isinstance(request, Where):
            return self.everything if request.rows is None else request.rows
        if isinstance(request, Keys):
            self.index_keys(request.columns, ordered=False)
            if self.record.kind == "hash":
                return self._find_hashed(request).slice(0, limit)
        return self.located(self.index.find(request, limit=limit, reverse=reverse))

    def find_among(self, keys: Keys, wanted: FileMask) -> RowSet:
        """Returns the rows of some files, one entry per row. The other files need not exist.

        Args:
            wanted: for each file, whether its rows are wanted.
        """
        self.index_keys(keys.columns, ordered=False)
        if self.record.kind == "hash":
            return self._find_hashed(keys, wanted)
        return self.located(self.index.find(keys), wanted)

    def count_matches(self, keys: Keys) -> Positions:
        if self.record.kind == "hash":
            return self.find(keys).counts
        self.index_keys(keys.columns, ordered=False)
        found = self.index.find(keys)
        self.located(found)  # checks the files
        return found.counts

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        if self.record.kind == "hash":
            return super().find_and_read(keys, columns, first=first)
        self.index_keys(keys.columns, ordered=False)
        table, probe = self.index.find_and_read(keys, _ROW, first=first)
        rows = self._checked(self._place(self._numbers(table), probe, len(keys)))
        return self.read(rows, columns), probe

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        if self.record.kind == "hash":
            self.index_keys((*by, on), ordered=True)
        return self.index.asof_keys(by, on)

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        self.asof_keys(keys.by, keys.on)
        if keys.known is not None and keys.known not in self.record.keys:
            raise IndexUnavailableError(
                f"{self.path}: known_at: column {keys.known!r} is not in the index on "
                f"({', '.join(self.record.keys)})"
            )
        return self.located(self.index.find_asof(keys))

    def located(self, found: RowSet, wanted: FileMask | None = None) -> RowSet:
        """Converts rows of the index to rows of the files.

        Checks that these files did not change.

        Args:
            wanted: for each file, whether its rows are wanted. The other files need not exist.
        """
        single = found.expand()
        numbers = self._numbers(self.index.read(single, _ROW))
        rows = self._place(numbers, single.probe, single.num_probes)
        if wanted is not None:
            assert rows.file is not None
            rows = rows.entries(wanted[rows.file])
        return self._checked(rows)

    def entries_of(self, rows: RowMask) -> _core.RowBitmap:
        """Returns the entries of some rows.

        Args:
            rows: for each row of all files, whether its entry is wanted.

        Cost: reads the row numbers of all entries.
        """
        everything = Where(None, self.index.everything)
        parts, first = [], 0
        for batch in self.index.scan_batches(
            everything, _ROW, batch_rows=_ENTRIES_AT_ONCE, threads=1
        ):
            numbers = row_numbers(batch.column(0), self.num_rows, self.path)
            parts.append(first + np.flatnonzero(rows[numbers]))
            first += len(numbers)
        entries = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return _core.RowBitmap(entries.astype(np.uint64))

    def _numbers(self, table: pa.Table) -> Positions:
        column = table.column(ROW)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return row_numbers(array, self.num_rows, self.path)

    def _place(self, numbers: Positions, probe: Positions | None, num_probes: int) -> RowSet:
        file = np.searchsorted(self._first_rows, numbers, side="right") - 1
        begin = (numbers - self._first_rows[file]).astype(np.uint64)
        return RowSet(begin, None, probe, num_probes, file)

    def _checked(self, rows: RowSet) -> RowSet:
        assert rows.file is not None
        self.check(np.unique(rows.file).tolist() if len(rows.file) > 1 else rows.file.tolist())
        return rows

    def _find_hashed(self, keys: Keys, wanted: FileMask | None = None) -> RowSet:
        """Finds rows by the hashes of their keys, and drops rows with other keys."""
        names = self.record.keys
        usable = self.can_match(keys)
        asked = keys if usable is None else keys.take(usable)
        probes = np.arange(len(keys), dtype=np.int64) if usable is None else usable
        batch = asked.batch(names)
        hashes = pa.array(key_hashes(batch, self.record.sort_keys, self.record.hash_bits))
        found = self.index.find_and_read(Keys(_HASHES, (hashes,)), _ROW)
        rows = self._place(self._numbers(found[0]), found[1], len(asked))
        if wanted is not None:
            assert rows.file is not None
            rows = rows.entries(wanted[rows.file])
        rows = self._checked(rows)
        if not len(rows.begin):
            return RowSet(rows.begin, None, rows.probe, len(keys), rows.file)
        assert rows.probe is not None
        stored = self.read(rows, names).combine_chunks().to_batches()[0]
        is_same = _equal_keys(stored, batch, rows.probe, self.record.sort_keys)
        kept = rows.entries(np.flatnonzero(is_same))
        return kept.for_probes(probes, len(keys))

    # ------------------------------------------------------------------ explaining

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        return ("files", self.num_files), ("files read", len(files))

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        if isinstance(request, Where):
            return super().explain_request(request, columns)
        rows = self.find(request)
        used = [] if rows.file is None else np.unique(rows.file).tolist()
        name = f"{self.record.kind} ({', '.join(self.record.keys)})"
        child = Plan(
            text=f"read {self.path}", details=(("entries", self.index.num_rows),), index=name
        )
        return Plan(
            text=f"lookup in an {self.kind}"
            if isinstance(request, Keys)
            else f"range in an {self.kind}",
            details=(*self.plan_details(used), ("rows", rows.num_rows)),
            children=(child,),
            index=name,
        )

    def children(self) -> Iterator[RowSource]:
        return iter(self._children)

    def __repr__(self) -> str:
        return (
            f"<nimblepy.ParquetIndex {self.path!r}: {self.record.kind} index on "
            f"({', '.join(self.record.keys)}), {self.num_files:,} files, {self.num_rows:,} rows, "
            f"{format_bytes(self.index.size_bytes)}>"
        )

    @cached_property
    def paths(self) -> list[str]:
        """Paths or URIs of the files, in the order of their rows."""
        return [file.path for file in self.record.files]


def _equal_keys(
    stored: pa.RecordBatch, asked: pa.RecordBatch, probe: Positions, keys: Sequence[SortKey]
) -> Any:
    """Returns whether each stored key equals the key of its probe."""
    mine = EncodedKeys(stored, keys).to_array()
    theirs = EncodedKeys(asked, keys).to_array().take(pa.array(probe))

    return pc.equal(mine, theirs).to_numpy(zero_copy_only=False)


def absolute(path: str | os.PathLike[str], is_local: bool) -> str:
    """Returns the path of an index file, so that another working directory can open it again."""
    text = os.fspath(path)
    return os.path.abspath(text) if is_local else text
