"""Arguments of a join, independent of the strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.filter import BoundText
from nimblepy.join.plan import Ranges, join_pairs, joined_columns
from nimblepy.schema.names import ColumnName

On: TypeAlias = str | Sequence[str] | Mapping[str, ColumnName]
How: TypeAlias = Literal["inner", "left", "semi", "anti", "right", "full"]
Engine: TypeAlias = Literal["arrow", "rdd"]
Strategy: TypeAlias = Literal["index", "scan", "auto"]


@dataclass(frozen=True, kw_only=True)
class JoinArguments:
    """Arguments of a join; see :func:`nimblepy.spark.index_join`."""

    on: On
    how: str = "inner"
    columns: Sequence[str] | None = None
    condition: pc.Expression | str | BoundText | None = None
    between: Ranges | None = None
    prefix: str | None = None
    null_equals: bool = False

    @property
    def pairs(self) -> list[tuple[str, ColumnName]]:
        """Returns the pairs of columns that must be equal: (probe column, column of the files)."""
        return join_pairs(self.on, self.between)

    def shown_as(self, name: str) -> str:
        """Returns the name that a column of the files has in the result."""
        return (self.prefix or "") + name

    def added(self, probe: Sequence[str], files: pa.Schema) -> dict[str, str]:
        """Returns the columns of the files to return, and their names in the result.

        Raises:
            InvalidArgumentError: a column is unknown, or a name occurs twice in the result.
        """
        keys = [build for _, build in self.pairs]
        return dict(joined_columns(probe, files, keys, self.columns, self.shown_as, self.how))
