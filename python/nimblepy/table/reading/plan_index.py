"""The plan index stores what manifests say about data files in nimble files.

It is derived data, and may be missing, damaged or old. The manifest list decides which files are
live: a row counts if its manifest is in the list. If no part of the index covers a manifest, the
manifest itself is read.

The summary of a snapshot names the parts of the index, and later commits copy it. Each part
describes other manifests, and is several times larger than the next part. So an entry is rewritten
only a few times, whatever the number of files.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import CorruptFileError, NimbleError
from nimblepy.expr.filter import Filter as ParsedFilter
from nimblepy.expr.filter import parse_filter
from nimblepy.file.open import open_source
from nimblepy.file.options import WriteOptions
from nimblepy.file.write import write
from nimblepy.io.fork import renew_after_fork
from nimblepy.io.remote_file import at_once, openers
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import PLAN_INDEX, DataFile, Entry, Manifest, Metrics, Snapshot
from nimblepy.table.base.places import readable_path
from nimblepy.table.iceberg.manifests import MANY, FileColumns, Numbers
from nimblepy.table.iceberg.pruning import (
    Always,
    Both,
    Counts,
    End,
    Leaf,
    Mask,
    Test,
    may_match,
    partition_passes,
    storage,
    stored_bytes,
    stored_form,
)

_HEADER = "nimblepy.plan-index"
_VERSION = 1
# Number of parts that a process keeps open.
_KEPT = 16
# Number of neighbouring files whose descriptions are read together.
_WINDOW = 64
# Each part has at least this many times the files of the next part, and the maximum number of
# parts.
_RATIO = 4
_MOST_PARTS = 4
# Number of earlier snapshots to search for an index, if another engine made the last commits.
_MOST_BEFORE = 100
_BASE = ("path", "format", "rows", "bytes", "sequence", "sort_order")
_ROW_IDS = "first_row_id"
_SHORT: dict[str, str] = {"lower": "l", "upper": "u", "values": "v", "nulls": "n", "nans": "a"}


# ------------------------------------------------------------------ making one


@dataclass(frozen=True)
class Layout:
    """The columns of a plan index.

    Attributes:
        columns: field ids of the table's columns with statistics, with their types.
        partitions: fields of each partition spec: field ids and types of their values.
        order: field id of the first column of the cluster key.
    """

    columns: dict[int, pa.DataType]
    partitions: dict[int, list[tuple[int, pa.DataType]]]
    order: int | None


def layout_of(metadata: ice.Metadata) -> Layout:
    """Returns the layout for the current columns of a table."""
    columns = metadata.leaf_types()
    return Layout(columns, metadata.partition_types(), metadata.first_cluster_id())


def index_rows(files: FileColumns, layout: Layout) -> pa.Table:
    """Returns a row for each file, with all columns of the layout."""
    count = files.num_files
    made: dict[str, pa.Array] = {"spec": pa.array(np.full(count, files.spec_id, np.int32))}
    places = {number: i for i, (number, _) in enumerate(layout.partitions[files.spec_id])}
    for number, kind in _partition_fields(layout).items():
        place = places.get(number)
        values = pa.nulls(count, _kept(kind))
        if place is not None:
            values = files.partition(place, kind).cast(_kept(kind))
        made[f"p{number}"] = values
    for number, kind in layout.columns.items():
        for end in ("lower", "upper"):
            bound = files.bound(end, number, kind)
            kept = pa.nulls(count, _kept(kind)) if bound is None else bound.cast(_kept(kind))
            made[f"{_SHORT[end]}{number}"] = kept
        for what in ("values", "nulls", "nans"):
            if what == "nans" and not pt.is_floating(kind):
                continue
            counts = files.counts(what, number)
            made[f"{_SHORT[what]}{number}"] = (
                pa.nulls(count, pa.int64()) if counts is None else counts
            )
    made["path"] = files.paths
    made["format"] = files.formats
    made["rows"] = pa.array(files.rows)
    made["bytes"] = pa.array(files.sizes)
    made["sequence"] = pa.array(files.sequences)
    made["sort_order"] = files.sort_orders
    ids = files.first_row_ids
    if ids is not None:
        made[_ROW_IDS] = ids
    return pa.table(made)


def clustered(rows: pa.Table, layout: Layout) -> pa.Array:
    """Returns the order of index rows by partition, then by lower bound of the cluster key."""
    names = ["spec", *(f"p{number}" for number in _partition_fields(layout))]
    if layout.order is not None and layout.order in layout.columns:
        names.append(f"l{layout.order}")
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names])


def write_index(
    metadata: ice.Metadata, layout: Layout, rows: pa.Table, manifests: Sequence[Manifest]
) -> str:
    """Writes a part of the index and returns its path.

    Args:
        rows: rows from :func:`index_rows`, with a column ``manifest``, an index into ``manifests``.
    """
    path = metadata.blob_path(f"plan-{uuid.uuid4()}.nimble")
    complete = [name for name in rows.column_names if not _has_gaps(rows.column(name))]
    counts, sums = _per_manifest(
        rows.column("manifest").to_numpy(), rows.column("rows").to_numpy(), len(manifests)
    )
    header = {
        "version": _VERSION,
        "table": metadata.uuid,
        "complete": complete,
        "manifests": [
            [item.path, int(counts[i]), item.spec_id, int(sums[i])]
            for i, item in enumerate(manifests)
        ],
    }
    order = ["spec", *(f"p{number}" for number in _partition_fields(layout))]
    if layout.order is not None and layout.order in layout.columns:
        order.append(f"l{layout.order}")
    write(
        rows,
        readable_path(path),
        cluster_by=[SortKey(name) for name in order],
        options=WriteOptions(),
        metadata={_HEADER: json.dumps(header)},
    )
    return path


def _per_manifest(numbers: Numbers, rows: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Returns the number of files, and of rows in them, of each manifest."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, numbers, rows)
    return np.bincount(numbers, minlength=count), sums


def _has_gaps(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    return pt.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def _partition_fields(layout: Layout) -> dict[int, pa.DataType]:
    """Returns the partition fields of all specs, by field id."""
    return {number: kind for fields in layout.partitions.values() for number, kind in fields}


def _kept(kind: pa.DataType) -> pa.DataType:
    """Returns the stored type of a column, which compares like the column's type."""
    kept = storage(kind)
    if pt.is_boolean(kept):
        return pa.uint8()
    return pa.decimal128(38, kept.scale) if pt.is_decimal(kept) else kept


