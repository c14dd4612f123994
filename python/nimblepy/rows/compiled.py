"""What the core can do for a source without the general path: compiled readers.

A caller describes the reader that it needs, and asks :meth:`RowSource.compiled` for it once. The
source returns the reader, or ``None`` if the core cannot read these rows itself. A reader returns
``NotImplemented`` for arguments that it does not handle. In both cases the caller uses the general
path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from nimblepy import _core
from nimblepy.rows.arguments import On, Projected
from nimblepy.rows.request import Where
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import SortKey

Reader_co = TypeVar("Reader_co", covariant=True)
# Takes a key. Returns its first row as a dict, None if no row has the key, or NotImplemented.
Getter: TypeAlias = Callable[[Any], Any]


class Compiled(Generic[Reader_co]):
    """The description of a compiled reader."""

    __slots__ = ()


class KeyReader(Protocol):
    """Reads single rows by key."""

    def getter(self) -> Getter: ...

    def asof_getter(self, backward: bool, exclusive: bool) -> Getter:
        """Finds the nearest row at or before, or at or after, a value of the last key column.

        Args:
            exclusive: whether a row with the value itself does not match.
        """
        ...


class RangeReader(Protocol):
    """Reads rows in key order. Arguments are those of :meth:`nimblepy.File.range`."""

    def range(
        self, lower: object, upper: object, inclusive: object, limit: object, reverse: object
    ) -> Any:
        """Returns a table, or anything else if the general path has to answer."""
        ...

    def prefix(self, prefix: object, limit: object, reverse: object) -> Any:
        """As :meth:`range`."""
        ...


@dataclass(frozen=True, slots=True)
class RowForm:
    """How a row is returned as a dict.

    Attributes:
        names: names of the columns that are read.
        blank: all names in the order of the row, with the values of columns that are not read.
    """

    names: list[str]
    blank: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SingleRows(Compiled[KeyReader]):
    """A reader of single rows by key, by the index on ``on``."""

    columns: Projected
    on: On


@dataclass(frozen=True, slots=True)
class RowsOfFile(Compiled["_core.PointReader"]):
    """A reader of single rows of one file among many.

    Attributes:
        deleted: rows that it does not find.
        form: how rows are returned, if not under the names of ``columns``.
    """

    columns: Projected
    on: On
    deleted: _core.RowBitmap | None = None
    form: RowForm | None = None


@dataclass(frozen=True, slots=True)
class Ranges(Compiled[RangeReader]):
    """A reader of ranges and prefixes, by the ordered index on ``on``."""

    columns: Projected
    on: On


@dataclass(frozen=True, slots=True)
class KeyIndex(Compiled[tuple["_core.Index", tuple[SortKey, ...]]]):
    """The core's index on some columns, and the sort keys of these columns in it."""

    names: tuple[ColumnName, ...]


@dataclass(frozen=True, slots=True)
class AsofIndex(Compiled[tuple["_core.Index", tuple[SortKey, ...], tuple[int, ...] | None]]):
    """The core's index for an as-of search: its sort keys of ``by`` and ``on``, and the path of
    ``known`` in the file.
    """

    by: tuple[ColumnName, ...]
    on: ColumnName
    known: ColumnName | None


@dataclass(frozen=True, slots=True)
class ColumnReader(Compiled["_core.Projection"]):
    """The core's reader of some columns."""

    columns: Projected


@dataclass(frozen=True, slots=True)
class FileScan(Compiled["_core.ScanPart"]):
    """The core's part of a scan: the rows of one file that pass, and some of their columns."""

    where: Where
    columns: Projected
