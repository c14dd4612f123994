"""Which index of a file answers a question about some columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey

if TYPE_CHECKING:
    from nimblepy.file.handle import FileBase

CLUSTER = -1


@dataclass(frozen=True, slots=True)
class Index:
    """An index of an open file.

    Attributes:
        number: place among the secondary indexes; :data:`CLUSTER` is the cluster index.
        kind: ``"cluster"``, ``"sorted"`` or ``"hash"``.
        keys: its columns in key order.
        types: their types.
    """

    number: int
    kind: str
    keys: tuple[SortKey, ...]
    types: tuple[pa.DataType, ...]

    @property
    def ordered(self) -> bool:
        """It has bounds and prefixes; a hash answers whole keys only."""
        return self.kind != "hash"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.keys)

    def __str__(self) -> str:
        return f"{self.kind} ({', '.join(str(key) for key in self.keys)})"


def indexes_of(core: Any, schema: pa.Schema, cluster_by: tuple[SortKey, ...]) -> tuple[Index, ...]:
    """All indexes of a core file, the cluster index first."""

    def make(number: int, kind: str, keys: tuple[SortKey, ...]) -> Index:
        types = tuple(resolve_column(schema, key.column).type for key in keys)
        return Index(number, kind, keys, types)

    found = [make(CLUSTER, "cluster", cluster_by)] if cluster_by else []
    for number, (kind, columns, *_) in enumerate(core.indexes):
        keys = tuple(
            SortKey(name, descending=descending, nulls_first=nulls_first)
            for name, descending, nulls_first in columns
        )
        found.append(make(number, kind, keys))
    return tuple(found)


def choose(file: FileBase, on: str | Sequence[str] | None, *, ordered: bool = False) -> Index:
    """The cheapest index on the columns ``on``; ``None`` is the cluster key.

    The cluster index comes first, since the rows of its keys are neighbours; then a hash index on
    just these columns; then the sorted index with the fewest columns that begins with them.

    Args:
        ordered: it must have bounds, and its first columns must be ``on`` in this order.

    Raises:
        IndexUnavailableError: there is none; the message names those that exist.
        InvalidArgumentError: a column that the file does not have.

    Cost: a dictionary lookup from the second time on.
    """
    wanted = None if on is None else (on,) if isinstance(on, str) else tuple(on)
    known = file._chosen.get((wanted, ordered))
    if known is None:
        known = file._chosen[wanted, ordered] = _choose(file, wanted, ordered)
    return known


def _choose(file: FileBase, wanted: tuple[str, ...] | None, ordered: bool) -> Index:
    indexes = file._indexes
    if wanted is None:
        if indexes and indexes[0].number == CLUSTER:
            return indexes[0]
        if not indexes:
            raise IndexUnavailableError("this file has no index; scan with a filter instead")
        raise IndexUnavailableError(
            f"this file has no cluster key; pass on= with the columns of one of {names_of(indexes)}"
        )
    for name in wanted:
        resolve_column(file._schema, name)
    if not wanted or len(set(wanted)) != len(wanted):
        raise InvalidArgumentError(f"on: expected different columns, got {list(wanted)}")
    able = [index for index in indexes if _answers(index, wanted)]
    if ordered:
        in_order = [i for i in able if i.ordered and i.names[: len(wanted)] == wanted]
        if not in_order and any(i.ordered for i in able):
            names = ", ".join(next(i for i in able if i.ordered).names)
            raise IndexUnavailableError(f"bounds need the columns in key order: {names}")
        able = in_order
    if not able:
        raise IndexUnavailableError(
            f"no index on ({', '.join(map(str, wanted))})"
            + (" with an order" if ordered else "")
            + f"; indexes of this file: {names_of(indexes)}"
        )
    rank = {"cluster": 0, "hash": 1, "sorted": 2}
    return min(able, key=lambda i: (rank[i.kind], len(i.keys), i.number))


def _answers(index: Index, wanted: tuple[str, ...]) -> bool:
    leading = index.names[: len(wanted)]
    whole = len(wanted) == len(index.keys)
    return sorted(leading) == sorted(wanted) and (index.ordered or whole)


def names_of(indexes: Sequence[Index]) -> str:
    """The indexes for a message."""
    return ", ".join(map(str, indexes)) or "none"
