"""Many sources as one: requests go where the bounds of keys allow an answer, and come back merged.

A row is addressed by (file, row). Nothing in here knows what a file is: any ``RowSource`` will do.
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
from nimblepy.errors import IndexUnavailableError
from nimblepy.expr.nodes import Node
from nimblepy.file.handle import batch_table
from nimblepy.file.indexes import Index, choose, choose_for_asof
from nimblepy.files.ahead import in_turn
from nimblepy.files.asof import FilesSearch
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.locate import AskedKeys
from nimblepy.files.open_files import most_together
from nimblepy.rows.arguments import On, Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import (
    ColumnReader,
    Compiled,
    FileScan,
    RangeReader,
    Ranges,
    RowsOfFile,
    SingleRows,
)
from nimblepy.rows.gather import gather_array, rows_without_columns
from nimblepy.rows.keys import key_columns
from nimblepy.rows.plan import DetailValue, LayoutNode, Plan
from nimblepy.rows.request import Keys, Ordered, Prefix, Request, Where, leads, leads_to
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import OnKeys, Reader, RowSource
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName, output_name, show_names
from nimblepy.schema.types import IndexInfo, KeyColumn, SortKey, agrees, column_of

T = TypeVar("T")
Mask = np.ndarray[Any, np.dtype[np.bool_]]
# The type of a column, and its least and greatest value in each file.
ColumnEnds = tuple[pa.DataType, Positions, Positions]

# Files whose plans are shown one by one.
_SHOWN = 8
# Files that are decoded by one thread each, beside each other.
_SMALL_ROWS = 1 << 18
_SMALL_BYTES = 16 << 20
_SMALL_VALUES = 4 << 20
# Values of a scan for which threads are started.
_WORTH_VALUES = 4 << 20
# Files that are opened ahead.
_PREPARED = 32
# Files that one scan decodes at once, which keeps them open.
_SCANNED_TOGETHER = 128
# Rows that are gathered from several files at once.
_GATHERED_ROWS = 1 << 20
# Pairs of a key and a file whose statistics are looked at.
_MOST_PAIRS = 1 << 20


class FilesSource(RowSource):
    """Rows of many sources with one schema and one cluster key.

    Attributes:
        kind: what plans call it.
        num_files: how many sources there are.
        bounds: first and last key of those that have rows, which are the first ones; ``None``
            where they are not known.
    """

    kind = "dataset"
    num_files: int
    bounds: FileBounds | None

    @abstractmethod
    def child(self, file: int) -> RowSource:
        """One of the sources; opens it if need be."""

    @property
    def keeps_readers(self) -> bool:
        """Whether what reads one row by key may keep files open: at most some hundreds."""
        return True

    def prepare(self, files: Sequence[int]) -> None:
        """Opens sources that are asked next, where it is better to open them together."""
        return

    def prepared(self, files: Sequence[int]) -> Iterator[int]:
        """Files one after another, some of the next ones prepared together."""
        for at in range(0, len(files), _PREPARED):
            self.prepare(files[at : at + _PREPARED])
            yield from files[at : at + _PREPARED]

    @property
    @abstractmethod
    def first_rows(self) -> Positions:
        """Rows that are there before each file, and of all of them."""

    def stored_rows(self, file: int) -> int:
        """Rows of a source, those that are deleted of it too."""
        gone = self.deleted(file)
        live = int(self.first_rows[file + 1] - self.first_rows[file])
        return live + (0 if gone is None else len(gone))

    def name_of(self, file: int) -> str:
        """What one of the sources is called in a message."""
        return f"file {file}"

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        """What a plan says of the files that are asked."""
        return ("files", self.num_files), ("files opened", len(files))

    def deleted(self, file: int) -> _core.RowBitmap | None:
        """Rows of a source that are no longer there; ``None``: all are."""
        return None

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        """Files, ascending, that may have rows for which all ``conjuncts`` are true."""
        return range(self.num_files)

    def column_ends(self, name: ColumnName) -> ColumnEnds | None:
        """The least and the greatest value that a column may have in each file; ``None``: unknown.

        Returns:
            The column's type, which is a signed integer, a date or a time, and both values of each
            file as they are stored.
        """
        return None

    def possible(
        self,
        names: Sequence[ColumnName],
        values: Sequence[pa.Array],
        keys: Positions,
        files: Positions,
    ) -> Mask | None:
        """Of pairs of a key and a file, which :meth:`column_ends` allow; ``None``: every one.

        Args:
            values: of all keys, a column for each of ``names``.
        """
        found = None
        for name, column in zip(names, values, strict=True):
            ends = None if column.null_count else self.column_ends(name)
            if ends is None or column.type != ends[0]:
                continue
            _, least, greatest = ends
            wanted = column.view(f"int{column.type.bit_width}").to_numpy()[keys]
            inside = (least[files] <= wanted) & (wanted <= greatest[files])
            found = inside if found is None else found & inside
        return found

    def distinct_keys(self, names: Sequence[ColumnName]) -> float | None:
        """About how many different keys these columns have, without reading; ``None``: unknown."""
        return None

    def always_finds(self, names: Sequence[ColumnName]) -> bool:
        """Whether keys of these columns are found in every file, also where there are none."""
        return False

    # ------------------------------------------------------------------ what it says of itself

    @property
    def declared(self) -> Sequence[IndexInfo]:
        """Indexes that files are to have."""
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
        """Indexes that every file has, the cluster index first; sizes and keys of all together.

        Where there is no file, those that files are to have. Cost: opens every file.
        """
        merged: list[IndexInfo] | None = None
        for child in self.children():
            theirs = {(info.kind, info.columns): info for info in child.indexes}
            merged = (
                list(theirs.values())
                if merged is None
                else [
                    replace(
                        info,
                        size_bytes=info.size_bytes + other.size_bytes,
                        num_keys=info.num_keys + other.num_keys,
                        has_bloom=info.has_bloom and other.has_bloom,
                    )
                    for info in merged
                    if (other := theirs.get((info.kind, info.columns))) is not None
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
        for child in self.children():
            child.verify()

    def children(self) -> Iterator[RowSource]:
        """The sources one after another."""
        return map(self.child, self.prepared(range(self.num_files)))

    # ------------------------------------------------------------------ addresses

    @cached_property
    def _index_keys(self) -> dict[tuple[OnKeys, bool], tuple[SortKey, ...]]:
        return {}

    @cached_property
    def _index_keys_for_asof(self) -> dict[tuple[tuple[ColumnName, ...], ColumnName], Any]:
        return {}

    def all_rows(self) -> RowSet:
        return self._all_rows

    @cached_property
    def _all_rows(self) -> RowSet:
        counts = np.diff(self.first_rows)
        files = np.flatnonzero(counts)
        gone = {int(i): rows for i in files if (rows := self.deleted(int(i))) is not None}
        if not gone:
            end = counts[files].astype(np.uint64)
            return RowSet(np.zeros(len(files), dtype=np.uint64), end, file=files)
        return RowSet.joined(
            [self._rows_of(int(i), int(counts[i]), gone.get(int(i))) for i in files]
        )

    @cached_property
    def _all_by_file(self) -> list[tuple[int, RowSet]]:
        return self._all_rows.by_file()

    def _rows_of(self, file: int, count: int, gone: _core.RowBitmap | None) -> RowSet:
        """The rows of one file that are there; ``count`` of them."""
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
        """Files, ascending, that may have an answer."""
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
        """Files that may have some of the keys, and which; ``None``: all of them."""
        names = keys.columns
        if not self._by_cluster(names):
            self.index_keys(names, ordered=False)
            return [(i, None) for i in range(self.num_files)]
        if self.num_files <= 1 or self.bounds is None:
            return [(i, None) for i in range(self.num_files)]
        at = self._can_match(keys)
        asked = keys if at is None else keys.take(at)
        cluster = self.cluster_by
        low, high = asked.ends(cluster[: len(names)])
        first = EncodedKeys(low, cluster)
        last = first if high is low else EncodedKeys(high, cluster)
        probes, files = self.bounds.candidates(first, last)
        keep = (
            self.possible(asked.names, asked.values, probes, files)
            if len(files) > len(asked)
            else None
        )
        if keep is not None:
            probes, files = probes[keep], files[keep]
        if at is not None:
            probes = at[probes]
        return [
            (file, None if len(mine) == len(keys) else mine)
            for file, mine in _grouped(files, probes)
        ]

    def _asked_at_once(self, keys: Keys) -> AskedKeys:
        """Keys that all files are asked for together."""
        order: Sequence[SortKey] | None = None
        if self._by_cluster(keys.names):
            order = self.cluster_by[: len(keys.names)]
        else:
            self.index_keys(keys.names, ordered=False)
        asked = AskedKeys(
            keys, self.child, self.deleted, self.prepare, self.num_files, order, self.bounds
        )
        if order is not None and len(keys) < len(asked.files) <= _MOST_PAIRS // max(1, len(keys)):
            self._keep_possible(asked, keys)
        return asked

    def _keep_possible(self, asked: AskedKeys, keys: Keys) -> None:
        """Leaves files out that by their statistics have none of the keys."""
        at = self._can_match(keys)
        usable = keys if at is None else keys.take(at)
        count, files = len(usable), asked.files
        pairs = np.repeat(files, count)
        probes = np.tile(np.arange(count, dtype=np.int64), len(files))
        keep = self.possible(usable.names, usable.values, probes, pairs)
        if keep is not None:
            asked.files = files[keep.reshape(len(files), count).any(axis=1)]

    def _can_match(self, keys: Keys) -> Positions | None:
        """Keys that can match at all; ``None``: every one."""
        usable = keys.usable
        for column in () if keys.null_equals else keys.values:
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                usable = valid if usable is None else usable & valid
        return None if usable is None or usable.all() else np.flatnonzero(usable)

    def _by_cluster(self, on: Sequence[KeyColumn], *, ordered: bool = False) -> bool:
        """Whether ``on`` are the first columns of the cluster key, for bounds in its order."""
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
        known = self._index_keys.get((on, ordered))
        if known is None:
            known = self._index_keys[on, ordered] = self._shared_keys(
                on, lambda child: child.index_keys(on, ordered=ordered)
            )
        return known

    def _declared_keys(self, on: tuple[KeyColumn, ...], ordered: bool) -> tuple[SortKey, ...]:
        """Those of an index that files are to have: where there is no file, it finds nothing."""
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
        ]

    def _shared_keys(
        self, on: Sequence[KeyColumn], keys_of: Callable[[RowSource], tuple[SortKey, ...]]
    ) -> tuple[SortKey, ...]:
        """The keys of the first file, if every file has such an index.

        Args:
            keys_of: returns the keys of a file, or raises IndexUnavailableError.
        """
        found: list[tuple[SortKey, ...]] = []
        lacking: list[str] = []
        for i, child in enumerate(self.children()):
            try:
                found.append(keys_of(child))
            except IndexUnavailableError:
                if not found and i == self.num_files - 1:
                    raise  # no file has one, and the last says what it has
                lacking.append(self.name_of(i))
        if lacking:
            shown = ", ".join(lacking[:_SHOWN]) + ", ..." * (len(lacking) > _SHOWN)
            raise IndexUnavailableError(
                f"no index on ({show_names(map(column_of, on))}) in {len(lacking)} of "
                f"{self.num_files} files: {shown}; nimblepy.add_index adds one to each"
            )
        return found[0]

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
        # By key, then by file; backwards exactly reversed.
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

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        order = self.asof_keys(keys.by, keys.on)
        search = FilesSearch(keys, order)
        files: Sequence[int] = range(self.num_files)
        if self.bounds is not None and leads_to(self.cluster_by, keys.by, keys.on):
            ends = None if self.num_files == 1 else self.column_ends(keys.on)
            files = search.files(self.bounds.core, ends)
        for file in self.prepared(files):
            wanted = search.wanted(file)
            if len(wanted):
                search.search(
                    file, self.child(file), wanted, self.deleted(file), is_only=len(files) == 1
                )
        return search.rows()

    def _find_in(
        self, file: int, request: Keys | Ordered, limit: int | None, reverse: bool = False
    ) -> RowSet:
        """The answer of one file, without rows that are deleted."""
        gone = self.deleted(file)
        most = limit if gone is None else None
        rows = self.child(file).find(request, limit=most, reverse=reverse)
        return (rows if gone is None else rows.minus(gone).slice(0, limit)).in_file(file)

    def _find_keys(self, keys: Keys, limit: int | None) -> RowSet:
        if keys.between is None and (limit is None or len(keys) > 1):
            return self._asked_at_once(keys).find().slice(0, limit)
        parts = []
        found = 0
        for i, mine in self._asked(keys):
            asked = keys if mine is None else keys.take(mine)
            rows = self._find_in(i, asked, limit if len(keys) == 1 else None)
            parts.append(rows.for_probes(mine, len(keys)))
            found += rows.num_rows
            if limit is not None and len(keys) == 1 and found >= limit:
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
        """Every key of one of the files comes before all of the next."""
        if len(files) <= 1:
            return True
        disjoint = self.bounds is not None and self.bounds.disjoint
        return disjoint and self._by_cluster(request.keys, ordered=True)

    def _keys_in_order(self, request: Ordered, files: Sequence[int]) -> Sequence[SortKey]:
        """The columns by which the answers of all files are ordered."""
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
        """Files in which rows may pass, and the rows of each that are looked at."""
        if where.rows.file is None:
            return
        wanted = set(self.candidates(where))
        # Of all rows, which are made only when they are asked for, deleted ones have been left out.
        there = where.rows is self.__dict__.get("_all_rows")
        parts = self._all_by_file if there else where.rows.by_file()
        mine = {i: rows for i, rows in parts if i in wanted}
        for i in self.prepared(list(mine)):
            rows = mine[i]
            gone = None if there else self.deleted(i)
            yield i, rows if gone is None else rows.minus(gone)

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
            # The rows of each file are together.
            parts = np.split(np.arange(len(file)), runs)
            return pa.concat_tables([self._read_part(rows.entries(p), columns) for p in parts])
        single = rows.expand()
        pieces = [
            single.slice(at, at + _GATHERED_ROWS)
            for at in range(0, single.num_rows, _GATHERED_ROWS)
        ]
        return pa.concat_tables([self._read_single(piece, columns) for piece in pieces])

    def _read_single(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Single rows of files in any order: by the core at once where it can, else gathered."""
        assert rows.file is not None
        used = np.flatnonzero(np.bincount(rows.file))
        if len(used) <= most_together():
            reader = ColumnReader(columns)
            projections = [self.child(i).compiled(reader) for i in used.tolist()]
            known = [item for item in projections if item is not None]
            if len(known) == len(projections):
                place = np.zeros(int(used[-1]) + 1, dtype=np.int64)
                place[used] = np.arange(len(used))
                found = _core.take_files(known, place[rows.file], rows.begin, 0)
                if found is not None:
                    return batch_table(found)
        return self._gathered(rows, columns)

    def _read_part(self, rows: RowSet, columns: Projected) -> pa.Table:
        assert rows.file is not None
        return self.child(int(rows.file[0])).read(rows.without_file(), columns)

    def _gathered(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Single rows of files in any order: read file by file, then put in place."""
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

        found = self._scan(where, columns, scan, decode, threads)
        yield from (batch for batch in found if batch.num_rows)

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
        """Scans some files at a time.

        Args:
            scan: reads files that the core reads itself, all together.
            decode: reads another file with some threads: Parquet, or with converted columns.
        """
        width = max(1, len(self.projected(columns).names))
        for group in self._groups(where, columns):
            parts = [part for _, _, part in group if part is not None]
            if parts:
                yield from scan(parts)
                continue
            others = [
                (self._values(i, width), partial(decode, self.child(i), wanted))
                for i, wanted, _ in group
            ]
            if threads == 1 or len(others) == 1 or where.rows.num_rows * width < _WORTH_VALUES:
                for _, other in others:
                    yield from other(threads)
            else:
                yield from in_turn(others, threads)

    def _groups(
        self, where: Where, columns: Projected
    ) -> Iterator[list[tuple[int, Where, _core.ScanPart | None]]]:
        """Files that are open at the same time. Either all or none of a group have a part."""
        group: list[tuple[int, Where, _core.ScanPart | None]] = []
        # The first group is smaller, since a scan that ends early should open few files.
        most = min(_PREPARED, most_together())
        try:
            for i, rows in self._within(where):
                wanted = Where(where.filter, rows, where.limit)
                part = self.child(i).compiled(FileScan(wanted, columns))
                is_other = bool(group) and (part is None) != (group[-1][2] is None)
                if is_other or len(group) == most:
                    yield group
                    group, most = [], min(_SCANNED_TOGETHER, most_together())
                group.append((i, wanted, part))
        except Exception:  # raised after the rows of the files before
            if group:
                yield group
            raise
        if group:
            yield group

    def _values(self, file: int, width: int) -> int | None:
        """The number of values in some columns of a file; ``None``: too many for one thread."""
        rows = self.stored_rows(file)
        small = rows <= _SMALL_ROWS and rows * width <= _SMALL_VALUES
        small = small and self.child(file).size_bytes <= _SMALL_BYTES
        return rows * width if small else None

    # ------------------------------------------------------------------ one file alone

    def _only_child(self) -> RowSource | None:
        """The source where there is one alone, and all of its rows are there."""
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
        return made  # type: ignore[no-any-return]

    def _key_reader(self, columns: Projected, on: On) -> _core.FilesPointReader | None:
        names, cluster, bounds = self.on_columns(on), tuple(self.cluster_by), self.bounds
        in_order = tuple(key.column for key in cluster)
        self.index_keys(names, ordered=False)
        asked = in_order if names is None else names
        if bounds is None or set(asked) != set(in_order) or not self.keeps_readers:
            return None

        types = key_columns(self.schema, cluster).types
        ends = [
            (column, *known[1:])
            for column, name in enumerate(in_order)
            if column
            and not bounds.disjoint  # the bounds of files are of the first one
            and (known := self.column_ends(name)) is not None
            and known[0] == types[column]
        ]

        def point_readers(files: list[int]) -> list[_core.PointReader | None]:
            self.prepare(files)
            return [
                self.child(i).compiled(RowsOfFile(columns, asked, self.deleted(i))) for i in files
            ]

        return _core.FilesPointReader(
            pa.RecordBatch.from_arrays(
                [pa.array([], kind) for kind in types], [output_name(name) for name in in_order]
            ),
            [(key.descending, key.nulls_first) for key in cluster],
            [asked.index(name) for name in in_order],
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
        # Of other keys there may be many rows, which an index counts without listing them.
        counts = np.zeros(len(keys), dtype=np.int64)
        for file, mine in self._asked(keys):
            asked = keys if mine is None else keys.take(mine)
            if self.deleted(file) is None:
                found = self.child(file).count_matches(asked)
            else:
                found = self._find_in(file, asked, None).counts
            counts[slice(None) if mine is None else mine] += found
        return counts

    # ------------------------------------------------------------------ explaining

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        text = "lookup"
        asked: list[tuple[int, Request]] = []
        if isinstance(request, Keys):
            for i, mine in self._asked(request):
                asked.append((i, request if mine is None else request.take(mine)))
        elif isinstance(request, Where):
            text = "scan"
            for i, rows in self._within(request):
                asked.append((i, Where(request.filter, rows)))
        else:
            text = "prefix" if isinstance(request, Prefix) else "range"
            asked += [(i, request) for i in self.candidates(request)]
        plans = [self.child(i).explain_request(part, columns) for i, part in asked]
        return Plan(
            text=f"{text} in a {self.kind}",
            details=self.plan_details([i for i, _ in asked]),
            children=_shown(plans),
            reads=sum(plan.reads for plan in plans),
            bytes=sum(plan.bytes for plan in plans),
            index=plans[0].index if plans else None,
        )


class _RangesOfFiles:
    """Reads ranges that are in one of many files, by the reader of that file."""

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
    """Numbers that are ordered as (file, row) is."""
    assert rows.file is not None
    return (rows.file << 40) + rows.begin.astype(np.int64)


def _shown(plans: list[Plan]) -> tuple[Plan, ...]:
    """The first plans, and all others as one."""
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
    """The order of rows by their keys; equal keys keep theirs, also where ``reverse`` is true."""
    orders = [(key.descending, key.nulls_first) for key in keys[: table.num_columns]]
    return _core.key_order(table.to_batches(), orders, reverse)


def _grouped(files: Positions, items: Positions) -> list[tuple[int, Positions]]:
    """(file, its items) from pairs that are ordered by file."""
    if not len(files):
        return []
    cuts = np.flatnonzero(np.diff(files)) + 1
    firsts = files[[0, *cuts.tolist()]].tolist()
    return list(zip(firsts, np.split(items, cuts), strict=True))
