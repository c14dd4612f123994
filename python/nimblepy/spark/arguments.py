"""What a caller says of a join, however it is then run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

On = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class JoinArguments:
    """Arguments of :func:`nimblepy.spark.index_join`, which says what they mean."""

    on: On
    how: str = "inner"
    columns: Sequence[str] | None = None
    condition: Any = None
    between: Mapping[str, tuple[str, str]] | None = None
    prefix: str | None = None
    null_equals: bool = False

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Equal columns: (of the probe, of the files)."""
        if isinstance(self.on, str):
            return ((self.on, self.on),)
        if isinstance(self.on, Mapping):
            return tuple(self.on.items())
        return tuple((name, name) for name in self.on)

    def columns_of(self, files: pa.Schema) -> tuple[str, ...]:
        """Columns of the files to return: those asked for, or all but the equal ones."""
        if self.columns is not None:
            return tuple(self.columns)
        keys = {build for _, build in self.pairs}
        return tuple(name for name in files.names if name not in keys)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"
