"""Recommends how to join two tables, from declared references that it measures first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nimblepy.mcp.lake import SharedLake
from nimblepy.table.claims.references import measured, parent_column
from nimblepy.table.claims.subject import Subject
from nimblepy.table.describe import CatalogLake
from nimblepy.table.lake import JoinPath, JoinStep, join_path

# Undeclared joins are shown if at most this share of keys is missing, out of at least _LEAST_KEYS
# compared keys. At most _MOST_SHOWN are shown.
_MOST_ORPHANS, _LEAST_KEYS, _MOST_SHOWN = 0.05, 50, 3
_MULTIPLIED = 1.001


def join_answer(lake: SharedLake, a: str, b: str) -> dict[str, Any]:
    """Returns the answer of the tool ``join_path``."""
    path = join_path(lake, a, b)
    answer: dict[str, Any] = {"from": a, "to": b}
    if path is None:
        answer["none"] = "no path of declared references"
        answer["measured_candidates"] = _candidates(lake, a, b)
        return answer
    steps = [_shown_step(lake, step) for step in path.steps]
    refuted = [step["on"] for step in steps if step.get("status") == "contradicted"]
    if refuted:
        answer["warning"] = f"the rows contradict {', '.join(refuted)}: do not rely on this path"
        answer["measured_candidates"] = _candidates(lake, a, b)
    answer["sql"] = _sql(a, path)
    answer["steps"] = steps
    if path.orphans is not None:
        answer["orphans"] = round(path.orphans, 6)
    if path.fan_out is not None:
        answer["fan_out"] = round(path.fan_out, 3)
    return answer


def _sql(first: str, path: JoinPath) -> str:
    joins = [f" JOIN {s.to_table} ON {s}" for s in path.steps]
    return f"FROM {first}{''.join(joins)}"


def _shown_step(lake: SharedLake, step: JoinStep) -> dict[str, Any]:
    shown: dict[str, Any] = {"on": str(step)}
    if step.orphans is None:
        shown["orphans"] = "unknown"
    else:
        shown["orphans"] = round(step.orphans, 6)
    shown["rows_each"] = "unknown" if step.fan_out is None else round(step.fan_out, 3)
    for name, column, other in (
        (step.table, step.column, step.to_table),
        (step.to_table, step.to_column, step.table),
    ):
        for check in lake.checks(lake.table(name)):
            value = check.claim.value
            if check.claim.kind != "references" or check.claim.column != column:
                continue
            if isinstance(value, dict) and value.get("table") == other:
                shown["status"] = check.status
                if check.status != "verified" and (check.observed or check.reason):
                    shown["observed"] = check.observed or check.reason
    if step.orphans:
        shown["note"] = "an inner join drops rows with such keys"
    if step.fan_out is not None and step.fan_out > _MULTIPLIED:
        shown["warning"] = (
            f"a row of {step.table} occurs {step.fan_out:.2f} times on average: aggregate before "
            "you join, or use EXISTS"
        )
    return shown


def _candidates(lake: SharedLake, a: str, b: str) -> list[dict[str, Any]]:
    """Returns joins that hold but are not declared. Joins of columns with equal names are first."""
    view = CatalogLake(lake)
    first, second = view.subject(a), view.subject(b)
    if first is None or second is None:
        return []
    found = [*_holding(first, second), *_holding(second, first)]
    found.sort(key=lambda item: (not item[0], item[1]["orphans"]))
    return [item for _, item in found[:_MOST_SHOWN]]


def _holding(child: Subject, parent: Subject) -> Iterator[tuple[bool, dict[str, Any]]]:
    key = parent_column(parent, None)
    key_name = None if key is None else parent.column_name(key)
    if key is None or key_name not in parent.facts.columns:
        return
    for name, number in child.facts.ids.items():
        if child.column(number).type != parent.column(key).type or child.primary_key == [name]:
            continue
        orphans = measured(child, number, parent, key, _MOST_ORPHANS, deep=False)
        if isinstance(orphans, str) or orphans.compared < _LEAST_KEYS:
            continue
        if orphans.share <= _MOST_ORPHANS:
            short = parent.name.rpartition(".")[2]
            alike = (
                name == key_name or name.removesuffix("_id") in short or short.rstrip("s") in name
            )
            on = f"{child.name}.{name} = {parent.name}.{key_name}"
            yield alike, {"on": on, "orphans": round(orphans.share, 4)}
