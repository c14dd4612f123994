"""Subject: a table at one snapshot, with the data that checks of claims need."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.cached import cached_property
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter as ParsedFilter
from nimblepy.expr.filter import parse_filter
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.source import Filter
from nimblepy.schema.names import ColumnName
from nimblepy.schema.plain import plain_array
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Snapshot
from nimblepy.table.claims.facts import ColumnFacts, Facts, facts_of
from nimblepy.table.claims.sketches import Grown, NoSketch, Sketches
from nimblepy.table.claims.store import Stored, read_claims
from nimblepy.table.reading.fileset import FileSet


class Lake(Protocol):
    """The part of a catalog that checks use.

    Attributes:
        key: identifies the catalog.
    """

    @property
    def key(self) -> str: ...

    def names(self) -> Collection[str]:
        """Returns the names of all tables."""

    def subject(self, name: str) -> Subject | None:
        """Returns a table at its newest snapshot; ``None`` if it does not exist."""


class Subject:
    """A table at one snapshot, with its claims, its facts and its rows.

    Attributes:
        metadata: the version of the table that has the claims.
        schema_id: id of the schema of the columns.
    """

    def __init__(
        self, rows: FileSet, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int
    ) -> None:
        self.metadata = metadata
        self.schema_id = schema_id
        self._rows = rows
        self._snapshot = snapshot

    @property
    def name(self) -> str:
        return ".".join(self.metadata.name)

    @property
    def snapshot(self) -> int | None:
        return None if self._snapshot is None else self._snapshot.id

    @property
    def version(self) -> tuple[Any, ...]:
        """Equal for subjects with the same claims and rows."""
        return self.metadata.uuid, self.metadata.metadata_file, self.snapshot, self.schema_id

    @cached_property
    def claims(self) -> list[Stored]:
        return read_claims(self.metadata)

    @cached_property
    def facts(self) -> Facts:
        return facts_of(self._rows, self.metadata, self._snapshot, self.schema_id)

    @cached_property
    def sketches(self) -> Sketches:
        return Sketches(self.metadata, self._snapshot, self.schema_id, self._rows.reading)

    def sketch(self, number: int) -> Grown | NoSketch:
        """Returns the sketch of a column."""
        return self.sketches.get(number)

    # ------------------------------------------------------------------ columns

    def column_name(self, number: int) -> str | None:
        """Returns the name of a column; ``None`` if the table no longer has it."""
        return self.metadata.column_name(number, self.schema_id)

    def column(self, number: int) -> ColumnFacts:
        """Returns the facts of a column.

        Raises:
            InvalidArgumentError: the column does not exist or has no facts.
        """
        name = str(self.column_name(number))
        if name not in self.facts.columns:
            raise InvalidArgumentError(f"the metadata do not describe the values of {name}")
        return self.facts.columns[name]

    @property
    def primary_key(self) -> list[str]:
        return self.metadata.primary_key(self.schema_id)

    def renamed(self, name: str) -> str | None:
        """Returns the current name of a column that was called ``name`` in an earlier schema."""
        for schema_id in sorted(self.metadata.field_ids(), reverse=True):
            number = self.metadata.column_number(name, schema_id)
            if number is not None:
                return self.column_name(number)
        return None

    def had_column(self, name: str) -> bool:
        """Returns whether any known schema has the column."""
        schemas = self.metadata.field_ids()
        return any(self.metadata.column_number(name, number) is not None for number in schemas)

    @cached_property
    def key_is_proved(self) -> bool:
        """Whether the history proves that the primary key is unique."""
        return ice.key_is_proved(self.metadata, self._snapshot, self.schema_id)

    # ------------------------------------------------------------------ rows

    @cached_property
    def handle(self) -> SourceHandle:
        """The reading methods of the rows."""
        return SourceHandle(self._rows)

    def count(self, filter: Filter) -> int:
        """Returns the number of rows that pass a filter. Cost: a scan of the filter's columns."""
        return self.handle.count_rows(filter)

    def has(self, filter: Filter) -> bool:
        """Returns whether any row passes a filter. Cost: a scan up to the first such row."""
        batches = self.handle.scan((), filter=filter).to_reader()
        with contextlib.closing(batches):
            return any(batch.num_rows for batch in batches)

    @property
    def num_files(self) -> int:
        """Number of data files."""
        return len(self._rows.plan.members())

    def value_counts(
        self, column: ColumnName, most: int = 50, rows: int | None = None
    ) -> tuple[dict[Any, int], bool]:
        """Returns the most frequent values of a column, with their row counts.

        Cost: reads the column.

        Args:
            rows: approximate maximum number of rows to read.

        Returns:
            The values as they are stored, so UUIDs as bytes, and whether all rows were read.
        """
        counts: Counter[Any] = Counter()
        read = 0
        with contextlib.closing(self.handle.scan([column]).to_reader()) as batches:
            for batch in batches:
                if rows is not None and read >= rows:
                    return dict(counts.most_common(most)), False
                for item in pc.value_counts(plain_array(batch.column(0)).drop_null()).to_pylist():
                    counts[item["values"]] += item["counts"]
                read += batch.num_rows
        return dict(counts.most_common(most)), True

    def some_values(self, column: ColumnName, rows: int) -> tuple[pa.Array, bool]:
        """Returns distinct values in about ``rows`` rows, and whether these are all rows."""
        total = self.facts.rows
        if total <= rows:
            return _unique(self.handle.to_table([column])), True
        numbers = np.unique(np.random.default_rng(1).integers(0, total, rows))
        return _unique(self.handle.take(numbers, [column])), False

    def files_proving(self, condition: str) -> tuple[bool, bool]:
        """Returns whether statistics prove a condition true for all rows, and false for some row.

        Raises:
            InvalidArgumentError: the condition does not fit the columns.
        """
        schema = self._rows.schema
        members = self._rows.plan.members()
        broken = parse_filter(f"NOT ({condition})", schema)
        holds = self._rows.plan.whole(members, parse_filter(condition, schema).node)
        breaks = self._rows.plan.whole(members, broken.node)
        rows = members.files.rows
        if breaks.any():
            breaks &= rows > 0
            if self._rows.plan.has_deletes:
                breaks &= np.array([not members[i].deletes for i in range(len(members))])
        return bool((holds | (rows == 0)).all()), bool(breaks.any()) or self._breaks_at_end(broken)

    def _breaks_at_end(self, broken: ParsedFilter) -> bool:
        """Returns whether the minimum or maximum of a filter's only column passes the filter."""
        names = [".".join(path) for path in broken.columns]
        if len(names) != 1 or len(broken.columns[0]) != 1 or names[0] not in self.facts.columns:
            return False
        column = self.facts.columns[names[0]]
        ends = [end for end in (column.seen_lower, column.seen_upper) if end is not None]
        kind = self._rows.schema.field(names[0]).type
        if not ends or kind != column.type:
            return False
        batch = pa.RecordBatch.from_arrays([pa.array(ends, kind)], names=names)
        return bool(pc.any(broken.mask(batch)).as_py())

    def check_condition(self, condition: str) -> None:
        """Raises InvalidArgumentError if a condition does not fit the columns."""
        parse_filter(condition, self._rows.schema)

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """Returns the field ids of columns."""
        return [self.facts.ids[name] for name in names]


def _unique(rows: pa.Table) -> pa.Array:
    values = rows.column(0).combine_chunks().drop_null()
    numbers = np.arange(len(values))
    first = pa.table({"value": plain_array(values), "row": numbers}).group_by("value")
    return values.take(first.aggregate([("row", "min")]).column("row_min").combine_chunks())
