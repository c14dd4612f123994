"""The method ``index_join`` of files, datasets and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.filter import Parameters, with_params
from nimblepy.input.tabular import as_reader
from nimblepy.join.plan import How, Ranges, plan_join
from nimblepy.join.run import join_batches
from nimblepy.rows.rows import Rows
from nimblepy.rows.source import RowSource
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import Tabular


class Joinable(Rows):
    """Rows that can be joined through an index, without building a hash table or shuffling."""

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
        """Joins ``probe`` with the rows that have its keys, through an index.

        The result has the probe's columns, then the columns of these rows. It is in probe order,
        and the matches of one probe row are in file order.

        Args:
            probe: tabular data; a :class:`pyarrow.RecordBatchReader` is joined batch by batch.
            on: equal columns: a name, several names, or ``{probe column: column here}``, where a
                tuple of names is a path. The first columns of the cluster key are enough. Values
                that a column here cannot represent do not match. Float columns are only joined with
                floats.
            how: ``"inner"``; ``"left"`` keeps probe rows without a match, with nulls; ``"semi"``
                and ``"anti"`` return the probe rows with and without a match, without new columns.
            columns: columns to add; the default is all columns except those of ``on``.
            condition: filter on the joined row. If no match of a probe row passes, a left join
                keeps the row once, with nulls.
            params: values of the condition's parameters, as for :meth:`scan`.
            suffix: appended to names of added columns that the probe also has, in the result and
                in ``condition``.
            null_equals: null keys match null keys; otherwise they match nothing.
            between: ``{column: (lower, upper)}`` with probe columns, both bounds inclusive.
                ``None`` means no bound on that side: ``{"ts": (None, "t")}`` matches rows up to
                ``t``. The index answers it if the column follows the columns of ``on`` in the
                cluster key. Otherwise it is evaluated like ``condition``.

        Returns:
            A table, or a reader if ``probe`` is a reader. Then the lookup of a batch overlaps with
            the output of the previous batch.

        Raises:
            InvalidArgumentError: unknown or clashing names; types that cannot be compared exactly,
                such as text with numbers; a ``how`` that needs unmatched rows of this side.
            IndexUnavailableError: no index on the columns of ``on``; the message names the existing
                indexes.

        Cost: as ``lookup`` of each batch's keys, without a pass over the rows. Memory holds a few
            batches, whatever the number of matches.

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


class SourceHandle(Joinable):
    """A handle on any source, for modules that need the reading methods of users."""

    def __init__(self, source: RowSource) -> None:
        super().__init__()
        self._source = source

    @property
    def _current(self) -> RowSource:
        return self._source

    def close(self) -> None:
        self._release()
        self._source.close()
