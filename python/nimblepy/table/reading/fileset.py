"""The data files of a snapshot as one source of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.expr.nodes import Node, columns_of
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.source import ColumnEnds
from nimblepy.rows.arguments import Projected
from nimblepy.rows.plan import DetailValue
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import Positions
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.lineage import NAMES, names_lineage
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.plain import plain_type
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import PartitionField
from nimblepy.table.iceberg.manifests import MANY, FileColumns, Numbers
from nimblepy.table.iceberg.pruning import End, Mask, comparable, original, storage
from nimblepy.table.reading.equality import KeyColumns
from nimblepy.table.reading.members import MemberRows, Reading
from nimblepy.table.reading.parquet_index import parquet_indexes
from nimblepy.table.reading.plan import Members, SnapshotPlan, explains_missing_files
from nimblepy.table.reading.shipped import pickled

# Maximum number of files of a snapshot whose paths are compared with the open files.
_FEW_PATHS = 20_000
# Below and above every encoded key, because encoded keys begin with 00 or 01.
_BELOW, _ABOVE = b"", b"\xff"


class FileSet(MemberRows):
    """Some data files of a snapshot, without their deleted rows."""

    def __init__(
        self,
        reading: Reading,
        plan: SnapshotPlan,
        members: Members | None = None,
        bounds: FileBounds | None = None,
    ) -> None:
        """Makes a source of the rows of data files.

        Args:
            members: the files; ``None`` means all files of the snapshot, planned when first needed.
            bounds: bounds of the keys of each file. If given, the files are in reading order.
        """
        super().__init__(reading)
        self.plan = plan
        self._given = members
        self._given_bounds = bounds
        self._known_ends: dict[ColumnName, ColumnEnds | None] = {}

    def part(self, files: Sequence[int]) -> FileSet:
        members, bounds = self._sorted
        in_order = bounds is not None and all(a < b for a, b in pairwise(files))
        kept = bounds.take(files) if bounds is not None and in_order else None
        return FileSet(self.reading, self.plan, members.take(files), kept)

    def read_by(self, reading: Reading) -> FileSet:
        return FileSet(reading, self.plan, *self._sorted)

    @cached_property
    def _sorted(self) -> tuple[Members, FileBounds | None]:
        if self._given is None:
            members = self.plan.members()
            if not self.is_past and len(members) <= _FEW_PATHS:
                self.reading.close_left(members.have)
            return _ordered(self.reading, members)
        if self._given_bounds is not None:
            return self._given, self._given_bounds
        return _ordered(self.reading, self._given)

    def close_left_files(self) -> None:
        """Closes files that left the table, if many files were opened since the last check.

        Such files are also closed when a plan has all files of a snapshot, but the plan of a scan
        with a filter does not.
        """
        many = self._given is None and self.reading.has_many_more
        if many and sum(manifest.files for manifest in self.plan.manifests) <= _FEW_PATHS:
            self.reading.close_left(self.plan.members().have)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self)

    def __repr__(self) -> str:
        return f"<nimblepy.Table {self.reading.name!r}: snapshot {self.plan.snapshot_id}>"

    @property
    def is_past(self) -> bool:
        return self.plan.is_past

    @property
    def members(self) -> Members:
        """The files in reading order."""
        return self._sorted[0]

    @property
    def bounds(self) -> FileBounds | None:  # type: ignore[override]
        return self._sorted[1]

    # ------------------------------------------------------------------ missing files

    def missing(self, error: FileNotFoundError) -> OSError:
        """See :meth:`SnapshotPlan.missing`."""
        return self.plan.missing(error)

    child = explains_missing_files(MemberRows.child)
    verify_file = explains_missing_files(MemberRows.verify_file)
    verify_deletes = explains_missing_files(MemberRows.verify_deletes)
    prepare = explains_missing_files(MemberRows.prepare)
    # Parquet files are opened again for each read.
    read = explains_missing_files(MemberRows.read)
    find = explains_missing_files(MemberRows.find)
    find_asof = explains_missing_files(MemberRows.find_asof)
    find_and_read = explains_missing_files(MemberRows.find_and_read)
    count_matches = explains_missing_files(MemberRows.count_matches)
    count_passing = explains_missing_files(MemberRows.count_passing)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        batches = super().scan_batches(where, columns, batch_rows=batch_rows, threads=threads)
        while (batch := self._following(batches)) is not None:
            yield batch

    @explains_missing_files
    def _following(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        return next(batches, None)

    # ------------------------------------------------------------------ files

    def for_filter(self, filter: Filter) -> FileSet:
        if filter is None or self._given is not None or self.plan.is_complete:
            return self
        conjuncts = in_metadata(self.parsed(filter).conjuncts)
        if not conjuncts:
            return self
        return FileSet(self.reading, self.plan, self.plan.members(conjuncts))

    def paths_and_sizes(self) -> Iterable[tuple[str, int]]:
        files = self.members.files
        return zip(files.paths.to_pylist(), files.sizes.tolist(), strict=True)

    @property
    def size_bytes(self) -> int:
        return int(self.members.files.sizes.sum())

    @cached_property
    def _live_rows(self) -> Positions:
        counts = self.members.files.rows
        if self.plan.has_deletes:
            for i in range(len(counts)):
                deleted = self.deleted(i)
                counts[i] -= 0 if deleted is None else len(deleted)
        return np.concatenate(([0], np.cumsum(counts)))

    @explains_missing_files
    def deleted(self, file: int) -> _core.RowBitmap | None:
        return super().deleted(file) if self.plan.has_deletes else None

    def column_ends(self, name: ColumnName) -> ColumnEnds | None:
        if name not in self._known_ends:
            column = resolve_column(self.schema, name)
            kept = storage(column.type)
            column_ends = None
            if pt.is_signed_integer(kept):
                number = field_id_at(self.schema, column.path)
                least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
                ends = [
                    self._filled(("lower", number, column.type), least),
                    self._filled(("upper", number, column.type), most),
                ]
                column_ends = column.type, ends[0], ends[1]
            self._known_ends[name] = column_ends
        return self._known_ends[name]

    def _filled(self, what: tuple[End, int, pa.DataType], missing: int) -> Numbers:
        columns = []
        for part in self.members.files.parts:
            bound = part.bound(*what)
            if bound is None:
                columns.append(np.full(part.num_files, missing))
            else:
                columns.append(pc.fill_null(bound.cast(pa.int64()), missing).to_numpy())
        filled: Numbers = self.members.files.gather(columns, np.int64)
        return filled

    def distinct_keys(self, names: Sequence[ColumnName]) -> float | None:
        """For several columns, assumes that their values are independent."""
        exactly = super().distinct_keys(names)
        if exactly is not None:
            return exactly
        counts = self.plan.distinct_values
        columns = (resolve_column(self.schema, name) for name in names)
        column_counts = [counts.get(field_id_at(self.schema, column.path)) for column in columns]
        if None in column_counts or not column_counts:
            return None
        return float(min(math.prod(item.values for item in column_counts if item), self.num_rows))

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        """Returns the details of the files, and the number of metadata files that were read."""
        return (*super().plan_details(files), ("metadata_reads", self.plan.metadata_reads))

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        conjuncts = in_metadata(conjuncts)
        if not conjuncts:
            return range(self.num_files)
        return np.flatnonzero(self.plan.matches(self.members, conjuncts)).tolist()


def in_metadata(conjuncts: Sequence[Node]) -> list[Node]:
    """Leaves out the conditions on columns of row lineage, which have no statistics."""
    return [node for node in conjuncts if not names_lineage(columns_of(node))]


def _ordered(reading: Reading, members: Members) -> tuple[Members, FileBounds | None]:
    """Returns members by their lower key bound, with the bounds of their keys."""
    if not reading.cluster_by or not len(members):
        return members.take(_order([members.files.paths])), None
    lower, upper = key_ends(reading, members)
    order = _order([lower, upper])
    at = pa.array(order)
    lower = lower.take(at)
    upper = upper.take(at)
    if len(order) > 1:
        _order_equals(order, lower, upper, members)
    return members.take(order), FileBounds(lower, upper)


def _order(columns: list[pa.Array]) -> Positions:
    names = [str(i) for i in range(len(columns))]
    table = pa.table(columns, names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    places: Positions = order.to_numpy().astype(np.int64)
    return places


def _order_equals(order: Positions, lower: pa.Array, upper: pa.Array, members: Members) -> None:
    """Sorts files with equal bounds by path. Reads only the paths of these files."""
    same = _truth(
        pc.and_(pc.equal(lower[1:], lower[:-1]), pc.equal(upper[1:], upper[:-1]))
    )  # fmt: skip
    if not same.any():
        return
    equal = np.flatnonzero(np.append(same, False) | np.append(False, same))
    group = np.cumsum(np.append(True, ~same))[equal]
    paths = members.files.paths_of(order[equal])
    order[equal] = order[equal][_order([pa.array(group), paths])]


class Specs:
    """Collects the partition specs of a table by number, and all columns. Specs never change."""

    def __init__(self, metadata: ice.Metadata) -> None:
        self._known: dict[int, list[PartitionField]] = {}
        self._newest = metadata
        self.learn(metadata)

    def learn(self, metadata: ice.Metadata) -> None:
        """Adds the specs of a version of the table, which may be an older version."""
        for number in metadata.spec_ids:
            if number not in self._known:
                self._known[number] = metadata.spec(number)
        if metadata.is_newer_than(self._newest):
            self._newest = metadata

    def columns_of(self, ids: tuple[int, ...]) -> KeyColumns:
        """Returns the columns with these field ids, even if they were dropped."""
        schema, defaults = self._newest.columns_of(ids)
        return KeyColumns(schema, ids, defaults)

    def __call__(self, number: int) -> list[PartitionField]:
        return self._known[number]


def reading_of(metadata: ice.Metadata, schema_id: int, specs: Specs | None = None) -> Reading:
    """Returns the settings to read files with one of the schemas of a table."""
    specs = Specs(metadata) if specs is None else specs
    return Reading(
        name=".".join(metadata.name),
        schema=metadata.schema(schema_id),
        cluster_by=tuple(metadata.cluster_by(schema_id)),
        primary_key=tuple(metadata.primary_key(schema_id)),
        defaults=metadata.defaults(schema_id),
        specs=specs,
        columns_of=specs.columns_of,
        names=metadata.mapped_names(),
        parquet=parquet_indexes(metadata, metadata.schema(schema_id), metadata.mapped_names()),
        has_row_ids=metadata.has_row_ids and not NAMES & {*metadata.schema(schema_id).names},
    )


_Fields = Sequence[tuple[SortKey, pa.DataType, int]]


def key_ends(
    reading: Reading, members: Members, keys: Sequence[SortKey] | None = None
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Returns a lower and an upper bound for the encoded keys of each file.

    Args:
        keys: the columns of the key; ``None`` means the cluster key.
    """
    keys = reading.cluster_by if keys is None else keys
    columns = [resolve_column(reading.schema, key.column) for key in keys]
    fields = [
        (key, plain_type(column.type), field_id_at(reading.schema, column.path))
        for key, column in zip(keys, columns, strict=True)
    ]
    ends = [_part_ends(part, fields) for part in members.files.parts]
    lower, upper = [lower for lower, _ in ends], [upper for _, upper in ends]
    return members.files.arrays(lower), members.files.arrays(upper)


