"""Converts a workload for :func:`nimblepy.advise_indexes` to questions.

A question is a lookup, a range, a prefix or a filter. It has the tested columns, the kinds of
tests, and the columns to read. Questions from filters also have the tested values; questions from a
log do not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import BoundText, Filter, parse_filter, with_params
from nimblepy.expr.nodes import Node
from nimblepy.file.record import filter_tests
from nimblepy.schema.columns import resolve_column

Workload: TypeAlias = str | os.PathLike[str] | Iterable[str | pc.Expression | Mapping[str, Any]]

OPS = ("lookup", "range", "prefix", "filter")
# Maximum number of lines to read from a log. nimblepy itself writes far fewer.
MAX_LOG_LINES = 1_000_000


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A test of one column in a question.

    Attributes:
        kind: ``"equal"`` (one value or several), ``"range"`` or ``"starts"`` (a text prefix).
        values: number of values in an IN list.
        node: the test itself, if its values are known.
    """

    column: str
    kind: str
    values: int = 1
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question and how often it is asked.

    Attributes:
        text: the question in readable form.
        op: one of :data:`OPS`.
        tests: tests of columns; for a key, in the order of the key.
        columns: columns that are read; ``None`` means all.
        keys: number of keys in one lookup.
        times: how often the question was asked.
        rows: number of matching rows each time; ``None`` if that is unknown.
        filter: the whole filter, if its values are known.
    """

    text: str
    op: str
    tests: tuple[ColumnTest, ...]
    columns: tuple[str, ...] | None = None
    keys: int = 1
    times: int = 1
    rows: float | None = None
    filter: Filter | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(test.column for test in self.tests)


def read_workload(workload: Workload, schema: pa.Schema) -> list[Question]:
    """Returns the questions of a workload. Questions of the same shape and text are merged.

    Args:
        workload: a path of a log, or a list of filters (SQL text, expressions) and mappings.

    Raises:
        InvalidArgumentError: an item has another form, or names an unknown column.
        OSError: the log cannot be read.
    """
    items: Iterable[Any]
    if isinstance(workload, (str, os.PathLike)):
        items = read_log(workload)
    elif isinstance(workload, Iterable) and not isinstance(workload, (bytes, Mapping)):
        items = workload
    else:
        raise InvalidArgumentError(
            "workload: expected a list of filters and lookups, or the path of a log, "
            f"got {type(workload).__name__}"
        )
    merged: dict[Any, Question] = {}
    for item in items:
        question = _question(item, schema)
        shape = (question.text, question.op, question.names, question.columns)
        old = merged.get(shape)
        merged[shape] = question if old is None else _both(old, question)
    return list(merged.values())


def _both(a: Question, b: Question) -> Question:
    times = a.times + b.times
    rows = (
        None if a.rows is None or b.rows is None else (a.rows * a.times + b.rows * b.times) / times
    )
    return replace(
        a, times=times, rows=rows, keys=max(1, round((a.keys * a.times + b.keys * b.times) / times))
    )


def read_log(path: str | os.PathLike[str]) -> list[Any]:
    """Returns the lines of a log, as items of a workload."""
    items = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in zip(range(MAX_LOG_LINES), file, strict=False):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except ValueError:
                item = None
            if not isinstance(item, dict) or "tests" not in item:
                raise InvalidArgumentError(
                    f"{os.fspath(path)}, line {number + 1}: not a line of a workload log; "
                    "to advise on a filter, pass a list: [filter]"
                )
            if item.get("op") != "take":  # take() reads rows by number; no index helps
                items.append(item)
    return items


def _question(item: Any, schema: pa.Schema) -> Question:
    if isinstance(item, (str, pc.Expression)):
        return _filter(item, schema, None)
    if not isinstance(item, Mapping):
        raise InvalidArgumentError(
            f"workload: expected a filter or a mapping, got {type(item).__name__}"
        )
    fields = {"filter", "params", "on", "op", "columns", "keys", "rows", "times", "tests", "of"}
    extra = sorted(set(map(str, item)) - fields)
    if extra:
        raise InvalidArgumentError(
            f"workload: unknown field {extra[0]!r}; expected one of {', '.join(sorted(fields))}"
        )
    columns = _names(item.get("columns"), schema)
    times = _count(item, "times")
    if "filter" in item:
        filter_with_params = with_params(item["filter"], item.get("params"))
        return replace(_filter(filter_with_params, schema, columns), times=times)
    tests = _tests(item, schema)
    op = item.get("op", "lookup")
    if op not in OPS:
        raise InvalidArgumentError(f"workload: op is {op!r}, expected one of {', '.join(OPS)}")
    keys = max(1, round(_count(item, "keys") / (times if "tests" in item else 1)))
    rows = item.get("rows")
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, (int, float)) or rows < 0:
            raise InvalidArgumentError(f"workload: rows is {rows!r}, expected a number >= 0")
        rows = float(rows) / (times if "tests" in item else 1)
    return Question(_shown(op, tests), op, tests, columns, keys, times, rows)


def _count(item: Mapping[str, Any], name: str) -> int:
    value = item.get(name, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"workload: {name} is {value!r}, expected an int >= 1")
    return value


def _tests(item: Mapping[str, Any], schema: pa.Schema) -> tuple[ColumnTest, ...]:
    if "tests" in item:
        out = []
        for test in item["tests"]:
            try:
                column, kind, values = test
            except (TypeError, ValueError):
                raise InvalidArgumentError(
                    f"workload: expected a test as (column, kind, number of values), got {test!r}"
                ) from None
            if kind not in ("equal", "range", "starts") or not isinstance(values, int):
                raise InvalidArgumentError(
                    f"workload: test {test!r}: expected the kind 'equal', 'range' or 'starts', "
                    "and an int number of values"
                )
            resolve_column(schema, column)
            out.append(ColumnTest(column, kind, max(1, values)))
        return tuple(out)
    on = _names(item.get("on"), schema)
    if not on:
        raise InvalidArgumentError("workload: a question needs 'filter', 'on' or 'tests'")
    kinds = {"range": "range", "prefix": "starts"}
    last = kinds.get(item.get("op", "lookup"), "equal")
    return (*(ColumnTest(name, "equal") for name in on[:-1]), ColumnTest(on[-1], last))


def _names(value: Any, schema: pa.Schema) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        resolve_column(schema, name)
    return names


def _filter(
    text: str | BoundText | pc.Expression, schema: pa.Schema, columns: tuple[str, ...] | None
) -> Question:
    parsed = parse_filter(text, schema)
    tests = tuple(ColumnTest(*test) for test in filter_tests(parsed))
    return Question(str(parsed), "filter", tests, columns, filter=parsed)


def _shown(op: str, tests: Sequence[ColumnTest]) -> str:
    signs = {"equal": "= ?", "range": "in a range", "starts": "starts with ?"}
    described = " and ".join(f"{test.column} {signs[test.kind]}" for test in tests)
    return f"{op}: {described or 'nothing that an index answers'}"
