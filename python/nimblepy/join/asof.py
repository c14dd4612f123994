"""As-of joins: checks their arguments, and finds the rows for a batch of probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Required, TypeAlias, TypedDict, get_args

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.join.distance import Distances, Metric, exact_tolerance, metric
from nimblepy.join.plan import (
    JoinPlan,
    check_comparable,
    join_pairs,
    joined_columns,
    probe_column,
    result_schema,
)
from nimblepy.rows.arguments import Projected, check_one
from nimblepy.rows.asof import AsofKeys, Mask, NearestValues, nearest_values
from nimblepy.rows.compiled import Getter, SingleRows
from nimblepy.rows.gather import gather_array
from nimblepy.rows.keys import KeyColumns, key_columns
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import Names, RowSource
from nimblepy.schema.columns import key_name, resolve_column
from nimblepy.schema.key_values import exact_key, key_array, place_key
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.protocols import Distance
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import exact_value, is_null

Direction: TypeAlias = Literal["backward", "forward", "nearest"]
AsofHow: TypeAlias = Literal["left", "inner"]
OnePair: TypeAlias = str | Mapping[str, ColumnName]
Pairs: TypeAlias = str | Sequence[str] | Mapping[str, ColumnName] | None


class AsofKeywords(TypedDict, total=False):
    """Keyword arguments of ``asof_join``, which documents them. See plan_asof for the defaults."""

    on: Required[OnePair]
    by: Pairs
    direction: Direction
    tolerance: Any
    allow_exact_matches: bool
    how: AsofHow
    columns: Sequence[str] | None
    suffix: str
    known_at: Mapping[str, ColumnName] | None


class Probe(Protocol):
    """Probe values that are compared with an ordered column of the source."""

    def __len__(self) -> int: ...

    def nearest(self, *, below: bool) -> NearestValues:
        """Returns the values in the column's type, or their neighbours on one side in this type."""
        ...

    def distances(self, values: pa.Array, probes: Positions, distance: Metric) -> Distances:
        """Returns the distance of each value to the probe value at the position ``probes``."""
        ...


@dataclass(frozen=True, slots=True)
class _ColumnProbe:
    """A probe column as a Probe.

    Attributes:
        type: the type of the source column that the probe column is compared with.
    """

    array: pa.Array
    type: pa.DataType

    def __len__(self) -> int:
        return len(self.array)

    def nearest(self, *, below: bool) -> NearestValues:
        return nearest_values(self.array, self.type, below=below)

    def distances(self, values: pa.Array, probes: Positions, distance: Metric) -> Distances:
        own = gather_array(self.array, pa.array(probes))
        if pt.is_null(own.type):
            own = pa.nulls(len(own), values.type)
        return distance.between(own, values)


@dataclass(frozen=True, slots=True)
class AsofRule:
    """The rule by which an as-of search selects the row of a key.

    Attributes:
        by: columns of the source that must be equal.
        on: the ordered column.
        known: if set, a column that must not be null or greater than the key's limit.
        types: the types of the columns ``by``, ``on`` and ``known``, in this order.
        metric: the distance between values of ``on``; ``None`` if distances are not needed.
        tolerance: the greatest distance of a match, in the unit of ``metric``.
    """

    by: tuple[ColumnName, ...]
    on: ColumnName
    known: ColumnName | None
    types: tuple[pa.DataType, ...]
    direction: Direction
    allow_exact_matches: bool
    metric: Metric | None = None
    tolerance: Any = None

    def find(
        self,
        source: RowSource,
        values: Sequence[pa.Array],
        at: Probe,
        limits: Probe | None,
    ) -> RowSet:
        """Returns at most one row for each key.

        Args:
            values: the keys' values of ``by``, in types that are comparable with the source's.
            at: the keys' values of ``on``.
            limits: the keys' limits for ``known``, if any.
        """
        usable = np.ones(len(at), dtype=np.bool_)
        typed = []
        for array, kind in zip(values, self.types, strict=False):
            exact, bad = key_array(array, kind)
            if bad is not None:
                usable &= ~bad
            typed.append(exact)
        limit_values = None
        if limits is not None:
            below = limits.nearest(below=True)
            limit_values = below.values
            if below.usable is not None:
                usable &= below.usable
        directions = (
            (True, False) if self.direction == "nearest" else (self.direction == "backward",)
        )
        parts = []
        for backward in directions:
            nearest = at.nearest(below=backward)
            keys = AsofKeys(
                by=self.by,
                on=self.on,
                values=tuple(typed),
                at=nearest.values,
                backward=backward,
                usable=_both(usable, nearest.usable),
                exclusive=self._exclusive(len(at), nearest.exact),
                known=self.known,
                limits=limit_values,
            )
            rows = source.find_asof(keys)
            parts.append(_NearestRows(rows, self._distances(source, rows, at)))
        nearest_rows = parts[0] if len(parts) == 1 else _closer(*parts)
        if self.tolerance is None or nearest_rows.distances is None:
            return nearest_rows.rows
        return nearest_rows.rows.entries(nearest_rows.distances <= self.tolerance)

    def _exclusive(self, count: int, exact: Mask | None) -> Mask | None:
        if self.allow_exact_matches:
            return None
        return np.ones(count, dtype=np.bool_) if exact is None else exact

    def _distances(self, source: RowSource, rows: RowSet, at: Probe) -> Distances | None:
        if self.metric is None:
            return None
        assert rows.probe is not None
        values = source.read(rows, (self.on,)).column(0).combine_chunks()
        return at.distances(values, rows.probe, self.metric)