# ------------------------------------------------------------------ reading one


# Columns that every part has and that are never null, with their types.
_ALWAYS = {
    "spec": pa.int32(),
    "manifest": pa.int32(),
    "path": pa.string(),
    "format": pa.string(),
    "rows": pa.int64(),
    "bytes": pa.int64(),
    "sequence": pa.int64(),
}


class IndexPart:
    """An open part of a plan index.

    Attributes:
        manifests: for each path: the manifest's number, files, partition spec and rows.
    """

    def __init__(self, path: str, table: str) -> None:
        """Opens a part.

        Raises:
            OSError, NimbleError, ValueError: the file cannot be used.
        """
        self.path = path
        self.file = open_source(readable_path(path))
        header = json.loads(self.file.metadata[_HEADER])
        if header["version"] != _VERSION or header["table"] != table:
            raise ValueError(f"{path}: a plan index of another table or an unknown version")
        self.manifests: dict[str, tuple[int, int, int, int]] = {
            path: (i, int(files), int(spec), int(rows))
            for i, (path, files, spec, rows) in enumerate(header["manifests"])
        }
        self.complete = frozenset(header["complete"])
        if sum(info[1] for info in self.manifests.values()) != self.file.num_rows:
            raise ValueError(f"{path}: the file and its metadata differ in the number of rows")
        self.names = frozenset(self.file.schema.names)
        wrong = [n for n, kind in _ALWAYS.items() if self.file.schema.field(n).type != kind]
        if wrong:
            raise ValueError(f"{path}: the columns {wrong} do not have the expected types")

    @property
    def has_row_ids(self) -> bool:
        """Whether the part has the first row ids of all files."""
        return _ROW_IDS in self.names and _ROW_IDS in self.complete

    def covers(self, manifest: Manifest) -> bool:
        """Returns whether the part has a row for each live file of a manifest."""
        stored = self.manifests.get(manifest.path)
        listed = manifest.files, manifest.spec_id, manifest.rows
        return stored is not None and stored[1:] == listed

    def files(
        self, manifests: Sequence[Manifest], metadata: ice.Metadata, pruner: ice.Pruner | None
    ) -> list[IndexFiles]:
        """Returns the live files of covered manifests, by partition spec.

        Raises:
            OSError, NimbleError: the part cannot be read, or its content is wrong.

        Cost: reads the blocks of tested columns that zone maps do not exclude, and from other
        columns only the rows of matching files.
        """
        try:
            return self._files(manifests, metadata, pruner)
        except (pa.ArrowException, LookupError, TypeError) as error:
            raise CorruptFileError(f"{self.path}: not a plan index: {error!r}") from error

    def _files(
        self, manifests: Sequence[Manifest], metadata: ice.Metadata, pruner: ice.Pruner | None
    ) -> list[IndexFiles]:
        parts = []
        live = np.zeros(len(self.manifests), dtype=np.bool_)
        for manifest in manifests:
            live[self.manifests[manifest.path][0]] = True
        for spec_id in sorted({manifest.spec_id for manifest in manifests}):
            fields = metadata.partition_types()[spec_id]
            rows = self.file.all_rows()
            if pruner is not None:
                expression = pc.field("spec") == spec_id
                for more in (
                    self._expression(pruner.partition_test(spec_id), fields),
                    self._expression(pruner.metrics_test, None),
                ):
                    expression = expression if more is None else expression & more
                filter: ParsedFilter = parse_filter(expression, self.file.schema)
                rows = self.file.find(Where(filter, rows))
            part = IndexFiles(self, spec_id, fields, rows)
            keep = part.column("spec").to_numpy() == spec_id
            if not live.all():
                keep &= live[part.manifest_numbers]
            if pruner is not None and keep.any():
                part, keep = part.narrowed(keep), None
                keep = partition_passes(part, pruner.partition_test(spec_id))
                if keep.any():
                    part, keep = part.narrowed(keep), None
                    keep = may_match(part, pruner.metrics_test)
            part = part.narrowed(keep)
            if part.num_files:
                part.describe()
                parts.append(part)
        if pruner is None:
            self._check(parts, manifests)
            for part in parts:
                part.release()
        return parts

    def _check(self, parts: Sequence[IndexFiles], manifests: Sequence[Manifest]) -> None:
        """Raises if the number of files or rows of a manifest differs from the manifest list."""
        count = len(self.manifests)
        files, rows = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for part in parts:
            more, sums = _per_manifest(part.manifest_numbers, part.rows, count)
            files += more
            rows += sums
        for item in manifests:
            at = self.manifests[item.path][0]
            if (files[at], rows[at]) != (item.files, item.rows):
                raise CorruptFileError(
                    f"{self.path}: manifest {item.path} has {files[at]} files with {rows[at]} "
                    f"rows, but the manifest list says {item.files} files with {item.rows} rows"
                )

    def _expression(
        self, test: Test, fields: list[tuple[int, pa.DataType]] | None
    ) -> pc.Expression | None:
        """Returns the expression for zone maps; ``None`` if they cannot help."""
        match test:
            case Both(left, right, either):
                first, second = self._expression(left, fields), self._expression(right, fields)
                if first is None or second is None:
                    return None if either else (first if second is None else second)
                return first | second if either else first & second
            case Leaf():
                return self._partition(test, fields) if fields else self._bounds(test)
        return pc.scalar(False) if test == Always(False) else None

    def _partition(self, leaf: Leaf, fields: list[tuple[int, pa.DataType]]) -> Any:
        name = f"p{fields[leaf.number][0]}"
        if not self._can_ask(leaf, name):
            return None
        field, values = pc.field(name), [_scalar(value, leaf.kind) for value in leaf.values]
        match leaf.op:
            case "==":
                return field == values[0]
            case "<":
                return field < values[0]
            case "<=":
                return field <= values[0]
            case ">":
                return field > values[0]
            case ">=":
                return field >= values[0]
            case "in":
                least, most = _ends(values)
                return (field >= least) & (field <= most)
        return None

    def _bounds(self, leaf: Leaf) -> Any:
        lower, upper = f"l{leaf.number}", f"u{leaf.number}"
        if leaf.op not in ("==", "<", "<=", ">", ">=", "in"):
            return None
        values = [_scalar(value, leaf.kind) for value in leaf.values]
        least, most = _ends(values) if self._can_ask(leaf, lower) else (None, None)
        tests = []
        if least is None:
            return None
        if leaf.op in ("==", "<", "<=", "in") and lower in self.complete:
            tests.append(pc.field(lower) < most if leaf.op == "<" else pc.field(lower) <= most)
        if leaf.op in ("==", ">", ">=", "in") and upper in self.complete:
            tests.append(pc.field(upper) > least if leaf.op == ">" else pc.field(upper) >= least)
        if len(tests) == 2:
            return tests[0] & tests[1]
        return tests[0] if tests else None

    def _can_ask(self, leaf: Leaf, name: str) -> bool:
        """Returns whether a column has the type of the values.

        The type may have been widened since.
        """
        kind = storage(leaf.kind)
        plain = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_binary(kind)
        return plain and name in self.names and self.file.schema.field(name).type == kind


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(stored_form(value), storage(kind))


