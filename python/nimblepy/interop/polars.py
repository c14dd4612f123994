"""A lazy polars frame over nimble rows, with pushdown.

Polars is optional and imported only here and in ``polars_expr.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nimblepy.errors import MissingExtraError
from nimblepy.files.resolve import Source, as_rows
from nimblepy.io.location import FileSystem

if TYPE_CHECKING:
    import polars as pl


def scan_polars(source: Source, *, filesystem: FileSystem | None = None) -> pl.LazyFrame:
    """Returns a lazy polars frame over a file, a dataset or a table.

    Polars pushes the columns, filters and row limit of a query into the scan. The parts of a filter
    that nimblepy supports restrict the rows that are read (indexes, zone maps). Polars evaluates
    the whole filter again on these rows, so results are exactly those of polars.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file
            or dataset. For a table, the snapshot of the handle.
        filesystem: a pyarrow or fsspec file system of the path, as for :func:`nimblepy.open`.

    Raises:
        MissingExtraError: polars is not installed.
        CorruptFileError: not a nimble file.

    Cost: opens the source once for its schema. Rows are read when the frame is collected.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingExtraError(
            'scan_polars needs polars: pip install "nimblepy[polars]"'
        ) from error
    from nimblepy.interop.polars_expr import pushed_filter

    rows = as_rows(source, filesystem=filesystem)
    schema = pl.DataFrame(rows.schema.empty_table()).schema

    def batches(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        columns = schema.names() if with_columns is None else with_columns
        needed = list(columns)
        pushed = None
        if predicate is not None:
            # The predicate may read columns that the query does not return.
            needed += [name for name in predicate.meta.root_names() if name not in needed]
            pushed = pushed_filter(predicate, rows.schema)
        scan = rows.scan(
            needed,
            filter=pushed,
            batch_rows=batch_size or 65536,
            # Polars passes a limit that applies to the filtered rows.
            row_range=None if n_rows is None else (0, min(n_rows, rows.num_rows)),
        )
        for batch in scan.to_batches():
            frame = pl.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(columns)

    return register_io_source(batches, schema=schema, is_pure=True)
