"""Estimates counts, sums and averages over a table from a sample of its rows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName

Kind = Literal["count", "sum", "avg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An aggregate that was estimated from a sample.

    Attributes:
        value: the estimate; NaN for an average over no rows.
        low, high: bounds of the confidence interval: it contains the true value with probability
            ``confidence``, if the sample is large enough for a normal approximation.
        rows: number of sampled rows with a value.
        fraction: the fraction of the rows that was sampled.
    """

    expression: str
    value: float
    low: float
    high: float
    confidence: float
    rows: int
    fraction: float

    def __str__(self) -> str:
        return (
            f"{self.expression} = {self.value:.6g}, from {self.low:.6g} to {self.high:.6g} "
            f"({self.confidence:.0%}; {self.rows:,} rows)"
        )


def parsed(expression: str, schema: pa.Schema) -> tuple[Kind, ColumnName | None]:
    """Parses ``"avg(price)"`` into an aggregate and a column; ``count(*)`` has the column ``None``.

    Raises:
        InvalidArgumentError: the text cannot be parsed, or the column is not numeric.
    """
    match = re.fullmatch(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*", str(expression or ""))
    if match is None or match[1].lower() not in ("count", "sum", "avg"):
        raise InvalidArgumentError(
            f"estimate: expected count(*), count(x), sum(x) or avg(x), got {expression!r}"
        )
    kind = cast(Kind, match[1].lower())
    if match[2] == "*":
        if kind != "count":
            raise InvalidArgumentError(f"estimate: {kind} needs a column, got {expression!r}")
        return kind, None
    quoted = re.fullmatch(r'"([^"]+)"', match[2])
    name: ColumnName = (quoted[1],) if quoted is not None else match[2]
    column = resolve_column(schema, name)
    numeric = pt.is_integer(column.type) or pt.is_floating(column.type)
    if kind != "count" and not (numeric or pt.is_decimal(column.type)):
        raise InvalidArgumentError(
            f"estimate: {kind} needs numbers, but column {match[2]!r} is {column.type}"
        )
    return kind, column.path


def estimate(
    expression: str,
    kind: Kind,
    values: pa.ChunkedArray | None,
    rows: int,
    fraction: float,
    confidence: float,
) -> Estimate:
    """Estimates an aggregate from a sample.

    Args:
        values: the sampled values of the column; ``None`` for ``count(*)``.
        rows: number of sampled rows.
        fraction: the probability that a row is sampled.
    """
    if values is not None:
        values = values.drop_null()
        rows = len(values)
    left = 1.0 - fraction
    if kind == "count":
        value = rows / fraction
        deviation = math.sqrt(rows * left) / fraction
    else:
        assert values is not None
        numbers = values.cast(pa.float64(), safe=False)
        total = pc.sum(numbers, min_count=0).as_py() or 0.0
        if kind == "sum":
            squares = pc.sum(pc.multiply(numbers, numbers), min_count=0).as_py() or 0.0
            value = total / fraction
            deviation = math.sqrt(left * squares) / fraction
        else:
            value = total / rows if rows else math.nan
            spread = pc.variance(numbers, ddof=1).as_py() if rows > 1 else None
            deviation = math.sqrt(left * spread / rows) if spread is not None else math.inf
            deviation = 0.0 if rows and not left else deviation
    half = deviation * NormalDist().inv_cdf(0.5 + confidence / 2) if deviation else 0.0
    return Estimate(
        expression=expression,
        value=value,
        low=value - half,
        high=value + half,
        confidence=confidence,
        rows=rows,
        fraction=fraction,
    )
