"""Rows as a ``pyarrow.dataset.Dataset``, for engines that push columns and filters into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nimblepy.files.resolve import Source, as_rows
from nimblepy.io.location import FileSystem

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def arrow_dataset(source: Source, *, filesystem: FileSystem | None = None) -> ds.Dataset:
    """``source`` as a :class:`pyarrow.dataset.Dataset` whose scans are answered by its indexes.

    DuckDB reads it by the name of its variable, or of ``connection.register``. It hands over the
    columns of a query and those terms of WHERE that compare a column with constants (``=``, ``<``,
    ``BETWEEN``, ``IN``, ``IS NULL``, the beginning of a text, joined by AND); the rest, OR over
    several columns and expressions among it, DuckDB evaluates on what is read. NaN is above all
    numbers in filters, as these engines have it; over a dataset of pyarrow's own, DuckDB loses NaN.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file
            or dataset. Of a table, the snapshot of the handle.
        filesystem: a pyarrow or fsspec file system of the path, as for :func:`nimblepy.open`.

    Returns:
        A dataset with ``schema``, ``scanner``, ``to_table``, ``to_batches``, ``head``, ``take``
        and ``count_rows``. It has no fragments.

    Cost: opens the source once now; each scan reads what its columns and filter need.

    Example:
        >>> orders = nb.arrow_dataset("orders.nimble")                         # doctest: +SKIP
        >>> duckdb.sql("SELECT total FROM orders WHERE id = 7").fetchall()     # doctest: +SKIP
    """
    from nimblepy.interop.rows_dataset import RowsDataset  # pyarrow.dataset is slow to import

    return RowsDataset(as_rows(source, filesystem=filesystem))