class _NearestRows(NamedTuple):
    """Rows, with the distance of each row to its probe."""

    rows: RowSet
    distances: Distances | None


def _both(usable: Mask, more: Mask | None) -> Mask | None:
    both = usable if more is None else usable & more
    return None if both.all() else both


def _closer(before: _NearestRows, after: _NearestRows) -> _NearestRows:
    """Returns the closer row of each probe; the row in ``before`` if the distances are equal."""
    assert before.distances is not None
    assert after.distances is not None
    assert before.rows.probe is not None
    assert after.rows.probe is not None
    probes = np.concatenate((before.rows.probe, after.rows.probe))
    distances = np.concatenate((before.distances, after.distances))
    is_after = np.repeat((0, 1), (len(before.rows.probe), len(after.rows.probe)))
    order = np.lexsort((is_after, distances, probes))
    probes = probes[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = probes[1:] != probes[:-1]
    chosen = order[first]
    return _NearestRows(RowSet.joined([before.rows, after.rows]).entries(chosen), distances[chosen])


# ------------------------------------------------------------------ joins


@dataclass(frozen=True, slots=True)
class AsofPlan:
    """An as-of join with checked names and types.

    Attributes:
        join: the columns of the result.
        probe_by, probe_on, probe_known: the probe columns for ``by``, ``on`` and ``known`` of the
            rule.
    """

    join: JoinPlan
    rule: AsofRule
    probe_by: tuple[str, ...]
    probe_on: str
    probe_known: str | None

    @property
    def probe_columns(self) -> tuple[str, ...]:
        """The probe columns that the search reads."""
        names = (*self.probe_by, self.probe_on)
        if self.probe_known is not None:
            names = (*names, self.probe_known)
        return tuple(dict.fromkeys(names))

    def find(self, source: RowSource, batch: pa.RecordBatch) -> RowSet:
        """Returns at most one row for each probe row of the batch."""
        types = self.rule.types
        limits = None
        if self.probe_known is not None:
            limits = _ColumnProbe(batch.column(self.probe_known), types[-1])
        at = _ColumnProbe(batch.column(self.probe_on), types[len(self.probe_by)])
        return self.rule.find(source, [batch.column(name) for name in self.probe_by], at, limits)


def plan_asof(
    probe: pa.Schema,
    source: RowSource,
    *,
    on: OnePair,
    by: Pairs = None,
    direction: Direction = "backward",
    tolerance: Distance | None = None,
    allow_exact_matches: bool = True,
    how: AsofHow = "left",
    columns: Sequence[str] | None = None,
    suffix: str = "_right",
    known_at: Mapping[str, ColumnName] | None = None,
) -> AsofPlan:
    """Checks every name and type of an as-of join.

    Raises:
        InvalidArgumentError, IndexUnavailableError: see :meth:`nimblepy.File.asof_join`.
    """
    if how not in get_args(AsofHow):
        raise InvalidArgumentError(f"how: expected 'left' or 'inner', got {how!r}")
    if not isinstance(suffix, str):
        raise InvalidArgumentError(f"suffix: expected text, got {suffix!r}")
    pairs = [] if by is None else _pairs("by", by)
    pairs.append(_one_pair("on", on))
    if known_at is not None:
        if not isinstance(known_at, Mapping):
            raise InvalidArgumentError(
                f"known_at: expected {{probe column: source column}}, got {known_at!r}"
            )
        pairs.append(_one_pair("known_at", known_at))
    for probe_name, name in pairs:
        check_comparable(probe, source.schema, probe_name, name)
    names = [key_name(source.schema, resolve_column(source.schema, name)) for _, name in pairs]
    width = len(pairs) - 1 - (known_at is not None)
    if len(set(names[: width + 1])) != width + 1:
        raise InvalidArgumentError(f"on, by: a column of the source occurs twice: {by!r}, {on!r}")
    probe_on = pairs[width][0]
    rule = asof_rule(
        source,
        names[:width],
        names[width],
        names[-1] if known_at is not None else None,
        probe_type=probe_column(probe, probe_on).type,
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=allow_exact_matches,
    )

    def shown(name: str) -> str:
        return name + suffix if name in probe.names else name

    build_keys = tuple(names[:width])
    output = joined_columns(probe.names, source.schema, build_keys, columns, shown, how)
    join = JoinPlan(
        how=how,
        probe_keys=tuple(name for name, _ in pairs[:width]),
        build_keys=build_keys,
        between=(),
        output=output,
        residual=(),
        condition=None,
        null_equals=False,
        nan_greatest=True,
        schema=result_schema(probe, source.schema, output, how),
    )
    probe_known = pairs[-1][0] if known_at is not None else None
    return AsofPlan(join, rule, join.probe_keys, probe_on, probe_known)


def asof_rule(
    source: RowSource,
    by: Sequence[ColumnName],
    on: ColumnName,
    known: ColumnName | None,
    *,
    probe_type: pa.DataType | None,
    direction: Direction,
    tolerance: Any,
    allow_exact_matches: bool,
) -> AsofRule:
    """Returns the rule of an as-of search, after checking that the source supports it.

    Args:
        probe_type: the type of the probe values for ``on``; ``None`` for the value of a caller.
    """
    _check_rule(direction, allow_exact_matches)
    source.asof_keys(tuple(by), on)
    names = (*by, on) if known is None else (*by, on, known)
    types = tuple(resolve_column(source.schema, name).value_type for name in names)
    on_type = types[len(by)]
    distance = None
    if tolerance is not None or direction == "nearest":
        what = "tolerance" if tolerance is not None else "direction='nearest'"
        distance = metric(on_type if probe_type is None else probe_type, on_type, what)
    limit = exact_tolerance(tolerance, on_type)
    if limit is not None and distance is not None:
        limit = (distance.exact_limit if probe_type is None else distance.limit)(limit)
    return AsofRule(
        by=tuple(by),
        on=on,
        known=known,
        types=types,
        direction=direction,
        allow_exact_matches=allow_exact_matches,
        metric=distance,
        tolerance=limit,
    )


def _check_rule(direction: Any, allow_exact_matches: Any) -> None:
    if direction not in get_args(Direction):
        raise InvalidArgumentError(
            f"direction: expected one of {', '.join(map(repr, get_args(Direction)))}, "
            f"got {direction!r}"
        )
    if not isinstance(allow_exact_matches, bool):
        raise InvalidArgumentError(
            f"allow_exact_matches: expected True or False, got {allow_exact_matches!r}"
        )


def _pairs(argument: str, columns: Any) -> list[tuple[str, ColumnName]]:
    try:
        return join_pairs(columns, True)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace("on:", f"{argument}:", 1)) from None


