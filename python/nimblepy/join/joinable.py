"""Joinable: the joins of files, datasets and tables through their indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.filter import Parameters, with_params
from nimblepy.input.tabular import as_reader
from nimblepy.join.asof import (
    AsofKeywords,
    Direction,
    asof_columns,
    asof_getter,
    find_one,
    plan_asof,
)
from nimblepy.join.plan import How, Ranges, plan_join
from nimblepy.join.run import join_batches
from nimblepy.rows.arguments import Columns, On, check_keywords, column_names, passes_on_to
from nimblepy.rows.compiled import Getter
from nimblepy.rows.rows import Position, Rows
from nimblepy.rows.source import MAX_PREPARED, RowSource
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import Distance, Key, Tabular


class Joinable(Rows):
    """Rows that can be joined through an index, without building a hash table or shuffling."""

    def __init__(self) -> None:
        super().__init__()
        # Compiled getters of the current source, by the arguments of `asof`.
        self._asof_getters: dict[Any, Getter] = {}

    def _release(self) -> None:
        super()._release()
        self._asof_getters.clear()

    def index_join(
        self,
        probe: Tabular,
        *,
        on: str | Sequence[str] | Mapping[str, ColumnName],
        how: How = "inner",
        columns: Sequence[str] | None = None,
        condition: pc.Expression | str | None = None,
        params: Parameters = None,
        suffix: str = "_right",
        null_equals: bool = False,
        between: Ranges | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Joins ``probe`` with this source: an index finds the rows with each probe row's key.

        The result has the probe's columns, then the columns of the matching rows. It is in probe
        order, and the matches of one probe row are in file order.

        Args:
            probe: tabular data; a :class:`pyarrow.RecordBatchReader` is joined batch by batch.
            on: the columns that must be equal: a name, several names, or
                ``{probe column: column here}``, where a tuple of names is a path. The first columns
                of the cluster key are enough. Values that a column here cannot represent do not
                match. Float columns can only be joined with float columns.
            how: ``"inner"``; ``"left"`` keeps probe rows without a match, with nulls; ``"semi"``
                and ``"anti"`` return the probe rows with and without a match, without new columns.
            columns: columns to add; the default is all columns except those in ``on``.
            condition: a filter on joined rows. If no match of a probe row passes, a left join
                keeps the probe row once, with nulls.
            params: values of the condition's parameters; see :meth:`scan`.
            suffix: appended to names of added columns that the probe also has, in the result and
                in ``condition``.
            null_equals: whether null keys match null keys. Otherwise, they do not match any row.
            between: ``{column: (lower, upper)}`` with probe columns, both bounds inclusive.
                ``None`` means no bound on that side: ``{"ts": (None, "t")}`` matches rows up to
                ``t``. The index is used for the range if the column follows the columns of ``on``
                in the cluster key. Otherwise, the range is evaluated like ``condition``.

        Returns:
            A table; a reader if ``probe`` is a reader. With a reader, the lookup of a batch
            overlaps with the output of the previous batch.

        Raises:
            InvalidArgumentError: a name is unknown or clashes; types cannot be compared exactly,
                such as text with numbers; or ``how`` is not supported, such as ``"right"``.
            IndexUnavailableError: no index has the columns of ``on``; the message names the
                existing indexes.

        Cost: like ``lookup`` for each batch's keys, without a pass over the rows. Memory use is a
            few batches, whatever the number of matches.

        Example:
            >>> orders = pa.table({"customer": [7, 8]})
            >>> customers.index_join(orders, on={"customer": "id"}, how="left")  # doctest: +SKIP
        """
        reader, _ = as_reader(probe)
        source = self._current
        plan = plan_join(
            reader.schema,
            source,
            on=on,
            how=how,
            columns=columns,
            condition=with_params(condition, params),
            suffix=suffix,
            null_equals=null_equals,
            between=between,
        )
        joined = join_batches(plan, source.for_reading(plan.reads), reader)
        if isinstance(probe, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(plan.schema, joined)
        return pa.Table.from_batches(joined, schema=plan.schema)

    @passes_on_to(plan_asof)
    def asof_join(
        self, probe: Tabular, **join: Unpack[AsofKeywords]
    ) -> pa.Table | pa.RecordBatchReader:
        """Joins each row of ``probe`` with the nearest row at or before its time, using an index.

        Among the rows with equal ``by`` columns, each probe row is joined with the one row whose
        ``on`` value is nearest in the given direction. The result is in probe order. It has the
        probe's columns, then the columns of the matching row except those in ``by``.

        Args:
            probe: tabular data; a :class:`pyarrow.RecordBatchReader` is joined batch by batch.
            on: the ordered column: a name, or ``{probe column: column here}``. It can have any type
                that an index supports: times, numbers, dates, decimals, text.
            by: the columns that must be equal: a name, several names, or
                ``{probe column: column here}``.
            direction: ``"backward"`` finds the last row at or before the probe's value.
                ``"forward"`` finds the first row at or after the value. ``"nearest"`` finds the
                closer of these two rows, and the earlier one if the distances are equal.
            tolerance: the greatest distance of a match, inclusive: a :class:`datetime.timedelta`,
                or a number if the ``on`` column has numbers.
            allow_exact_matches: whether a row with an equal ``on`` value matches.
            how: ``"left"`` keeps probe rows without a match, with nulls; ``"inner"`` drops them.
            columns: columns to add; the default is all columns except those in ``by``.
            suffix: appended to names of added columns that the probe also has.
            known_at: ``{probe column: column here}``. For each probe row, ignores rows if the
                column here is null or greater than the probe's value. Use it if rows are corrected
                or arrive late, so that a training set contains only what was known at that time.

        Returns:
            A table; a reader if ``probe`` is a reader.

            Probe rows with a null in ``by`` or ``on`` do not match any row. If several rows have
            equal ``by`` and ``on`` values, a file returns the last of them in file order for
            ``"backward"``, and the first for ``"forward"``. A dataset or table returns any of them.

        Raises:
            IndexUnavailableError: no cluster key or sorted index begins with the columns of ``by``
                in any order, then ``on``; the message names the existing indexes.
            InvalidArgumentError: a name is unknown or clashes; types cannot be compared exactly; or
                the tolerance is negative or has the wrong type.

        Cost: one search per probe row, in key order, and the blocks of the matching rows. Opens
            only files whose bounds allow a nearer row. ``known_at`` also reads that column of the
            rows that are skipped. Memory use is a few batches.

        Example:
            >>> labels = pa.table({"user": [7], "at": [datetime(2026, 5, 1)]})
            >>> events.asof_join(labels, on={"at": "ts"}, by="user")  # doctest: +SKIP
        """
        check_keywords(Joinable.asof_join, join)
        reader, _ = as_reader(probe)
        source = self._current
        plan = plan_asof(reader.schema, source, **join)
        source = source.for_reading(plan.join.reads)
        joined = join_batches(plan.join, source, reader, find=plan.find)
        if isinstance(probe, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(plan.join.schema, joined)
        return pa.Table.from_batches(joined, schema=plan.join.schema)

    def asof(
        self,
        key: Key,
        columns: Columns = None,
        *,
        on: On = None,
        direction: Direction = "backward",
        tolerance: Distance | None = None,
        allow_exact_matches: bool = True,
        known_at: tuple[ColumnName, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Returns the nearest row at or before a time as a dict; ``None`` if no row matches.

        Args:
            key: ``(by values..., time)``, or only the time; or a dict by column name.
            columns: columns of the row; the default is all columns.
            on: the columns of the key; the last one is the ordered column. The default is the
                cluster key.
            direction, tolerance, allow_exact_matches: see :meth:`asof_join`.
            known_at: ``(column, value)``. Ignores rows if the column is null or greater than the
                value.

        Raises:
            IndexUnavailableError, InvalidArgumentError: see :meth:`asof_join` and :meth:`get`. The
                time may be between two values of the column.

        Cost: up to twice that of :meth:`get`. With ``tolerance``, ``known_at`` or
            ``direction="nearest"``, a few hundred microseconds.

        Example:
            >>> events.asof((7, datetime(2026, 5, 1)), ["status"])  # doctest: +SKIP
        """
        if type(columns) is list:
            columns = tuple(columns)
        if tolerance is None and known_at is None:
            try:
                getter = self._asof_getters[on, columns, direction, allow_exact_matches]
            except (KeyError, TypeError):
                getter = self._prepare_asof(on, columns, direction, allow_exact_matches)
            answer: dict[str, Any] | None = getter(key)
            if answer is not NotImplemented:
                return answer
        source, names = self._current, column_names(columns)
        source.projected(names)
        row = find_one(
            source,
            key,
            asof_columns(source, key, on),
            direction=direction,
            tolerance=tolerance,
            allow_exact_matches=allow_exact_matches,
            known_at=known_at,
        )
        return source.read(row, names).to_pylist()[0] if row.num_rows else None

    def _prepare_asof(
        self, on: On, columns: Columns, direction: Direction, allow_exact_matches: bool
    ) -> Getter:
        """Prepares and caches the getter for these arguments of :meth:`asof`."""
        source, names = self._current, column_names(columns)
        on_names = source.on_columns(on)
        getter = asof_getter(source, names, on_names, direction, allow_exact_matches)

        def keep_getter() -> None:
            if len(self._asof_getters) > MAX_PREPARED:
                self._asof_getters.clear()
            on_key = on_names if isinstance(on, list) else on
            self._asof_getters[on_key, names, direction, allow_exact_matches] = getter

        self._keep(source, keep_getter)
        return getter


class SourceHandle(Joinable):
    """A handle on any source, for modules that need the public reading methods."""

    def __init__(self, source: RowSource) -> None:
        super().__init__()
        self._position = Position(source)

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceHandle, (self._position.rows,)

    def close(self) -> None:
        self._release()
        self._position.rows.close()