def _part_ends(part: FileColumns, fields: _Fields) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    cache_key = (_part_ends, *(((k.descending, k.nulls_first), t, n) for k, t, n in fields))
    ends: tuple[pa.BinaryArray, pa.BinaryArray] | None = part.derived.get(cache_key)
    if ends is None:
        ends = _all_ends(part, fields, first=True), _all_ends(part, fields, first=False)
        if part.num_files <= MANY:
            part.derived[cache_key] = ends
    return ends


def _all_ends(part: FileColumns, fields: _Fields, *, first: bool) -> pa.BinaryArray:
    keys = [_encoded(piece, fields, first=first) for piece in part.pieces()]
    return keys[0] if len(keys) == 1 else pa.concat_arrays(keys)


def _encoded(files: FileColumns, fields: _Fields, *, first: bool) -> pa.BinaryArray:
    """Returns a lower or an upper bound for the encoded keys of each file."""
    is_known = np.ones(files.num_files, dtype=np.bool_)
    arrays = []
    for key, kind, number in fields:
        values, mask = _ends(files, key, kind, number, first)
        arrays.append(values)
        is_known &= mask
    keys = [key for key, _, _ in fields]
    batch = pa.RecordBatch.from_arrays(arrays, names=[output_name(key.column) for key in keys])
    encoded = EncodedKeys(batch, keys).to_array()
    if is_known.all():
        return encoded
    return pc.if_else(pa.array(is_known), encoded, pa.scalar(_BELOW if first else _ABOVE))


