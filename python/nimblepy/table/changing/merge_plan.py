"""Builds merges from clauses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.input.tabular import as_reader
from nimblepy.rows.arguments import column_names
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.table import iceberg as ice
from nimblepy.table.changing.key_positions import KeyPositions, key_ids
from nimblepy.table.changing.keyed_rows import Duplicates, KeyedRows
from nimblepy.table.changing.merge import (
    Assigned,
    Delete,
    Insert,
    MergedRows,
    Update,
    merge_change,
)
from nimblepy.table.changing.new_columns import Fit
from nimblepy.table.changing.row_change import Matches, RowChange
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit

On: TypeAlias = str | Sequence[str] | Mapping[str, str] | None


class Merge:
    """Collects the clauses of a merge, which :meth:`execute` runs. Made by ``Table.merge``.

    Conditions are pyarrow expressions or SQL text over ``source.x`` and ``target.x``: column ``x``
    of the source and of the table. SQL text may omit ``source.`` in :meth:`when_not_matched`, and
    ``target.`` in :meth:`when_not_matched_by_source`, because these clauses see only one side. In
    conditions, ``source`` and ``target`` always mean the two sides: a table column named ``source``
    is ``target.source``. In format version 3, clauses can also name ``target._row_id`` and
    ``target._last_updated_sequence_number``. Of each kind of clause, the first one that applies to
    a row is used. If no clause applies, rows of the table do not change, and rows of the source are
    ignored.

    Example:
        >>> merge = table.merge(changes)  # doctest: +SKIP
        >>> merge.when_matched(delete=True, condition="source.op = 'd'")  # doctest: +SKIP
        >>> merge.when_matched(update=["v"]).when_not_matched().execute()  # doctest: +SKIP
    """

    def __init__(self, execute: Callable[[Merge], Commit], on: On, name: str = "a table") -> None:
        self._execute = execute
        self._on = on
        self._name = name
        self._pending = False  # clauses that were not executed
        self._matched: list[Update | Delete] = []
        self._not_matched: list[Insert] = []
        self._by_source: list[Delete] = []

    def when_matched(
        self, *, update: Assigned = False, delete: bool = False, condition: Filter = None
    ) -> Self:
        """Updates or deletes rows of the table that match a row of the source.

        Args:
            update: ``True`` takes all columns of the source; or a list of columns; or a dict from
                columns of the table to SQL over ``source`` and ``target``, as in conditions.
            delete: deletes the row.

        Raises:
            InvalidArgumentError: not exactly one of ``update`` and ``delete`` is given.
        """
        self._pending = False  # an invalid clause raises, and is not pending
        if bool(update) == bool(delete):
            raise InvalidArgumentError("when_matched: give exactly one of update= and delete=True")
        self._matched.append(
            Delete(condition) if delete else Update(_assigned("update", update), condition)
        )
        self._pending = True
        return self

    def when_not_matched(self, *, insert: Assigned = True, condition: Filter = None) -> Self:
        """Inserts rows of the source whose key the table does not have.

        Args:
            insert: like ``update`` of :meth:`when_matched`, but over ``source`` only. Columns that
                are not given become null.
        """
        self._pending = False
        if not insert:
            raise InvalidArgumentError(
                "when_not_matched: insert=False does nothing; give insert=True or columns"
            )
        self._not_matched.append(Insert(_assigned("insert", insert), condition))
        self._pending = True
        return self

    def when_not_matched_by_source(self, *, delete: bool = True, condition: Filter = None) -> Self:
        """Deletes rows of the table whose keys the source does not have.

        Cost: a scan of the whole table, or of the files that the condition cannot rule out.
        """
        self._pending = False
        if delete is not True:
            raise InvalidArgumentError(
                "when_not_matched_by_source: delete=False does nothing; expected delete=True"
            )
        self._by_source.append(Delete(condition))
        self._pending = True
        return self

    def execute(self) -> Commit:
        """Commits the merge.

        Raises:
            InvalidArgumentError: there is no clause, a column does not exist, a condition or value
                cannot be parsed, or the data do not fit.
            DuplicateKeyError: the source has a key twice, or a new row has the primary key of a
                remaining row.
            ConflictError: a column of the merge was dropped or renamed meanwhile, the table was
                dropped, or every attempt lost. After any error the table is unchanged.

        Cost: as ``Table.upsert``. Reads, from matching rows, the columns that conditions name and
        that the merge keeps.
        """
        self._pending = False
        if not (self._matched or self._not_matched or self._by_source):
            raise InvalidArgumentError("merge: no clause; call when_matched() or another first")
        return self._execute(self)

    @property
    def _shown(self) -> str:
        """The clauses as text."""
        kinds = (
            ("when_matched", self._matched),
            ("when_not_matched", self._not_matched),
            ("when_not_matched_by_source", self._by_source),
        )
        shown = [f"{method}({_arguments(clause)})" for method, part in kinds for clause in part]
        return ", ".join(shown) or "no clause"

    def __repr__(self) -> str:
        state = "not executed" if self._pending else "done"
        return f"<nimblepy.Merge into {self._name!r}: {self._shown}; {state}>"

    def __del__(self) -> None:
        if getattr(self, "_pending", False):
            warnings.warn(
                f"{self._name}: the merge {self._shown} was not run; call execute() on it",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def plan(self, metadata: ice.Metadata) -> MergePlan:
        """Returns the plan of a merge for the current columns of a table.

        Raises:
            InvalidArgumentError: the columns of ``on`` are not in the table.
        """
        name, schema, primary = ".".join(metadata.name), metadata.schema(), metadata.primary_key()
        on = _on_columns(self._on, primary, name)
        for target in on.values():
            if len(resolve_column(schema, target).path) > 1:
                raise InvalidArgumentError(
                    f"on: {target!r} is a field of a struct; expected a top-level column"
                )
        return MergePlan(
            schema=schema,
            primary=tuple(primary),
            on=on,
            matched=tuple(self._matched),
            not_matched=tuple(self._not_matched),
            by_source=tuple(self._by_source),
        )


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """The clauses of a merge for the columns of a table. It does not hold the source's rows.

    It can be pickled for processes that work on parts of a source.

    Attributes:
        schema: the table's columns.
        primary: its primary key.
        on: maps columns of the source to columns of the table.
        matched, not_matched, by_source: the clauses.
    """

    schema: pa.Schema
    primary: tuple[str, ...]
    on: dict[str, str]
    matched: tuple[Update | Delete, ...]
    not_matched: tuple[Insert, ...]
    by_source: tuple[Delete, ...]

    @property
    def key_ids(self) -> list[int]:
        """Field ids of the table's columns of ``on``."""
        return key_ids(self.schema, list(self.on.values()))

    @property
    def checked(self) -> tuple[str, ...]:
        """The primary key if new rows could repeat the key of a remaining row; otherwise empty."""
        on, primary = self.on, set(self.primary)
        clauses = self._assigning
        by_key = set(on.values()) == primary and all(k == v for k, v in on.items())
        direct = all(c.columns is True for c in self.not_matched) and not any(
            primary & set(c.columns) for c in clauses if not isinstance(c.columns, bool)
        )
        return () if by_key and direct else self.primary

    @property
    def _assigning(self) -> list[Update | Insert]:
        clauses = (*self.matched, *self.not_matched)
        return [clause for clause in clauses if not isinstance(clause, Delete)]

    def keyed(
        self,
        data: Any,
        duplicates: Duplicates = "error",
        *,
        numbered: bool = True,
        cast: bool = False,
    ) -> KeyedRows:
        """Returns the rows of the source by key; see :class:`KeyedRows`."""
        schema, on, clauses = self.schema, self.on, self._assigning
        taken = {n for c in clauses if isinstance(c.columns, Sequence) for n in c.columns}
        if any(c.columns is True for c in clauses):
            taken |= set(schema.names)
        taken -= set(on.values())  # `on` says which source columns these come from
        names = {name: name for name in schema.names if name in taken} | on
        typed = {
            name: schema.field(target).with_name(name).with_nullable(True)
            for name, target in names.items()
        }
        reader, _ = as_reader(data, pa.schema(list(typed.values())), cast=cast)
        columns = [typed.get(field.name) or _plain(field) for field in reader.schema]
        return KeyedRows(
            reader,
            pa.schema(columns),
            list(on),
            duplicates=duplicates,
            numbered=numbered,
            cast=cast,
        )

    def change(self, source: KeyedRows, metadata: ice.Metadata) -> RowChange[Matches]:
        """Returns the change that applies all clauses.

        Args:
            metadata: the metadata that the plan was made for.
        """
        return merge_change(
            source,
            self.positions(source),
            metadata,
            self.matched,
            self.not_matched,
            self.by_source,
            self.checked,
        )

    def positions(self, source: KeyedRows) -> KeyPositions:
        """Finds the rows of the table that have keys of the source."""
        return KeyPositions(self.key_ids, source.key_chunks)

    def part_writer(self, source: KeyedRows) -> MergedRows:
        """Applies the clauses that do not need the whole source."""
        return MergedRows(source, self.key_ids, self.matched, self.not_matched)


