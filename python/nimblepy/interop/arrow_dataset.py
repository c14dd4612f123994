"""Rows as a ``pyarrow.dataset.Dataset``, for engines that push columns and filters into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nimblepy.files.resolve import Source, as_rows
from nimblepy.io.location import FileSystem

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def arrow_dataset(source: Source, *, filesystem: FileSystem | None = None) -> ds.Dataset:
    """Returns ``source`` as a :class:`pyarrow.dataset.Dataset` whose scans are answered by its
    indexes.

    DuckDB reads it by the name of its variable, or of ``connection.register``. DuckDB pushes down
    the columns of a query, and comparisons of a column with constants that are joined by AND
    (``=``, ``<``, ``BETWEEN``, ``IN``, ``IS NULL``, text prefixes). It evaluates other expressions,
    and OR over several columns, on the rows that it reads. NaN is larger than all numbers in
    filters, as in these engines. With pyarrow's own datasets, DuckDB loses rows with NaN.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file
            or dataset. For a table, the snapshot of the handle.
        filesystem: a pyarrow or fsspec file system of the path, as for :func:`nimblepy.open`.

    Returns:
        A dataset with ``schema``, ``scanner``, ``to_table``, ``to_batches``, ``head``, ``take``
        and ``count_rows``. It has no fragments.

    Cost: opens the source once. Each scan reads what its columns and filter need.

    Example:
        >>> orders = nb.arrow_dataset("orders.nimble")                         # doctest: +SKIP
        >>> duckdb.sql("SELECT total FROM orders WHERE id = 7").fetchall()     # doctest: +SKIP
    """
    from nimblepy.interop.rows_dataset import RowsDataset  # pyarrow.dataset is slow to import

    return RowsDataset(as_rows(source, filesystem=filesystem))