def _one_pair(argument: str, column: Any) -> tuple[str, ColumnName]:
    if isinstance(column, str) or (isinstance(column, Mapping) and len(column) == 1):
        return _pairs(argument, column)[0]
    raise InvalidArgumentError(
        f"{argument}: expected one column, or {{probe column: source column}}, got {column!r}"
    )


# ------------------------------------------------------------------ single keys


def cluster_columns(source: RowSource) -> tuple[ColumnName, ...]:
    """Returns the columns of the cluster key.

    Raises:
        IndexUnavailableError: the rows do not have a cluster key.
    """
    keys = source.cluster_by
    if not keys:
        source.index_keys(None, ordered=False)  # raises, unless there is a primary key
        raise IndexUnavailableError("there is no cluster key; pass on=")
    return tuple(key.column for key in keys)


def asof_columns(source: RowSource, key: Any, on: Any) -> tuple[ColumnName, ...]:
    """Returns the columns of a key's values. The last one is the ordered column.

    Raises:
        InvalidArgumentError: the key has no values, or too few values.
        IndexUnavailableError: ``on`` is ``None`` and there is no cluster key.
    """
    names: Names = source.on_columns(on)
    is_default = names is None
    if names is None:
        names = cluster_columns(source)
    shown = [output_name(name) for name in names]
    check_one(key, shown)
    if is_default and isinstance(key, (tuple, list, Mapping)) and len(key) < len(names):
        raise InvalidArgumentError(
            f"key {key!r}: expected values for the cluster key ({', '.join(shown)}); to search by "
            "fewer columns, name them in on="
        )
    return names


