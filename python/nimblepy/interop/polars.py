"""Lets other engines read nimble files: a lazy polars scan with pushdown.

Polars is optional and imported only here and in ``interop_polars.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nimblepy.errors import MissingExtraError
from nimblepy.io.location import FileSystem

if TYPE_CHECKING:
    import polars as pl


def scan_polars(
    path: str | os.PathLike[str], *, filesystem: FileSystem | None = None
) -> pl.LazyFrame:
    """A lazy polars frame over a nimble file.

    Polars pushes the columns a query needs, its filters and its row limit into the scan. Filters
    that nimblepy understands narrow the rows read (indexes, zone maps); polars then evaluates the
    whole filter again on what is left, so results are exactly polars' own.

    Args:
        path: path or URI of the file.
        filesystem: a pyarrow or fsspec filesystem, as for :func:`nimblepy.open`.

    Raises:
        MissingExtraError: polars is not installed.
        CorruptFileError: not a nimble file.

    Cost: opens the file once now, for its schema; rows are read when the frame is collected.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingExtraError(
            'scan_polars needs polars: pip install "nimblepy[polars]"'
        ) from error
    from nimblepy.file.open import open
    from nimblepy.interop.polars_expr import pushed_filter

    file = open(path, filesystem=filesystem)
    schema = pl.DataFrame(file.schema.empty_table()).schema

    def batches(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = schema.names() if with_columns is None else with_columns
        needed = list(wanted)
        pushed = None
        if predicate is not None:
            # The predicate may read columns that the query does not return.
            needed += [name for name in predicate.meta.root_names() if name not in needed]
            pushed = pushed_filter(predicate, file.schema)
        left = n_rows
        scan = file.scan(
            needed,
            filter=pushed,
            batch_rows=batch_size or 65536,
            # Rows are limited after polars has filtered them.
            limit=n_rows if predicate is None else None,
        )
        for batch in scan.to_batches():
            frame = pl.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(wanted)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    return register_io_source(batches, schema=schema)
