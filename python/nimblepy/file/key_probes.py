"""Keys to rows and whole rows: what File's lookups by key are built on."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.handle import RESULT_ROWS
from nimblepy.file.indexes import CLUSTER
from nimblepy.file.secondary import Names, SecondaryLookups, check_one
from nimblepy.rows.keys import KeyColumns, Probes, key_columns, probe_batch
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey

Ranges = np.ndarray[Any, np.dtype[np.uint64]]


class KeyProbes(SecondaryLookups):
    """The part of File that takes keys to rows."""

    def _find_rows(self, keys: Any, on: Names = None, null_equals: bool = False) -> tuple[Any, Any]:
        """Rows of each key through any index, as two uint64 arrays ``(ends, rows)``.

        Rows of key i are ``rows[ends[i - 1]:ends[i]]``, ascending; a key that matches nothing has
        none. Internal, but stable: joins are built on it. ``keys``, ``on`` and ``null_equals`` are
        those of :meth:`lookup`.
        """
        index = self._secondary(on)
        if index is not None:
            return self._find_in(index, keys, on, null_equals)
        ranges, _ = self._find(keys, on, null_equals)
        rows, _ = _core.expand(ranges)
        return np.cumsum(ranges[:, 1] - ranges[:, 0], dtype=np.uint64), rows

    def _make_point(self, columns: Sequence[str] | None, on: Names) -> tuple[Any, Any]:
        """Functions that read one row as a dict: by key, and by its number (or None)."""
        projection = self._projection(columns)
        index = self._secondary(on)
        this = weakref.ref(self)  # C++ objects are not looked at for cycles

        def fallback(row: int, names: list[str]) -> Any:
            file = this()
            assert file is not None
            return file._take(np.array([row], dtype=np.uint64), names).to_pylist()[0]

        if index is not None and index.kind == "hash" and not self._open.is_mapped:
            return _no_getter, None  # _lookup_in() has a way with fewer rounds of reads
        names = index.names if index is not None else tuple(key.column for key in self._keys)
        number = CLUSTER if index is None else index.number
        point = _core.PointReader(projection, fallback, number, _tuple_order(names, on))
        return point.getter(), point.read

    def _matches(
        self,
        keys: Any,
        on: str | Sequence[str] | None,
        columns: Sequence[str] | None,
        null_equals: bool,
    ) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.int64]]]:
        """The rows of :meth:`lookup`, and for each the position of its key."""
        probes, _ = self._probes(keys, on)
        projection = self._projection(columns)
        try:
            found = _core.lookup_batch(
                projection, probes.batch, null_equals, probes.impossible, RESULT_ROWS
            )
        except InvalidArgumentError as error:
            if "do not fit in one array" not in str(error):
                raise
            found = None
        if found is not None:
            batch = pa.RecordBatch._import_from_c_capsule(found[0], found[1])
            return pa.Table.from_batches([batch]), found[2]
        rows, numbers = _core.expand(self._ranges(probes, null_equals))
        return self._take(rows, columns), numbers

    def _find(
        self,
        keys: Any,
        on: str | Sequence[str] | None,
        null_equals: bool,
        *,
        one: bool = False,
    ) -> tuple[Ranges, KeyColumns]:
        """Row ranges of each key, and the key columns they were found by."""
        probes, columns = self._probes(keys, on, one=one)
        return self._ranges(probes, null_equals), columns

    def _ranges(self, probes: Probes, null_equals: bool) -> Ranges:
        ranges = _core.find_keys(self._open, probes.batch, null_equals)
        if probes.impossible is not None and probes.impossible.any():
            ranges[probes.impossible] = 0
        return ranges

    def _probes(
        self, keys: Any, on: str | Sequence[str] | None, *, one: bool = False
    ) -> tuple[Probes, KeyColumns]:
        """``keys`` as the core takes them, and the key columns they have."""
        self._check_names(on)
        columns = key_columns(self._keys, self._key_types, on, _width(keys, on, self._keys))
        if one:
            check_one(keys[0], columns.names)
        return probe_batch(keys, columns), columns

    def _check_names(self, on: str | Sequence[str] | None) -> None:
        for name in [on] if isinstance(on, str) else on or ():
            resolve_column(self._schema, name)


def _tuple_order(names: Sequence[str], on: Names) -> list[int]:
    """For each key column its place in the caller's tuples; none where they are not whole keys."""
    wanted = names if on is None else [on] if isinstance(on, str) else list(on)
    return [wanted.index(name) for name in names] if set(wanted) == set(names) else []


def _no_getter(key: Any) -> Any:
    """Stands in where no prepared way is the best one."""
    return NotImplemented


def _width(keys: Any, on: Any, key: Sequence[SortKey]) -> int | None:
    """Key columns that tuples name, where ``on`` does not say it: shorter ones are prefixes."""
    if on is not None or not key:
        return None
    if isinstance(keys, (list, tuple)) and keys and isinstance(keys[0], (tuple, Mapping)):
        return len(keys[0])
    return None
