"""Values that SQL text computes for the rows of a merge."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import RowBatch
from nimblepy.expr.sql import read_value


class Computed:
    """A value that SQL text computes for each row.

    Attributes:
        columns: paths of the columns that the SQL text reads, each once.

    Raises:
        InvalidArgumentError: see :func:`nimblepy.expr.sql.read_value`.
    """

    def __init__(self, text: str, schema: pa.Schema, sides: Sequence[str] = ()) -> None:
        self._text = text
        self._value = read_value(text, schema, sides)
        self.columns = tuple(path for path, _ in self._value.names)

    def values(self, batch: pa.RecordBatch, target: pa.DataType) -> pa.Array:
        """Returns the value of each row of a batch, cast to ``target`` by SQL's rules.

        Raises:
            InvalidArgumentError: a value cannot be computed or cast.
        """
        rows = RowBatch(batch)
        columns = [rows.raw(path) for path in self.columns]
        try:
            return self._value.values(columns, len(rows), target)
        except (InvalidArgumentError, pa.ArrowException) as error:
            raise InvalidArgumentError(f"{self._text!r}: {error}") from error