def _ends(values: list[pa.Scalar]) -> tuple[pa.Scalar, pa.Scalar]:
    ordered = sorted(values, key=lambda scalar: scalar.as_py())
    return ordered[0], ordered[-1]


class IndexFiles(FileColumns):
    """Files of one partition spec that a part of the index describes.

    Reads columns on demand.
    """

    def __init__(
        self,
        index: IndexPart,
        spec_id: int,
        fields: list[tuple[int, pa.DataType]],
        rows: RowSet,
        columns: dict[str, pa.Array] | None = None,
    ) -> None:
        self.spec_id = spec_id
        self._index = index
        self._fields = fields
        self._rows = rows
        self._columns = columns or {}
        self._count = rows.num_rows
        self._described = (*_BASE, *(f"p{number}" for number, _ in fields))
        if index.has_row_ids:
            self._described += (_ROW_IDS,)
        # The first file of the last window of described files, and the window.
        self._window: tuple[int, list[dict[str, Any]]] = -1, []
        self.derived = {}

    @property
    def num_files(self) -> int:
        return self._count

    def narrowed(self, keep: Mask) -> IndexFiles:
        """Returns the files that ``keep`` selects."""
        if keep.all():
            return self
        rows = RowSet(self._rows.expand().begin[keep])
        mask = pa.array(keep)
        kept = {name: column.filter(mask) for name, column in self._columns.items()}
        return IndexFiles(self._index, self.spec_id, self._fields, rows, kept)

    def describe(self) -> None:
        """Reads the columns that describe files, unless there are too many files.

        Raises:
            OSError, NimbleError: the part cannot be read.
        """
        if self._count <= MANY:
            self.load(self._described)

    def release(self) -> None:
        """Drops the columns, if there are very many files."""
        if self._count > MANY:
            self._columns.clear()

    def pieces(self) -> Iterator[FileColumns]:
        if self._count <= MANY:
            yield self
            return
        places = self._rows.expand().begin
        for first in range(0, self._count, MANY):
            rows = RowSet(places[first : first + MANY])
            yield IndexFiles(self._index, self.spec_id, self._fields, rows)

    def load(self, names: Sequence[str]) -> None:
        """Reads several columns together.

        Raises:
            OSError, NimbleError: the columns cannot be read.
        """
        missing = tuple(name for name in names if name not in self._columns)
        if missing:
            # Copy: another thread may iterate over the old dictionary.
            self._columns = {**self._columns, **self._read(self._rows, missing)}

    def _read(self, rows: RowSet, names: tuple[str, ...]) -> dict[str, pa.Array]:
        table = self._index.file.read(rows, names)
        made = {}
        for name in names:
            column = table.column(name)
            whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if name in _ALWAYS and whole.null_count:
                raise CorruptFileError(f"{self._index.path}: null in column {name!r}")
            made[name] = whole
        return made

    def column(self, name: str) -> pa.Array:
        column = self._columns.get(name)
        if column is None:
            column = self._read(self._rows, (name,))[name]
            self._columns = {**self._columns, name: column}
        return column

    def _known(self, name: str) -> pa.Array | None:
        """Returns a column of statistics; ``None`` if it cannot be read."""
        if name not in self._index.names:
            return None
        try:
            return self.column(name)
        except (OSError, NimbleError):
            return None

    @property
    def rows(self) -> Numbers:  # type: ignore[override]
        return _numbers(self.column("rows"))

    @property
    def sizes(self) -> Numbers:  # type: ignore[override]
        return _numbers(self.column("bytes"))

    @property
    def sequences(self) -> Numbers:  # type: ignore[override]
        return _numbers(self.column("sequence"))

    @property
    def paths(self) -> pa.Array:
        return self.column("path")

    def paths_of(self, files: Numbers) -> pa.Array:
        if "path" in self._columns:
            return super().paths_of(files)
        order = np.argsort(files, kind="stable")
        rows = RowSet(self._rows.expand().begin[files[order]])
        at = np.empty(len(order), dtype=np.int64)
        at[order] = np.arange(len(order))
        return self._read(rows, ("path",))["path"].take(pa.array(at))

    @property
    def manifest_numbers(self) -> Numbers:
        numbers = _numbers(self.column("manifest"))
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self._index.manifests):
            raise CorruptFileError(
                f"{self._index.path}: rows refer to a manifest that the plan index does not list"
            )
        return numbers

    @property
    def manifest_paths(self) -> list[str]:
        """The paths of the manifests, by number."""
        return list(self._index.manifests)

    @property
    def formats(self) -> pa.Array:
        return self.column("format")

    @property
    def sort_orders(self) -> pa.Array:
        return self.column("sort_order")

    @property
    def first_row_ids(self) -> pa.Array | None:
        return self.column(_ROW_IDS) if self._index.has_row_ids else None

    def counts(self, what: Counts, number: int) -> pa.Array | None:
        return self._known(f"{_SHORT[what]}{number}")

    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        bounds = self._known(f"{_SHORT[end]}{number}")
        return None if bounds is None else _compared(bounds, kind)

    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        return _compared(self.column(f"p{self._fields[place][0]}"), kind)

    def entry(self, file: int) -> Entry:
        row = self._row(file)
        metrics: dict[str, dict[int, Any]] = {}
        for what, short in _SHORT.items():
            metrics[what] = {}
            for name, value in row.items():
                if name[0] == short and name[1:].isdigit() and value is not None:
                    if what in ("lower", "upper"):
                        value = stored_bytes(self._index.file.schema.field(name).type, value)
                    metrics[what][int(name[1:])] = value
        data_file = DataFile(
            path=row["path"],
            format=row["format"].upper(),
            rows=row["rows"],
            bytes=row["bytes"],
            spec_id=self.spec_id,
            partition=tuple(python_value(row[f"p{n}"], kind) for n, kind in self._fields),
            metrics=Metrics(**metrics),
            sort_order_id=row["sort_order"],
            first_row_id=row.get(_ROW_IDS),
        )
        return Entry(data_file, row["sequence"], "")

    def _row(self, file: int) -> dict[str, Any]:
        """Returns all columns of one file. Reads a window of neighbouring files together."""
        first, rows = self._window
        if not first <= file < first + len(rows):
            first = file - file % _WINDOW
            places = RowSet(self._rows.expand().begin[first : first + _WINDOW])
            columns = self._columns
            names = [n for n in self._index.file.schema.names if n not in columns]
            try:
                read = self._read(places, tuple(names))
            except (OSError, NimbleError):
                # Statistics that cannot be read count as unknown.
                read = self._read(places, tuple(n for n in self._described if n in names))
            cached = {n: c.slice(first, _WINDOW) for n, c in columns.items()}
            rows = pa.table(cached | read).to_pylist()
            self._window = first, rows
        return rows[file - first]


