"""As-of joins by a loop over all rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]


def order_key(value: Any) -> Any:
    """A key that orders values as an index does: NaN after all numbers, -0.0 equal to 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value)


def distance(a: Any, b: Any) -> Any:
    """The distance between two values."""
    if isinstance(a, datetime.time):
        day = datetime.date(2026, 5, 1)
        a, b = datetime.datetime.combine(day, a), datetime.datetime.combine(day, b)
    if order_key(a) == order_key(b):
        return a - a if not isinstance(a, float) else 0.0
    apart = abs(a - b)
    return math.inf if isinstance(apart, float) and math.isnan(apart) else apart


def asof_row(
    probe: Row,
    rows: Sequence[Row],
    *,
    on: tuple[str, str],
    by: Sequence[tuple[str, str]] = (),
    direction: str = "backward",
    tolerance: Any = None,
    exact: bool = True,
    known: tuple[str, str] | None = None,
) -> list[int]:
    """The rows that may be the answer: several if they have equal values of ``on``."""
    at = probe[on[0]]
    if at is None or any(probe[a] is None for a, _ in by):
        return []
    if known is not None and probe[known[0]] is None:
        return []

    def is_allowed(row: Row) -> bool:
        if row[on[1]] is None:
            return False
        if any(row[b] is None or order_key(row[b]) != order_key(probe[a]) for a, b in by):
            return False
        if known is None:
            return True
        value = row[known[1]]
        return value is not None and order_key(value) <= order_key(probe[known[0]])

    def best(passes: Callable[[Any, Any], bool], nearest: Callable[..., Any]) -> list[int]:
        keys = {
            i: order_key(row[on[1]])
            for i, row in enumerate(rows)
            if is_allowed(row)
            and passes(order_key(row[on[1]]), order_key(at))
            and (exact or order_key(row[on[1]]) != order_key(at))
        }
        if not keys:
            return []
        chosen = nearest(keys.values())
        return [i for i, key in keys.items() if key == chosen]

    before = best(lambda value, limit: value <= limit, max) if direction != "forward" else []
    after = best(lambda value, limit: value >= limit, min) if direction != "backward" else []
    found = before or after
    if direction == "nearest" and before and after:
        is_closer = distance(rows[after[0]][on[1]], at) < distance(rows[before[0]][on[1]], at)
        found = after if is_closer else before
    if found and tolerance is not None and distance(rows[found[0]][on[1]], at) > tolerance:
        return []
    return found


def check_join(
    source: Any,
    live: Sequence[Row],
    probe: pa.Table,
    *,
    on: str | dict[str, str],
    by: Any = None,
    one_file: bool = True,
    **how: Any,
) -> pa.Table:
    """Compares ``asof_join`` with the loop. ``live`` are the rows in file order, with ``id``.

    Args:
        one_file: whether ties are decided by the order of ``live``.
    """
    joined = source.asof_join(probe, on=on, by=by, columns=["id"], **how)
    assert joined.column_names == [*probe.column_names, "id"]
    assert joined.num_rows == probe.num_rows
    names = [by] if isinstance(by, str) else by or []
    pairs = names if isinstance(names, dict) else {name: name for name in names}
    on_pair = next(iter(on.items())) if isinstance(on, dict) else (on, on)
    known = how.get("known_at")
    direction = how.get("direction", "backward")
    ids = joined["id"].to_pylist()
    for found, row in zip(ids, probe.to_pylist(), strict=True):
        allowed = asof_row(
            row,
            live,
            on=on_pair,
            by=list(pairs.items()),
            direction=direction,
            tolerance=how.get("tolerance"),
            exact=how.get("allow_exact_matches", True),
            known=None if known is None else next(iter(known.items())),
        )
        expected = [live[i]["id"] for i in allowed]
        if not expected:
            assert found is None, (row, found)
            continue
        assert found in expected, (row, found, expected)
        if one_file:
            value, at = order_key(live[allowed[0]][on_pair[1]]), order_key(row[on_pair[0]])
            # Exact matches of "nearest" count as before.
            is_before = value <= at
            assert found == (expected[-1] if is_before and direction != "forward" else expected[0])
    return joined
