"""Lookups by key over many files: find the files, ask each, put the answers in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.file.key_probes import _width
from nimblepy.files.base import DatasetBase
from nimblepy.files.bounds import EncodedKeys, Indices
from nimblepy.join.matches import Matches, ProbeKeys, Rows, by_cluster_key, file_segments
from nimblepy.rows.gather import gather
from nimblepy.rows.key_bounds import as_tuple, typed_bound, typed_prefix
from nimblepy.rows.keys import KeyColumns, key_columns, probe_batch, single_row
from nimblepy.schema.columns import resolve_column

_MISSING = object()
_INCLUSIVE = {"[)": (True, False), "[]": (True, True), "()": (False, False), "(]": (False, True)}


class KeyedDataset(DatasetBase):
    """The part of Dataset that answers by key."""

    def get(
        self,
        key: Any,
        columns: Sequence[str] | None = None,
        *,
        on: str | Sequence[str] | None = None,
        default: Any = None,
        null_equals: bool = False,
    ) -> Any:
        """One row as a dict, ``default`` where no file has the key; as :meth:`File.get`.

        Cost: a binary search over the files' bounds, then that of the one file that can have it.
        """
        for i in self._files_with(key, on):
            row = self._file(i).get(key, columns, on=on, default=_MISSING, null_equals=null_equals)
            if row is not _MISSING:
                return row
        return default

    def lookup(
        self,
        keys: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        probe_row: str | None = None,
        null_equals: bool = False,
    ) -> pa.Table:
        """All rows that match any of ``keys``, by probe position; as :meth:`File.lookup`."""
        matches = self._find(keys, on, null_equals)
        table = self._take(matches.rows(0, matches.num_matches), columns)
        if probe_row is None:
            return table
        if probe_row in table.column_names:
            raise InvalidArgumentError(f"probe_row: there is a column {probe_row!r} already")
        probes = np.repeat(np.arange(len(matches.counts), dtype=np.int64), matches.counts)
        field = pa.field(probe_row, pa.int64(), nullable=False)
        return table.add_column(0, field, pa.array(probes))

    def contains(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        """For each key whether any row has it. Reads indexes only."""
        return pa.array(self._find(keys, on, null_equals).counts > 0)

    def count(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.Int64Array:
        """For each key how many rows have it. Reads indexes only."""
        return pa.array(self._find(keys, on, null_equals).counts)

    def range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows between two bounds in key order; as :meth:`File.range`."""
        parts = [
            (i, self._file(i)._range_rows(lower, upper, on, inclusive))
            for i in self._range_files(lower, upper, on, inclusive)
        ]
        return self._in_key_order(parts, columns, limit, reverse)

    def prefix(
        self,
        prefix: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows whose leading key columns equal ``prefix``; as :meth:`File.prefix`."""
        parts = [
            (i, self._file(i)._prefix_rows(prefix, on)) for i in self._prefix_files(prefix, on)
        ]
        return self._in_key_order(parts, columns, limit, reverse)

    # ------------------------------------------------------------------ finding

    def _find(self, keys: Any, on: str | Sequence[str] | None, null_equals: bool) -> Matches:
        self._check_names(on)
        if self._is_secondary(on):
            return self._find_in_all(keys, on, null_equals)
        columns = key_columns(self._keys, self._key_types, on, _width(keys, on, self._keys))
        probes = probe_batch(keys, columns)
        usable = np.ones(probes.batch.num_rows, dtype=np.bool_)
        if probes.impossible is not None:
            usable &= ~probes.impossible
        for column in probes.batch.columns if not null_equals else ():
            if column.null_count:
                usable &= column.is_valid().to_numpy(zero_copy_only=False)
        values = tuple(probes.batch.columns)
        return self._join_matches(ProbeKeys(columns.names, values, usable, null_equals))

    def _join_matches(self, keys: ProbeKeys) -> Matches:
        """Rows of all files that match each key."""
        names = [*keys.names, *([keys.between] if keys.between is not None else [])]
        if not by_cluster_key(self._keys, names):
            return self._secondary_matches(keys)
        columns = key_columns(self._keys, self._key_types, names)
        low, high = _ends(columns, keys)
        at = np.flatnonzero(keys.usable)
        if len(at) < len(keys.usable):
            same = high is low
            low = gather(low, pa.array(at))
            high = low if same else gather(high, pa.array(at))
        probes, files = self._files_of(low, high)
        segments: list[tuple[Any, Any, Any]] = []
        for i, mine in _by_file(files, at[probes]):
            probe, begin, end = file_segments(self._file(i), keys.take(mine))
            first = np.uint64(self._first_row(i))
            segments.append((mine[probe], begin + first, end + first))
        return _matches(len(keys.usable), segments)

    def _is_secondary(self, on: str | Sequence[str] | None) -> bool:
        """A secondary index may answer; of those no bounds are known, so every file is asked."""
        if on is None or not self.num_files:
            return False
        return not by_cluster_key(self._keys, [on] if isinstance(on, str) else list(on))

    def _files_with(self, key: Any, on: str | Sequence[str] | None) -> Sequence[int]:
        """Files that can have a key, in order."""
        self._check_names(on)
        if self._is_secondary(on):
            return range(self.num_files)
        found = key_columns(self._keys, self._key_types, on, _width([key], on, self._keys))
        batch = probe_batch([key], found).batch
        _, files = self._files_of(batch, batch)
        return [int(i) for i in files]

    def _find_in_all(self, keys: Any, on: str | Sequence[str] | None, null_equals: bool) -> Matches:
        segments: list[tuple[Any, Any, Any]] = []
        num_probes = 0
        for i in range(self.num_files):
            ends, rows = self._file(i)._find_rows(keys, on, null_equals)
            counts = np.diff(ends.astype(np.int64), prepend=np.int64(0))
            num_probes = len(counts)
            begin = rows + np.uint64(self._first_row(i))
            probe = np.repeat(np.arange(num_probes, dtype=np.int64), counts)
            segments.append((probe, begin, begin + np.uint64(1)))
        return _matches(num_probes, segments)

    def _secondary_matches(self, keys: ProbeKeys) -> Matches:
        segments: list[tuple[Any, Any, Any]] = []
        for i in range(self.num_files):
            probe, begin, end = file_segments(self._file(i), keys)
            first = np.uint64(self._first_row(i))
            segments.append((probe, begin + first, end + first))
        return _matches(len(keys.usable), segments)

    def _files_of(self, low: pa.RecordBatch, high: pa.RecordBatch) -> tuple[Indices, Indices]:
        """Pairs (row of the batches, file that can have a key between them), by file."""
        if not self._keys:
            raise IndexUnavailableError("this dataset has no cluster key; scan with a filter")
        first = EncodedKeys(low, self._keys)
        last = first if high is low else EncodedKeys(high, self._keys)
        return self._manifest.bounds.candidates(first, last)

    def _range_files(
        self, lower: Any, upper: Any, on: str | Sequence[str] | None, inclusive: str = "[)"
    ) -> list[int]:
        if inclusive not in _INCLUSIVE:
            raise InvalidArgumentError(
                f"inclusive: expected one of {', '.join(map(repr, _INCLUSIVE))}, got {inclusive!r}"
            )
        columns = self._bound_columns(on, lower, upper)
        low_in, high_in = _INCLUSIVE[inclusive]
        low = typed_bound(lower, low_in, columns, lower=True)
        high = typed_bound(upper, high_in, columns, lower=False)
        if low is None or high is None:
            return []
        first = self._encoded(columns, low.values)
        return self._between(first, self._encoded(columns, high.values))

    def _prefix_files(self, prefix: Any, on: str | Sequence[str] | None) -> list[int]:
        columns = self._bound_columns(on, prefix)
        typed = typed_prefix(prefix, columns)
        if typed is None:
            return []
        values, starts_with = typed
        if starts_with:  # the last value is text that has no end: leave it to the files
            values = values[:-1]
        key = self._encoded(columns, values)
        return self._between(key, key)

    def _between(self, low: bytes | None, high: bytes | None) -> list[int]:
        return list(self._manifest.bounds.between(low, high))

    def _encoded(self, columns: KeyColumns, values: Sequence[pa.Scalar]) -> bytes | None:
        if not values:
            return None
        batch = single_row(columns.names[: len(values)], values)
        return EncodedKeys(batch, self._keys).to_list()[0]

    def _bound_columns(self, on: str | Sequence[str] | None, *bounds: Any) -> KeyColumns:
        self._check_names(on)
        columns = key_columns(self._keys, self._key_types, on)
        if columns.given != tuple(range(len(columns.given))):
            raise IndexUnavailableError(
                f"bounds need the columns in key order: {', '.join(columns.names)}"
            )
        for bound in bounds:
            n = 0 if bound is None else len(as_tuple(bound))
            if n > len(columns.names):
                raise InvalidArgumentError(
                    f"bound {bound!r}: {n} values for the key ({', '.join(columns.names)})"
                )
        return columns

    def _check_names(self, on: str | Sequence[str] | None) -> None:
        for name in [on] if isinstance(on, str) else on or ():
            resolve_column(self.schema, name)

    # ------------------------------------------------------------------ in key order

    def _in_key_order(
        self,
        parts: list[tuple[int, tuple[int, int]]],
        columns: Sequence[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> pa.Table:
        """Rows of some files; each file has its own in key order."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise InvalidArgumentError(f"limit: expected an int >= 0, got {limit!r}")
        parts = [(i, rows) for i, rows in parts if rows[0] < rows[1]]
        if self._manifest.bounds.disjoint or len(parts) <= 1:
            return self._one_after_another(parts, columns, limit, reverse)
        rows = np.concatenate(
            [
                np.arange(begin, end, dtype=np.uint64) + np.uint64(self._first_row(i))
                for i, (begin, end) in parts
            ]
        )
        names = [key.column for key in self._keys]
        table = self._take(rows, names)
        batch = table.combine_chunks().to_batches()[0]
        keys = EncodedKeys(batch, self._keys).to_list()
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
        return self._take(rows[np.array(order[:limit], dtype=np.int64)], columns)

    def _one_after_another(
        self,
        parts: list[tuple[int, tuple[int, int]]],
        columns: Sequence[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> pa.Table:
        tables = []
        for i, rows in reversed(parts) if reverse else parts:
            table = self._file(i)._rows(rows, columns, limit, reverse)
            tables.append(table)
            if limit is not None:
                limit -= table.num_rows
                if limit <= 0:
                    break
        return self._joined(tables, columns)


def _ends(columns: KeyColumns, keys: ProbeKeys) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """First and last key of each probe's matches, in the order of the index."""
    low, high = keys.values, keys.values
    if keys.between is not None:
        bounds = [keys.lower, keys.upper]
        if columns.descending[-1]:
            bounds.reverse()
        low, high = (*keys.values, bounds[0]), (*keys.values, bounds[1])
    first = _batch(columns, low)
    return first, first if high is low else _batch(columns, high)


def _batch(columns: KeyColumns, values: tuple[pa.Array, ...]) -> pa.RecordBatch:
    arrays = [values[place] for place in columns.given]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _by_file(files: Indices, probes: Indices) -> list[tuple[int, Indices]]:
    """(file, its probes) from pairs that are ordered by file."""
    if not len(files):
        return []
    cuts = np.flatnonzero(np.diff(files)) + 1
    firsts = files[[0, *cuts.tolist()]].tolist()
    return list(zip(firsts, np.split(probes, cuts), strict=True))


def _matches(num_probes: int, segments: list[tuple[Any, Any, Any]]) -> Matches:
    if not segments:
        none: Rows = np.empty(0, dtype=np.uint64)
        return Matches(np.zeros(num_probes, dtype=np.int64), none, none)
    probe, begin, end = (np.concatenate(parts) for parts in zip(*segments, strict=True))
    order = np.argsort(probe, kind="stable")
    return Matches.of_segments(num_probes, probe[order], begin[order], end[order])
