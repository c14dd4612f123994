"""Facts about the rows of a snapshot, from its metadata. Does not open data files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.io.lru_cache import LruCache
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Snapshot
from nimblepy.table.base.sketch import MOST
from nimblepy.table.iceberg.manifests import FileColumns, Numbers
from nimblepy.table.iceberg.pruning import End, comparable, original, storage
from nimblepy.table.reading.fileset import FileSet

# Number of snapshots whose facts a process caches.
_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Facts about one column, from the metadata.

    Attributes:
        type: Arrow type of the column.
        nulls: number of nulls; ``None`` if it is not known for every file. An upper bound unless
            ``nulls_exact``.
        lower, upper: bounds of all values except NaN; ``None`` if they are unknown or there are no
            values. If ``bounds_exact``, they are the minimum and the maximum.
        distinct: number of distinct values, without nulls; ``None`` if the column was not analyzed.
        distinct_snapshot: id of the snapshot that was analyzed.
        distinct_exact: whether ``distinct`` is the exact number for this snapshot. Otherwise it is
            an estimate with a standard error of 1.6 %, or is from an earlier snapshot.
        distinct_is_current: whether ``distinct`` describes the rows of this snapshot.
        least_nulls: at least this many live rows are null.
        seen_lower, seen_upper: minimum and maximum of files without deleted rows, which live rows
            certainly have.
    """

    type: pa.DataType
    nulls: int | None = None
    nulls_exact: bool = False
    lower: Any = None
    upper: Any = None
    bounds_exact: bool = False
    distinct: int | None = None
    distinct_snapshot: int | None = None
    distinct_exact: bool = False
    distinct_is_current: bool = field(default=False, repr=False)
    least_nulls: int = field(default=0, repr=False)
    seen_lower: Any = field(default=None, repr=False)
    seen_upper: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a table, from the metadata of one snapshot.

    Attributes:
        name: ``"namespace.name"``.
        snapshot: id of the snapshot; ``None`` if the table has never had rows.
        rows: number of live rows.
        last_changed: time of the last commit that changed rows; ``None`` if no commit did.
            Compaction and changes of columns do not count.
        last_changed_exact: ``False`` if that commit has expired. The last change is then at or
            before ``last_changed``.
        columns: facts of each column that is not a list or map, by name. Names of fields of structs
            have dots.
        ids: field ids of these columns.
    """

    name: str
    snapshot: int | None
    rows: int
    last_changed: dt.datetime | None
    last_changed_exact: bool
    columns: Mapping[str, ColumnFacts]
    ids: Mapping[str, int] = field(repr=False)

    def __getitem__(self, column: str) -> ColumnFacts:
        return self.columns[column]

    def __repr__(self) -> str:
        changed = self.last_changed.isoformat(timespec="seconds") if self.last_changed else "never"
        lines = [f"{self.name}: {self.rows:,} rows, last changed {changed}"]
        for name, column in self.columns.items():
            parts = [f"{name} ({column.type}):"]
            if column.nulls is not None:
                parts.append(f"{'' if column.nulls_exact else 'at most '}{column.nulls:,} nulls,")
            if column.lower is not None or column.upper is not None:
                within = "" if column.bounds_exact else "within "
                parts.append(f"{within}{_short(column.lower)} .. {_short(column.upper)},")
            if column.distinct is not None:
                about = "" if column.distinct_exact else "about "
                parts.append(f"{about}{column.distinct:,} different values")
            lines.append("  " + " ".join(parts).rstrip(",:"))
        return "\n".join(lines)


def _short(value: Any) -> str:
    return "?" if value is None else str(value)


_kept: LruCache[Facts] = LruCache(_KEPT)


def facts_of(
    rows: FileSet, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int
) -> Facts:
    """Computes the facts of a snapshot.

    Args:
        rows: the rows of the snapshot.
        schema_id: id of the schema of the columns.

    Cost: describes every file, from the plan index or the manifests, and reads the delete files.
    """
    number = None if snapshot is None else snapshot.id
    key = metadata.uuid, metadata.metadata_file, number, schema_id
    facts = _kept.get(key)
    if facts is None:
        facts = _facts(rows, metadata, snapshot, schema_id)
        _kept.put(key, facts)
    return facts


def _facts(
    rows: FileSet, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int
) -> Facts:
    files = _Files(rows, metadata)
    types = metadata.leaf_types(schema_id)
    names = {number: str(metadata.column_name(number, schema_id)) for number in types}
    distinct = ice.distinct_values(metadata, snapshot)
    unchanged = _unchanged_since(metadata, snapshot)
    defaults = metadata.defaults(schema_id)
    columns = {}
    for number, kind in types.items():
        column = _column(files, number, kind, defaults.get(number))
        counted = distinct.get(number)
        if counted is not None:
            column |= {
                "distinct": counted.values,
                "distinct_snapshot": counted.snapshot,
                "distinct_is_current": counted.snapshot in unchanged,
                "distinct_exact": counted.values <= MOST and counted.snapshot in unchanged,
            }
        columns[names[number]] = ColumnFacts(type=kind, **column)
    changed, exact = last_change(metadata, snapshot)
    return Facts(
        name=".".join(metadata.name),
        snapshot=None if snapshot is None else snapshot.id,
        rows=files.live_rows,
        last_changed=changed,
        last_changed_exact=exact,
        columns=columns,
        ids={name: number for number, name in names.items()},
    )


def _unchanged_since(metadata: ice.Metadata, snapshot: Snapshot | None) -> set[int]:
    """Returns the ids of a snapshot and of its ancestors with the same rows."""
    ids = set()
    for one in metadata.ancestors(snapshot):
        ids.add(one.id)
        if one.operation != "replace":
            break
    return ids


def last_change(
    metadata: ice.Metadata, snapshot: Snapshot | None, *, adds: bool = False
) -> tuple[dt.datetime | None, bool]:
    """Returns the time of the last commit that changed rows, and whether that commit is known.

    Args:
        adds: whether the commit must have added rows or new versions of rows.
    """
    ignored = ("replace", "delete") if adds else ("replace",)
    last = None
    for last in metadata.ancestors(snapshot):
        if last.operation not in ignored:
            break
    if last is None:
        return None, True
    time = dt.datetime.fromtimestamp(last.timestamp_ms / 1000, dt.UTC)
    return time, last.operation not in ignored


class _Files:
    """The data files of a snapshot, and the number of deleted rows in each file.

    Attributes:
        parts: the files, with the position of their first one.
        deleted: number of deleted rows of each file.
        live_rows: number of live rows of all files.
    """

    def __init__(self, rows: FileSet, metadata: ice.Metadata) -> None:
        members = rows.plan.members()
        selection = members.files
        self.deleted = np.zeros(len(members), dtype=np.int64)
        if rows.plan.has_deletes:
            for i in range(len(members)):
                if members[i].deletes:
                    bitmap = rows.reading.deleted_bitmap(members[i])
                    self.deleted[i] = 0 if bitmap is None else len(bitmap)
        self.parts = selection.parts
        self.live_rows = int(selection.rows.sum() - self.deleted.sum())
        self._metadata = metadata
        self._columns = metadata.field_ids()

    def pieces(self) -> Iterator[tuple[FileColumns, Numbers]]:
        """Returns the files, and the number of deleted rows in each file."""
        first = 0
        for part in self.parts:
            for piece in part.pieces():
                yield piece, self.deleted[first : first + piece.num_files]
                first += piece.num_files

    def last_without(self, number: int) -> int:
        """Returns the sequence number of a commit before a column was added; -1 if unknown.

        Files with greater sequence numbers may have the column. A writer that did not know the
        column may have committed later, so such a commit is not used. If commits have expired, the
        result is -1.
        """
        snapshots = self._metadata.snapshots
        if len(snapshots) < max((s.sequence for s in snapshots), default=0):
            return -1
        without = [s.sequence for s in snapshots if self._lacks(s, number)]
        others = [s.sequence for s in snapshots if not self._lacks(s, number)]
        first_with = min(others, default=None)
        return max((s for s in without if first_with is None or s < first_with), default=-1)

    def _lacks(self, snapshot: Snapshot, number: int) -> bool:
        columns = self._columns.get(-1 if snapshot.schema_id is None else snapshot.schema_id)
        return columns is not None and number not in columns


def _column(
    files: _Files, number: int, kind: pa.DataType, default: pa.Scalar | None
) -> dict[str, Any]:
    """Returns the number of nulls and the bounds of a column."""
    most_nulls = least_nulls = 0
    nulls_known = True
    ends = {"lower": _Ends(kind, "lower"), "upper": _Ends(kind, "upper")}
    last_without: Callable[[], int] = lambda: files.last_without(number)  # noqa: E731
    for part, deleted in files.pieces():
        live = part.rows - deleted
        nulls = part.counts("nulls", number)
        has_count = np.zeros(len(live), np.bool_) if nulls is None else _mask(nulls.is_valid())
        counts = np.zeros(len(live), np.int64)
        if nulls is not None:
            counts = pc.fill_null(nulls, 0).to_numpy().copy()
        older = np.zeros(len(live), np.bool_)
        if not has_count[live > 0].all():
            # In files written before the column was added, all rows have its default.
            older = ~has_count & (part.sequences <= last_without())
            if default is None or not default.is_valid:
                counts[older] = part.rows[older]
            has_count |= older
        most_nulls += int(np.minimum(counts, live)[has_count].sum())
        least_nulls += int(np.maximum(counts - deleted, 0)[has_count].sum())
        nulls_known = nulls_known and bool(has_count[live > 0].all())
        for end in ends.values():
            end.add(part, number, deleted, live, has_count & (counts >= part.rows), older, default)
    lower, upper = ends["lower"], ends["upper"]
    return {
        "nulls": most_nulls if nulls_known else None,
        "nulls_exact": nulls_known and most_nulls == least_nulls,
        "lower": lower.outer,
        "upper": upper.outer,
        "bounds_exact": lower.is_exact and upper.is_exact,
        "least_nulls": least_nulls,
        "seen_lower": lower.seen,
        "seen_upper": upper.seen,
    }


class _Ends:
    """Collects the minimum or the maximum of a column over files."""

    def __init__(self, kind: pa.DataType, end: End) -> None:
        self._kind = kind
        self._end: End = end
        self._outer: list[pa.Scalar] = []
        self._seen: list[pa.Scalar] = []
        self._known = True
        # Bounds of texts may be truncated. Then no row may have the bound itself.
        self._truncated = pt.is_binary(storage(kind))

    def add(
        self,
        part: FileColumns,
        number: int,
        deleted: Numbers,
        live: Numbers,
        all_null: Any,
        older: Any,
        default: pa.Scalar | None,
    ) -> None:
        """Adds files.

        Args:
            all_null: files in which all values are null.
            older: files written before the column was added. All their rows have ``default``.
        """
        bound = part.bound(self._end, number, self._kind)
        if bound is None:
            bound = pa.nulls(len(live), comparable(self._kind, pa.nulls(0, pa.binary())).type)
        has_bound = _mask(bound.is_valid())
        if default is not None and default.is_valid and (older & (live > 0)).any():
            self._outer.append(default)
            self._seen.append(default)
            has_bound = has_bound | older
        if not (has_bound | all_null | (live <= 0)).all():
            self._known = False
        self._collect(bound.filter(pa.array(live > 0)), self._outer)
        if not self._truncated:
            self._collect(bound.filter(pa.array((live > 0) & (deleted == 0))), self._seen)

    def _collect(self, bounds: pa.Array, scalars: list[pa.Scalar]) -> None:
        if bounds.null_count < len(bounds):
            ends = pc.min_max(bounds)
            scalar = ends["min" if self._end == "lower" else "max"]
            values = original(pa.array([scalar.as_py()], bounds.type), self._kind, self._end)
            scalars.append(values[0])

    @property
    def outer(self) -> Any:
        """The bound of all values; ``None`` if it is unknown or there are no values."""
        return _best(self._outer, self._end) if self._known else None

    @property
    def seen(self) -> Any:
        """The most extreme value that a live row certainly has; ``None`` if unknown."""
        return _best(self._seen, self._end)

    @property
    def is_exact(self) -> bool:
        """Whether :attr:`outer` is the exact minimum or maximum."""
        return self._known and self.outer == self.seen


def _best(scalars: list[pa.Scalar], end: End) -> Any:
    try:
        values = [scalar.as_py() for scalar in scalars]
    except UnicodeDecodeError:  # another engine truncated the bound within a character
        return None
    if not values:
        return None
    return min(values) if end == "lower" else max(values)


def _mask(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)
