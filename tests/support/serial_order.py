"""What changes of a small table mean, in plain Python, and which order of them explains a result.

A row is (k, v, g). An operation is a dictionary, as :mod:`histories` makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

COLUMNS = ("k", "v", "g")

Row = tuple[int, int, int]
# (column, comparison, value), all of which are true of a row that passes; None: every row.
Filter = list[list[Any]] | None
Op = dict[str, Any]

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


class Refused(Exception):
    """The operation raises an error of this name, and changes nothing."""


@dataclass(frozen=True)
class State:
    """A table: its rows in any order, and the newest number of each batch name."""

    rows: tuple[Row, ...]
    batches: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Table:
    """What does not change in a history."""

    keyed: bool
    initial: State


@dataclass(frozen=True)
class Done:
    """An operation that took effect, or raised an error other than ConflictError.

    Attributes:
        begin, end: what happens between one end and a later begin has an order.
        bound: columns that partitioned the table when the operation began.
    """

    op: Op
    result: Any
    begin: int
    end: int
    bound: tuple[str, ...] = ()


def passes(row: Row, filter: Filter) -> bool:
    return all(_COMPARE[how](row[COLUMNS.index(c)], value) for c, how, value in filter or ())


def sql(filter: Filter, names: Mapping[str, str], prefix: str = "") -> str | None:
    """A filter as text; ``names``: what the table calls the columns."""
    if filter is None:
        return None
    return " AND ".join(f"{prefix}{names[column]} {how} {value}" for column, how, value in filter)


def _rows(op: Op) -> list[Row]:
    return [tuple(row) for row in op["rows"]]


def _keys(rows: Sequence[Row]) -> set[int]:
    return {row[0] for row in rows}


def _add(table: Table, kept: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    if table.keyed and _keys(kept) & _keys(new):
        raise Refused("DuplicateKeyError")
    return [*kept, *new]


def _upsert(rows: Sequence[Row], op: Op) -> tuple[list[Row], tuple[int, int, int]]:
    new, here = {row[0]: row for row in _rows(op)}, _keys(rows)
    added = [row for key, row in new.items() if key not in here]
    how = op.get("when_matched", "update")
    matched = len(here & set(new))
    if op.get("update"):  # of v alone; the data lack a column that has no nulls
        if added:
            raise Refused("InvalidArgumentError")
        return [(k, new[k][1] if k in new else v, g) for k, v, g in rows], (0, matched, 0)
    if how == "error" and matched:
        raise Refused("DuplicateKeyError")
    if how == "ignore":
        return [*rows, *added], (len(added), 0, 0)
    kept = [row for row in rows if row[0] not in new]
    return [*kept, *new.values()], (len(added), matched, 0)


def _delete(rows: Sequence[Row], op: Op) -> list[Row]:
    if "keys" in op:
        return [row for row in rows if row[0] not in op["keys"]]
    return [row for row in rows if not passes(row, op["filter"])]


def _overwrite(table: Table, rows: Sequence[Row], op: Op) -> tuple[list[Row], tuple[int, int, int]]:
    kept = [row for row in rows if not passes(row, op["filter"])]
    new = _rows(op)
    return _add(table, kept, new), (len(new), 0, len(rows) - len(kept))


def _dynamic(
    table: Table, rows: Sequence[Row], op: Op, bound: Sequence[str]
) -> tuple[list[Row], tuple[int, int, int]]:
    def partition(row: Row) -> tuple[int, ...]:
        return tuple(row[COLUMNS.index(column)] for column in bound)

    new = _rows(op)
    replaced = {partition(row) for row in new}
    kept = [row for row in rows if partition(row) not in replaced]
    return _add(table, kept, new), (len(new), 0, len(rows) - len(kept))


def _merge(rows: Sequence[Row], op: Op) -> tuple[list[Row], tuple[int, int, int]]:
    source = {row[0]: row for row in _rows(op)}
    made: list[Row] = []
    updated = deleted = 0
    for row in rows:
        other = source.get(row[0])
        if other is None:
            gone = any(passes(row, clause["if"]) for clause in op["by_source"])
            deleted += gone
            made += [] if gone else [row]
            continue
        clause = next((c for c in op["matched"] if passes(other, c["if"])), None)
        if clause is None:
            made.append(row)
        elif clause["do"] == "delete":
            deleted += 1
        else:
            updated += 1
            v = row[1] + other[1] if clause["do"] == "add" else other[1]
            made.append((row[0], v, row[2] if clause["do"] == "add" else other[2]))
    here = _keys(rows)
    new = [
        row
        for key, row in source.items()
        if key not in here and any(passes(row, clause["if"]) for clause in op["not_matched"])
    ]
    return [*made, *new], (len(new), updated, deleted)


def _step(table: Table, rows: list[Row], step: Op) -> tuple[Any, list[Row]]:
    """One call in a transaction: (what it gives, the rows after it)."""
    kind = step["op"]
    if kind == "get":
        found = [row for row in rows if row[0] == step["key"]]
        return (found[0] if found else None), rows
    if kind == "lookup":
        return sorted(row for row in rows if row[0] in step["keys"]), rows
    if kind == "contains":
        return [key in _keys(rows) for key in step["keys"]], rows
    if kind == "count":
        return sum(passes(row, step["filter"]) for row in rows), rows
    if kind == "scan":
        return sorted(row for row in rows if passes(row, step["filter"])), rows
    try:
        if kind == "append":
            return "ok", _add(table, rows, _rows(step))
        if kind == "upsert":
            return "ok", _upsert(rows, step)[0]
    except Refused as error:
        return str(error), rows
    assert kind == "delete", kind
    return "ok", _delete(rows, step)


def applied(table: Table, state: State, op: Op, bound: Sequence[str]) -> tuple[Any, State]:
    """What an operation gives that runs alone, and the table after it."""
    kind, rows = op["op"], state.rows
    batches = dict(state.batches)
    if "batch" in op:
        name, number = op["batch"]
        if batches.get(name, -1) >= number:
            return ["ok", 0, 0, 0], state
        batches[name] = number
    made: list[Row] = list(rows)
    figures = (0, 0, 0)
    try:
        if kind == "append":
            made, figures = _add(table, rows, _rows(op)), (len(op["rows"]), 0, 0)
        elif kind in ("upsert", "staged upsert"):
            made, figures = _upsert(rows, op)
        elif kind == "delete":
            made = _delete(rows, op)
            figures = (0, 0, len(rows) - len(made))
        elif kind == "overwrite":
            made, figures = _overwrite(table, rows, op)
        elif kind == "dynamic":
            made, figures = _dynamic(table, rows, op, bound)
        elif kind == "merge":
            made, figures = _merge(rows, op)
        elif kind == "rollback":
            return ["ok"], table.initial
        elif kind == "transaction":
            given = []
            for step in op["steps"]:
                answer, made = _step(table, made, step)
                given.append(answer)
            return ["ok", given], replace(state, rows=tuple(made))
        else:
            return ["ok"], state  # the rows stay as they are
    except Refused as error:
        return [str(error)], state
    return ["ok", *figures], State(tuple(made), tuple(sorted(batches.items())))


def serial_order(table: Table, done: Sequence[Done], rows: Sequence[Row]) -> list[int] | None:
    """An order of operations that gives all their results and these rows; ``None``: no order does.

    An operation that ended before another one began comes before it.
    """
    wanted = Counter(rows)

    def search(state: State, left: frozenset[int], order: list[int]) -> list[int] | None:
        if not left:
            return order if Counter(state.rows) == wanted else None
        first_end = min(done[i].end for i in left)
        for i in sorted(left):
            if done[i].begin > first_end:
                continue
            result, after = applied(table, state, done[i].op, done[i].bound)
            if result == done[i].result:
                found = search(after, left - {i}, [*order, i])
                if found is not None:
                    return found
        return None

    return search(table.initial, frozenset(range(len(done))), [])