def merge(
    table: TableAccess,
    data: Any,
    on: On,
    *,
    duplicates: Duplicates,
    batch: Batch | None,
    fit: Fit,
) -> Merge:
    """See :meth:`nimblepy.Table.merge`."""

    def execute(merge: Merge) -> Commit:
        call = begin(table, "merge", batch)
        if call.is_done:
            return call.nothing()
        known = merge.plan(call.metadata).on
        call, rows = call.widened(data, fit, tuple(known))
        plan = merge.plan(call.metadata)
        source = plan.keyed(rows, duplicates, cast=fit.cast)
        return call.commit(plan.change(source, call.metadata))

    return Merge(execute, on, table.name)


def _arguments(clause: Update | Delete | Insert) -> str:
    """Returns the arguments of a clause as text."""
    if isinstance(clause, Delete):
        given = ["delete=True"]
    else:
        name = "update" if isinstance(clause, Update) else "insert"
        shown = clause.columns
        if not isinstance(shown, bool):
            shown = dict(shown) if isinstance(shown, Mapping) else list(shown)
        given = [f"{name}={shown!r}"]
    if clause.condition is not None:
        condition = clause.condition
        given.append(
            f"condition={condition if not isinstance(condition, str) else repr(condition)}"
        )
    return ", ".join(given)


def _assigned(what: str, columns: Assigned) -> Assigned:
    """Checks the columns of a clause."""
    if isinstance(columns, (bool, Mapping)):
        return columns
    return _names(what, columns)


def _names(what: str, columns: Sequence[str]) -> tuple[str, ...]:
    names = column_names(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"{what}: expected names of columns, got {columns!r}")
    return tuple(str(name) for name in names)


def _on_columns(on: On, primary: Sequence[str], table: str) -> dict[str, str]:
    """Returns the columns of the table by columns of the source."""
    if on is None:
        if not primary:
            raise InvalidArgumentError(f"merge: {table} has no primary key; give on=")
        return {name: name for name in primary}
    if isinstance(on, Mapping):
        pairs = dict(on)
    else:
        pairs = {name: name for name in _names("on", [on] if isinstance(on, str) else on)}
    if not pairs:
        raise InvalidArgumentError("on: expected at least one column, got none")
    return pairs


def _plain(field: pa.Field) -> pa.Field:
    """Returns a field without metadata, which only conditions and SQL values read."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.field(field.name, kind)
