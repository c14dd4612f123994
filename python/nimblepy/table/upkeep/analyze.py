"""Counts distinct values of columns with sketches, stored as the snapshot's statistics file."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.rows.request import Where
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import ColumnName, Path
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, Snapshot
from nimblepy.table.base.places import remove_file
from nimblepy.table.base.puffin import Blob
from nimblepy.table.base.sketch import Sketch
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows, SomeRows, member_of
from nimblepy.table.writing.commit import swapped

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The result of an analysis of a table's columns.

    Attributes:
        snapshot: the snapshot that was analyzed; ``None`` if the table is empty.
        distinct: the number of distinct values of each column, without nulls. The number is exact
            up to 4,096. Larger numbers are estimates with a standard error of 1.6 %.
        rows_read: number of rows that were read. Rows that an earlier call has read do not count.
        seconds: duration of the call, including the commit.
    """

    snapshot: int | None
    distinct: Mapping[str, int]
    rows_read: int = 0
    seconds: float = 0.0


# Returns a sketch for each column, and the number of rows.
Looking = Callable[[MemberRows, Sequence[Path]], tuple[list[Sketch], int]]


def look(rows: MemberRows, paths: Sequence[Path], threads: int = 0) -> tuple[list[Sketch], int]:
    """Makes sketches of the columns at ``paths``, over all live rows."""
    sketches, count = [Sketch() for _ in paths], 0
    where = Where(None, rows.all_rows())
    for batch in rows.scan_batches(where, tuple(paths), batch_rows=_BATCH_ROWS, threads=threads):
        count += batch.num_rows
        pairs = zip(sketches, batch.columns, strict=True)
        sketches = [sketch.with_values(column) for sketch, column in pairs]
    return sketches, count


def analyze(
    rows: FileSet,
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    columns: Sequence[ColumnName] | None,
    looking: Looking = look,
) -> tuple[ice.Metadata, Analysis]:
    """See :meth:`nimblepy.table.table.Table.analyze`."""
    begin = time.perf_counter()
    head = metadata.head()
    requested = _asked(metadata, columns)
    if head is None:
        return metadata, Analysis(snapshot=None, distinct={})
    stored = {blob.fields[0]: blob for blob in ice.read_sketches(metadata, head)}
    sketches, added = _seen_before(metadata, head, stored, requested)
    # If there were only appends since, all rows of the new files are live.
    new = rows if added is None else SomeRows(rows.reading, [member_of(file) for file in added])
    count = 0
    if len(new.members):
        new_sketches, count = looking(new, list(requested.values()))
        for number, sketch in zip(requested, new_sketches, strict=True):
            sketches[number] = Sketch.merged([sketches[number], sketch])
    blobs = [
        ice.sketch_blob(number, sketch.estimate, sketch.to_bytes(), head)
        for number, sketch in sketches.items()
    ]
    newest = _committed(metadata, reload, head, blobs)
    return newest, Analysis(
        snapshot=head.id,
        distinct={".".join(requested[number]): item.estimate for number, item in sketches.items()},
        rows_read=count,
        seconds=time.perf_counter() - begin,
    )


def _asked(metadata: ice.Metadata, columns: Sequence[ColumnName] | None) -> dict[int, Path]:
    """Returns field ids and paths of the columns. The default is all columns of primitive types."""
    schema = metadata.schema()
    leaves = metadata.leaf_types()
    if columns is None:
        by_id = {field_id_at(schema, path): path for path in column_paths(schema)}
        return {number: by_id[number] for number in leaves}
    if isinstance(columns, str):
        raise InvalidArgumentError(f"columns: expected a list of names, got the text {columns!r}")
    paths = {}
    for name in columns:
        column = resolve_column(schema, name)
        number = field_id_at(schema, column.path)
        if number not in leaves:
            raise InvalidArgumentError(f"columns: {column} is {column.type}, not a single value")
        paths[number] = column.path
    return paths


def _seen_before(
    metadata: ice.Metadata, head: Snapshot, stored: Mapping[int, Blob], requested: Collection[int]
) -> tuple[dict[int, Sketch], list[DataFile] | None]:
    """Returns the stored sketches of an earlier snapshot, and the files that were added since.

    If the second item is ``None``, all rows must be read: rows were deleted, there are no usable
    sketches, or the type of a column has changed.
    """
    if not requested:
        return {}, []
    none_usable = {number: Sketch() for number in requested}, None
    blobs = [stored.get(number) for number in requested]
    snapshots = {None if blob is None else blob.snapshot for blob in blobs}
    (number,) = snapshots if len(snapshots) == 1 else (None,)
    before = None if number is None else metadata.snapshot(number)
    if before is None:
        return none_usable
    then, now = metadata.leaf_types(before.schema_id), metadata.leaf_types()
    if any(then.get(number) != now[number] for number in requested):
        return none_usable  # values of the new type have other hashes
    added: list[DataFile] = []
    for snapshot in metadata.ancestors(head):
        if snapshot.id == before.id:
            break
        if snapshot.operation == "append":
            try:
                added += [entry.file for entry in metadata.added_and_removed(snapshot)[0]]
            except FileNotFoundError:
                return none_usable
        elif snapshot.operation != "replace":  # "replace" only moves rows to other files
            return none_usable
    else:
        return none_usable
    try:
        return {
            blob.fields[0]: Sketch.from_bytes(blob.payload) for blob in blobs if blob is not None
        }, added
    except ValueError:
        return none_usable


def _committed(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    snapshot: Snapshot,
    blobs: Sequence[Blob],
) -> ice.Metadata:
    """Commits sketches as the statistics of a snapshot, and returns the new metadata."""
    # An attempt whose outcome is unknown may still take effect, so its file is kept.
    written_paths: set[str] = set()
    doubtful: set[str] = set()

    def attempt(newest: ice.Metadata) -> ice.Metadata:
        if newest.snapshot(snapshot.id) is None:
            raise ConflictError(
                f"{'.'.join(newest.name)}: snapshot {snapshot.id} expired while it was analyzed",
                kind="snapshot",
                base=snapshot.id,
            )
        path = f"{newest.location}/metadata/{snapshot.id}-{uuid.uuid4()}.stats"
        written_paths.add(path)
        kept = _of_other_columns(newest, snapshot, blobs)
        described = ice.write_statistics(newest, snapshot, path, [*kept, *blobs])
        try:
            return ice.set_statistics(newest, described)
        except BaseException as error:
            if ice.may_land_later(newest, error):
                doubtful.add(path)
            raise

    def is_made(newest: ice.Metadata) -> bool:
        return not written_paths.isdisjoint(_statistics_paths(newest))

    try:
        done = swapped(metadata, reload, attempt, is_made, operation="analyze")
    except BaseException:
        with contextlib.suppress(Exception):
            _forget(written_paths - doubtful - _statistics_paths(reload()))
        raise
    # The replaced statistics file is kept for older handles and for copies of the catalog.
    _forget(written_paths - doubtful - _statistics_paths(done))
    return done


def _of_other_columns(
    metadata: ice.Metadata, snapshot: Snapshot, blobs: Sequence[Blob]
) -> list[Blob]:
    """Returns the stored sketches of all other columns, which the new statistics file must repeat.

    They are read again for each attempt, because a concurrent call may have added some.
    """
    other_columns = metadata.leaf_types().keys() - {blob.fields[0] for blob in blobs}
    return [
        blob for blob in ice.read_sketches(metadata, snapshot) if blob.fields[0] in other_columns
    ]


def _statistics_paths(metadata: ice.Metadata) -> set[str]:
    return {path for path, _ in metadata.statistics_files()}


def _forget(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            remove_file(path)
