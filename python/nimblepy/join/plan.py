"""Plans an index join: checks names and types, and determines the columns of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Required, TypeAlias, TypedDict, get_args

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.expr.filter import BoundText, Filter, Parameters, parse_filter
from nimblepy.rows.arguments import column_names
from nimblepy.rows.source import RowSource
from nimblepy.schema.columns import key_name, resolve_column
from nimblepy.schema.key_values import comparable
from nimblepy.schema.kinds import family, value_type, widens
from nimblepy.schema.names import ColumnName

How: TypeAlias = Literal["inner", "left", "semi", "anti"]
HOWS: tuple[str, ...] = get_args(How)


# For each build column, the probe columns of its lower and upper bound; None means no bound.
Ranges: TypeAlias = Mapping[str, tuple[str | None, str | None]]


class JoinKeywords(TypedDict, total=False):
    """Keyword arguments of ``index_join``, which documents them."""

    on: Required[str | Sequence[str] | Mapping[str, ColumnName]]
    how: How
    columns: Sequence[str] | None
    condition: pc.Expression | str | None
    params: Parameters
    suffix: str
    null_equals: bool
    between: Ranges | None


@dataclass(frozen=True, slots=True)
class Between:
    """The condition that a build column is between two probe columns, inclusive.

    Attributes:
        column: the build column.
        lower, upper: the probe columns; ``None`` means no bound on that side.
        by_index: whether the column follows the equality columns in the cluster key.
    """

    column: str
    lower: str | None
    upper: str | None
    by_index: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """An index join with checked names and types.

    Attributes:
        how: ``inner``, ``left``, ``semi`` or ``anti``.
        probe_keys, build_keys: the equality columns of both sides, pairwise.
        between: range conditions; the index answers at most one of them.
        output: (build column, name in the result), in result order.
        residual: (build column, name in ``condition``) for columns that the condition needs.
        condition: an additional condition on joined rows, over probe columns and ``residual``.
        nan_greatest: whether NaN is larger than all numbers in ranges, as in Spark.
        schema: schema of the result.
    """

    how: str
    probe_keys: tuple[str, ...]
    build_keys: tuple[ColumnName, ...]
    between: tuple[Between, ...]
    output: tuple[tuple[str, str], ...]
    residual: tuple[tuple[str, str], ...]
    condition: Filter | None
    null_equals: bool
    nan_greatest: bool
    schema: pa.Schema

    @property
    def indexed_between(self) -> Between | None:
        return next((item for item in self.between if item.by_index), None)

    @property
    def residual_betweens(self) -> tuple[Between, ...]:
        return tuple(item for item in self.between if not item.by_index)

    @property
    def reads(self) -> tuple[str, ...]:
        """Build columns that the join reads."""
        return tuple(dict.fromkeys(name for name, _ in (*self.output, *self.residual)))

    @property
    def has_residual(self) -> bool:
        """Whether rows that the index finds must still be tested."""
        return self.condition is not None or bool(self.residual_betweens)


def plan_join(
    probe: pa.Schema,
    build: RowSource,
    *,
    on: Any,
    how: str,
    columns: Sequence[str] | None,
    condition: pc.Expression | str | BoundText | None,
    suffix: str = "",
    prefix: str | None = None,
    null_equals: bool,
    between: Ranges | None,
    nan_greatest: bool = False,
) -> JoinPlan:
    """Checks every name and type of a join.

    Args:
        suffix: appended to names that both sides have.
        prefix: put before every name of the build side, instead of a suffix.
        nan_greatest: NaN equals itself and is larger than all numbers in ranges, as in SQL text.

    Raises:
        InvalidArgumentError: a column is unknown or ambiguous, types cannot be compared, ``how`` is
            unknown, or names clash even with the suffix.
        IndexUnavailableError: the build side has no index on these columns.
    """
    if between is not None and not (
        isinstance(between, Mapping)
        and all(
            isinstance(ends, (tuple, list))
            and len(ends) == 2
            and all(end is None or isinstance(end, str) for end in ends)
            for ends in between.values()
        )
    ):
        raise InvalidArgumentError(
            f"between: expected {{build column: (probe column or None, probe column or None)}}, "
            f"got {between!r}"
        )
    if how not in HOWS:
        hint = "; swap the sides and ask for left" if how == "right" else ""
        raise InvalidArgumentError(f"how: expected one of {', '.join(HOWS)}, got {how!r}{hint}")
    pairs = join_pairs(on, between)
    for probe_name, build_name in pairs:
        check_comparable(probe, build.schema, probe_name, build_name)
    keys = (resolve_column(build.schema, b) for _, b in pairs)
    build_keys = tuple(key_name(build.schema, column) for column in keys)
    ranges = _betweens(probe, build, build_keys, between or {})
    if not build_keys and not any(item.by_index for item in ranges):
        raise IndexUnavailableError(
            "on: without equality columns, `between` must be on the first column of the cluster key"
        )

    def shown(name: str) -> str:
        if prefix is not None:
            return prefix + name
        return name + suffix if name in probe.names else name

    output = joined_columns(probe.names, build.schema, build_keys, columns, shown, how)
    parsed, residual = _residual(probe, build.schema, condition, shown, ranges)
    return JoinPlan(
        how=how,
        probe_keys=tuple(p for p, _ in pairs),
        build_keys=build_keys,
        between=ranges,
        output=output,
        residual=residual,
        condition=parsed,
        null_equals=null_equals,
        nan_greatest=nan_greatest,
        schema=result_schema(probe, build.schema, output, how),
    )


def join_pairs(on: Any, between: Any) -> list[tuple[str, ColumnName]]:
    """Returns (probe column, build column) for every pair of columns that must be equal."""
    if isinstance(on, str):
        return [(on, on)]
    if isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, Sequence):
        pairs = [(name, name) for name in on]
    else:
        raise InvalidArgumentError(
            f"on: expected a column, a list of columns or {{probe: build}}, got {on!r}"
        )
    if not all(isinstance(p, str) and isinstance(b, (str, tuple)) for p, b in pairs):
        raise InvalidArgumentError(f"on: expected names of columns, got {on!r}")
    if not pairs and not between:
        raise InvalidArgumentError("on: no column given")
    if len({b for _, b in pairs}) != len(pairs):
        raise InvalidArgumentError(f"on: a column occurs twice: {on!r}")
    return pairs


def check_comparable(probe: pa.Schema, build: pa.Schema, left: str, right: ColumnName) -> None:
    """Raises InvalidArgumentError if a column does not exist or the types cannot be compared."""
    probe_type = probe_column(probe, left).type
    build_type = resolve_column(build, right).type
    if not comparable(probe_type, build_type):
        raise InvalidArgumentError(
            f"probe column {left!r} is {probe_type}, which cannot be compared with column "
            f"{right!r}, which is {build_type}; cast the probe column"
        )


def probe_column(probe: pa.Schema, name: str) -> pa.Field:
    """Returns the probe's column with that name.

    Raises:
        InvalidArgumentError: no column, or more than one, has the name.
    """
    positions = probe.get_all_field_indices(name)
    if len(positions) != 1:
        problem = "no" if not positions else "more than one"
        raise InvalidArgumentError(
            f"probe: {problem} column {name!r}; it has {', '.join(map(repr, probe.names))}"
        )
    return probe.field(positions[0])


def _betweens(
    probe: pa.Schema,
    build: RowSource,
    build_keys: tuple[ColumnName, ...],
    between: Ranges,
) -> tuple[Between, ...]:
    cluster = [key.column for key in build.cluster_by]
    leading = set(cluster[: len(build_keys)]) == set(build_keys)
    following = cluster[len(build_keys)] if leading and len(cluster) > len(build_keys) else None
    out = []
    for column, bounds in between.items():
        if isinstance(bounds, str) or len(tuple(bounds)) != 2:
            raise InvalidArgumentError(
                f"between: expected {{build column: (lower, upper)}} of probe columns, "
                f"got {column!r}: {bounds!r}"
            )
        lower, upper = bounds
        if lower is None and upper is None:
            raise InvalidArgumentError(
                f"between: {column!r} has no bound; add a bound, or remove it"
            )
        build_type = value_type(resolve_column(build.schema, column).type)
        by_index = column == following
        if upper is None and family(build_type) in ("text", "none"):
            by_index = False  # text has no maximum that could be the upper bound
        for bound in (lower, upper):
            if bound is None:
                continue
            check_comparable(probe, build.schema, bound, column)
            by_index &= widens(value_type(probe_column(probe, bound).type), build_type)
        out.append(Between(column, lower, upper, by_index=by_index))
    return tuple(out)


def joined_columns(
    probe_names: Sequence[str],
    build: pa.Schema,
    build_keys: Sequence[ColumnName],
    columns: Sequence[str] | None,
    shown_as: Callable[[str], str],
    how: str,
) -> tuple[tuple[str, str], ...]:
    """Returns (build column, name in the result) for every column that the join adds."""
    names = column_names(columns)
    if how in ("semi", "anti"):
        return ()
    # The probe side already has the equality columns.
    added = [n for n in build.names if n not in build_keys] if names is None else names
    output: list[tuple[str, str]] = []
    for name in added:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"columns: expected names, got the path {name!r}")
        resolve_column(build, name)
        output.append((name, shown_as(name)))
    counts = Counter([*probe_names, *(shown for _, shown in output)])
    clashes = [shown for _, shown in output if counts[shown] > 1]
    if clashes:
        raise InvalidArgumentError(
            f"columns: {', '.join(map(repr, dict.fromkeys(clashes)))} would be in the result "
            "twice; choose other columns, or another suffix or prefix"
        )
    return tuple(output)


def _residual(
    probe: pa.Schema,
    build: pa.Schema,
    condition: pc.Expression | str | BoundText | None,
    shown_as: Callable[[str], str],
    ranges: Sequence[Between],
) -> tuple[Filter | None, tuple[tuple[str, str], ...]]:
    """Returns the parsed condition, and the build columns that it and the remaining ranges read."""
    residual_names = {item.column: item.column for item in ranges if not item.by_index}
    if condition is None:
        return None, tuple(residual_names.items())
    shown = {name: shown_as(name) for name in build.names}
    fields = [pa.field(new, build.field(old).type) for old, new in shown.items()]
    parsed = parse_filter(condition, pa.schema([*probe, *fields]))
    used = {path[0] for path in parsed.columns}
    needed = {old: new for old, new in shown.items() if new in used and new not in probe.names}
    return parsed, tuple({**residual_names, **needed}.items())


def result_schema(
    probe: pa.Schema, build: pa.Schema, output: Sequence[tuple[str, str]], how: str
) -> pa.Schema:
    """Returns the schema of the result: the probe's columns, then the columns of ``output``."""
    fields = list(probe)
    for name, shown in output:
        column = resolve_column(build, name)
        nullable = how == "left" or len(column.path) > 1 or build.field(column.path[0]).nullable
        fields.append(pa.field(shown, column.type, nullable=nullable))
    return pa.schema(fields)