def _numbers(column: pa.Array) -> Numbers:
    numbers: Numbers = column.to_numpy(zero_copy_only=False)
    return numbers


def _compared(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the values in the type in which they are compared, which may be wider than in the
    index.
    """
    compared = storage(kind)
    if pt.is_boolean(compared):
        return values
    if pt.is_decimal(compared):
        return values.cast(pa.decimal256(76, compared.scale))
    return values if values.type == compared else values.cast(compared)


def python_value(value: Any, kind: pa.DataType) -> Any:
    """Returns a value of the index as Iceberg represents it in memory."""
    if value is None:
        return None
    if pt.is_boolean(kind):
        return bool(value)
    return value.decode() if pt.is_string(kind) else value


# Errors that mean a part cannot be used.
_UNUSABLE: tuple[type[Exception], ...] = (NimbleError, *BAD_BYTES)


class _Parts:
    """Open parts by path; ``None`` marks a part that cannot be used. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, IndexPart | None] = OrderedDict()
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, path: str, table: str) -> IndexPart | None:
        with self._lock:
            if path in self._known:
                self._known.move_to_end(path)
                return self._known[path]
        try:
            part: IndexPart | None = IndexPart(path, table)
        except _UNUSABLE:
            part = None
        with self._lock:
            self._known[path] = part
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return part

    def forget(self, path: str) -> None:
        with self._lock:
            self._known[path] = None


