"""The files of a snapshot as one source of rows, read by the engine that reads datasets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from nimblepy.expr.filter import parse_filter
from nimblepy.expr.nodes import Node
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import output_name
from nimblepy.schema.types import SortKey
from nimblepy.table import _iceberg as ice
from nimblepy.table.members import Member, MemberRows, Reading
from nimblepy.table.model import DataFile
from nimblepy.table.plan import SnapshotPlan

# Below and above every encoded key, which begins with 00 or 01.
_BELOW, _ABOVE = b"", b"\xff"


class FileSet(MemberRows):
    """Some data files of a snapshot, without the rows that are deleted of them."""

    def __init__(
        self, reading: Reading, plan: SnapshotPlan, members: Sequence[Member] | None = None
    ) -> None:
        """``members`` of ``None`` is all files of the snapshot, planned when first needed."""
        super().__init__(reading)
        self.plan = plan
        self._given = members

    def part(self, members: Sequence[Member]) -> FileSet:
        """Some of the files."""
        return FileSet(self.reading, self.plan, members)

    @cached_property
    def _sorted(self) -> tuple[list[Member], FileBounds | None]:
        return _ordered(self.reading, self.plan.members() if self._given is None else self._given)

    @property
    def members(self) -> Sequence[Member]:
        """The files in the order in which they are read."""
        return self._sorted[0]

    @property
    def bounds(self) -> FileBounds | None:  # type: ignore[override]
        return self._sorted[1]

    def for_filter(self, filter: Filter) -> FileSet:
        if filter is None or self._given is not None or self.plan.is_complete:
            return self
        conjuncts = parse_filter(filter, self.schema).conjuncts
        if not conjuncts:
            return self
        return FileSet(self.reading, self.plan, self.plan.members(conjuncts))

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        if not conjuncts:
            return range(self.num_files)
        left = {id(member.entry) for member in self.plan.members(conjuncts)}
        return [i for i, member in enumerate(self.members) if id(member.entry) in left]


def _ordered(reading: Reading, members: Sequence[Member]) -> tuple[list[Member], FileBounds | None]:
    """Members by the first key that they can have, with the bounds of their keys."""
    if not reading.cluster_by or not members:
        return sorted(members, key=lambda member: member.file.path), None
    lower = _encoded_ends(reading, members, first=True)
    upper = _encoded_ends(reading, members, first=False)
    order = sorted(range(len(members)), key=lambda i: (lower[i], upper[i], members[i].file.path))
    bounds = FileBounds(
        pa.array([lower[i] for i in order], pa.binary()),
        pa.array([upper[i] for i in order], pa.binary()),
    )
    return [members[i] for i in order], bounds


def _encoded_ends(reading: Reading, members: Sequence[Member], *, first: bool) -> list[bytes]:
    """An encoded key that no key of each file comes before, or after."""
    fields = []
    for key in reading.cluster_by:
        column = resolve_column(reading.schema, key.column)
        fields.append((key, column.type, field_id_at(reading.schema, column.path)))
    columns: list[list[Any]] = [[] for _ in fields]
    known: list[bool] = []
    for member in members:
        ends = [_end(member.file, *item, first=first) for item in fields]
        known.append(all(found for found, _ in ends))
        for values, (found, value) in zip(columns, ends, strict=True):
            values.append(value if found else None)
    arrays = [pa.array(values, kind) for values, (_, kind, _) in zip(columns, fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(
        arrays, names=[output_name(key.column) for key in reading.cluster_by]
    )
    encoded = EncodedKeys(batch, reading.cluster_by).to_list()
    unknown = _BELOW if first else _ABOVE
    return [key if is_known else unknown for key, is_known in zip(encoded, known, strict=True)]


def _end(
    file: DataFile, key: SortKey, kind: pa.DataType, number: int, *, first: bool
) -> tuple[bool, pa.Scalar | None]:
    """(is it known, the value of a key column that a file begins or ends with at most)."""
    metrics = file.metrics
    nulls = metrics.nulls.get(number)
    if nulls is None:
        return False, None
    if nulls and key.nulls_first == first:
        return True, pa.scalar(None, kind)
    wants_least = first != key.descending
    if not wants_least and pa.types.is_floating(kind):
        nans = metrics.nans.get(number)
        if nans is None:
            return False, None
        if nans:
            return True, pa.scalar(float("nan"), kind)
    stored = (metrics.lower if wants_least else metrics.upper).get(number)
    if stored is not None:
        return True, ice.bound_value(kind, stored)
    if nulls == metrics.values.get(number):
        return True, pa.scalar(None, kind)
    # All values are NaN, or there is no bound.
    if wants_least and metrics.nans.get(number) and pa.types.is_floating(kind):
        return True, pa.scalar(float("nan"), kind)
    return False, None
