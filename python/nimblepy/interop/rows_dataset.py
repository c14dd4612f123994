"""The dataset of :func:`nimblepy.arrow_dataset`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from nimblepy.expr.arrow import read_expression
from nimblepy.rows.rows import Rows


class RowsDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset for engines that require pyarrow's class. It uses no method of that class.

    Args:
        rows: the rows of the dataset.
    """

    def __init__(self, rows: Rows) -> None:
        # pyarrow's own constructor would raise, because its datasets are created in C++.
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int = 131_072,
        use_threads: bool = True,
        **options: Any,
    ) -> ds.Scanner:
        """Returns a scan of the given columns. Ignores ``options`` for pyarrow's file formats."""
        names = None if columns is None or isinstance(columns, dict) else list(columns)
        scan = self._rows.scan(
            names,
            filter=self._read(filter),
            batch_rows=batch_size,
            threads=None if use_threads else 1,
        )
        projection = columns if isinstance(columns, dict) else None
        return ds.Scanner.from_batches(scan.to_reader(), columns=projection)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        return self._rows.count_rows(self._read(filter))

    def _read(self, filter: pc.Expression | None) -> Any:
        """Reads as DuckDB and polars do: NaN is larger than all numbers and passes ``x > 1.5``."""
        if filter is None:
            return None
        return read_expression(filter, self._rows.schema, nan_greatest=True)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        columns, only = options.get("columns"), options.get("filter")
        if only is not None or isinstance(columns, dict):
            return self.to_table(columns, filter=only).take(indices)
        return self._rows.take(indices, columns)

    def _unsupported(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            "a dataset over nimble rows has no fragments; use its scanner() or to_table()"
        )

    # pyarrow would do this in C++ with its own dataset.
    get_fragments = replace_schema = filter = join = join_asof = sort_by = _unsupported
    partition_expression = property(_unsupported)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsDataset, (self._rows,)

    def __repr__(self) -> str:
        return f"<pyarrow.dataset.Dataset of {self._rows!r}>"
