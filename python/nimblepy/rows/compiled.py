"""Compiled readers: fast paths in which the core answers for a source.

A caller describes the reader that it needs, and asks :meth:`RowSource.compiled` for it once. The
source returns the reader, or ``None`` if the core cannot read its rows directly. A reader returns
``NotImplemented`` for arguments that it does not handle. In both cases the caller uses the general
path, which is implemented in Python.
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
        """Returns a getter of the nearest row before or after a value of the last key column.

        Args:
            exclusive: whether rows with an equal value do not match.
        """
        ...


class RangeReader(Protocol):
    """Reads rows in key order. Arguments are those of :meth:`nimblepy.File.range`."""

    def range(
        self, lower: object, upper: object, inclusive: object, limit: object, reverse: object
    ) -> Any:
        """Returns a table. Any other result means that the general path must answer."""
        ...

    def prefix(self, prefix: object, limit: object, reverse: object) -> Any:
        """Returns a table. Any other result means that the general path must answer."""
        ...


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of the dicts that a reader returns for rows.

    Attributes:
        names: the names to give to the columns that are read.
        blank: a dict with all names in the order of the row. It has the constant values of the
            columns that are not read.
    """

    names: list[str]
    blank: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SingleRows(Compiled[KeyReader]):
    """Describes a reader of single rows by key, which uses the index on ``on``."""

    columns: Projected
    on: On


@dataclass(frozen=True, slots=True)
class RowsOfFile(Compiled["_core.PointReader"]):
    """Describes a reader of single rows by key in one file of many.

    Attributes:
        deleted: rows of the file that are deleted. The reader does not find them.
        form: the form of returned rows; ``None`` if they have the names of ``columns``.
    """

    columns: Projected
    on: On
    deleted: _core.RowBitmap | None = None
    form: RowForm | None = None


@dataclass(frozen=True, slots=True)
class Ranges(Compiled[RangeReader]):
    """Describes a reader of ranges and prefixes, which uses the ordered index on ``on``."""

    columns: Projected
    on: On


@dataclass(frozen=True, slots=True)
class KeyIndex(Compiled[tuple["_core.Index", tuple[SortKey, ...]]]):
    """Describes the core's index on the columns ``names``, with its sort keys of these columns."""

    names: tuple[ColumnName, ...]


@dataclass(frozen=True, slots=True)
class AsofIndex(Compiled[tuple["_core.Index", tuple[SortKey, ...], tuple[int, ...] | None]]):
    """Describes the core's index for an as-of search.

    The reader is the index, its sort keys of ``by`` and ``on``, and the path of ``known`` in the
    file.
    """

    by: tuple[ColumnName, ...]
    on: ColumnName
    known: ColumnName | None


@dataclass(frozen=True, slots=True)
class NearestReader(Compiled["_core.NearestReader"]):
    """Describes a reader of the rows nearest to a query, among all rows.

    Attributes:
        columns: the columns of the result; not empty.
        vectors: the column of vectors.
        width: the length of the vectors.
        metric: the metric of the vector indexes to use.
        exact: whether the search compares all rows and does not use indexes.
    """

    columns: Projected
    vectors: ColumnName
    width: int
    metric: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ColumnReader(Compiled["_core.Projection"]):
    """Describes the core's reader of the given columns."""

    columns: Projected


@dataclass(frozen=True, slots=True)
class FileScan(Compiled["_core.ScanPart"]):
    """Describes the core's scan of one file, for the given columns of the rows that pass."""

    where: Where
    columns: Projected
