"""Splits a merge between processes: each works on a part of the source, and one commits.

First the source is saved in parts without common keys, so that every process and every retry reads
the same rows. Each part is merged on its own. After a lost race, only the parts whose keys the
other commit touched are merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.rows.rowset import RowNumbers, RowSet, ascending_once
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.base.places import readable_path
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.merge import WithoutSource, refuse_kept
from nimblepy.table.changing.merge_plan import MergePlan
from nimblepy.table.changing.row_change import Effect, NoRows, RowChange, Rows, SameColumns
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.shipped import files_as_text, files_of_text
from nimblepy.table.writing.write import Target, discard


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of a source, saved in the order of the key. No two parts share a key.

    Attributes:
        bytes: size of the rows in memory.
    """

    path: str
    rows: int
    bytes: int

    def keyed(self, plan: MergePlan) -> KeyedRows:
        """Opens the rows.

        Raises:
            ConflictError: the file was removed.
        """
        try:
            return KeyedRows.saved(readable_path(self.path), list(plan.on), self.bytes)
        except FileNotFoundError as error:
            raise ConflictError(
                f"the saved source of the merge, {self.path}, was removed during the merge, "
                "perhaps by remove_orphans() with a short older_than; run the merge again",
                files=(self.path,),
            ) from error


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What merging a part changes in some rows of the table.

    Attributes:
        added: files with new rows.
        matched: for each file path, the ascending live rows that have keys of the part.
        going: matched rows to delete.
    """

    added: Sequence[DataFile]
    matched: dict[str, RowNumbers]
    going: dict[str, RowNumbers]
    inserted: int
    updated: int


class Workers(Protocol):
    """Processes that work on the parts of a merge."""

    def outcomes(self, parts: Sequence[Part], rows: MemberRows, target: Target) -> list[Outcome]:
        """:func:`outcome` of each part."""

    def holding(self, parts: Sequence[Part], rows: MemberRows) -> list[bool]:
        """:func:`holds` of each part."""


def save_part(data: Any, plan: MergePlan, target: Target) -> Part | None:
    """Saves rows of a source as a part; returns ``None`` if there are no rows.

    Cost: sorts the rows, on disk above 128 MiB, and writes them.

    Raises:
        See :class:`KeyedRows`.
    """
    source = plan.keyed(data, numbered=False)
    if not source.num_rows:
        return None
    path = replace(target, data_format="nimble").new_path("source")
    return Part(path=path, rows=source.num_rows, bytes=source.save(readable_path(path)))


def whole_of(parts: Sequence[Part], schema: pa.Schema, plan: MergePlan) -> KeyedRows:
    """Returns the rows of all parts of a source, with the columns of ``schema``."""
    kept = [part.keyed(plan) for part in parts]
    chunks = [chunk for part in kept for _, chunk in part.chunks()]
    return plan.keyed(pa.concat_tables(chunks) if chunks else schema.empty_table(), numbered=False)


def rehearse(schema: pa.Schema, plan: MergePlan, rows: MemberRows, target: Target) -> None:
    """Checks that the clauses fit the source's columns, before the source is read."""
    WithoutSource(plan.by_source, rows)
    source = plan.keyed(schema.empty_table())
    plan.part_writer(source).write(rows, plan.positions(source).find(rows), target)


def outcome(part: Part, plan: MergePlan, rows: MemberRows, target: Target) -> Outcome:
    """Finds the keys of a part among some rows, and writes its new rows.

    Cost: as a merge with only these rows.
    """
    source = part.keyed(plan)
    matches = plan.positions(source).find(rows)
    writer = plan.part_writer(source)
    try:
        effect = writer.write(rows, matches, target)
    except BaseException:
        discard(writer.files)
        raise
    paths = [member.file.path for member in rows.members]
    return Outcome(
        added=effect.added,
        matched={paths[number]: ascending_once(some.begin) for number, some in matches.items()},
        going={paths[number]: some for number, some in effect.deleted.items() if some is not None},
        inserted=effect.inserted,
        updated=effect.updated,
    )


