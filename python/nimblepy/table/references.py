"""Tags, branches and the history of a table."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal

import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Reference, Snapshot
from nimblepy.table.delta.publish import check_snapshot
from nimblepy.table.handle import TableState, id_of
from nimblepy.table.upkeep.maintain import instant_ms
from nimblepy.table.writing.commit import run, swapped


def refer(
    table: TableState,
    name: str,
    kind: Literal["tag", "branch"],
    snapshot: int,
    *,
    replace: bool = False,
) -> None:
    """Makes a tag or branch.

    Args:
        replace: move an existing reference of this kind.

    Raises:
        InvalidArgumentError: the name is taken, or there is no such snapshot.
    """

    def change(metadata: ice.Metadata) -> ice.Metadata:
        taken = metadata.references.get(name)
        if taken is not None and not (replace and taken.kind == kind):
            hint = "; replace=True moves it" if taken.kind == kind == "tag" else ""
            raise InvalidArgumentError(
                f"{table.name} has a {taken.kind} {name!r} already, at {taken.snapshot}{hint}"
            )
        expected = None if taken is None else taken.snapshot
        number = known(metadata, snapshot).id
        return ice.set_reference(metadata, name, number, kind, expected)

    def is_made(metadata: ice.Metadata) -> bool:
        reference = metadata.references.get(name)
        return reference is not None and (reference.kind, reference.snapshot) == (kind, snapshot)

    table.learn(
        swapped(table.newest(), table.reload, change, is_made, operation=f"{kind} {name!r}")
    )


class _FirstSnapshot:
    """Commits an empty snapshot to a table without snapshots, so that references can name it."""

    def __init__(self) -> None:
        self.commit = ice.SnapshotCommit("append")
        self.commit.summary = {"engine-name": "nimblepy", "nimblepy.user": ice.who()}

    def is_done(self, metadata: ice.Metadata) -> bool:
        return metadata.head() is not None

    def plan(self, metadata: ice.Metadata) -> bool:
        return True

    def discard(self) -> None:
        pass


def first_snapshot(table: TableState) -> int:
    """Returns the newest snapshot of the branch.

    A table without snapshots gets an empty one.
    """
    metadata = table.newest()
    if metadata.head() is None:
        done = run(_FirstSnapshot(), metadata, table.reload)
        metadata = table.reload() if done is None else done[0]
        table.show(metadata)
    head = metadata.head()
    assert head is not None
    return head.id


def drop_reference(table: TableState, name: str) -> None:
    """Removes a tag or branch. Its snapshot may then expire."""

    def change(metadata: ice.Metadata) -> ice.Metadata:
        reference = metadata.references.get(name)
        if name == ice.MAIN:
            raise InvalidArgumentError(
                f"{table.name}: the branch {name!r} cannot be dropped: it is the table's main "
                "branch"
            )
        if reference is None:
            raise InvalidArgumentError(f"{table.name} has no tag or branch {name!r} to drop")
        return ice.remove_reference(metadata, name, reference.snapshot)

    def is_made(metadata: ice.Metadata) -> bool:
        return name not in metadata.references

    operation = f"drop_reference {name!r}"
    table.learn(swapped(table.newest(), table.reload, change, is_made, operation=operation))


def fast_forward(table: TableState, branch: str, to: str) -> None:
    """Moves a branch forward to the newest snapshot of another branch, or to a tag.

    Raises:
        InvalidArgumentError: a name is unknown, or ``branch`` is a tag.
        ConflictError: the branch has commits that ``to`` does not have.
    """
    name = table.name
    target = 0

    def reference_of(metadata: ice.Metadata, name: str) -> Reference:
        reference = metadata.references.get(name)
        if reference is None:
            raise InvalidArgumentError(
                f"fast_forward: {table.name} has no tag or branch {name!r}; it has "
                f"{', '.join(sorted(metadata.references)) or 'none'}"
            )
        return reference

    def change(metadata: ice.Metadata) -> ice.Metadata:
        nonlocal target
        target = reference_of(metadata, to).snapshot
        if branch == ice.MAIN and branch not in metadata.references:
            return ice.set_reference(metadata, branch, target, "branch", None)
        moved = reference_of(metadata, branch)
        if moved.kind != "branch":
            raise InvalidArgumentError(
                f"fast_forward: {branch!r} is a tag of {name}, and tags do not move; name a branch"
            )
        if moved.snapshot == target:
            return metadata
        history = list(metadata.ancestors(known(metadata, target)))
        if all(moved.snapshot not in (item.id, item.parent) for item in history):
            if known(metadata, moved.snapshot).sequence < history[-1].sequence:
                raise ConflictError(
                    f"{name}: {branch!r} at snapshot {moved.snapshot} cannot be fast-forwarded to "
                    f"{to!r} at snapshot {target}: the snapshots between them have expired, so it "
                    f"is not known whether {to!r} has all commits of {branch!r}. If it has, drop "
                    f"{branch!r} with drop_reference() and make it again with branch()",
                    kind="reference",
                    base=target,
                    winner=moved.snapshot,
                )
            raise ConflictError(
                f"{name}: {branch!r} at snapshot {moved.snapshot} cannot be fast-forwarded to "
                f"{to!r} at snapshot {target}: snapshot {moved.snapshot} is not an ancestor of "
                f"snapshot {target}. Make the changes of {to!r} again on a new branch of "
                f"{branch!r}",
                kind="reference",
                base=target,
                winner=moved.snapshot,
            )
        return ice.set_reference(metadata, branch, target, "branch", moved.snapshot)

    def is_made(metadata: ice.Metadata) -> bool:
        reference = metadata.references.get(branch)
        return reference is not None and reference.snapshot == target

    operation = f"fast_forward {branch!r} to {to!r}"
    newest = swapped(table.newest(), table.reload, change, is_made, operation=operation)
    if branch == table.branch:
        table.show(newest)
    else:
        table.learn(newest)


def rollback(table: TableState, snapshot: int | str, shown: int | None) -> None:
    """Makes an earlier snapshot the newest of the handle's branch again.

    Args:
        snapshot: its id, or the name of a tag.
        shown: the snapshot that the handle shows, which must be the newest.
    """
    metadata = table.newest()
    if isinstance(snapshot, str):
        snapshot = snapshot_of(metadata, "tag", snapshot).id
    snapshot = known(metadata, snapshot).id

    def change(newest: ice.Metadata) -> ice.Metadata:
        winner = newest.head()
        if winner is None or winner.id != shown:
            newer = "none" if winner is None else winner.id
            raise ConflictError(
                f"{table.name}: the newest snapshot is {newer}, but this handle shows "
                f"{'none' if shown is None else shown}; call refresh() and look at the rows first",
                kind="reference",
                base=shown,
                winner=id_of(winner),
            )
        target = known(newest, snapshot)
        if newest.branch == ice.MAIN:
            check_snapshot(newest, target)
        return ice.set_reference(newest, newest.branch, snapshot, "branch", shown)

    def is_made(newest: ice.Metadata) -> bool:
        return id_of(newest.head()) == snapshot

    operation = f"rollback from {shown}"
    table.show(swapped(metadata, table.reload, change, is_made, operation=operation))


def snapshot_of(metadata: ice.Metadata, kind: str, value: Any) -> Snapshot:
    """Returns the snapshot that ``Table.at(kind=value)`` means.

    Raises:
        InvalidArgumentError: there is no such snapshot, or it has expired.
    """
    name = ".".join(metadata.name)
    if kind == "snapshot":
        return known(metadata, value)
    if kind == "time":
        snapshot = metadata.snapshot_at(instant_ms(value, "at(time=)"))
        if snapshot is None:
            raise InvalidArgumentError(
                f"{name} has no snapshot as old as {value}: the first commit was later, or the "
                "snapshot has expired"
            )
        return snapshot
    reference = metadata.references.get(value)
    if reference is None or reference.kind != kind:
        there = [name for name, ref in metadata.references.items() if ref.kind == kind]
        raise InvalidArgumentError(
            f"{name} has no {kind} {value!r}; it has {', '.join(sorted(there)) or 'none'}"
        )
    return known(metadata, reference.snapshot)


def known(metadata: ice.Metadata, number: Any) -> Snapshot:
    """Returns the snapshot with an id.

    Raises:
        InvalidArgumentError: no snapshot has the id.
    """
    name = ".".join(metadata.name)
    snapshot = metadata.snapshot(int(number)) if isinstance(number, Integral) else None
    if isinstance(number, str) and number in metadata.references:
        raise InvalidArgumentError(
            f"{name}: expected the id of a snapshot, got the name {number!r}, which "
            f"stands for {metadata.references[number].snapshot}"
        )
    if snapshot is None:
        raise InvalidArgumentError(
            f"snapshot {number!r} not found in {name} (expired or never existed); see "
            "table.snapshots()"
        )
    return snapshot


_HISTORY = pa.schema(
    [
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("user", pa.string()),
        pa.field("rows_inserted", pa.int64()),
        pa.field("rows_updated", pa.int64()),
        pa.field("rows_deleted", pa.int64()),
        pa.field("files_added", pa.int64()),
        pa.field("files_removed", pa.int64()),
        pa.field("bytes_written", pa.int64()),
    ]
)
# Makes pandas use nullable integers. Otherwise it would convert ids to floats and lose digits.
_HISTORY = _HISTORY.with_metadata(
    {
        "pandas": json.dumps(
            {
                "index_columns": [],
                "column_indexes": [],
                "columns": [
                    {
                        "name": item.name,
                        "field_name": item.name,
                        "pandas_type": "int64",
                        "numpy_type": "Int64",
                        "metadata": None,
                    }
                    for item in _HISTORY
                    if pa.types.is_int64(item.type)
                ],
            }
        )
    }
)


def history(snapshots: Sequence[Snapshot]) -> pa.Table:
    """Returns the snapshots as the table that ``Table.snapshots()`` returns."""
    return pa.Table.from_pylist([_history_row(item) for item in snapshots], schema=_HISTORY)


def _history_row(snapshot: Snapshot) -> dict[str, Any]:
    summary = snapshot.summary

    def number(*names: str) -> int | None:
        counts = [count for name in names if (count := snapshot.figure(name)) is not None]
        return sum(counts) if counts else None

    return {
        "snapshot_id": snapshot.id,
        "parent_id": snapshot.parent,
        "timestamp": datetime.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, datetime.UTC),
        "operation": snapshot.operation,
        "user": summary.get("nimblepy.user"),
        "rows_inserted": number("nimblepy.rows-inserted"),
        "rows_updated": number("nimblepy.rows-updated"),
        "rows_deleted": number("nimblepy.rows-deleted"),
        "files_added": number("added-data-files", "added-delete-files") or 0,
        "files_removed": number("deleted-data-files", "removed-delete-files") or 0,
        "bytes_written": number("added-files-size") or 0,
    }