def find_one(
    source: RowSource,
    key: Any,
    names: Sequence[ColumnName],
    *,
    direction: Direction,
    tolerance: Any,
    allow_exact_matches: bool,
    known_at: tuple[ColumnName, Any] | None,
) -> RowSet:
    """Returns the row of one key; an empty set if no row matches."""
    known_column: ColumnName | None = None
    if known_at is not None:
        if not isinstance(known_at, (tuple, list)) or len(known_at) != 2:
            raise InvalidArgumentError(f"known_at: expected (column, value), got {known_at!r}")
        known_column = key_name(source.schema, resolve_column(source.schema, known_at[0]))
    rule = asof_rule(
        source,
        names[:-1],
        names[-1],
        known_column,
        probe_type=None,
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=allow_exact_matches,
    )
    columns = key_columns(source.schema, [SortKey(name) for name in names])
    values = [columns.read(i, value) for i, value in enumerate(_values_of(key, columns))]
    if any(map(is_null, values)):
        return NO_ROW
    typed: list[pa.Array] = []
    for i, value in enumerate(values[:-1]):
        scalar, fits = exact_key(columns.names[i], columns.types[i], value)
        if scalar is None or not fits:
            return NO_ROW
        typed.append(pa.array([scalar], columns.types[i]))
    at = _LiteralProbe(columns.names[-1], columns.types[-1], values[-1])
    limit = None
    if known_at is not None and known_column is not None:
        limit_columns = key_columns(source.schema, [SortKey(known_column)])
        value = limit_columns.read(0, known_at[1])
        if is_null(value):
            return NO_ROW
        limit = _LiteralProbe(limit_columns.names[0], limit_columns.types[0], value)
    return rule.find(source, typed, at, limit)


def asof_getter(
    source: RowSource,
    columns: Projected,
    on: Names,
    direction: str,
    allow_exact_matches: bool,
) -> Getter:
    """Returns a compiled getter, or a getter that returns NotImplemented for every key."""
    _check_rule(direction, allow_exact_matches)
    if direction == "nearest":
        return _not_compiled
    names = cluster_columns(source) if on is None else on
    keys = source.index_keys(names, ordered=False)
    # A compiled reader can only search by all columns of its index.
    if len(keys) != len(names) or keys[-1].column != names[-1]:
        return _not_compiled
    reader = source.compiled(SingleRows(columns, names))
    if reader is None:
        return _not_compiled
    return reader.asof_getter(direction == "backward", not allow_exact_matches)


def _not_compiled(key: Any) -> Any:
    return NotImplemented


NO_ROW = RowSet(np.empty(0, dtype=np.uint64), None, np.empty(0, dtype=np.int64), 1)


class _LiteralProbe:
    """A single value that the caller passed, as a Probe."""

    def __init__(self, name: str, data_type: pa.DataType, value: Any) -> None:
        self._type = data_type
        self._value = value
        self._position = place_key(name, data_type, value)

    def __len__(self) -> int:
        return 1

    def nearest(self, *, below: bool) -> NearestValues:
        scalar, exact = self._position.exact, None
        if scalar is None:
            scalar = self._position.below if below else self._position.above
            exact = np.zeros(1, dtype=np.bool_)
        usable = np.zeros(1, dtype=np.bool_) if scalar is None else None
        null = pa.scalar(None, self._type)
        array = pa.array([null if scalar is None else scalar], self._type)
        return NearestValues(array, usable, exact)

    def distances(self, values: pa.Array, probes: Positions, distance: Metric) -> Distances:
        if self._position.exact is not None:
            own = pa.array([self._position.exact] * len(values), self._type)
            return distance.between(own, values)
        return distance.from_exact(exact_value(self._type, self._value), values)


def _values_of(key: Any, columns: KeyColumns) -> Sequence[Any]:
    if isinstance(key, Mapping):
        if set(key) != set(columns.names):
            raise InvalidArgumentError(
                f"key {key!r}: expected the columns {', '.join(columns.names)}"
            )
        return [key[name] for name in columns.names]
    values = key if isinstance(key, (tuple, list)) else (key,)
    if len(values) != len(columns.names):
        raise InvalidArgumentError(
            f"key {key!r}: {len(values)} values for the columns {', '.join(columns.names)}"
        )
    return values
