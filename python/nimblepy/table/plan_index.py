"""The plan index: what the manifests of a snapshot say of its data files, as one nimble file.

It is derived, and may be missing, damaged or old: which files are live is what the manifest list
says. A row counts if its manifest is in the list; manifests that the index does not cover are read
themselves. The newest snapshot's summary names the file, and so does that of every later commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import NimbleError
from nimblepy.expr.filter import Filter as ParsedFilter
from nimblepy.expr.filter import parse_filter
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.file.options import WriteOptions
from nimblepy.file.write import write
from nimblepy.io.fork import renew_after_fork
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.types import SortKey
from nimblepy.table import _iceberg as ice
from nimblepy.table.manifests import FileColumns, Numbers
from nimblepy.table.model import PLAN_INDEX, DataFile, Entry, Manifest, Metrics, Snapshot
from nimblepy.table.places import readable_path
from nimblepy.table.pruning import (
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
# Indexes that a process keeps open.
_KEPT = 8
# Snapshots before one that are asked for an index, where another engine has committed since.
_MOST_BEFORE = 100
_BASE = ("path", "format", "rows", "bytes", "sequence", "sort_order")
_SHORT: dict[str, str] = {"lower": "l", "upper": "u", "values": "v", "nulls": "n", "nans": "a"}


# ------------------------------------------------------------------ making one


@dataclass(frozen=True)
class Layout:
    """What is kept of the files of a table.

    Attributes:
        columns: field ids of its columns that have statistics, with their types.
        partitions: fields of each partition spec: field ids and types of their values.
        order: field id of the first column of the cluster key.
    """

    columns: dict[int, pa.DataType]
    partitions: dict[int, list[tuple[int, pa.DataType]]]
    order: int | None


def layout_of(metadata: ice.Metadata) -> Layout:
    """Of the columns that a table has now."""
    columns = metadata.leaf_types()
    return Layout(columns, metadata.partition_types(), metadata.first_cluster_id())


def index_rows(files: FileColumns, layout: Layout) -> pa.Table:
    """A row for each of some files, with all of the layout's columns."""
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
    return pa.table(made)


def clustered(rows: pa.Table, layout: Layout) -> pa.Array:
    """The order of index rows by partition, then by lower bound of the cluster key."""
    names = ["spec", *(f"p{number}" for number in _partition_fields(layout))]
    if layout.order is not None and layout.order in layout.columns:
        names.append(f"l{layout.order}")
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names])


