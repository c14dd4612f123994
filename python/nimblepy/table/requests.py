"""Plans reads that other processes carry out: changes, keys, samples, statistics."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import Columns, checked_fraction, column_names
from nimblepy.rows.source import Filter
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import ManyKeys
from nimblepy.table import iceberg as ice
from nimblepy.table.handle import TableHandle, TableState, id_of
from nimblepy.table.reading.changes import changes_schema as schema_of_changes
from nimblepy.table.reading.changes import steps
from nimblepy.table.reading.holding import KeysOf, keys_of
from nimblepy.table.reading.sample import SamplePlan
from nimblepy.table.reading.sample import plan_sample as plan_sample_of
from nimblepy.table.reading.shared_changes import WantedChanges
from nimblepy.table.upkeep.analyze import Analysis, Looking, analyze


def requested_changes(
    handle: TableHandle, since: int | str | None, until: int | str | None, columns: Columns
) -> WantedChanges:
    """Returns a description of what :meth:`nimblepy.Table.changes` reads. Reads no rows."""
    state = TableState(handle)
    at = state.position
    metadata = at.newest
    given = [name for name in (since, until) if name is not None]
    if any(metadata.named(name) is None for name in given):
        metadata = state.reload()
    names = column_names(columns)
    return WantedChanges(
        metadata,
        at.schema_id,
        at.rows.reading,
        steps(metadata, since, id_of(at.snapshot) if until is None else until),
        names,
        schema_of_changes(at.rows.reading, at.rows.projected(names)),
        state.reload,
    )


def changes_schema(handle: TableHandle, columns: Columns = None) -> pa.Schema:
    """Returns the columns of :meth:`nimblepy.Table.changes`, the same for all snapshots."""
    rows = TableState(handle).position.rows
    return schema_of_changes(rows.reading, rows.projected(column_names(columns)))


def requested_keys(
    handle: TableHandle, keys: ManyKeys, on: ColumnName | None
) -> tuple[ice.Metadata, KeysOf]:
    """Returns the newest metadata, and what ``Table.files_for_keys`` looks for in it."""
    if on is None and not handle.cluster_by:
        name = TableState(handle).name
        raise InvalidArgumentError(f"{name} has no cluster key; name the column to search in on=")
    metadata = TableState(handle).reload()
    column = handle.cluster_by[0].column if on is None else on
    return metadata, keys_of(keys, column, metadata.schema())


def plan_sample(
    handle: TableHandle, fraction: float, *, seed: int | None = None, filter: Filter = None
) -> SamplePlan:
    """Returns which rows of which files ``Table.sample`` takes."""
    at = TableState(handle).position
    cubes = at.metadata.cubes(at.snapshot)
    return plan_sample_of(at.rows, cubes, checked_fraction(fraction), seed, filter)


def analyze_by(
    handle: TableHandle, looking: Looking, columns: Sequence[ColumnName] | None
) -> Analysis:
    """Like ``Table.analyze``, but reads the values with ``looking``."""
    state = TableState(handle)
    metadata = state.newest()
    newest, result = analyze(state.rows(metadata), metadata, state.reload, columns, looking)
    state.show(newest)
    return result
