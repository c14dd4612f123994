"""Merges that several processes share: each works on a part of the source, and one commits.

The source is first saved in parts that have no key in common, so that it is the same whenever and
wherever it is read. What is done with a part is :class:`MergeChange` of it alone. Where another
commit came first, only those parts are worked on again whose keys it touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.rows.rowset import RowNumbers, RowSet, ascending_once
from nimblepy.table.base.model import DataFile
from nimblepy.table.base.places import readable_path
from nimblepy.table.changing.key_positions import KeyPositions
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.merge import WithoutSource, refuse_kept
from nimblepy.table.changing.merge_plan import MergePlan
from nimblepy.table.changing.row_changes import FilesOf, Replacement
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.shipped import files_as_text, files_of_text
from nimblepy.table.writing.write import Target


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of a source, saved in the order of the key; no other part has a key of theirs.

    Attributes:
        bytes: of the rows in memory.
    """

    path: str
    rows: int
    bytes: int

    def keyed(self, plan: MergePlan) -> KeyedRows:
        """Its rows.

        Raises:
            ConflictError: somebody removed the file.
        """
        try:
            return KeyedRows.saved(readable_path(self.path), list(plan.on), self.bytes)
        except FileNotFoundError as error:
            raise ConflictError(
                f"the saved source of the merge, {self.path}, was removed meanwhile, maybe by a "
                "remove_orphans() that takes young files",
                files=(self.path,),
            ) from error


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a part makes of the rows of a table.

    Attributes:
        added: files with new rows.
        matched: ascending live rows that have its keys, by path of their file.
        going: those of them that go.
    """

    added: Sequence[DataFile]
    matched: dict[str, RowNumbers]
    going: dict[str, RowNumbers]
    inserted: int
    updated: int


class Workers(Protocol):
    """Those that work on the parts of a merge."""

    def outcomes(self, parts: Sequence[Part], rows: MemberRows, target: Target) -> list[Outcome]:
        """:func:`outcome` of each part."""

    def holding(self, parts: Sequence[Part], rows: MemberRows) -> list[bool]:
        """:func:`holds` of each part."""


def save_part(data: Any, plan: MergePlan, target: Target) -> Part | None:
    """Saves all rows of a source that have some keys; ``None``: there are none.

    Cost: they are sorted, on disk beyond 128 MiB, and written.

    Raises:
        As :class:`KeyedRows`.
    """
    source = plan.keyed(data, numbered=False)
    if not source.num_rows:
        return None
    path = replace(target, data_format="nimble").new_path("source")
    return Part(path=path, rows=source.num_rows, bytes=source.save(readable_path(path)))


def whole_of(parts: Sequence[Part], schema: pa.Schema, plan: MergePlan) -> KeyedRows:
    """All rows of a source with the columns of ``schema``."""
    kept = [part.keyed(plan) for part in parts]
    chunks = [chunk for part in kept for _, chunk in part.chunks()]
    return plan.keyed(pa.concat_tables(chunks) if chunks else schema.empty_table(), numbered=False)


def rehearse(schema: pa.Schema, plan: MergePlan, rows: MemberRows, target: Target) -> None:
    """Says what of the clauses does not fit a source with these columns, before it is read."""
    WithoutSource(plan.by_source, rows)
    source = plan.keyed(schema.empty_table())
    plan.change_of_part(source, _none).plan_in(rows, target)


def outcome(part: Part, plan: MergePlan, rows: MemberRows, target: Target) -> Outcome:
    """Finds the keys of a part among some rows, and writes the new rows that it makes of them.

    Cost: as of a merge with these rows alone.
    """
    change = plan.change_of_part(part.keyed(plan), _none)
    try:
        gone = change.plan_in(rows, target)
    except BaseException:
        change.discard()
        raise
    going = {
        rows.members[number].file.path: some for number, some in gone.items() if some is not None
    }
    change.count(sum(map(len, going.values())))
    return Outcome(
        added=change.added,
        matched={path: ascending_once(some.begin) for path, some in change.matches.items()},
        going=going,
        inserted=change.inserted,
        updated=change.updated,
    )


def holds(part: Part, plan: MergePlan, rows: MemberRows) -> bool:
    """Whether any of some rows has a key of a part. Cost: a lookup of its keys."""
    return bool(KeyPositions(plan.key_ids, part.keyed(plan).key_chunks).find(rows))


def _none(_: object) -> FileSet:
    """Of a change that never plans for metadata."""
    raise AssertionError


class SharedMerge(Replacement):
    """A merge of a source in parts, which others work on."""

    uses_names = True

    def __init__(
        self, plan: MergePlan, parts: Sequence[Part], workers: Workers, files_of: FilesOf
    ) -> None:
        super().__init__("overwrite", (), files_of)
        self._plan = plan
        self._parts = list(parts)
        self._workers = workers
        self._outcomes: dict[int, Outcome] = {}  # by number of the part
        # Files that were asked for the keys, with the delete files that were applied.
        self._asked: dict[str, frozenset[str]] = {}

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        try:
            without = WithoutSource(self._plan.by_source, rows)
            self._work(rows)
        except InvalidArgumentError as error:
            if not self._outcomes:
                raise
            raise ConflictError(
                f"the merge no longer fits the table: {error}", kind="schema"
            ) from error
        numbers = {member.file.path: number for number, member in enumerate(rows.members)}
        matched = _together([item.matched for item in self._done])
        going: dict[int, RowNumbers | None] = {
            numbers[path]: some
            for path, some in _together([item.going for item in self._done]).items()
        }
        without.add({numbers[path]: RowSet(some) for path, some in matched.items()}, going)
        refuse_kept(self._plan.checked, self.added, rows, going)
        return going

    def count(self, gone: int) -> None:
        self.inserted = sum(item.inserted for item in self._done)
        self.updated = sum(item.updated for item in self._done)
        self.deleted = gone - self.updated
        self.commit.operation = "overwrite" if gone else "append"

    def _work(self, rows: FileSet) -> None:
        """Has the parts worked on that have not been, or not for these rows."""
        states = {member.file.path: member.delete_paths for member in rows.members}
        again = self._touched(rows, states) if self._outcomes else list(range(len(self._parts)))
        if again:
            found = self._workers.outcomes([self._parts[i] for i in again], rows, self.target)
            for i, new in zip(again, found, strict=True):
                if i in self._outcomes:
                    self.remove(self._outcomes[i].added)
                self._outcomes[i] = new
            self.added = [file for item in self._done for file in item.added]
        self._asked = states

    @property
    def _done(self) -> list[Outcome]:
        return [self._outcomes[i] for i in sorted(self._outcomes)]

    def _touched(self, rows: FileSet, states: dict[str, frozenset[str]]) -> list[int]:
        """The parts with keys of rows that came or went since they were worked on."""
        new: list[int] = []
        changed: dict[str, int] = {}
        for number, (path, deletes) in enumerate(states.items()):
            before = self._asked.get(path)
            if before is None or not before <= deletes:
                new.append(number)  # also where a rollback has brought rows back
            elif before != deletes:
                changed[path] = number

        def lost(path: str, matched: RowNumbers) -> bool:
            if path not in changed:
                return path not in states
            gone = rows.deleted(changed[path])
            return gone is not None and bool(gone.contains(matched).any())

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
    """Rows of each file that are in any of some parts."""
    found: dict[str, list[RowNumbers]] = {}
    for part in parts:
        for path, some in part.items():
            if len(some):
                found.setdefault(path, []).append(some)
    return {path: np.unique(np.concatenate(some)) for path, some in found.items()}


# ------------------------------------------------------------------ what is sent

PARTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
# A row with the files and figures of each part, and one for each file with rows that it matched.
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
    """A part as a row of ``PARTS``."""
    return pa.RecordBatch.from_pylist([asdict(part)], PARTS)


def parts_of(table: pa.Table) -> list[Part]:
    """The parts of rows of ``PARTS``."""
    return [Part(**row) for row in table.to_pylist()]


def outcome_rows(number: int, done: Outcome) -> pa.RecordBatch:
    """What a part makes, as rows of ``OUTCOMES``."""
    paths = list(done.matched)
    count = 1 + len(paths)
    figures = [done.inserted, done.updated, files_as_text(done.added)]
    none = np.empty(0, dtype=np.uint64)
    going = [done.going.get(path, none) for path in paths]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(count, number, dtype=np.int64)),
            *(pa.array([figure, *[None] * len(paths)]) for figure in figures),
            pa.array([None, *paths], pa.string()),
            _lists([none, *done.matched.values()]),
            _lists([none, *going]),
        ],
        schema=OUTCOMES,
    )


def _lists(parts: Sequence[RowNumbers]) -> pa.ListArray:
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    values = np.concatenate(parts).astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def outcomes_of(table: pa.Table, count: int) -> list[Outcome]:
    """The outcomes of ``count`` parts, from the rows of :func:`outcome_rows` in any order.

    Raises:
        InvalidArgumentError: they are not of each part once.
    """
    rows = table.combine_chunks()
    numbers, paths = rows.column("part").to_pylist(), rows.column("path").to_pylist()
    found: list[Outcome | None] = [None] * count
    places: dict[int, list[int]] = {}
    for i, (number, path) in enumerate(zip(numbers, paths, strict=True)):
        if path is not None:
            places.setdefault(number, []).append(i)
    for i, (number, path) in enumerate(zip(numbers, paths, strict=True)):
        if path is None and 0 <= number < count and found[number] is None:
            mine = places.get(number, [])
            inserted, updated = (rows.column(name)[i].as_py() for name in ("inserted", "updated"))
            found[number] = Outcome(
                added=files_of_text(rows.column("added")[i].as_py()),
                matched={paths[at]: _numbers(rows.column("matched")[at]) for at in mine},
                going={
                    paths[at]: some
                    for at in mine
                    if len(some := _numbers(rows.column("going")[at]))
                },
                inserted=inserted,
                updated=updated,
            )
    done = [item for item in found if item is not None]
    if len(done) < count:
        raise InvalidArgumentError(f"outcomes of {len(done)} parts, expected {count}")
    return done


def _numbers(value: pa.ListScalar) -> RowNumbers:
    found: RowNumbers = value.values.to_numpy(zero_copy_only=False).astype(np.uint64)
    return found
