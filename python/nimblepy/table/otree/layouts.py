"""Defines the public layout classes, and stores layouts in table properties."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import FIELD_ID, field_id_at
from nimblepy.schema.names import ColumnName, show_names
from nimblepy.schema.types import KeyColumn, SortKey, as_sort_keys

LAYOUT = "nimblepy.layout"
Transform = Literal["quantiles", "linear", "hash", "identity"]

MOST_COLUMNS = 8
_CUBE_ROWS = 250_000
_LEAST_CUBE_ROWS = 16

# Data files of an OTree have this additional column of weights. It is not in the table's schema, so
# readers of the table do not return it.
WEIGHT = "_nimblepy_weight"
WEIGHT_ID = 2_147_483_001
WEIGHT_FIELD = pa.field(
    WEIGHT, pa.int32(), nullable=False, metadata={FIELD_ID: str(WEIGHT_ID).encode()}
)


@dataclass(frozen=True, slots=True, init=False)
class Sorted:
    """Sorts the rows of each commit by the given columns, across and within its files.

    Filters on the first column read few files. So do filters that fix the first column and restrict
    the next.

    Args:
        columns: a name or :class:`nimblepy.SortKey`, or a list of them.

    Raises:
        InvalidArgumentError: there is no column, or a column is given twice.
    """

    columns: tuple[SortKey, ...]

    def __init__(self, columns: str | SortKey | Sequence[KeyColumn]) -> None:
        keys = as_sort_keys(columns)
        if not keys:
            raise InvalidArgumentError("Sorted: needs at least one column, got none")
        object.__setattr__(self, "columns", keys)

    @property
    def names(self) -> tuple[ColumnName, ...]:
        """The columns without their directions."""
        return tuple(key.column for key in self.columns)

    def __repr__(self) -> str:
        plain = [key.column if key == SortKey(key.column) else key for key in self.columns]
        return f"Sorted({plain!r})"


@dataclass(frozen=True, slots=True, init=False)
class ZOrder:
    """Orders the rows of each commit along a Z-order curve through the ranks of several columns.

    Filters on any of the columns read fewer files; filters on all of them read few files.

    Args:
        columns: one to eight names.

    Raises:
        InvalidArgumentError: there is no column, there are too many, or one is given twice.
    """

    columns: tuple[ColumnName, ...]

    def __init__(self, columns: str | Sequence[ColumnName]) -> None:
        object.__setattr__(self, "columns", _names("ZOrder", columns))

    @property
    def names(self) -> tuple[ColumnName, ...]:
        """The columns."""
        return self.columns

    def __repr__(self) -> str:
        return f"ZOrder({list(self.columns)!r})"


@dataclass(frozen=True, slots=True, init=False)
class OTree:
    """Groups rows in a tree of cubes. Dense cubes are split; inner cubes hold samples of their box.

    Filters on any of the columns read fewer files, as with :class:`ZOrder`. ``table.sample`` reads
    little more than the rows that it returns. See docs/reference/layouts.md.

    Args:
        columns: one to eight names.
        cube_rows: rows of an inner cube, and the maximum rows of a leaf.
        transforms: how values become coordinates, by column: ``"quantiles"`` by rank, the default
            for types with an order; ``"linear"`` between the minimum and the maximum; ``"hash"``,
            the default for nested types; ``"identity"`` for numbers from 0 to 1.

    Raises:
        InvalidArgumentError: there is no column, there are too many, or one is given twice;
            ``cube_rows`` is below 16; ``transforms`` names another column or an unknown transform.
    """

    columns: tuple[ColumnName, ...]
    cube_rows: int
    transforms: Mapping[ColumnName, Transform]

    def __init__(
        self,
        columns: str | Sequence[ColumnName],
        *,
        cube_rows: int = _CUBE_ROWS,
        transforms: Mapping[ColumnName, Transform] | None = None,
    ) -> None:
        names = _names("OTree", columns)
        if isinstance(cube_rows, bool) or not isinstance(cube_rows, int):
            raise InvalidArgumentError(f"OTree: cube_rows must be a number, got {cube_rows!r}")
        if cube_rows < _LEAST_CUBE_ROWS:
            raise InvalidArgumentError(
                f"OTree: cube_rows must be at least {_LEAST_CUBE_ROWS}, got {cube_rows}"
            )
        if not isinstance(transforms, Mapping | None):
            raise InvalidArgumentError(f"OTree: transforms must be a dict, got {transforms!r}")
        given = dict(transforms or {})
        for name, transform in given.items():
            if name not in names:
                raise InvalidArgumentError(
                    f"OTree: transforms has {name!r}; expected one of {show_names(names)}"
                )
            if transform not in get_args(Transform):
                expected = ", ".join(map(repr, get_args(Transform)))
                raise InvalidArgumentError(
                    f"OTree: the transform of {name!r} must be one of {expected}, got {transform!r}"
                )
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "cube_rows", cube_rows)
        object.__setattr__(self, "transforms", given)

    @property
    def names(self) -> tuple[ColumnName, ...]:
        """The columns."""
        return self.columns

    def __hash__(self) -> int:
        return hash((self.columns, self.cube_rows, frozenset(self.transforms.items())))

    def __repr__(self) -> str:
        more = f", transforms={dict(self.transforms)!r}" if self.transforms else ""
        return f"OTree({list(self.columns)!r}, cube_rows={self.cube_rows}{more})"


Layout: TypeAlias = Sorted | ZOrder | OTree


def _names(owner: str, columns: str | Sequence[ColumnName]) -> tuple[ColumnName, ...]:
    given = (columns,) if isinstance(columns, str) else columns
    if not isinstance(given, Sequence):
        raise InvalidArgumentError(f"{owner}: expected a list of column names, got {columns!r}")
    for name in given:
        if isinstance(name, SortKey):
            raise InvalidArgumentError(
                f"{owner}: expected a column name, got a SortKey; pass the name {name.column!r}"
            )
        if not isinstance(name, (str, tuple)) or not name:
            raise InvalidArgumentError(f"{owner}: expected a column name, got {name!r}")
    names = tuple(given)
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise InvalidArgumentError(
            f"{owner}: takes one to {MOST_COLUMNS} columns, got {len(names)}"
        )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidArgumentError(f"{owner}: column {repeated!r} is given more than once")
    return names


def check_layout(layout: object, schema: pa.Schema, *, partitioned: bool) -> None:
    """Checks that ``layout`` is a layout and fits the columns of the table.

    Raises:
        InvalidArgumentError: ``layout`` is not a layout, does not fit, or names a missing column.
    """
    if not isinstance(layout, Sorted | ZOrder | OTree):
        raise InvalidArgumentError(
            f"layout: expected nb.Sorted, nb.ZOrder or nb.OTree, got {layout!r}"
        )
    if partitioned:
        raise InvalidArgumentError(
            f"layout: {layout!r} cannot be combined with partition_by, and the table is partitioned"
        )
    for name in layout.names:
        kind = resolve_column(schema, name).type
        if isinstance(layout, OTree):
            _check_transform(name, kind, transform_of(layout, name, kind))
        elif pt.is_nested(kind):
            raise InvalidArgumentError(f"layout: column {name!r} is {kind}, which has no order")
    if isinstance(layout, OTree) and WEIGHT in schema.names:
        raise InvalidArgumentError(
            f"layout: column name {WEIGHT!r} is reserved in tables with an OTree; rename the column"
        )


def transform_of(layout: OTree, name: ColumnName, kind: pa.DataType) -> Transform:
    """Returns the transform from values of a column to coordinates."""
    return layout.transforms.get(name, "hash" if pt.is_nested(kind) else "quantiles")


def _check_transform(name: ColumnName, kind: pa.DataType, transform: Transform) -> None:
    if transform == "identity" and not (pt.is_floating(kind) or pt.is_decimal(kind)):
        raise InvalidArgumentError(
            f"layout: transform 'identity' of column {name!r} ({kind}) is not possible; it needs "
            f"a float or decimal column with numbers from 0 to 1"
        )
    if transform != "hash" and pt.is_nested(kind):
        raise InvalidArgumentError(
            f"layout: column {name!r} is {kind}, which has no order; use the transform 'hash'"
        )


def layout_property(schema: pa.Schema, layout: Layout | None) -> dict[str, str]:
    """Returns the table property for a layout, with field ids for columns; empty for no layout."""

    def number(name: ColumnName) -> int:
        return field_id_at(schema, resolve_column(schema, name).path)

    if layout is None:
        return {LAYOUT: ""}
    kept: dict[str, Any] = {"columns": [number(name) for name in layout.names]}
    if isinstance(layout, Sorted):
        kept["kind"] = "sorted"
        kept["orders"] = [[key.descending, key.nulls_first] for key in layout.columns]
    elif isinstance(layout, ZOrder):
        kept["kind"] = "zorder"
    else:
        kept["kind"] = "otree"
        kept["cube_rows"] = layout.cube_rows
        kept["transforms"] = [layout.transforms.get(name) for name in layout.columns]
    return {LAYOUT: json.dumps(kept)}


def layout_ids(properties: Mapping[str, str]) -> set[int]:
    """Returns the field ids of the columns in a table's layout."""
    text = properties.get(LAYOUT)
    return set(json.loads(text)["columns"]) if text else set()


def layout_of(
    properties: Mapping[str, str], column_name: Callable[[int], str | None]
) -> Layout | None:
    """Returns the layout in a table's properties; ``None`` if one of its columns was dropped."""
    text = properties.get(LAYOUT)
    if not text:
        return None
    kept = json.loads(text)
    names = [name for number in kept["columns"] if (name := column_name(number)) is not None]
    if len(names) < len(kept["columns"]):
        return None
    if kept["kind"] == "sorted":
        return Sorted(
            [
                SortKey(name, descending=down, nulls_first=first)
                for name, (down, first) in zip(names, kept["orders"], strict=True)
            ]
        )
    if kept["kind"] == "zorder":
        return ZOrder(names)
    transforms: dict[ColumnName, Transform] = {
        name: transform
        for name, transform in zip(names, kept["transforms"], strict=True)
        if transform is not None
    }
    return OTree(names, cube_rows=kept["cube_rows"], transforms=transforms)
