"""What can be joined with: the method index_join of files, datasets and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.filter import Parameters, with_params
from nimblepy.input.tabular import as_reader
from nimblepy.join.plan import How, Ranges, plan_join
from nimblepy.join.run import join_batches
from nimblepy.rows.rows import Rows
from nimblepy.rows.source import Observer, RowSource
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import Tabular


class Joinable(Rows):
    """Rows that other rows are joined with, through an index: nothing is built or shuffled."""

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
        """Joins ``probe`` with the rows that have its keys, found by an index.

        The result has the probe's columns, then those of these rows. Rows come in probe order; the
        matches of one probe row in file order.

        Args:
            probe: tabular data; a :class:`pyarrow.RecordBatchReader` is joined batch by batch.
            on: equal columns: a name, several, or ``{probe column: column here}``, where a tuple of
                names is a path. Leading columns of the cluster key are enough. Values that a column
                here cannot hold match nothing; columns of floats are joined with floats only.
            how: ``"inner"``; ``"left"`` keeps probe rows without a match, with nulls; ``"semi"``
                and ``"anti"`` return the probe rows with and without one, and only their columns.
            columns: columns to add; the default is all but those of ``on``.
            condition: filter on the joined row. In a left join a probe row none of whose matches
                passes is kept once, with nulls.
            params: values of the condition's parameters, as for :meth:`scan`.
            suffix: appended to names of added columns that the probe has as well, in the result
                and in ``condition``.
            null_equals: null keys match null keys; otherwise they match nothing.
            between: ``{column: (lower, upper)}`` with probe columns: the value lies between them,
                both included. ``None`` for one of them is no bound on that side: ``{"ts": (None,
                "t")}`` are the rows up to ``t``. Answered by the index where the column follows
                those of ``on`` in the cluster key, otherwise evaluated like ``condition``.

        Returns:
            A table, or a reader for a reader: then the lookup of a batch overlaps the output of
            the one before it.

        Raises:
            InvalidArgumentError: unknown or clashing names; types that do not compare exactly,
                such as text with numbers; a ``how`` that would need rows that nothing matches.
            IndexUnavailableError: no index on the columns of ``on``; the message names those
                there are.

        Cost: as ``lookup`` of each batch's keys: no pass over the rows. Memory is some batches,
            whatever the number of matches.

        Example:
            >>> orders = pa.table({"customer": [7, 8]})
            >>> customers.index_join(orders, on={"customer": "id"}, how="left")  # doctest: +SKIP
        """
        reader, _ = as_reader(probe)
        source = self.current
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
        joined = join_batches(plan, source, reader)
        if isinstance(probe, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(plan.schema, joined)
        return pa.Table.from_batches(joined, schema=plan.schema)


class FixedRows(Joinable, RowSource):
    """Rows that do not change, and so are their own source."""

    def __init__(self, observer: Observer | None = None) -> None:
        Joinable.__init__(self)
        RowSource.__init__(self, observer)

    @property
    def current(self) -> RowSource:
        return self