def write_index(
    metadata: ice.Metadata, layout: Layout, rows: pa.Table, manifests: Sequence[Manifest]
) -> str:
    """Writes an index, and returns where it lies.

    Args:
        rows: as :func:`index_rows` makes them, with ``manifest``, which counts ``manifests``.
    """
    path = f"{metadata.location}/metadata/plan-{uuid.uuid4()}.nimble"
    complete = [name for name in rows.column_names if not _has_gaps(rows.column(name))]
    counts = np.bincount(rows.column("manifest").to_numpy(), minlength=len(manifests))
    header = {
        "version": _VERSION,
        "table": metadata.uuid,
        "complete": complete,
        "manifests": [
            [item.path, int(counts[i]), item.spec_id] for i, item in enumerate(manifests)
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


def _has_gaps(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    return pt.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def _partition_fields(layout: Layout) -> dict[int, pa.DataType]:
    """Of all specs, by field id."""
    return {number: kind for fields in layout.partitions.values() for number, kind in fields}


def _kept(kind: pa.DataType) -> pa.DataType:
    """The type by which values are kept, which is compared as they are."""
    wanted = storage(kind)
    if pt.is_boolean(wanted):
        return pa.uint8()
    return pa.decimal128(38, wanted.scale) if pt.is_decimal(wanted) else wanted


# ------------------------------------------------------------------ reading one


class PlanIndex:
    """An open plan index."""

    def __init__(self, path: str, table: str) -> None:
        """
        Raises:
            OSError, NimbleError, ValueError: it cannot be used.
        """
        self.file: File = open_file(readable_path(path))
        header = json.loads(self.file.metadata[_HEADER])
        if header["version"] != _VERSION or header["table"] != table:
            raise ValueError(f"{path}: a plan index of another table or version")
        self.manifests = {
            path: (i, count, spec) for i, (path, count, spec) in enumerate(header["manifests"])
        }
        self.complete = frozenset(header["complete"])
        if sum(count for _, count, _ in self.manifests.values()) != self.file.num_rows:
            raise ValueError(f"{path}: its rows are not those that it says it has")
        self.names = frozenset(self.file.schema.names)

    def covers(self, manifest: Manifest) -> bool:
        """Whether all live files of a manifest are rows of it."""
        known = self.manifests.get(manifest.path)
        return known is not None and known[1:] == (manifest.files, manifest.spec_id)

    def files(
        self, manifests: Sequence[Manifest], metadata: ice.Metadata, pruner: ice.Pruner | None
    ) -> list[IndexFiles]:
        """The live files of some manifests that it covers, by partition spec.

        Raises:
            OSError, NimbleError: it cannot be read.

        Cost: of columns that are tested, the blocks whose zone maps do not rule them out; of those
            that describe a file, what is left.
        """
        found = []
        live = np.zeros(len(self.manifests), dtype=np.bool_)
        for manifest in manifests:
            live[self.manifests[manifest.path][0]] = True
        for spec_id in sorted({manifest.spec_id for manifest in manifests}):
            fields = metadata.partition_types()[spec_id]
            expression = pc.field("spec") == spec_id
            if pruner is not None:
                more = self._expression(pruner.partition_test(spec_id), fields)
                expression = expression if more is None else expression & more
                more = self._expression(pruner.metrics_test, None)
                expression = expression if more is None else expression & more
            filter: ParsedFilter = parse_filter(expression, self.file.schema)
            rows = self.file.current.find(Where(filter, self.file.current.all_rows()))
            part = IndexFiles(self, spec_id, fields, rows)
            keep = part.column("spec").to_numpy() == spec_id
            if not live.all():
                keep &= live[part.column("manifest").to_numpy()]
            if pruner is not None and keep.any():
                part, keep = part.narrowed(keep), None
                keep = partition_passes(part, pruner.partition_test(spec_id))
                if keep.any():
                    part, keep = part.narrowed(keep), None
                    keep = may_match(part, pruner.metrics_test)
            part = part.narrowed(keep)
            if part.num_files:
                part.load(_BASE)
                part.load(tuple(f"p{number}" for number, _ in fields))
                found.append(part)
        return found

    def _expression(
        self, test: Test, fields: list[tuple[int, pa.DataType]] | None
    ) -> pc.Expression | None:
        """What zone maps are asked; ``None``: nothing."""
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
        found = []
        if least is None:
            return None
        if leaf.op in ("==", "<", "<=", "in") and lower in self.complete:
            found.append(pc.field(lower) < most if leaf.op == "<" else pc.field(lower) <= most)
        if leaf.op in ("==", ">", ">=", "in") and upper in self.complete:
            found.append(pc.field(upper) > least if leaf.op == ">" else pc.field(upper) >= least)
        if len(found) == 2:
            return found[0] & found[1]
        return found[0] if found else None

    def _can_ask(self, leaf: Leaf, name: str) -> bool:
        """Whether a column has the type of the values; it may have been widened since."""
        kind = storage(leaf.kind)
        plain = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_binary(kind)
        return plain and name in self.names and self.file.schema.field(name).type == kind


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(stored_form(value), storage(kind))


def _ends(values: list[pa.Scalar]) -> tuple[pa.Scalar, pa.Scalar]:
    ordered = sorted(values, key=lambda scalar: scalar.as_py())
    return ordered[0], ordered[-1]


class IndexFiles(FileColumns):
    """Some files of one partition spec, by their rows in a plan index; columns when asked for."""

    def __init__(
        self,
        index: PlanIndex,
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
        self.derived = {}

    @property
    def num_files(self) -> int:
        return self._count

    def narrowed(self, keep: Mask) -> IndexFiles:
        """Those files alone."""
        if keep.all():
            return self
        rows = RowSet(self._rows.expand().begin[keep])
        mask = pa.array(keep)
        kept = {name: column.filter(mask) for name, column in self._columns.items()}
        return IndexFiles(self._index, self.spec_id, self._fields, rows, kept)

    def load(self, names: Sequence[str]) -> None:
        """Reads columns in one go.

        Raises:
            OSError, NimbleError: they cannot be read.
        """
        missing = tuple(name for name in names if name not in self._columns)
        if missing:
            found = self._index.file.current.read(self._rows, missing)
            for name in missing:
                column = found.column(name)
                whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
                self._columns[name] = whole

    def column(self, name: str) -> pa.Array:
        self.load((name,))
        return self._columns[name]

    def _known(self, name: str) -> pa.Array | None:
        """A column of statistics; one that cannot be read says nothing."""
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

    @property
    def manifest_numbers(self) -> Numbers:
        return _numbers(self.column("manifest")).astype(np.int64)

    @property
    def formats(self) -> pa.Array:
        return self.column("format")

    @property
    def sort_orders(self) -> pa.Array:
        return self.column("sort_order")

    def counts(self, what: Counts, number: int) -> pa.Array | None:
        return self._known(f"{_SHORT[what]}{number}")

    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        found = self._known(f"{_SHORT[end]}{number}")
        return None if found is None else _compared(found, kind)

    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        return _compared(self.column(f"p{self._fields[place][0]}"), kind)

    def entry(self, file: int) -> Entry:
        names = (*_BASE, *(f"p{number}" for number, _ in self._fields))
        row = {name: self.column(name)[file].as_py() for name in names}
        place = RowSet(self._rows.expand().begin[file : file + 1])
        # Statistics that cannot be read are not known; the rest was read with the plan.
        with contextlib.suppress(OSError, NimbleError):
            row |= self._index.file.current.read(place, None).to_pylist()[0]
        metrics: dict[str, dict[int, Any]] = {}
        for what, short in _SHORT.items():
            metrics[what] = {}
            for name, value in row.items():
                if name[0] == short and name[1:].isdigit() and value is not None:
                    if what in ("lower", "upper"):
                        value = stored_bytes(self._index.file.schema.field(name).type, value)
                    metrics[what][int(name[1:])] = value
        found = DataFile(
            path=row["path"],
            format=row["format"].upper(),
            rows=row["rows"],
            bytes=row["bytes"],
            spec_id=self.spec_id,
            partition=tuple(python_value(row[f"p{n}"], kind) for n, kind in self._fields),
            metrics=Metrics(**metrics),
            sort_order_id=row["sort_order"],
        )
        return Entry(found, row["sequence"], "")


def _numbers(column: pa.Array) -> Numbers:
    found: Numbers = column.to_numpy(zero_copy_only=False)
    return found


def _compared(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """As values of a type are compared, which may be wider than when the index was made."""
    wanted = storage(kind)
    if pt.is_boolean(wanted):
        return values
    if pt.is_decimal(wanted):
        return values.cast(pa.decimal256(76, wanted.scale))
    return values if values.type == wanted else values.cast(wanted)


def python_value(value: Any, kind: pa.DataType) -> Any:
    """A value of the index as Iceberg keeps it in memory."""
    if value is None:
        return None
    if pt.is_boolean(kind):
        return bool(value)
    return value.decode() if pt.is_string(kind) else value


class _Indexes:
    """Open indexes by path; ``None``: one that cannot be used. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, PlanIndex | None] = OrderedDict()
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, path: str, table: str) -> PlanIndex | None:
        with self._lock:
            if path in self._known:
                self._known.move_to_end(path)
                return self._known[path]
        try:
            found: PlanIndex | None = PlanIndex(path, table)
        except (OSError, NimbleError, ValueError, KeyError, TypeError):
            found = None
        with self._lock:
            self._known[path] = found
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    def forget(self, path: str) -> None:
        with self._lock:
            self._known[path] = None


_indexes = _Indexes()


def clear_cache() -> None:
    """Forgets open indexes."""
    global _indexes
    _indexes = _Indexes()


def path_of(metadata: ice.Metadata, snapshot: Snapshot | None) -> str | None:
    """Where the plan index of a snapshot, or the last one before it, lies."""
    for i, one in enumerate(metadata.ancestors(snapshot)):
        path = one.summary.get(PLAN_INDEX)
        if path is not None:
            return path
        if i >= _MOST_BEFORE:
            break
    return None


def index_of(metadata: ice.Metadata, snapshot: Snapshot | None) -> PlanIndex | None:
    """The plan index for a snapshot; ``None``: there is none that can be used."""
    path = path_of(metadata, snapshot)
    if path is None:
        return None
    found = _indexes.get(path, metadata.uuid)
    metadata.reads += found is not None
    return found


def forget(metadata: ice.Metadata, snapshot: Snapshot | None) -> None:
    """Does without an index that turned out to be damaged."""
    path = path_of(metadata, snapshot)
    if path is not None:
        _indexes.forget(path)


def local_size(path: str) -> int:
    """Bytes of an index."""
    try:
        return os.stat(readable_path(path)).st_size
    except OSError:
        return 0