def holds(part: Part, plan: MergePlan, rows: MemberRows) -> bool:
    """Returns whether any of ``rows`` has a key of the part. Cost: a lookup of the part's keys."""
    return bool(plan.positions(part.keyed(plan)).find(rows))


def shared_merge_change(
    plan: MergePlan, parts: Sequence[Part], workers: Workers, metadata: ice.Metadata
) -> RowChange[Rows]:
    """Returns the change for a merge of parts, which workers process.

    Args:
        metadata: the metadata that the plan was made for.
    """
    return RowChange(
        operation=None,
        plan=NoRows(),  # the workers find the rows
        writer=SharedRows(plan, parts, workers),
        rules=[SameColumns(metadata)],
    )


class _Searched(NamedTuple):
    """A file that workers searched: the delete files that applied to it, and its first row id."""

    deletes: frozenset[str]
    first_row_id: int | None


class SharedRows:
    """Lets workers find and write the rows of a merge, part by part."""

    def __init__(self, plan: MergePlan, parts: Sequence[Part], workers: Workers) -> None:
        self.files: Sequence[DataFile] = ()
        self._plan = plan
        self._parts = list(parts)
        self._workers = workers
        self._outcomes: dict[int, Outcome] = {}  # by number of the part
        # The files that workers searched.
        self._searched: dict[str, _Searched] = {}

    def write(self, rows: FileSet, matches: Rows, target: Target) -> Effect:
        """
        Raises:
            As :meth:`nimblepy.table.changing.merge.MergedRows.write`.
        """
        try:
            without = WithoutSource(self._plan.by_source, rows)
            self._work(rows, target)
        except InvalidArgumentError as error:
            if not self._outcomes:
                raise
            raise ConflictError(
                f"the merge no longer fits the table: {error}", kind="schema"
            ) from error
        outcomes = self._done
        numbers = {member.file.path: number for number, member in enumerate(rows.members)}
        matched = _together([item.matched for item in outcomes])
        deleted_paths = _together([item.going for item in outcomes])
        deleted: Rows = {numbers[path]: some for path, some in deleted_paths.items()}
        without.add({numbers[path]: RowSet(some) for path, some in matched.items()}, deleted)
        refuse_kept(self._plan.checked, self.files, rows, deleted)
        return Effect(
            added=self.files,
            deleted=deleted,
            inserted=sum(item.inserted for item in outcomes),
            updated=sum(item.updated for item in outcomes),
        )

    def _work(self, rows: FileSet, target: Target) -> None:
        """Lets workers process the parts that these rows require to be processed (again)."""
        states = {
            member.file.path: _Searched(member.delete_ids, member.file.first_row_id)
            for member in rows.members
        }
        again = self._touched(rows, states) if self._outcomes else list(range(len(self._parts)))
        if again:
            results = self._workers.outcomes([self._parts[i] for i in again], rows, target)
            self._outcomes |= dict(zip(again, results, strict=True))
            self.files = [file for item in self._done for file in item.added]
        self._searched = states

    @property
    def _done(self) -> list[Outcome]:
        return [self._outcomes[i] for i in sorted(self._outcomes)]

    def _touched(self, rows: FileSet, states: dict[str, _Searched]) -> list[int]:
        """Returns the parts with keys of rows that were added or deleted, or got their row ids,
        after the part was processed.
        """
        new: list[int] = []
        changed: dict[str, int] = {}
        numbered: set[str] = set()
        for number, (path, now) in enumerate(states.items()):
            before = self._searched.get(path)
            if before is None or not before.deletes <= now.deletes:
                new.append(number)  # new file, or a rollback restored deleted rows
            elif before.first_row_id != now.first_row_id:
                numbered.add(path)
            elif before.deletes != now.deletes:
                changed[path] = number

        def lost(path: str, matched: RowNumbers) -> bool:
            if path in numbered:
                return True
            if path not in changed:
                return path not in states
            deleted = rows.deleted(changed[path])
            return deleted is not None and bool(deleted.contains(matched).any())

        touched = {
            i
            for i, item in self._outcomes.items()
            if any(lost(path, matched) for path, matched in item.matched.items())
        }
        rest = [i for i in range(len(self._parts)) if i not in touched]
        if new and rest:
            held = self._workers.holding([self._parts[i] for i in rest], rows.part(new))
            touched |= {i for i, is_held in zip(rest, held, strict=True) if is_held}
        return sorted(touched)