_parts = _Parts()


def clear_cache() -> None:
    """Closes all open parts."""
    global _parts
    _parts = _Parts()


def named_parts(metadata: ice.Metadata, snapshot: Snapshot) -> list[str]:
    """Returns the paths of the parts that a snapshot's summary names."""
    names = snapshot.summary.get(PLAN_INDEX, "").split(",")
    return [metadata.blob_path(name) for name in names if name and "/" not in name]


def summary_of(paths: Sequence[str]) -> str:
    """Returns the summary entries that name some parts."""
    return ",".join(path.rpartition("/")[2] for path in paths)


def paths_of(metadata: ice.Metadata, snapshot: Snapshot | None) -> list[str]:
    """Returns the paths of the plan index of a snapshot, or of the last snapshot before it that has
    one.
    """
    for i, one in enumerate(metadata.ancestors(snapshot)):
        if PLAN_INDEX in one.summary:
            return named_parts(metadata, one)
        if i >= _MOST_BEFORE:
            break
    return []


def parts_of(metadata: ice.Metadata, snapshot: Snapshot | None) -> list[IndexPart]:
    """Returns the usable parts of the plan index of a snapshot, the largest first."""
    return asked_for(metadata, snapshot)()


def asked_for(metadata: ice.Metadata, snapshot: Snapshot | None) -> Callable[[], list[IndexPart]]:
    """Starts to open the parts of a snapshot.

    The result waits and returns them, as :func:`parts_of`.
    """

    def opened(path: str) -> IndexPart | None:
        return _parts.get(path, metadata.uuid)

    paths = paths_of(metadata, snapshot)
    opening = at_once(opened, paths, openers()) if metadata.distant else map(opened, paths)

    def parts() -> list[IndexPart]:
        usable = [part for part in opening if part is not None]
        if metadata.has_row_ids:  # A part from before the upgrade has no row ids.
            usable = [part for part in usable if part.has_row_ids]
        metadata.reads += len(usable)
        return sorted(usable, key=lambda part: -part.file.num_rows)

    return parts


