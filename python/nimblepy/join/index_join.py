"""Joins of any Arrow data with a file, through the file's index: nothing is built or shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.io.tabular import as_reader
from nimblepy.join.plan import plan_join
from nimblepy.join.run import join_batches

if TYPE_CHECKING:
    from nimblepy.join.matches import BuildSide


def index_join(
    probe: Any,
    file: BuildSide,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "inner",
    columns: Sequence[str] | None = None,
    condition: pc.Expression | str | None = None,
    suffix: str = "_right",
    null_equals: bool = False,
    between: Mapping[str, tuple[str, str]] | None = None,
) -> pa.Table | pa.RecordBatchReader:
    """Joins ``probe`` with the rows of ``file`` that have its keys, found by the file's index.

    The result has the probe's columns, then the file's. Rows come in probe order; the matches of
    one probe row in file order.

    Args:
        probe: tabular data; a :class:`pyarrow.RecordBatchReader` is joined batch by batch.
        file: a :class:`File` or :class:`Dataset` with an index on the columns of ``on``.
        on: equal columns: a name, several, or ``{probe column: file column}``. Leading columns of
            the cluster key are enough.
        how: ``"inner"``; ``"left"`` keeps probe rows without a match, with nulls; ``"semi"`` and
            ``"anti"`` return the probe rows with and without one, and only their columns.
        columns: columns of the file to return; the default is all but those of ``on``.
        condition: filter on the joined row. In a left join a probe row none of whose matches
            passes is kept once, with nulls.
        suffix: appended to names of the file's columns that the probe has as well, in the result
            and in ``condition``.
        null_equals: null keys match null keys; otherwise they match nothing.
        between: ``{file column: (lower, upper)}`` with probe columns: the file's value lies
            between them, both included. Answered by the index where the column follows those of
            ``on`` in the cluster key, otherwise evaluated like ``condition``.

    Returns:
        A table, or a reader for a reader: then the lookup of a batch overlaps the output of the
        one before it.

    Raises:
        InvalidArgumentError: unknown or clashing names; types that do not compare exactly, such
            as text with numbers; a ``how`` that would need the file's unmatched rows.
        IndexUnavailableError: no index on the columns of ``on``; the message names those there are.

    Cost: as :meth:`File.lookup` of each batch's keys: no pass over the file. Memory is some
    batches, whatever the number of matches.

    Example:
        >>> orders = pa.table({"customer": [7, 8]})
        >>> index_join(orders, customers, on={"customer": "id"}, how="left")  # doctest: +SKIP
    """
    reader, _ = as_reader(probe)
    plan = plan_join(
        reader.schema,
        file,
        on=on,
        how=how,
        columns=columns,
        condition=condition,
        suffix=suffix,
        null_equals=null_equals,
        between=between,
    )
    if isinstance(probe, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(plan.schema, join_batches(plan, file, reader))
    return pa.Table.from_batches(join_batches(plan, file, reader), schema=plan.schema)
