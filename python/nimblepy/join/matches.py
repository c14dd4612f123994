"""Which rows of the build side each probe row matches, as the index says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy import _core
from nimblepy.expr.nodes import value_type
from nimblepy.file.file import File
from nimblepy.join.plan import JoinPlan
from nimblepy.rows.gather import gather_array
from nimblepy.rows.keys import KeyColumns, key_columns
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.join_keys import key_array
from nimblepy.schema.types import SortKey

Rows = np.ndarray[Any, np.dtype[np.uint64]]
Counts = np.ndarray[Any, np.dtype[np.int64]]


class ManyFiles(Protocol):
    """What a join asks of a build side that is more than one file."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def cluster_by(self) -> list[SortKey]: ...
    def _join_matches(self, keys: ProbeKeys) -> Matches: ...
    def _take(self, rows: Rows, columns: Sequence[str] | None) -> pa.Table: ...


BuildSide: TypeAlias = File | ManyFiles


@dataclass(frozen=True, slots=True)
class ProbeKeys:
    """Keys of one probe batch, in the build side's types.

    Attributes:
        names: build columns of the equalities.
        values: one column a name.
        usable: rows that can match at all.
        lower, upper: bounds of a range on the column that follows, inclusive; ``None``: no range.
    """

    names: tuple[str, ...]
    values: tuple[pa.Array, ...]
    usable: np.ndarray[Any, np.dtype[np.bool_]]
    null_equals: bool
    between: str | None = None
    lower: pa.Array | None = None
    upper: pa.Array | None = None

    def take(self, probes: Counts) -> ProbeKeys:
        """The keys of some probe rows."""
        at = pa.array(probes)
        return replace(
            self,
            values=tuple(gather_array(value, at) for value in self.values),
            usable=self.usable[probes],
            lower=None if self.lower is None else gather_array(self.lower, at),
            upper=None if self.upper is None else gather_array(self.upper, at),
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """Matching rows of a batch of probe rows, in order, as ranges of build rows.

    Attributes:
        counts: matches of each probe row.
        begin, end: half-open row ranges, ordered by probe row, then by row.
    """

    counts: Counts
    begin: Rows
    end: Rows

    @classmethod
    def of_segments(cls, num_probes: int, probe: Counts, begin: Rows, end: Rows) -> Matches:
        """From ranges and the probe row of each, ordered by probe row; empty ones are dropped."""
        hit = end > begin
        if not hit.all():
            probe, begin, end = probe[hit], begin[hit], end[hit]
        sizes = (end - begin).astype(np.int64)
        counts = np.bincount(probe, weights=sizes, minlength=num_probes).astype(np.int64)
        return cls(counts, begin, end)

    @property
    def num_matches(self) -> int:
        return int(self.counts.sum())

    def rows(self, first: int, last: int) -> Rows:
        """Build rows of the matches ``first`` to ``last``, counted over all probe rows."""
        if first >= last:
            return np.empty(0, dtype=np.uint64)
        ends = np.cumsum((self.end - self.begin).astype(np.int64))
        if len(ends) == ends[-1]:  # one row a range
            return self.begin[first:last]
        at = np.arange(first, last, dtype=np.int64)
        segment = np.searchsorted(ends, at, side="right")
        into = at - (ends - (self.end - self.begin).astype(np.int64))[segment]
        rows: Rows = self.begin[segment] + into.astype(np.uint64)
        return rows


def probe_keys(plan: JoinPlan, build: BuildSide, batch: pa.RecordBatch) -> ProbeKeys:
    """The keys of a probe batch; rows that can match nothing are marked."""
    usable = np.ones(batch.num_rows, dtype=np.bool_)
    values = []
    for probe_name, build_name in zip(plan.probe_keys, plan.build_keys, strict=True):
        column = batch.column(probe_name)
        if not plan.null_equals and column.null_count:
            usable &= _valid(column)
        array, bad = key_array(column, _key_type(build, build_name))
        if bad is not None:
            usable &= ~bad
        values.append(array)
    between = plan.indexed_between
    if between is None:
        return ProbeKeys(plan.build_keys, tuple(values), usable, plan.null_equals)
    lower, upper = batch.column(between.lower), batch.column(between.upper)
    for bound in (lower, upper):
        usable &= _valid(bound) if plan.nan_greatest else _is_number(bound)
    wanted = _key_type(build, between.column)
    return ProbeKeys(
        plan.build_keys,
        tuple(values),
        usable,
        plan.null_equals,
        between.column,
        key_array(lower, wanted)[0],
        key_array(upper, wanted)[0],
    )


def _key_type(build: BuildSide, name: str) -> pa.DataType:
    return value_type(resolve_column(build.schema, name).type)


def _valid(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    mask: np.ndarray[Any, np.dtype[np.bool_]] = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _is_number(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Neither null nor NaN: nothing lies between those and anything."""
    mask = _valid(column)
    if pt.is_floating(column.type):
        nan = pc.fill_null(pc.is_nan(column), False)
        mask = mask & ~nan.to_numpy(zero_copy_only=False)
    return mask


def find_matches(build: BuildSide, keys: ProbeKeys) -> Matches:
    """Rows of the build side that match each probe key.

    Raises:
        IndexUnavailableError: it has no index on the key columns.
    """
    if isinstance(build, File):
        return file_matches(build, keys)
    return build._join_matches(keys)


def file_matches(file: File, keys: ProbeKeys) -> Matches:
    """Rows of ``file`` that match each probe key.

    Raises:
        IndexUnavailableError: no index on the key columns.

    Cost: keys are sorted once; every key chunk they touch is read once.
    """
    return Matches.of_segments(len(keys.usable), *file_segments(file, keys))


def file_segments(file: File, keys: ProbeKeys) -> tuple[Counts, Rows, Rows]:
    """The same as ranges: (probe row, begin, end), ordered by probe row; some may be empty."""
    if keys.between is not None:
        ranges = _between_ranges(file, keys)
    elif not by_cluster_key(file.cluster_by, keys.names):
        return _secondary_segments(file, keys)
    else:
        columns = key_columns(file._keys, file._key_types, keys.names)
        ranges = _core.find_keys(file._open, _batch(columns, keys.values), keys.null_equals)
    ranges[~keys.usable] = 0
    return np.arange(len(ranges), dtype=np.int64), ranges[:, 0], ranges[:, 1]


def by_cluster_key(cluster_by: Sequence[SortKey], names: Sequence[str]) -> bool:
    """Whether the columns are the first ones of the cluster key, in any order."""
    return sorted(key.column for key in cluster_by[: len(names)]) == sorted(names)


def _secondary_segments(file: File, keys: ProbeKeys) -> tuple[Counts, Rows, Rows]:
    """Matches by a secondary index, one row each; without one the error names those there are."""
    at = np.flatnonzero(keys.usable)
    asked = keys if len(at) == len(keys.usable) else keys.take(at)
    batch = pa.RecordBatch.from_arrays(list(asked.values), names=list(keys.names))
    ends, rows = file._find_rows(batch, list(keys.names), keys.null_equals)
    counts = np.diff(ends.astype(np.int64), prepend=np.int64(0))
    return np.repeat(at, counts), rows, rows + np.uint64(1)


def _batch(columns: KeyColumns, values: tuple[pa.Array, ...]) -> pa.RecordBatch:
    """The key columns in the order of the index."""
    arrays = [values[place] for place in columns.given]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _between_ranges(file: File, keys: ProbeKeys) -> Rows:
    """Rows from the first that has the lower bound to the last that has the upper one."""
    assert keys.between is not None
    columns = key_columns(file._keys, file._key_types, [*keys.names, keys.between])
    low, high = keys.lower, keys.upper
    if columns.descending[-1]:
        low, high = high, low
    # Absent bounds have an empty range at their place; the second range's end is past all equals.
    first = _core.find_keys(
        file._open, _batch(columns, (*keys.values, low)), keys.null_equals, places=True
    )
    last = _core.find_keys(
        file._open, _batch(columns, (*keys.values, high)), keys.null_equals, places=True
    )
    return np.stack([first[:, 0], last[:, 1]], axis=1)