def covered(
    parts: Sequence[IndexPart], manifests: Sequence[Manifest]
) -> tuple[list[list[Manifest]], list[Manifest]]:
    """Returns the manifests to read from each part, and the manifests that no part covers."""
    by_part: list[list[Manifest]] = [[] for _ in parts]
    rest = []
    for manifest in manifests:
        for part, part_manifests in zip(parts, by_part, strict=True):
            if part.covers(manifest):
                part_manifests.append(manifest)
                break
        else:
            rest.append(manifest)
    return by_part, rest


def answered(
    metadata: ice.Metadata, parts: Sequence[IndexPart], manifests: Sequence[Manifest]
) -> tuple[list[list[Manifest]], list[Manifest]]:
    """Like :func:`covered`, but only for manifests with known partition types."""
    types = metadata.partition_types() if parts else {}
    by_part, rest = covered(parts, [item for item in manifests if item.spec_id in types])
    return by_part, [*(item for item in manifests if item.spec_id not in types), *rest]


def files_of(
    metadata: ice.Metadata,
    parts: Sequence[IndexPart],
    answering: Sequence[list[Manifest]],
    pruner: ice.Pruner | None,
) -> tuple[list[IndexFiles], list[Manifest]]:
    """Returns the files of the manifests that each part covers, and damaged parts' manifests."""
    files: list[IndexFiles] = []
    rest: list[Manifest] = []
    for part, part_manifests in zip(parts, answering, strict=True):
        if part_manifests:
            try:
                files += part.files(part_manifests, metadata, pruner)
            except (OSError, NimbleError):
                _parts.forget(part.path)
                rest += part_manifests
    return files, rest


