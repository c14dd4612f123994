"""Merges: applies clauses to matching and unmatched rows of a table and a source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.expr.filter import Filter as Parsed
from nimblepy.expr.filter import make_filter, parse_filter
from nimblepy.expr.nodes import And, Compare, In, IsNull, IsValid, Node, Or, StartsWith, all_of
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.gather import gather_array
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.lineage import ROW_ID, ROW_ID_FIELD, names_lineage
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import KeyPositions, numbers
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.new_keys import NewKeys
from nimblepy.table.changing.row_change import (
    Effect,
    Matches,
    RowChange,
    Rows,
    RowsWithKeys,
    SameColumns,
)
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.writing.write import Target, write_rows

if TYPE_CHECKING:
    from nimblepy.table.changing.computed import Computed

# Columns to assign: all source columns, the named ones, or SQL text per column.
Assigned: TypeAlias = bool | Sequence[str] | Mapping[str, str]

_Made = TypeVar("_Made")
# The path of a file, and the id of its first row.
_Listing: TypeAlias = tuple[str, int | None]

_SIDES = _SOURCE, _TARGET = "source", "target"
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Update:
    """Updates matching rows with values from the source."""

    columns: Assigned = True
    condition: Filter = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes rows of the table."""

    condition: Filter = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts rows of the source."""

    columns: Assigned = True
    condition: Filter = None


def merge_change(
    source: KeyedRows,
    positions: KeyPositions,
    metadata: ice.Metadata,
    matched: Sequence[Update | Delete],
    not_matched: Sequence[Insert],
    not_matched_by_source: Sequence[Delete] = (),
    primary: Sequence[str] = (),
) -> RowChange[Matches]:
    """Returns the change that merge clauses make. For each row, the first clause that applies wins.

    Args:
        metadata: the newest metadata; clauses name its columns.
        primary: the table's primary key, if new rows could repeat the key of a remaining row;
            otherwise empty.
    """
    return RowChange(
        operation=None,
        plan=RowsWithKeys(positions),
        writer=MergedRows(
            source, positions.columns, matched, not_matched, not_matched_by_source, primary
        ),
        rules=[SameColumns(metadata)],
    )


@dataclass(eq=False)
class MergedRows:
    """Applies clauses to a source and to matching rows, and writes the resulting rows.

    After a lost race, writes them again only if another commit changed matching rows, or gave them
    their row ids.
    """

    source: KeyedRows
    columns: Sequence[int]
    matched: Sequence[Update | Delete]
    not_matched: Sequence[Insert]
    not_matched_by_source: Sequence[Delete] = ()
    primary: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.files: Sequence[DataFile] = ()
        # by path and first row id; the matches that the files were written for
        self._matches: dict[_Listing, RowSet] | None = None
        self._deleted: dict[str, RowNumbers] = {}
        self._figures = (0, 0)  # rows inserted, rows updated
        self._fitted = False  # whether the clauses fitted the columns of an earlier snapshot

    def write(self, rows: MemberRows, matches: Matches, target: Target) -> Effect:
        """Raises: InvalidArgumentError: a clause does not fit the columns. ConflictError: a clause
        fitted the columns before, but no longer does. DuplicateKeyError: a new row has the primary
        key of another new row or of a remaining one.
        """
        without = self._fit(lambda: WithoutSource(self.not_matched_by_source, rows))
        files = {number: rows.members[number].file for number in matches}
        listed = {(files[n].path, files[n].first_row_id): some for n, some in matches.items()}
        if self._matches is None or not _same(listed, self._matches):
            self._write(rows, matches, target)
        self._matches, self._fitted = listed, True
        deleted: Rows = {
            number: positions
            for number, member in enumerate(rows.members)
            if (positions := self._deleted.get(member.file.path)) is not None
        }
        without.add(matches, deleted)
        refuse_kept(self.primary, self.files, rows, deleted)
        inserted, updated = self._figures
        return Effect(added=self.files, deleted=deleted, inserted=inserted, updated=updated)

    def _write(self, rows: MemberRows, matches: Matches, target: Target) -> None:
        step = self._fit(
            lambda: _Step(
                self.source,
                self.columns,
                rows,
                self.matched,
                self.not_matched,
                has_row_ids=bool(matches) and rows.reading.has_row_ids,
            )
        )

        def batches() -> Iterator[pa.RecordBatch]:
            for first, chunk in self.source.chunks(step.names):
                yield from step.made(matches, first, chunk).to_batches()

        self._matches = None
        if step.has_row_ids:
            target = replace(target, lineage=(ROW_ID_FIELD,))
        self.files = write_rows(pa.RecordBatchReader.from_batches(step.schema, batches()), target)
        self._deleted = {
            rows.members[number].file.path: np.unique(np.concatenate(parts))
            for number, parts in step.going.items()
        }
        self._figures = step.inserted, step.updated

    def _fit(self, make: Callable[[], _Made]) -> _Made:
        """Returns what ``make`` returns.

        If the clauses fitted before, an error becomes a ConflictError.
        """
        try:
            return make()
        except InvalidArgumentError as error:
            if not self._fitted:
                raise
            raise ConflictError(
                f"the merge no longer fits the table: {error}", kind="schema"
            ) from error


def _same(one: dict[_Listing, RowSet], other: dict[_Listing, RowSet]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(rows.begin, other[file].begin)
        and np.array_equal(numbers(rows), numbers(other[file]))
        for file, rows in one.items()
    )


def refuse_kept(
    primary: Sequence[str], added: Sequence[DataFile], rows: MemberRows, deleted: Rows
) -> None:
    """Raises DuplicateKeyError if a new row repeats the primary key of a new or remaining row.

    Args:
        primary: columns of the key; empty if no key can repeat.
    """
    if primary and added:
        sources = [rows.reading.child(file, keep=False) for file in added]
        tables = [SourceHandle(source).to_table(primary) for source in sources]
        NewKeys(primary, pa.concat_tables(tables)).refuse_kept(rows, deleted)


class WithoutSource:
    """Deletes rows of the table that no row of the source matches."""

    def __init__(self, clauses: Sequence[Delete], rows: MemberRows) -> None:
        self._rows = rows
        self._conditions = [_WithoutSource(clause.condition, rows) for clause in clauses]

    def add(self, matches: Matches, deleted: Rows) -> None:
        """Adds the rows to delete to ``deleted``.

        Args:
            matches: rows that match the source, which are not deleted here.
        """
        rows = self._rows
        for number in range(rows.num_files if self._conditions else 0):
            conditions = [condition for condition in self._conditions if number in condition.files]
            if not conditions:
                continue
            left, deleted_rows = rows.child(number).all_rows(), rows.deleted(number)
            if deleted_rows is not None:
                left = left.minus(deleted_rows)
            if number in matches:
                left = left.minus(RowSet(np.unique(matches[number].begin)))
            before = deleted.get(number)
            parts = [] if before is None else [before]
            parts += [condition.passing(number, left) for condition in conditions]
            some = np.unique(np.concatenate(parts))
            if len(some):
                deleted[number] = some


class _WithoutSource:
    """A condition on rows of the table that no row of the source matches.

    Attributes:
        files: files that may have rows for which the condition holds.
    """

    def __init__(self, condition: Filter, rows: MemberRows) -> None:
        self._rows = rows
        self._pruning: Parsed | None = None
        self._condition: Parsed | None = None
        self.files: Collection[int] = range(rows.num_files)
        if condition is None:
            return
        joined = _joined_schema(None, _named_schema(rows))
        parsed = self._condition = parse_filter(condition, joined, sides=_SIDES)
        conditions = [n for c in parsed.conjuncts if (n := _in_table(c, rows.schema)) is not None]
        if parsed.matches_nothing:
            self.files = ()
        elif conditions:
            self._pruning = make_filter(all_of(*conditions), rows.schema)
            self.files = frozenset(rows.prune(self._pruning.conjuncts))

    def passing(self, number: int, left: RowSet) -> RowNumbers:
        """Returns those of the rows ``left`` of a file for which the condition holds."""
        if self._condition is None:
            return left.rows
        child = self._rows.child(number)
        if self._pruning is not None:
            left = child.find(Where(self._pruning, left))
        paths = self._condition.columns
        names = tuple(dict.fromkeys(path[1] for path in paths if len(path) > 1))
        if self._rows.reading.has_row_ids and names_lineage(names):
            child = self._rows.with_lineage.child(number)
        parts = [np.empty(0, dtype=np.uint64)]
        for at in range(0, left.num_rows, _BATCH_ROWS):
            part = left.slice(at, at + _BATCH_ROWS).expand()
            batch = _joined(None, _table_batch(child.read(part, names or None)), len(part.begin))
            mask = self._condition.mask(batch).to_numpy(zero_copy_only=False)
            parts.append(part.begin[np.flatnonzero(mask)])
        return np.concatenate(parts)


def _in_table(node: Node, schema: pa.Schema) -> Node | None:
    """Returns the condition on the table's columns that a condition on source and target implies.

    ``None`` means that it implies nothing.
    """
    match node:
        case Compare() | In() | StartsWith() | IsNull() | IsValid():
            path = node.column.path
            if path[0] != _TARGET or len(path) < 2 or path[1] not in schema.names:
                return None  # columns of row lineage have no statistics
            return replace(node, column=resolve_column(schema, path[1:]))
        case And(args):
            implied = [
                node_in_table
                for arg in args
                if (node_in_table := _in_table(arg, schema)) is not None
            ]
            return all_of(*implied) if implied else None
        case Or(args):
            parts = [_in_table(arg, schema) for arg in args]
            done = tuple(part for part in parts if part is not None)
            return Or(done) if len(done) == len(parts) else None
    return None


class _Clause:
    """A clause that is resolved for the current columns."""

    def __init__(
        self,
        clause: Update | Delete | Insert,
        joined: pa.Schema,
        names: Mapping[str, str],
        table: pa.Schema,
        keep: Collection[str],
    ) -> None:
        """Resolves a clause.

        Args:
            names: the source's column name for each column name of the table.
            keep: columns that ``update=True`` leaves as they are.
        """
        condition = clause.condition
        self.condition = (
            None if condition is None else parse_filter(condition, joined, sides=_SIDES)
        )
        self.deletes = isinstance(clause, Delete)
        self.taken: dict[str, str | Computed] = {}
        self.reads = set(() if self.condition is None else self.condition.columns)
        if isinstance(clause, Delete):
            return
        columns = clause.columns
        if isinstance(columns, Mapping):
            from nimblepy.table.changing.computed import Computed  # only if the clause has SQL

            for name, text in columns.items():
                if not isinstance(text, str):
                    raise InvalidArgumentError(f"{name!r}: expected SQL text, got {text!r}")
                computed = Computed(text, joined, _SIDES)
                self.taken[name] = computed
                self.reads |= set(computed.columns)
        elif columns is True:
            self.taken = {n: names[n] for n in table.names if n in names and n not in keep}
        else:
            assert not isinstance(columns, bool)
            missing = [name for name in columns if name not in names]
            if missing:
                raise InvalidArgumentError(
                    f"the source has no column {missing[0]!r}, which the clause uses"
                )
            self.taken = {name: names[name] for name in columns}
        unknown = [name for name in self.taken if name not in table.names]
        if unknown:
            raise InvalidArgumentError(
                f"unknown column {unknown[0]!r}; the table has {', '.join(table.names)}"
            )

    def holds(self, joined: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if self.condition is None:
            return np.ones(joined.num_rows, dtype=np.bool_)
        mask: np.ndarray[Any, np.dtype[np.bool_]] = self.condition.mask(joined).to_numpy(
            zero_copy_only=False
        )
        return mask


class _Step:
    """Makes the new rows, one chunk of the source at a time.

    Attributes:
        has_row_ids: the new rows have the ids of the rows that they replace.
        schema: the columns of the new rows.
    """

    def __init__(
        self,
        source: KeyedRows,
        columns: Sequence[int],
        rows: MemberRows,
        matched: Sequence[Update | Delete],
        inserts: Sequence[Insert],
        *,
        has_row_ids: bool,
    ) -> None:
        self._rows = rows
        self.has_row_ids = has_row_ids
        self.schema = rows.schema.append(ROW_ID_FIELD) if has_row_ids else rows.schema
        self.names, fields = source.columns_of(rows.schema)
        both = list(zip(self.names, fields, strict=True))
        keys = dict(zip(source.key, columns, strict=True))
        # If two columns of the source map to one name of the table, the key column wins.
        names = {field.name: name for name, field in both}
        names |= {field.name: name for name, field in both if name in keys}
        # Key columns, which have equal values in every match.
        same = {f.name for name, f in both if name in keys and keys[name] == field_id_of(f)}
        self._source = pa.schema([field.with_name(name) for name, field in both])
        joined = _joined_schema(self._source, _named_schema(rows))
        alone, table = _joined_schema(self._source, None), rows.schema
        self._matched = [_Clause(clause, joined, names, table, same) for clause in matched]
        self._inserts = [_Clause(clause, alone, names, table, ()) for clause in inserts]
        self._target = self._target_columns()
        self.going: dict[int, list[RowNumbers]] = {}
        self.inserted = self.updated = 0

    def _target_columns(self) -> tuple[str, ...]:
        """Returns the columns to read of matching rows of the table."""
        needed: set[str] = set()
        for clause in self._matched:
            for path in clause.reads:
                if path[0] == _TARGET:
                    needed |= {path[1]} if len(path) > 1 else set(self._rows.schema.names)
            if not clause.deletes:
                needed |= {n for n in self._rows.schema.names if n not in clause.taken}
        return tuple(name for name in _named_schema(self._rows).names if name in needed)

    def made(self, matches: Matches, first: int, chunk: pa.Table) -> pa.Table:
        """Returns the new rows for one chunk of the source."""
        fields = [field.with_nullable(True) for field in self._source]
        source = _table_batch(pa.Table.from_arrays(chunk.columns, schema=pa.schema(fields)))
        probe, file, row = _pairs(matches, first, chunk.num_rows)
        parts = [self._changed(source, probe, file, row)] if self._matched else []
        is_new = np.ones(chunk.num_rows, dtype=np.bool_)
        is_new[probe] = False
        new = np.flatnonzero(is_new)
        if self._inserts and len(new):
            parts.append(self._new(_gathered(source, new)))
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def _changed(
        self, source: pa.RecordBatch, probe: Positions, file: Positions, row: RowNumbers
    ) -> pa.Table:
        """Returns the new versions of matching rows, and records the old ones as deleted."""
        old = RowSet(row, file=file)
        target = _table_batch(self._rows.read(old, self._target))
        ids = self._rows.read(old, (ROW_ID,)).column(0) if self.has_row_ids else None
        joined = _joined(_gathered(source, probe), target, len(probe))
        left = np.ones(len(probe), dtype=np.bool_)
        parts = []
        for clause in self._matched:
            chosen = np.flatnonzero(left & clause.holds(joined))
            left[chosen] = False
            for number in np.unique(file[chosen]).tolist():
                at = chosen[file[chosen] == number]
                self.going.setdefault(number, []).append(row[at])
            if not clause.deletes and len(chosen):
                self.updated += len(chosen)
                made = self._built(clause, _gathered(joined, chosen))
                if ids is not None:
                    made = made.append_column(ROW_ID_FIELD, ids.take(pa.array(chosen)))
                parts.append(made)
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def _new(self, source: pa.RecordBatch) -> pa.Table:
        joined = _joined(source, None, source.num_rows)
        left = np.ones(source.num_rows, dtype=np.bool_)
        parts = []
        for clause in self._inserts:
            chosen = np.flatnonzero(left & clause.holds(joined))
            left[chosen] = False
            if len(chosen):
                self.inserted += len(chosen)
                made = self._built(clause, _gathered(joined, chosen))
                if self.has_row_ids:
                    nothing = pa.nulls(made.num_rows, pa.int64())
                    made = made.append_column(ROW_ID_FIELD, nothing)
                parts.append(made)
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def _built(self, clause: _Clause, joined: pa.RecordBatch) -> pa.Table:
        """Returns rows with all columns of the table, as the clause assigns them."""
        arrays = []
        for field in self._rows.schema:
            taken = clause.taken.get(field.name)
            if taken is not None and not isinstance(taken, str):
                array = taken.values(joined, field.type)
            elif taken is not None:
                array = _inner(joined, _SOURCE, taken)
                array = array if array.type.equals(field.type) else array.cast(field.type)
            elif _TARGET in joined.schema.names:
                array = _inner(joined, _TARGET, field.name)
            elif field.nullable:
                array = pa.nulls(joined.num_rows, field.type)
            else:
                raise InvalidArgumentError(
                    f"data: column {field.name!r} is missing; it must not be null, "
                    f"and {joined.num_rows} rows are new"
                )
            if array.null_count and not field.nullable:
                raise InvalidArgumentError(
                    f"column {field.name!r} has {array.null_count} nulls; the table does not allow "
                    "nulls in it"
                )
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=self._rows.schema)


def _pairs(matches: Matches, first: int, count: int) -> tuple[Positions, Positions, RowNumbers]:
    """Returns (row of the chunk, file, row in the file) for each match of a chunk of the source."""
    probes, files, rows = [], [], []
    for number, some in matches.items():
        begin, end = np.searchsorted(numbers(some), (first, first + count))
        probes.append(numbers(some)[begin:end] - first)
        files.append(np.full(end - begin, number, dtype=np.int64))
        rows.append(some.begin[begin:end])
    if not probes:
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty(0, dtype=np.uint64)
    probe = np.concatenate(probes)
    order = np.argsort(probe, kind="stable")
    return probe[order], np.concatenate(files)[order], np.concatenate(rows)[order]


def _named_schema(rows: MemberRows) -> pa.Schema:
    """Returns the columns of the table that clauses can name, those of row lineage included."""
    reading = rows.reading
    return reading.with_lineage().schema if reading.has_row_ids else rows.schema


def _joined_schema(source: pa.Schema | None, target: pa.Schema | None) -> pa.Schema:
    fields = []
    for name, schema in ((_SOURCE, source), (_TARGET, target)):
        if schema is not None:
            fields.append(pa.field(name, pa.struct(list(schema))))
    return pa.schema(fields)


def _joined(
    source: pa.RecordBatch | None, target: pa.RecordBatch | None, count: int
) -> pa.RecordBatch:
    """Returns rows with the structs ``source`` and ``target``."""
    names, arrays = [], []
    for name, batch in ((_SOURCE, source), (_TARGET, target)):
        if batch is None:
            continue
        names.append(name)
        if batch.num_columns:
            arrays.append(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))
        else:
            arrays.append(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _inner(joined: pa.RecordBatch, struct: str, name: str) -> pa.Array:
    column = joined.column(struct)
    return pc.struct_field(column, [column.type.get_field_index(name)])


def _gathered(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    at = pa.array(rows)
    return pa.RecordBatch.from_arrays(
        [gather_array(column, at) for column in batch.columns], schema=batch.schema
    )


def _table_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    arrays = [
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