def _together(parts: Sequence[dict[str, RowNumbers]]) -> dict[str, RowNumbers]:
    """Returns the union of the rows of all parts, by file."""
    parts_by_path: dict[str, list[RowNumbers]] = {}
    for part in parts:
        for path, some in part.items():
            if len(some):
                parts_by_path.setdefault(path, []).append(some)
    return {path: np.unique(np.concatenate(some)) for path, some in parts_by_path.items()}


# ------------------------------------------------------------------ what is sent

PARTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
# Each part has one row with its files and counts, and one row for each file with matching rows.
OUTCOMES = pa.schema(
    [
        pa.field("part", pa.int64(), nullable=False),
        pa.field("inserted", pa.int64()),
        pa.field("updated", pa.int64()),
        pa.field("added", pa.string()),
        pa.field("path", pa.string()),
        pa.field("matched", pa.list_(pa.int64())),
        pa.field("going", pa.list_(pa.int64())),
    ]
)


def part_rows(part: Part) -> pa.RecordBatch:
    """Returns a part as a batch with one row of the schema ``PARTS``."""
    return pa.RecordBatch.from_pylist([asdict(part)], PARTS)


def parts_of(table: pa.Table) -> list[Part]:
    """Returns the parts that rows of the schema ``PARTS`` describe."""
    return [Part(**row) for row in table.to_pylist()]


def outcome_rows(number: int, done: Outcome) -> pa.RecordBatch:
    """Returns the outcome of a part as rows of the schema ``OUTCOMES``."""
    paths = list(done.matched)
    count = 1 + len(paths)
    figures = [done.inserted, done.updated, files_as_text(done.added)]
    none = np.empty(0, dtype=np.uint64)
    deleted_rows = [done.going.get(path, none) for path in paths]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(count, number, dtype=np.int64)),
            *(pa.array([figure, *[None] * len(paths)]) for figure in figures),
            pa.array([None, *paths], pa.string()),
            _lists([none, *done.matched.values()]),
            _lists([none, *deleted_rows]),
        ],
        schema=OUTCOMES,
    )


def _lists(parts: Sequence[RowNumbers]) -> pa.ListArray:
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    values = np.concatenate(parts).astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def outcomes_of(table: pa.Table, count: int) -> list[Outcome]:
    """Returns the outcomes of ``count`` parts, from the rows of :func:`outcome_rows` in any order.

    Raises:
        InvalidArgumentError: a part is missing from the rows, or occurs twice.
    """
    rows = table.combine_chunks()
    numbers, paths = rows.column("part").to_pylist(), rows.column("path").to_pylist()
    outcomes: list[Outcome | None] = [None] * count
    places: dict[int, list[int]] = {}
    for i, (number, path) in enumerate(zip(numbers, paths, strict=True)):
        if path is not None:
            places.setdefault(number, []).append(i)
    for i, (number, path) in enumerate(zip(numbers, paths, strict=True)):
        if path is None and 0 <= number < count and outcomes[number] is None:
            part_rows = places.get(number, [])
            inserted, updated = (rows.column(name)[i].as_py() for name in ("inserted", "updated"))
            outcomes[number] = Outcome(
                added=files_of_text(rows.column("added")[i].as_py()),
                matched={paths[at]: _numbers(rows.column("matched")[at]) for at in part_rows},
                going={
                    paths[at]: some
                    for at in part_rows
                    if len(some := _numbers(rows.column("going")[at]))
                },
                inserted=inserted,
                updated=updated,
            )
    done = [item for item in outcomes if item is not None]
    if len(done) < count:
        raise InvalidArgumentError(
            f"expected outcomes of {count} parts, got {len(done)}; each part must occur once"
        )
    return done


def _numbers(value: pa.ListScalar) -> RowNumbers:
    numbers: RowNumbers = value.values.to_numpy(zero_copy_only=False).astype(np.uint64)
    return numbers