def indexed_files(
    metadata: ice.Metadata, snapshot: Snapshot | None, manifests: Sequence[Manifest]
) -> tuple[list[IndexFiles], list[Manifest]]:
    """Returns the files of manifests from the index, and the manifests that the index does not
    cover.
    """
    parts = parts_of(metadata, snapshot)
    answering, rest = answered(metadata, parts, manifests)
    files, unread = files_of(metadata, parts, answering, None)
    return files, [*rest, *unread]


def merged_parts(parts: Sequence[IndexPart], live: Sequence[int], new: int) -> list[bool]:
    """Chooses the parts to rewrite together with new files.

    Args:
        parts: the largest first.
        live: live files of each part.
        new: number of files that no part has.
    """
    dead = [2 * count < part.file.num_rows for part, count in zip(parts, live, strict=True)]
    total = new + sum(count for count, is_dead in zip(live, dead, strict=True) if is_dead)
    left = [i for i, is_dead in enumerate(dead) if not is_dead]
    merged = tail([live[i] for i in left], total, most=_MOST_PARTS - 1)
    return [i not in left[: len(left) - merged] for i in range(len(parts))]


def tail(sizes: Sequence[int], new: int, most: int) -> int:
    """Returns how many of the smallest parts to rewrite together with new files.

    Each remaining part is several times larger than the next, so an entry is rewritten only a few
    times.

    Args:
        sizes: descending.
        most: maximum number of remaining parts.
    """
    merged = 0
    while merged < len(sizes):
        smallest = sizes[len(sizes) - merged - 1]
        if smallest >= _RATIO * new and len(sizes) - merged <= most:
            break
        new += smallest
        merged += 1
    return merged


def stored_bytes_of(metadata: ice.Metadata, snapshot: Snapshot | None) -> int:
    """Returns the total bytes of the plan index."""
    total = 0
    for path in paths_of(metadata, snapshot):
        with contextlib.suppress(OSError):
            total += os.stat(readable_path(path)).st_size
    return total
