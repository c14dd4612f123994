"""FilesSource: reads several sources as one.

It sends each request to the files whose key bounds allow a match, and merges their answers. A row's
address is (file, row). A file can be any ``RowSource``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, IndexUnavailableError, StaleFileError
from nimblepy.expr.nodes import Node
from nimblepy.file.handle import batch_table
from nimblepy.file.indexes import Index, choose, choose_for_asof
from nimblepy.files.ahead import in_turn
from nimblepy.files.asof import FilesSearch
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.locate import AskedKeys
from nimblepy.files.open_files import most_together
from nimblepy.io.fork import ForkLock
from nimblepy.rows.arguments import On, Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import (
    ColumnReader,
    Compiled,
    FileScan,
    NearestReader,
    RangeReader,
    Ranges,
    RowsOfFile,
    SingleRows,
)
from nimblepy.rows.gather import gather_array, rows_without_columns
from nimblepy.rows.keys import key_columns
from nimblepy.rows.nearest import NearestPart, NearestRows, make_reader
from nimblepy.rows.plan import DetailValue, LayoutNode, Plan
from nimblepy.rows.request import Keys, Ordered, Prefix, Request, Where, leads, leads_to
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import OnKeys, Reader, RowSource
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName, output_name, show_names
from nimblepy.schema.types import IndexInfo, KeyColumn, SortKey, agrees, column_of

T = TypeVar("T")
Mask = np.ndarray[Any, np.dtype[np.bool_]]
# A column's type, and its minimum and maximum in each file.
ColumnEnds = tuple[pa.DataType, Positions, Positions]

# Maximum number of files whose plans are shown separately.
_SHOWN = 8
# One thread decodes a file below all three limits, in parallel with other files.
_SMALL_ROWS = 1 << 18
_SMALL_BYTES = 16 << 20
_SMALL_VALUES = 4 << 20
# A scan of fewer values does not start threads.
_WORTH_VALUES = 4 << 20
# Number of files opened ahead.
_PREPARED = 32
# Number of files that one scan keeps open and decodes together.
_SCANNED_TOGETHER = 128
# Number of rows gathered from several files in one step.
_GATHERED_ROWS = 1 << 20
# Column statistics are checked for at most this many (key, file) pairs.
_MOST_PAIRS = 1 << 20


class FilesSource(RowSource):
    """Rows of many sources with one schema and one cluster key.

    Attributes:
        kind: the name of this source in plans.
        num_files: number of sources.
        bounds: first and last key of each non-empty source. Non-empty sources precede empty ones.
            ``None`` if the bounds are unknown.
    """

    kind = "dataset"
    num_files: int
    bounds: FileBounds | None

    @abstractmethod
    def child(self, file: int) -> RowSource:
        """Returns one source. Opens it if it is not open."""

    @property
    def keeps_readers(self) -> bool:
        """Whether a reader of single rows may keep all files open. False if they are too many."""
        return True

    def prepare(self, files: Sequence[int]) -> None:
        """Opens the given sources together, if that is faster than one after another."""
        return

    def prepared(self, files: Sequence[int]) -> Iterator[int]:
        """Yields the files in order and prepares them in groups."""
        for at in range(0, len(files), _PREPARED):
            self.prepare(files[at : at + _PREPARED])
            yield from files[at : at + _PREPARED]

    @property
    @abstractmethod
    def first_rows(self) -> Positions:
        """Number of live rows before each file, followed by the total."""

    def stored_rows(self, file: int) -> int:
        """Returns the number of rows stored in a file, including deleted rows."""
        deleted_rows = self.deleted(file)
        live = int(self.first_rows[file + 1] - self.first_rows[file])
        return live + (0 if deleted_rows is None else len(deleted_rows))

    def name_of(self, file: int) -> str:
        """Returns the name of a file for messages."""
        return f"file {file}"

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        """Returns the details of a plan that reads the given files."""
        return ("files", self.num_files), ("files opened", len(files))

    def deleted(self, file: int) -> _core.RowBitmap | None:
        """Returns the deleted rows of a file; ``None`` if it has no deleted rows."""
        return None

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        """Returns the files, ascending, that may have rows for which all ``conjuncts`` are true."""
        return range(self.num_files)

    def column_ends(self, name: ColumnName) -> ColumnEnds | None:
        """Returns the bounds of a column in each file; ``None`` if they are unknown.

        Returns:
            The column's type (a signed integer, a date or a time), and the minimum and the maximum
            of each file as stored integers.
        """
        return None

    def possible(
        self,
        names: Sequence[ColumnName],
        values: Sequence[pa.Array],
        keys: Positions,
        files: Positions,
    ) -> Mask | None:
        """Checks (key, file) pairs against :meth:`column_ends`; ``None`` if it allows all pairs.

        Args:
            values: the values of all keys, one array for each of ``names``.
            keys: the position of each pair's key.
            files: the file of each pair.

        Returns:
            For each pair, whether the file may contain the key.
        """
        allowed = None
        for name, column in zip(names, values, strict=True):
            ends = None if column.null_count else self.column_ends(name)
            if ends is None or column.type != ends[0]:
                continue
            _, least, greatest = ends
            stored_keys = column.view(f"int{column.type.bit_width}").to_numpy()[keys]
            inside = (least[files] <= stored_keys) & (stored_keys <= greatest[files])
            allowed = inside if allowed is None else allowed & inside
        return allowed

    def distinct_keys(self, names: Sequence[ColumnName]) -> float | None:
        """Estimates the number of distinct keys of these columns, without reading data.

        Returns ``None`` if the number is unknown.
        """
        return None

    def always_finds(self, names: Sequence[ColumnName]) -> bool:
        """Returns whether every file can be searched by these columns, even without an index."""
        return False

    # ------------------------------------------------------------------ properties

    @property
    def declared(self) -> Sequence[IndexInfo]:
        """Indexes that the table declares for its files."""
        return ()

    @property
    def num_rows(self) -> int:
        return int(self.first_rows[-1])

    @property
    def metadata(self) -> dict[str, bytes]:
        shared = [child.metadata.items() for child in self.children()]
        return dict(set(shared[0]).intersection(*shared[1:])) if shared else {}

    @property
    def unique(self) -> bool:
        apart = self.num_files <= 1 or (self.bounds is not None and self.bounds.disjoint)
        return apart and bool(self.cluster_by) and all(child.unique for child in self.children())

    @property
    def indexes(self) -> list[IndexInfo]:
        """Indexes that every file has, the cluster index first. Sizes and key counts are totals.

        If there are no files, these are the declared indexes. Cost: opens every file.
        """
        merged: list[IndexInfo] | None = None
        for child in self.children():
            child_indexes = {(info.kind, info.columns): info for info in child.indexes}
            merged = (
                list(child_indexes.values())
                if merged is None
                else [
                    replace(
                        info,
                        size_bytes=info.size_bytes + other.size_bytes,
                        num_keys=info.num_keys + other.num_keys,
                        has_bloom=info.has_bloom and other.has_bloom,
                    )
                    for info in merged
                    if (other := child_indexes.get((info.kind, info.columns))) is not None
                ]
            )
        return list(self.declared) if merged is None else merged

    def layout(self) -> LayoutNode:
        files = tuple(child.layout() for child in self.children())
        size = sum(file.size_bytes for file in files)
        name = f"{self.num_files:,} files"
        return LayoutNode(
            name=name, kind="files", rows=self.num_rows, size_bytes=size, children=files
        )

    def verify(self) -> None:
        for error in self.damage():
            raise error

    def damage(self) -> Iterator[Exception]:
        """Verifies each file, and yields an error for each that is damaged or missing."""
        for file in range(self.num_files):
            try:
                self.verify_file(file)
            except (CorruptFileError, FileNotFoundError, StaleFileError) as error:
                yield error

    def verify_file(self, file: int) -> None:
        """Verifies one file."""
        self.child(file).verify()

    def children(self) -> Iterator[RowSource]:
        """Yields every source in order."""
        return map(self.child, self.prepared(range(self.num_files)))

    # ------------------------------------------------------------------ addresses

    @cached_property
    def _index_keys(self) -> dict[tuple[OnKeys, bool], tuple[SortKey, ...]]:
        return {}

    @cached_property
    def _index_keys_for_asof(self) -> dict[tuple[tuple[ColumnName, ...], ColumnName], Any]:
        return {}

    @cached_property
    def _vector_metrics(self) -> dict[ColumnName, frozenset[str]]:
        return {}

    def all_rows(self) -> RowSet:
        return self._all_rows

    @cached_property
    def _all_rows(self) -> RowSet:
        counts = np.diff(self.first_rows)
        files = np.flatnonzero(counts)
        deleted_rows = {int(i): rows for i in files if (rows := self.deleted(int(i))) is not None}
        if not deleted_rows:
            end = counts[files].astype(np.uint64)
            return RowSet(np.zeros(len(files), dtype=np.uint64), end, file=files)
        return RowSet.joined(
            [self._rows_of(int(i), int(counts[i]), deleted_rows.get(int(i))) for i in files]
        )

    @cached_property
    def _all_by_file(self) -> list[tuple[int, RowSet]]:
        return self._all_rows.by_file()

    def _rows_of(self, file: int, count: int, gone: _core.RowBitmap | None) -> RowSet:
        """Returns the ``count`` live rows of one file."""
        rows = RowSet.of_range(0, count + (0 if gone is None else len(gone)))
        return (rows if gone is None else rows.minus(gone)).in_file(file)

    def numbered(self, rows: RowSet) -> RowSet:
        if rows.file is None:
            return rows
        there = self.all_rows()
        sizes = there.sizes
        at = np.searchsorted(_places(there), _places(rows), side="right") - 1
        begin = (np.cumsum(sizes) - sizes)[at].astype(np.uint64) + rows.begin - there.begin[at]
        return replace(rows, begin=begin, end=begin + rows.sizes.astype(np.uint64), file=None)

    # ------------------------------------------------------------------ which files

    def candidates(self, request: Ordered | Where) -> Sequence[int]:
        """Returns the files, ascending, that may have matching rows."""
        if isinstance(request, Where):
            if request.filter is None:
                return range(self.num_files)
            return () if request.filter.matches_nothing else self.prune(request.filter.conjuncts)
        if request.nothing:
            return ()
        if self.num_files == 1 or self.bounds is None:
            return range(self.num_files)
        if not self._by_cluster(request.keys, ordered=True):
            return range(self.num_files)
        low, high = request.ends
        first = self._encoded(low)
        return self.bounds.between(first, first if high is low else self._encoded(high))

    def _encoded(self, row: pa.RecordBatch | None) -> bytes | None:
        return None if row is None else EncodedKeys(row, self.cluster_by).to_list()[0]

    def _asked(self, keys: Keys) -> list[tuple[int, Positions | None]]:
        """Returns the files to search, each with the positions of the keys that it may contain.

        ``None`` instead of positions means all keys.
        """
        names = keys.columns
        if not self._by_cluster(names):
            self.index_keys(names, ordered=False)
            return [(i, None) for i in range(self.num_files)]
        if self.num_files <= 1 or self.bounds is None:
            return [(i, None) for i in range(self.num_files)]
        at = self.can_match(keys)
        usable_keys = keys if at is None else keys.take(at)
        cluster = self.cluster_by
        low, high = usable_keys.ends(cluster[: len(names)])
        first = EncodedKeys(low, cluster)
        last = first if high is low else EncodedKeys(high, cluster)
        probes, files = self.bounds.candidates(first, last)
        keep = (
            self.possible(usable_keys.names, usable_keys.values, probes, files)
            if len(files) > len(usable_keys)
            else None
        )
        if keep is not None:
            probes, files = probes[keep], files[keep]
        if at is not None:
            probes = at[probes]
        return [
            (file, None if len(matching) == len(keys) else matching)
            for file, matching in _grouped(files, probes)
        ]

    def _asked_at_once(self, keys: Keys) -> AskedKeys:
        """Returns a search for the keys in all files together."""
        order: Sequence[SortKey] | None = None
        if self._by_cluster(keys.names):
            order = self.cluster_by[: len(keys.names)]
        else:
            self.index_keys(keys.names, ordered=False)
        search = AskedKeys(
            keys, self.child, self.deleted, self.prepare, self.num_files, order, self.bounds
        )
        if order is not None and len(keys) < len(search.files) <= _MOST_PAIRS // max(1, len(keys)):
            self._keep_possible(search, keys)
        return search

    def _keep_possible(self, asked: AskedKeys, keys: Keys) -> None:
        """Removes the files whose column statistics exclude every key from ``asked``."""
        at = self.can_match(keys)
        usable = keys if at is None else keys.take(at)
        count, files = len(usable), asked.files
        pairs = np.repeat(files, count)
        probes = np.tile(np.arange(count, dtype=np.int64), len(files))
        keep = self.possible(usable.names, usable.values, probes, pairs)
        if keep is not None:
            asked.files = files[keep.reshape(len(files), count).any(axis=1)]

    def can_match(self, keys: Keys) -> Positions | None:
        """Returns the positions of the keys that can match; ``None`` if all keys can match."""
        usable = keys.usable
        for column in () if keys.null_equals else keys.values:
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                usable = valid if usable is None else usable & valid
        return None if usable is None or usable.all() else np.flatnonzero(usable)

    def _by_cluster(self, on: Sequence[KeyColumn], *, ordered: bool = False) -> bool:
        """Returns whether ``on`` is a prefix of the cluster key.

        If ``ordered``, the sort order must be the same too.
        """
        if not ordered:
            return leads([column_of(key) for key in on], self.cluster_by)
        return agrees(on, self.cluster_by)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        cluster = tuple(self.cluster_by)
        if on is None:
            if not cluster:
                raise IndexUnavailableError("these files have no cluster key; pass on= or scan")
            return cluster
        for key in on:
            resolve_column(self.schema, column_of(key))
        if self._by_cluster(on, ordered=ordered):
            return cluster
        if not self.num_files:
            return self._declared_keys(on, ordered)
        sort_keys = self._index_keys.get((on, ordered))
        if sort_keys is None:
            sort_keys = self._index_keys[on, ordered] = self._shared_keys(
                on, lambda child: child.index_keys(on, ordered=ordered)
            )
        return sort_keys

    def _declared_keys(self, on: tuple[KeyColumn, ...], ordered: bool) -> tuple[SortKey, ...]:
        """Returns the sort keys of a declared index on these columns. For tables without files."""
        if not self.declared:
            shown = show_names(map(column_of, on))
            raise IndexUnavailableError(f"no index on ({shown}): there are no files")
        return choose(self._declared_indexes(), self.schema, on, ordered=ordered).keys

    def _declared_indexes(self) -> list[Index]:
        return [
            Index(
                number,
                info.kind,
                info.columns,
                tuple(resolve_column(self.schema, key.column) for key in info.columns),
            )
            for number, info in enumerate(self.declared)
            if info.kind != "vector"
        ]

    def _shared_keys(
        self, on: Sequence[KeyColumn], keys_of: Callable[[RowSource], tuple[SortKey, ...]]
    ) -> tuple[SortKey, ...]:
        """Returns the sort keys of the first file's index on these columns.

        Args:
            keys_of: returns the sort keys of a file, or raises IndexUnavailableError.

        Raises:
            IndexUnavailableError: at least one file has no index on these columns.
        """
        sort_keys: list[tuple[SortKey, ...]] = []
        lacking: list[str] = []
        for i, child in enumerate(self.children()):
            try:
                sort_keys.append(keys_of(child))
            except IndexUnavailableError:
                if not sort_keys and i == self.num_files - 1:
                    raise  # no file has such an index; the last error lists the indexes of a file
                lacking.append(self.name_of(i))
        if lacking:
            shown = ", ".join(lacking[:_SHOWN]) + ", ..." * (len(lacking) > _SHOWN)
            raise IndexUnavailableError(
                f"no index on ({show_names(map(column_of, on))}) in {len(lacking)} of "
                f"{self.num_files} files: {shown}; nimblepy.add_index adds one to each"
            )
        return sort_keys[0]

    # ------------------------------------------------------------------ finding

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if isinstance(request, Keys):
            return self._find_keys(request, limit)
        if isinstance(request, Where):
            return RowSet.joined(
                [
                    self.child(i).find(Where(request.filter, rows)).in_file(i)
                    for i, rows in self._within(request)
                ]
            )
        files = self.candidates(request)
        in_order = self._in_order(request, files)
        parts = []
        left = limit
        ordered = files[::-1] if reverse else files
        for i in ordered if in_order and left is not None else self.prepared(ordered):
            rows = self._find_in(i, request, left, reverse)
            if rows.num_rows:
                parts.append(rows)
            if in_order and left is not None:
                left -= rows.num_rows
                if left <= 0:
                    break
        rows = RowSet.joined(parts)
        if in_order or len(parts) <= 1:
            return rows
        # The result is ordered by key, then by file; exactly the opposite if ``reverse``.
        rows = rows.expand()
        keys = self._keys_in_order(request, files)
        order = key_order(self.read(rows, tuple(key.column for key in keys)), keys, reverse)
        return rows.entries(order).slice(0, limit)

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        for name in (*by, on):
            resolve_column(self.schema, name)
        cluster = tuple(self.cluster_by)
        if leads_to(cluster, by, on):
            return cluster[: len(by) + 1]
        if not self.num_files:
            return choose_for_asof(self._declared_indexes(), self.schema, by, on).keys[
                : len(by) + 1
            ]
        cached = self._index_keys_for_asof.get((by, on))
        if cached is None:
            cached = self._index_keys_for_asof[by, on] = self._shared_keys(
                (*by, on), lambda child: child.asof_keys(by, on)
            )
        return cached

    def vector_columns(self) -> tuple[ColumnName, ...]:
        names: dict[ColumnName, None] = dict.fromkeys(self._declared_vectors)
        for child in self.children():
            names.update(dict.fromkeys(child.vector_columns()))
        return tuple(names)

    @cached_property
    def _declared_vectors(self) -> dict[ColumnName, str]:
        """The metrics of the declared vector indexes by column."""
        return {
            info.columns[0].column: info.metric
            for info in self.declared
            if info.kind == "vector" and info.metric is not None
        }

    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        declared = self._declared_vectors.get(column)
        if declared is not None:
            return frozenset([declared])
        metrics = self._vector_metrics.get(column)
        if metrics is None:
            files = [i for i in range(self.num_files) if self.stored_rows(i)]
            each = [self.child(i).vector_metrics(column) for i in self.prepared(files)]
            metrics = self._vector_metrics[column] = frozenset().union(*each)
        return metrics

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        files = self.candidates(Where(request.filter, RowSet.of_range(0, 0)))
        if request.within is not None:
            within = set(self.candidates(request.within))
            files = [file for file in files if file in within]
        for file in self.prepared([file for file in files if self.stored_rows(file)]):
            for part in self.child(file).nearest_parts(request):
                yield part._replace(file=file, deleted=self.deleted(file))

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        order = self.asof_keys(keys.by, keys.on)
        search = FilesSearch(keys, order)
        files: Sequence[int] = range(self.num_files)
        if self.bounds is not None and leads_to(self.cluster_by, keys.by, keys.on):
            ends = None if self.num_files == 1 else self.column_ends(keys.on)
            files = search.files(self.bounds.core, ends)
        for file in self.prepared(files):
            probes = search.wanted(file)
            if len(probes):
                search.search(
                    file, self.child(file), probes, self.deleted(file), is_only=len(files) == 1
                )
        return search.rows()

    def _find_in(
        self, file: int, request: Keys | Ordered, limit: int | None, reverse: bool = False
    ) -> RowSet:
        """Returns the matching live rows of one file."""
        deleted_rows = self.deleted(file)
        most = limit if deleted_rows is None else None
        rows = self.child(file).find(request, limit=most, reverse=reverse)
        return (rows if deleted_rows is None else rows.minus(deleted_rows).slice(0, limit)).in_file(
            file
        )

    def _find_keys(self, keys: Keys, limit: int | None) -> RowSet:
        if keys.between is None and (limit is None or len(keys) > 1):
            return self._asked_at_once(keys).find().slice(0, limit)
        parts = []
        num_rows = 0
        for i, positions in self._asked(keys):
            file_keys = keys if positions is None else keys.take(positions)
            rows = self._find_in(i, file_keys, limit if len(keys) == 1 else None)
            parts.append(rows.for_probes(positions, len(keys)))
            num_rows += rows.num_rows
            if limit is not None and len(keys) == 1 and num_rows >= limit:
                break
        if not parts:
            none = np.empty(0, dtype=np.int64)
            return RowSet(np.empty(0, dtype=np.uint64), None, none, len(keys), none)
        rows = RowSet.joined(parts)
        if len(parts) > 1:
            assert rows.probe is not None
            rows = rows.entries(np.argsort(rows.probe, kind="stable"))
        return rows.slice(0, limit)

    def _in_order(self, request: Ordered, files: Sequence[int]) -> bool:
        """Returns whether all keys of each file precede those of the next file."""
        if len(files) <= 1:
            return True
        disjoint = self.bounds is not None and self.bounds.disjoint
        return disjoint and self._by_cluster(request.keys, ordered=True)

    def _keys_in_order(self, request: Ordered, files: Sequence[int]) -> Sequence[SortKey]:
        """Returns the sort keys that order the matches of all files."""
        if self._by_cluster(request.keys, ordered=True):
            return self.cluster_by
        common: tuple[SortKey, ...] | None = None
        for i in files:
            keys = self.child(i).index_keys(request.keys, ordered=True)
            while common is not None and keys[: len(common)] != common:
                common = common[:-1]
            common = keys if common is None else common
        return common or request.keys

    def _within(self, where: Where) -> Iterator[tuple[int, RowSet]]:
        """Yields the files that may have passing rows, each with its rows to scan."""
        if where.rows.file is None:
            return
        candidates = set(self.candidates(where))
        # ``all_rows()`` does not contain deleted rows, so they need not be removed again.
        only_live = where.rows is self.__dict__.get("_all_rows")
        parts = self._all_by_file if only_live else where.rows.by_file()
        rows_by_file = {i: rows for i, rows in parts if i in candidates}
        for i in self.prepared(list(rows_by_file)):
            rows = rows_by_file[i]
            deleted_rows = None if only_live else self.deleted(i)
            yield i, rows if deleted_rows is None else rows.minus(deleted_rows)

    # ------------------------------------------------------------------ reading

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        if rows.file is None or not len(rows.begin):
            return self.projected(columns).empty_table()
        if columns is not None and not columns:
            return pa.Table.from_batches([rows_without_columns(rows.num_rows)])
        file = rows.file
        if (file == file[0]).all():
            return self.child(int(file[0])).read(rows.without_file(), columns)
        runs = np.flatnonzero(np.diff(file)) + 1
        if len(runs) < self.num_files and len(runs) < len(np.unique(file)):
            # The rows of each file are adjacent.
            parts = np.split(np.arange(len(file)), runs)
            return pa.concat_tables([self._read_part(rows.entries(p), columns) for p in parts])
        single = rows.expand()
        pieces = [
            single.slice(at, at + _GATHERED_ROWS)
            for at in range(0, single.num_rows, _GATHERED_ROWS)
        ]
        return pa.concat_tables([self._read_single(piece, columns) for piece in pieces])

    def _read_single(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Reads single rows of several files, in one call of the core if it can read every file."""
        assert rows.file is not None
        used = np.flatnonzero(np.bincount(rows.file))
        if len(used) <= most_together():
            reader = ColumnReader(columns)
            projections = [self.child(i).compiled(reader) for i in used.tolist()]
            readable = [item for item in projections if item is not None]
            if len(readable) == len(projections):
                place = np.zeros(int(used[-1]) + 1, dtype=np.int64)
                place[used] = np.arange(len(used))
                batch = _core.take_files(readable, place[rows.file], rows.begin, 0)
                if batch is not None:
                    return batch_table(batch)
        return self._gathered(rows, columns)

    def _read_part(self, rows: RowSet, columns: Projected) -> pa.Table:
        assert rows.file is not None
        return self.child(int(rows.file[0])).read(rows.without_file(), columns)

    def _gathered(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Reads single rows file by file, then puts them in the order of ``rows``."""
        assert rows.file is not None
        order = np.argsort(rows.file, kind="stable")
        parts = _grouped(rows.file[order], order)
        table = pa.concat_tables([self._read_part(rows.entries(at), columns) for _, at in parts])
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order), dtype=np.int64)
        positions = pa.array(back)
        arrays = [gather_array(column.combine_chunks(), positions) for column in table.columns]
        return pa.Table.from_arrays(arrays, schema=table.schema)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        schema = self.projected(columns)

        def scan(parts: list[_core.ScanPart]) -> Iterable[pa.RecordBatch]:
            return _core.scan(parts, schema, batch_rows, threads, where.limit)

        def decode(child: RowSource, part: Where, threads: int) -> Iterable[pa.RecordBatch]:
            return child.scan_batches(part, columns, batch_rows=batch_rows, threads=threads)

        batches = self._scan(where, columns, scan, decode, threads)
        yield from (batch for batch in batches if batch.num_rows)

    def count_passing(self, where: Where, *, threads: int) -> int:
        def count(parts: list[_core.ScanPart]) -> Iterable[int]:
            return [_core.count(parts, threads)]

        def decode(child: RowSource, part: Where, threads: int) -> Iterable[int]:
            return [child.count_passing(part, threads=threads)]

        return sum(self._scan(where, (), count, decode, threads))

    def _scan(
        self,
        where: Where,
        columns: Projected,
        scan: Callable[[list[_core.ScanPart]], Iterable[T]],
        decode: Callable[[RowSource, Where, int], Iterable[T]],
        threads: int,
    ) -> Iterator[T]:
        """Scans the files in groups.

        Args:
            scan: reads a group of files that the core can read.
            decode: reads one file that the core cannot read, because it is Parquet or needs
                conversions. The last argument is the number of threads.
        """
        width = max(1, len(self.projected(columns).names))
        for group in self._groups(where, columns):
            parts = [part for _, _, part in group if part is not None]
            if parts:
                yield from scan(parts)
                continue
            others = [
                (self._values(i, width), partial(decode, self.child(i), file_where))
                for i, file_where, _ in group
            ]
            if threads == 1 or len(others) == 1 or where.rows.num_rows * width < _WORTH_VALUES:
                for _, other in others:
                    yield from other(threads)
            else:
                yield from in_turn(others, threads)

    def _groups(
        self, where: Where, columns: Projected
    ) -> Iterator[list[tuple[int, Where, _core.ScanPart | None]]]:
        """Yields groups of files to open together: (file, its rows to scan, its part for the core).

        In each group, the core can either read all files or none of them (the part is ``None``).
        """
        group: list[tuple[int, Where, _core.ScanPart | None]] = []
        # The first group is smaller, because a scan that ends early should open few files.
        most = min(_PREPARED, most_together())
        try:
            for i, rows in self._within(where):
                file_where = Where(where.filter, rows, where.limit)
                part = self.child(i).compiled(FileScan(file_where, columns))
                is_other = bool(group) and (part is None) != (group[-1][2] is None)
                if is_other or len(group) == most:
                    yield group
                    group, most = [], min(_SCANNED_TOGETHER, most_together())
                group.append((i, file_where, part))
        except Exception:  # yield the earlier files, then raise
            if group:
                yield group
            raise
        if group:
            yield group

    def _values(self, file: int, width: int) -> int | None:
        """Returns how many values ``width`` columns have; ``None`` if too many for one thread."""
        rows = self.stored_rows(file)
        small = rows <= _SMALL_ROWS and rows * width <= _SMALL_VALUES
        small = small and self.child(file).size_bytes <= _SMALL_BYTES
        return rows * width if small else None

    # ------------------------------------------------------------------ compiled readers

    def _only_child(self) -> RowSource | None:
        """Returns the source if there is exactly one and it has no deleted rows."""
        return self.child(0) if self.num_files == 1 and self.deleted(0) is None else None

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        only = self._only_child()
        if only is not None:
            return only.compiled(reader)
        made: Any = None
        match reader:
            case SingleRows(columns, on):
                made = self._key_reader(columns, on)
            case Ranges(columns, on):
                made = None if self.bounds is None else _RangesOfFiles(self, columns, on)
            case NearestReader(columns) if self.keeps_readers and self.num_files <= most_together():
                columns_of = ColumnReader(columns)
                made = make_reader(reader, self, lambda i: self.child(i).compiled(columns_of))
        return made  # type: ignore[no-any-return]

    def _key_reader(self, columns: Projected, on: On) -> _core.FilesPointReader | None:
        names, cluster, bounds = self.on_columns(on), tuple(self.cluster_by), self.bounds
        in_order = tuple(key.column for key in cluster)
        self.index_keys(names, ordered=False)
        key_names = in_order if names is None else names
        if bounds is None or set(key_names) != set(in_order) or not self.keeps_readers:
            return None

        types = key_columns(self.schema, cluster).types
        ends = [
            (column, *column_ends[1:])
            for column, name in enumerate(in_order)
            if column
            and not bounds.disjoint  # with disjoint bounds, each key is in at most one file
            and (column_ends := self.column_ends(name)) is not None
            and column_ends[0] == types[column]
        ]

        opening = ForkLock(reentrant=True)
        last: tuple[list[int], list[_core.PointReader | None]] = [], []

        def point_readers(files: list[int]) -> list[_core.PointReader | None]:
            nonlocal last
            # After a refresh, many threads need the same file at once. One of them opens it.
            with opening.native:
                if last[0] != files:
                    self.prepare(files)
                    readers = [
                        self.child(i).compiled(RowsOfFile(columns, key_names, self.deleted(i)))
                        for i in files
                    ]
                    last = files, readers
                return last[1]

        return _core.FilesPointReader(
            pa.RecordBatch.from_arrays(
                [pa.array([], kind) for kind in types], [output_name(name) for name in in_order]
            ),
            [(key.descending, key.nulls_first) for key in cluster],
            [key_names.index(name) for name in in_order],
            bounds.core,
            ends,
            point_readers,
        )

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        if keys.between is None and self._by_cluster(keys.names):
            return self._read_asked(self._asked_at_once(keys), keys, columns, first=first)
        return super().find_and_read(keys, columns, first=first)

    def _read_asked(
        self, asked: AskedKeys, keys: Keys, columns: Projected, *, first: bool
    ) -> tuple[pa.Table, Positions]:
        file = int(asked.files[0]) if len(asked.files) == 1 else None
        if file is not None and self.deleted(file) is None:
            return self.child(file).find_and_read(keys, columns, first=first)
        rows = asked.find().expand()
        assert rows.probe is not None
        return self.read(rows, columns), rows.probe

    def count_matches(self, keys: Keys) -> Positions:
        if keys.between is None and self._by_cluster(keys.names):
            return self._asked_at_once(keys).find().counts
        # Keys of other indexes may match many rows, so each file's index counts them without
        # listing them.
        counts = np.zeros(len(keys), dtype=np.int64)
        for file, positions in self._asked(keys):
            file_keys = keys if positions is None else keys.take(positions)
            if self.deleted(file) is None:
                file_counts = self.child(file).count_matches(file_keys)
            else:
                file_counts = self._find_in(file, file_keys, None).counts
            counts[slice(None) if positions is None else positions] += file_counts
        return counts

    # ------------------------------------------------------------------ explaining

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        text = "lookup"
        requests: list[tuple[int, Request]] = []
        if isinstance(request, Keys):
            for i, positions in self._asked(request):
                requests.append((i, request if positions is None else request.take(positions)))
        elif isinstance(request, Where):
            text = "scan"
            for i, rows in self._within(request):
                requests.append((i, Where(request.filter, rows)))
        else:
            text = "prefix" if isinstance(request, Prefix) else "range"
            requests += [(i, request) for i in self.candidates(request)]
        plans = [self.child(i).explain_request(part, columns) for i, part in requests]
        return Plan(
            text=f"{text} in a {self.kind}",
            details=self.plan_details([i for i, _ in requests]),
            children=_shown(plans),
            reads=sum(plan.reads for plan in plans),
            bytes=sum(plan.bytes for plan in plans),
            index=plans[0].index if plans else None,
        )


class _RangesOfFiles:
    """Reads ranges of keys that are in a single file, with the range reader of that file."""

    def __init__(self, source: FilesSource, columns: Projected, on: On) -> None:
        self._source = source
        self._reader = Ranges(columns, on)

    def range(self, lower: Any, upper: Any, inclusive: Any, limit: object, reverse: object) -> Any:
        request = self._source.range_request(lower, upper, self._reader.on, inclusive)
        reader = self._reader_of(request)
        if reader is None:
            return NotImplemented
        return reader.range(lower, upper, inclusive, limit, reverse)

    def prefix(self, prefix: Any, limit: object, reverse: object) -> Any:
        reader = self._reader_of(self._source.prefix_request(prefix, self._reader.on))
        return NotImplemented if reader is None else reader.prefix(prefix, limit, reverse)

    def _reader_of(self, request: Ordered) -> RangeReader | None:
        files = self._source.candidates(request)
        if len(files) != 1 or self._source.deleted(files[0]) is not None:
            return None
        return self._source.child(files[0]).compiled(self._reader)


def _places(rows: RowSet) -> Positions:
    """Returns an integer for each row. These integers are in the order of (file, row)."""
    assert rows.file is not None
    return (rows.file << 40) + rows.begin.astype(np.int64)


def _shown(plans: list[Plan]) -> tuple[Plan, ...]:
    """Returns the first ``_SHOWN`` plans, and one plan with the totals of the others."""
    rest = plans[_SHOWN:]
    if not rest:
        return tuple(plans)
    more = Plan(
        text=f"{len(rest)} more files",
        reads=sum(plan.reads for plan in rest),
        bytes=sum(plan.bytes for plan in rest),
    )
    return (*plans[:_SHOWN], more)


def key_order(table: pa.Table, keys: Sequence[SortKey], reverse: bool) -> Positions:
    """Returns the positions of the rows in key order, stable; exactly reversed if ``reverse``."""
    orders = [(key.descending, key.nulls_first) for key in keys[: table.num_columns]]
    return _core.key_order(table.to_batches(), orders, reverse)


def _grouped(files: Positions, items: Positions) -> list[tuple[int, Positions]]:
    """Groups items by file. ``files`` is the file of each item, and must be sorted."""
    if not len(files):
        return []
    cuts = np.flatnonzero(np.diff(files)) + 1
    firsts = files[[0, *cuts.tolist()]].tolist()
    return list(zip(firsts, np.split(items, cuts), strict=True))
