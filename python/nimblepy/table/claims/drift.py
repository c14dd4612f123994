"""Detects changes of a table's data since a claim was made, other than growth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nimblepy.table.claims.facts import ColumnFacts
from nimblepy.table.claims.kinds import json_value
from nimblepy.table.claims.subject import Subject

# A column with at most this many distinct values counts as a column of codes.
_FEW = 64
# Minimum changes that are reported: of the share of nulls, of the share of distinct values, and of
# the maximum.
_NULLS, _UNIQUE, _MAXIMUM = 0.2, 0.95, 5.0
# Number of characters to store of a text bound.
_TEXT = 16


def fingerprint(subject: Subject, numbers: Iterable[int]) -> dict[str, Any]:
    """Returns a fingerprint of some columns: ``[type, nulls, distinct, lower, upper]`` of each."""
    facts = subject.facts
    names = {number: name for name, number in facts.ids.items()}
    columns = {str(n): _seen(facts.columns[names[n]]) for n in numbers if n in names}
    return {"rows": facts.rows, "columns": columns}


def _seen(column: ColumnFacts) -> list[Any]:
    ends = [_stored(column.lower), _stored(column.upper)]
    nulls = column.nulls if column.nulls_exact else None
    distinct = column.distinct if column.distinct_is_current else None
    return [str(column.type), nulls, distinct, *ends]


def _stored(value: Any) -> Any:
    if isinstance(value, bytes):
        return None
    if isinstance(value, str):
        return value[:_TEXT]
    stored = json_value(value)
    if isinstance(stored, str) and not hasattr(value, "isoformat"):
        return float(stored)  # a decimal
    return stored


def drift(seen: Mapping[str, Any], subject: Subject, *, whole: bool) -> list[str]:
    """Returns the changes since a fingerprint was taken, in words.

    Args:
        whole: whether the fingerprint is of all columns. If so, new and dropped columns count as
            changes.
    """
    before: Mapping[str, list[Any]] = seen.get("columns", {})
    numbers = set(map(int, before))
    present = set(subject.facts.ids.values())
    now = fingerprint(subject, numbers)["columns"]
    changes = []
    if whole:
        names = [subject.column_name(number) for number in sorted(present - numbers)]
        changes += [f"column {name} is new" for name in names]
    changes += [f"{_former_name(subject, n)} was dropped" for n in sorted(numbers - present)]
    rows = seen.get("rows") or 0, subject.facts.rows
    for number, column in now.items():
        name = subject.column_name(int(number))
        changes += [f"{name}: {change}" for change in _changes(before[number], column, rows)]
        moved = _moved_maximum(before[number][4], subject.column(int(number)))
        changes += [f"{name}: {moved}"] if all(rows) and moved else []
    return changes


def _former_name(subject: Subject, number: int) -> str:
    for schema_id in sorted(subject.metadata.field_ids(), reverse=True):
        name = subject.metadata.column_name(number, schema_id)
        if name is not None:
            return name
    return f"field {number}"


def _changes(before: list[Any], now: list[Any], rows: tuple[int, int]) -> Iterable[str]:
    kind, nulls, distinct, lower, upper = before
    kind_now, nulls_now, distinct_now, lower_now, upper_now = now
    if kind != kind_now:
        yield f"{kind} became {kind_now}"
    if not all(rows):
        return
    if nulls is not None and nulls_now is not None:
        share, share_now = nulls / rows[0], nulls_now / rows[1]
        if (nulls == 0) != (nulls_now == 0) or abs(share - share_now) > _NULLS:
            yield f"{share:.0%} nulls became {share_now:.0%}"
    if distinct and distinct_now:
        if min(distinct, distinct_now) <= _FEW and distinct != distinct_now:
            yield f"{distinct} different values became {distinct_now}"
        unique, unique_now = distinct / rows[0], distinct_now / rows[1]
        if (unique > _UNIQUE) != (unique_now > _UNIQUE) and abs(unique - unique_now) > 0.08:
            yield f"{unique:.0%} different values became {unique_now:.0%}"
    few_texts = kind == "string" and distinct and distinct <= _FEW
    if few_texts and (lower, upper) != (lower_now, upper_now):
        yield f"{lower} .. {upper} became {lower_now} .. {upper_now}"


def _moved_maximum(before: Any, column: ColumnFacts) -> str | None:
    """Returns by how much the maximum changed, as far as live rows prove it."""
    seen, most = _stored(column.seen_upper), _stored(column.upper)
    if not _is_number(before) or before <= 0:
        return None
    if _is_number(seen) and seen > _MAXIMUM * before:
        return f"the maximum {before:g} became {seen:g}"
    if _is_number(most) and 0 < most < before / _MAXIMUM:
        return f"the maximum {before:g} became {most:g}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
