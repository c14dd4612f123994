"""Sketches of the values of columns, kept in a file of statistics of the snapshot."""

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
    """What was found out about the columns of a table.

    Attributes:
        snapshot: the snapshot that was looked at; ``None``: the table is empty.
        distinct: about how many different values each column has, nulls not counted; exact up to
            4,096, and else with a standard error of 1.6 %.
        rows_read: rows whose values were looked at; those that an earlier call has seen are not.
        seconds: from the call to the end of the commit.
    """

    snapshot: int | None
    distinct: Mapping[str, int]
    rows_read: int = 0
    seconds: float = 0.0


# Gives a sketch of each of some columns, and how many rows there are.
Looking = Callable[[MemberRows, Sequence[Path]], tuple[list[Sketch], int]]


def look(rows: MemberRows, paths: Sequence[Path], threads: int = 0) -> tuple[list[Sketch], int]:
    """Looks at some columns of all live rows."""
    sketches, count = [Sketch() for _ in paths], 0
    where = Where(None, rows.all_rows())
    for batch in rows.filtered(where, tuple(paths), batch_rows=_BATCH_ROWS, threads=threads):
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
    asked = _asked(metadata, columns)
    if head is None:
        return metadata, Analysis(snapshot=None, distinct={})
    known = {blob.fields[0]: blob for blob in ice.read_sketches(metadata, head)}
    sketches, added = _seen_before(metadata, head, known, asked)
    # In files that were only added since, all rows are live.
    new = rows if added is None else SomeRows(rows.reading, [member_of(file) for file in added])
    count = 0
    if len(new.members):
        found, count = looking(new, list(asked.values()))
        for number, sketch in zip(asked, found, strict=True):
            sketches[number] = Sketch.merged([sketches[number], sketch])
    blobs = [
        ice.sketch_blob(number, sketch.estimate, sketch.to_bytes(), head)
        for number, sketch in sketches.items()
    ]
    newest = _committed(metadata, reload, head, blobs)
    return newest, Analysis(
        snapshot=head.id,
        distinct={".".join(asked[number]): item.estimate for number, item in sketches.items()},
        rows_read=count,
        seconds=time.perf_counter() - begin,
    )


def _asked(metadata: ice.Metadata, columns: Sequence[ColumnName] | None) -> dict[int, Path]:
    """Field ids and paths of the columns, of all that have single values where none are given."""
    schema = metadata.schema()
    leaves = metadata.leaf_types()
    if columns is None:
        by_id = {field_id_at(schema, path): path for path in column_paths(schema)}
        return {number: by_id[number] for number in leaves}
    if isinstance(columns, str):
        raise InvalidArgumentError(f"columns: expected a list of names, got the text {columns!r}")
    found = {}
    for name in columns:
        column = resolve_column(schema, name)
        number = field_id_at(schema, column.path)
        if number not in leaves:
            raise InvalidArgumentError(f"columns: {column} is {column.type}, not a single value")
        found[number] = column.path
    return found


def _seen_before(
    metadata: ice.Metadata, head: Snapshot, known: Mapping[int, Blob], asked: Collection[int]
) -> tuple[dict[int, Sketch], list[DataFile] | None]:
    """Sketches of an earlier snapshot, and the files that were added since.

    Without files: all rows are to be looked at, since some have gone, or no such sketches are
    known, or they are of values of another type.
    """
    if not asked:
        return {}, []
    nothing = {number: Sketch() for number in asked}, None
    blobs = [known.get(number) for number in asked]
    snapshots = {None if blob is None else blob.snapshot for blob in blobs}
    (number,) = snapshots if len(snapshots) == 1 else (None,)
    before = None if number is None else metadata.snapshot(number)
    if before is None:
        return nothing
    then, now = metadata.leaf_types(before.schema_id), metadata.leaf_types()
    if any(then.get(number) != now[number] for number in asked):
        return nothing  # it hashes otherwise
    added: list[DataFile] = []
    for snapshot in metadata.ancestors(head):
        if snapshot.id == before.id:
            break
        if snapshot.operation == "append":
            try:
                added += [entry.file for entry in metadata.added_and_removed(snapshot)[0]]
            except FileNotFoundError:
                return nothing
        elif snapshot.operation != "replace":  # which has the rows of before in other files
            return nothing
    else:
        return nothing
    try:
        return {
            blob.fields[0]: Sketch.from_bytes(blob.payload) for blob in blobs if blob is not None
        }, added
    except ValueError:
        return nothing


def _committed(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    snapshot: Snapshot,
    blobs: Sequence[Blob],
) -> ice.Metadata:
    """The metadata with these sketches in the statistics of a snapshot."""
    # An attempt in doubt may take effect later: its file stays.
    written: set[str] = set()
    doubtful: set[str] = set()

    def attempt(newest: ice.Metadata) -> ice.Metadata:
        if newest.snapshot(snapshot.id) is None:
            raise ConflictError(
                f"{'.'.join(newest.name)}: snapshot {snapshot.id} expired while it was analyzed",
                kind="snapshot",
                base=snapshot.id,
            )
        path = f"{newest.location}/metadata/{snapshot.id}-{uuid.uuid4()}.stats"
        written.add(path)
        kept = _of_other_columns(newest, snapshot, blobs)
        described = ice.write_statistics(newest, snapshot, path, [*kept, *blobs])
        try:
            return ice.set_statistics(newest, described)
        except BaseException as error:
            if ice.may_land_later(newest, error):
                doubtful.add(path)
            raise

    def is_made(newest: ice.Metadata) -> bool:
        return not written.isdisjoint(_statistics_paths(newest))

    try:
        done = swapped(metadata, reload, attempt, is_made)
    except BaseException:
        with contextlib.suppress(Exception):
            _forget(written - doubtful - _statistics_paths(reload()))
        raise
    # What it replaced stays for handles of before, and for copies of the catalog.
    _forget(written - doubtful - _statistics_paths(done))
    return done


def _of_other_columns(
    metadata: ice.Metadata, snapshot: Snapshot, blobs: Sequence[Blob]
) -> list[Blob]:
    """What is known of columns that these sketches are not of, with the snapshot that it is of.

    Another call may have looked at them meanwhile.
    """
    there = metadata.leaf_types().keys() - {blob.fields[0] for blob in blobs}
    return [blob for blob in ice.read_sketches(metadata, snapshot) if blob.fields[0] in there]


def _statistics_paths(metadata: ice.Metadata) -> set[str]:
    return {path for path, _ in metadata.statistics_files()}


def _forget(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            remove_file(path)