def _ends(
    files: FileColumns, key: SortKey, kind: pa.DataType, number: int, first: bool
) -> tuple[pa.Array, Mask]:
    """Returns the first or last value that a key column can have in each file, and a mask of known
    values.
    """
    count = files.num_files
    nothing = np.zeros(count, dtype=np.bool_)
    nulls = files.counts("nulls", number)
    if nulls is None:
        return pa.nulls(count, kind), nothing
    wants_least = first != key.descending
    end: End = "lower" if wants_least else "upper"
    bound = files.bound(end, number, kind)
    if bound is None:
        bound = pa.nulls(count, comparable(kind, pa.nulls(0, pa.binary())).type)
    plain = not (bound.null_count or nulls.null_count or pt.is_floating(kind))
    if plain and not nulls.to_numpy().any():
        return original(bound, kind, end), np.ones(count, dtype=np.bool_)
    has_bound = ~_truth(bound.is_null())
    is_known = has_bound.copy()
    values = files.counts("values", number)
    all_null = nothing if values is None else _truth(pc.equal(nulls, values))
    is_known |= all_null & ~has_bound
    if pt.is_floating(kind):
        nans = files.counts("nans", number)
        some_nan = nothing if nans is None else _truth(pc.greater(nans, 0))
        if wants_least:
            all_nan = some_nan & ~has_bound & ~all_null
            is_known |= all_nan
            bound = pc.if_else(pa.array(all_nan), float("nan"), bound)
        else:
            is_known = is_known | some_nan
            is_known &= nothing if nans is None else _truth(nans.is_valid())
            bound = pc.if_else(pa.array(some_nan), float("nan"), bound)
    if key.nulls_first == first:
        some_null = _truth(pc.greater(nulls, 0))
        is_known |= some_null
        bound = pc.if_else(pa.array(some_null), pa.scalar(None, bound.type), bound)
    is_known &= _truth(nulls.is_valid())
    bound = pc.if_else(pa.array(is_known), bound, pa.scalar(None, bound.type))
    return original(bound, kind, end), is_known


def _truth(array: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask
