"""Resolves the columns, parameters and constants in a syntax tree of the small SQL language.

The result is a tree of nodes that indexes, zone maps and the core can answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.nodes import (
    FALSE,
    FLIPPED,
    UNKNOWN,
    And,
    ColumnPair,
    Const,
    IsNull,
    IsValid,
    Like,
    Node,
    Not,
    Op,
    Opaque,
    Or,
    StartsWith,
    all_of,
    always,
    any_of,
    negate,
)
from nimblepy.expr.syntax import Syntax, parse, place_of, shortened
from nimblepy.schema import sql_values
from nimblepy.schema.columns import Column, resolve_column, resolve_sql
from nimblepy.schema.kinds import family, is_bytes, is_text, widens
from nimblepy.schema.many import as_many, values_of_column
from nimblepy.schema.names import Path
from nimblepy.schema.sql_values import Inexact, Quoted, fit
from nimblepy.schema.values import show

Parameters: TypeAlias = Mapping[str, object] | Sequence[object] | None
ByDuckdb: TypeAlias = Callable[["Binder", Syntax, InvalidArgumentError | None, Node | None], Node]
COMPARISONS: dict[str, Op] = {
    "=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip

# SQL functions that return the current time, and the Python expressions to use instead.
_CLOCKS = dict.fromkeys(
    ("now", "get_current_timestamp", "current_timestamp", "transaction_timestamp"),
    "datetime.now(UTC)",
) | {"today": "date.today()", "current_date": "date.today()"}


def clock_hint(name: str) -> str:
    """Returns a hint for messages about functions of the current time; empty for other names."""
    clock = _CLOCKS.get(name.lower())
    if clock is None:
        return ""
    return f"; give the time as a parameter: $now with params={{'now': {clock}}}"


class Lit(NamedTuple):
    """A constant."""

    value: object


class Row(tuple["Lit | Column", ...]):
    """A row ``(a, b)``. It can only be compared with another row."""


Operand: TypeAlias = "Lit | Column | Row"


class Binder:
    """Binds the text of one condition to a schema and to the values of its parameters."""

    def __init__(
        self,
        text: str,
        schema: pa.Schema,
        params: Parameters,
        sides: Sequence[str],
        by_duckdb: ByDuckdb,
    ) -> None:
        """
        Args:
            by_duckdb: returns a node for a part that DuckDB must evaluate. Its further arguments
                are the error to raise if DuckDB is not installed, and a node that the part implies.
        """
        self.text = text
        self._by_duckdb = by_duckdb
        self._sides = sides
        self._schema = schema
        self._params = params
        self._used: set[object] = set()

    def check_parameters(self) -> None:
        """Raises an error if the caller gave a parameter that the text does not use."""
        given: set[object] = set()
        if isinstance(self._params, Mapping):
            given = set(self._params)
        elif self._params is not None:
            given = set(range(1, len(self._params) + 1))
        unused = sorted(map(str, given - self._used))
        if unused:
            raise InvalidArgumentError(f"params: {', '.join(unused)} not used by {self.text!r}")

    def refuse(self, tree: Syntax, reason: object) -> InvalidArgumentError:
        """Returns an error about a part of the text, with its place."""
        shown = shortened(self.text[tree.start : tree.end])
        reason = str(reason).removeprefix(f"{shown}: ")
        return InvalidArgumentError(f"{shown}: {reason} (at {place_of(self.text, tree.start)})")

    def column(self, tree: Syntax) -> Column:
        """Returns the column that a name refers to."""
        parts, quoted = tree.value
        try:
            return resolve_sql(self._schema, parts, quoted=quoted, sides=self._sides)
        except InvalidArgumentError as error:
            text = "" if not quoted or len(parts) > 1 else parts[0].replace("'", "''")
            hint = f"; text is written in single quotes: '{text}'" if text else ""
            hint = hint or ("" if quoted else clock_hint(parts[0]))
            place = place_of(self.text, tree.start)
            raise InvalidArgumentError(f"{error}{hint} (at {place})") from None

    def types(self, paths: Sequence[Path]) -> pa.Schema:
        """Returns a schema of these columns, in the order of ``paths``."""
        columns = (resolve_column(self._schema, path) for path in paths)
        return pa.schema([(column.name, column.type) for column in columns])

    def parameter(self, tree: Syntax) -> object:
        """Returns the value that the caller gave for a parameter."""
        name = tree.value
        self._used.add(name)
        params = self._params
        if isinstance(params, Mapping):
            if name not in params:
                names = ", ".join(map(str, params)) or "none"
                raise self.refuse(tree, f"params has no {name!r}; it has {names}")
            return params[name]
        if params is None:
            raise self.refuse(tree, "a parameter without a value; give params=")
        if isinstance(name, str):
            raise self.refuse(tree, "a named parameter; params is a list, not a dict")
        if not 0 < name <= len(params):
            raise self.refuse(tree, f"params has {len(params)} values")
        return params[name - 1]

    # ------------------------------------------------------------------ conditions

    def condition(self, tree: Syntax) -> Node:
        """Returns the node of a condition.

        Raises:
            InvalidArgumentError: a column or parameter is unknown, or the text is not a condition.
            MissingExtraError: DuckDB must evaluate a part of the text, but is not installed.
        """
        if tree.kind == "constant":
            return Const(tree.value)
        if tree.kind == "name":
            column = self.column(tree)
            if not pt.is_boolean(column.value_type):
                raise self.refuse(
                    tree, f"is not a condition but a {column.value_type} column; compare it"
                )
            return compare(column, "==", True)
        if tree.kind not in ("call", "other", "parameter"):
            raise self.refuse(tree, "is not a condition but a value; a filter must be boolean")
        try:
            if tree.kind != "call":
                raise Inexact
            node = self._call(tree)
            node = negate(node) if tree.negated else node
        except InvalidArgumentError as error:
            if " (at line " in str(error):  # the error already has the place of a smaller part
                raise
            raise self.refuse(tree, error) from None
        except Inexact as reason:
            return self._by_duckdb(
                self, tree, reason.error and self.refuse(tree, reason.error), None
            )
        if tree.value in ("or", "not") and any(_needs_duckdb(arg) for arg in _leaves(node)):
            return self._by_duckdb(self, tree, None, node)
        return node

    def node_of(self, text: str) -> Node | None:
        """Returns the node of another text; ``None`` if DuckDB must evaluate a part of the text."""
        other = Binder(text, self._schema, None, self._sides, _give_up)
        try:
            return other.condition(parse(text))
        except Inexact:
            return None

    def _call(self, tree: Syntax) -> Node:
        name, args = tree.value, tree.args
        if name in COMPARISONS:
            return self._compare(tree, COMPARISONS[name], *map(self._operand, args))
        match name:
            case "and":
                return all_of(*map(self.condition, args))
            case "or":
                return any_of(*map(self.condition, args))
            case "not":
                return negate(self.condition(args[0]))
            case "is null":
                return IsNull(self._only_column(args[0]))
            case "is true" | "is false":
                column = self._only_column(args[0])
                if not pt.is_boolean(column.value_type):
                    raise Inexact
                return all_of(IsValid(column), compare(column, "==", name == "is true"))
            case "same":
                return self._same(tree, *map(self._operand, args))
            case "between":
                return self._between(tree)
            case "in":
                return self._in(tree)
            case "in list":
                return self._in_list(tree)
        return self._text_test(tree)

    def _only_column(self, tree: Syntax) -> Column:
        if tree.kind != "name":
            raise Inexact
        return self.column(tree)

    def _operand(self, tree: Syntax) -> Operand:
        match tree.kind:
            case "name":
                return self.column(tree)
            case "number":
                return Lit(sql_values.number(tree.value))
            case "text":
                return Lit(Quoted(tree.value))
            case "bytes" | "constant":
                return Lit(tree.value)
            case "typed":
                return Lit(sql_values.typed(*tree.value))
            case "parameter":
                return self._given(tree, self.parameter(tree))
            case "row":
                return Row(map(self._scalar, tree.args))
        raise Inexact

    def _scalar(self, tree: Syntax) -> Lit | Column:
        operand = self._operand(tree)
        if isinstance(operand, Row):
            raise Inexact
        return operand

    def _given(self, tree: Syntax, value: object) -> Lit:
        try:
            return Lit(sql_values.parameter(value))
        except InvalidArgumentError as error:
            raise self.refuse(tree, error) from None

    # ------------------------------------------------------------------ comparisons

    def _compare(self, tree: Syntax, op: Op, left: Operand, right: Operand) -> Node:
        if isinstance(left, Row) or isinstance(right, Row):
            return self._compare_rows(tree, op, *self._rows(tree, left, right))
        if isinstance(left, Lit):
            left, right, op = right, left, FLIPPED[op]
        if isinstance(left, Lit):
            raise Inexact  # DuckDB compares two constants
        if isinstance(right, Column):
            return self._compare_columns(tree, op, left, right)
        value = fit(left, right.value)
        if value is None:
            return UNKNOWN
        if pt.is_boolean(left.value_type) and op not in ("==", "!="):
            raise Inexact
        return compare(left, op, value, nan_greatest=True)

    def _compare_columns(self, tree: Syntax, op: Op, left: Column, right: Column) -> Node:
        a, b = left.value_type, right.value_type
        if family(a) == "none" or pt.is_duration(a) or (pt.is_decimal(a) and a.precision > 38):
            raise Inexact
        exact = widens(a, b) or widens(b, a)
        if not exact or pt.is_fixed_size_binary(a) or pt.is_float16(a) or pt.is_float16(b):
            kinds = {"bytes" if is_bytes(kind) else family(kind) for kind in (a, b)}
            if len(kinds) == 1 or kinds == {"date", "instant"} or kinds & {"none", "bool"}:
                raise Inexact
            raise InvalidArgumentError(
                f"type mismatch: cannot compare a {a} column with a {b} column; cast one"
            )
        columns = tuple(dict.fromkeys((left.path, right.path)))
        valid = all_of(IsValid(left), IsValid(right))
        return Opaque(ColumnPair(left.path, right.path, op), columns, valid)

    def _rows(self, tree: Syntax, left: Operand, right: Operand) -> tuple[Row, Row]:
        for one, other, at in ((left, right, 1), (right, left, 0)):
            if isinstance(one, Row) and not (isinstance(other, Row) and len(one) == len(other)):
                part = tree.args[min(at, len(tree.args) - 1)]
                shown = shortened(self.text[part.start : part.end])
                raise self.refuse(
                    tree, f"{shown} and the other side have different numbers of values"
                )
        assert isinstance(left, Row)
        assert isinstance(right, Row)
        return left, right

    def _compare_rows(self, tree: Syntax, op: Op, left: Row, right: Row) -> Node:
        """Compares rows value by value. Nulls are equal and greatest; the result is never null."""
        pairs = list(zip(left, right, strict=True))
        if op in ("==", "!="):
            same = all_of(*(self._same(tree, a, b) for a, b in pairs))
            return same if op == "==" else negate(same)
        strictly: Op = "<" if op in ("<", "<=") else ">"
        *first, last = pairs
        node = self._before(tree, strictly, *last)
        if op != strictly:
            node = any_of(node, self._same(tree, *last))
        for a, b in reversed(first):
            node = any_of(self._before(tree, strictly, a, b), all_of(self._same(tree, a, b), node))
        return node

    def _before(self, tree: Syntax, op: Op, left: Lit | Column, right: Lit | Column) -> Node:
        """Returns ``left op right``, with nulls greatest; the result is never null."""
        if op == ">":
            left, right = right, left
        if isinstance(left, Column) and isinstance(right, Lit):
            if right.value is None:
                return self._valid(left)
            return all_of(self._valid(left), self._compare(tree, "<", left, right))
        if isinstance(left, Lit) and isinstance(right, Column):
            if left.value is None:
                return FALSE
            greater = all_of(self._valid(right), self._compare(tree, ">", right, left))
            return any_of(greater, negate(self._valid(right)))
        raise Inexact

    def _same(self, tree: Syntax, left: Operand, right: Operand) -> Node:
        """Returns ``left IS NOT DISTINCT FROM right``: equality in which null equals null."""
        if isinstance(left, Row) or isinstance(right, Row):
            raise Inexact
        if isinstance(left, Lit):
            left, right = right, left
        if isinstance(left, Lit) or isinstance(right, Column):
            raise Inexact
        if right.value is None:
            return IsNull(left)
        return all_of(self._valid(left), self._compare(tree, "==", left, right))

    def _valid(self, column: Column) -> Node:
        required = len(column.path) == 1 and not self._schema.field(column.path[0]).nullable
        return Const(True) if required else IsValid(column)

    def _between(self, tree: Syntax) -> Node:
        value, low, high = map(self._operand, tree.args)
        if isinstance(value, Column) and isinstance(low, Lit) and isinstance(high, Lit):
            sql_values.check_together(value, [low.value, high.value])
        elif not isinstance(value, Row):
            kinds = {c.value_type for c in (value, low, high) if isinstance(c, Column)}
            if len(kinds) != 1 or family(kinds.pop()) == "number":
                raise Inexact
        above = self._compare(tree, ">=", value, low)
        return all_of(above, self._compare(tree, "<=", value, high))

    def _in(self, tree: Syntax) -> Node:
        value, members = self._operand(tree.args[0]), tree.args[1:]
        operands = [
            Lit(sql_values.number(m.value)) if m.kind == "number" else self._operand(m)
            for m in members
        ]  # fmt: skip
        if isinstance(value, Row) or any(isinstance(o, Row) for o in operands):
            rows = (self._rows(tree, value, operand) for operand in operands)
            return any_of(*(self._compare_rows(tree, "==", *pair) for pair in rows))
        values = [operand.value for operand in operands if isinstance(operand, Lit)]
        if isinstance(value, Column) and len(values) == len(operands):
            return self._one_of(value, values)
        raise Inexact

    def _one_of(self, column: Column, values: Sequence[object]) -> Node:
        sql_values.check_together(column, values)
        if family(column.value_type) == "bool":
            raise Inexact
        if all(type(value) is int for value in values) and pt.is_integer(column.value_type):
            return one_of(column, values, nan_greatest=True)
        return one_of(column, [fit(column, value) for value in values], nan_greatest=True)

    def _in_list(self, tree: Syntax) -> Node:
        """Returns the node of ``IN $list``.

        The parameter may have any form that ``lookup`` accepts for many keys of one column.
        """
        value, parameter = self._operand(tree.args[0]), tree.args[1]
        given = self.parameter(parameter)
        many = as_many(given)
        if many is None:
            if given is None or _is_list_or_null(given):
                raise Inexact
            raise self.refuse(
                tree, f"IN takes a list of values, not {show(given)}; use = for one value"
            )
        if not isinstance(value, Column):
            raise Inexact
        try:
            items = values_of_column(many)
        except (InvalidArgumentError, pa.ArrowException, ValueError, TypeError) as error:
            raise self.refuse(parameter, error) from None
        return self._one_of(value, [self._given(parameter, item).value for item in items])

    # ------------------------------------------------------------------ tests of text

    def _text_test(self, tree: Syntax) -> Node:
        """Returns the node of ``LIKE`` or ``starts_with`` for a column and constant text."""
        column, *constants = map(self._operand, tree.args)
        if not isinstance(column, Column):
            raise Inexact
        if family(column.value_type) != "text":
            raise InvalidArgumentError(f"LIKE needs a string column, not {column.value_type}")
        texts = [lit.value for lit in constants if isinstance(lit, Lit)]
        if None in texts and len(texts) == len(constants):
            return UNKNOWN
        quoted = [value.text for value in texts if isinstance(value, Quoted)]
        if len(quoted) < len(constants):
            raise Inexact
        if tree.value == "starts_with":
            return _matching(column, [(c, False) for c in quoted[0]] + [("%", True)])
        return self._like(tree, column, *quoted)

    def _like(self, tree: Syntax, column: Column, pattern: str, escape: str = "") -> Node:
        if len(escape) > 1:
            raise self.refuse(tree, "ESCAPE takes one character")
        parts = list(_pattern_parts(pattern, escape))
        if None in parts:
            raise self.refuse(tree, "the pattern ends with the escape character")
        return _matching(column, parts)


def _matching(column: Column, parts: list[tuple[str, bool]]) -> Node:
    """Returns a node for a pattern: its characters, and whether each is a wildcard."""
    literal = list(itertools.takewhile(lambda part: not part[1], parts))
    prefix = "".join(character for character, _ in literal)
    if len(literal) == len(parts):
        return compare(column, "==", prefix)
    if not is_text(column.value_type):
        return Opaque(Like(column, tuple(parts)), (column.path,), IsValid(column))
    if parts[len(literal) :] == [("%", True)]:
        return StartsWith(column, prefix) if prefix else always(column)
    implies = StartsWith(column, prefix) if prefix else IsValid(column)
    return Opaque(Like(column, tuple(parts)), (column.path,), implies)


def _pattern_parts(pattern: str, escape: str) -> Any:
    """Yields (character, whether it is a wildcard); ``None`` for a trailing escape character."""
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            yield None if following is None else (following, False)
        else:
            yield character, character in "%_"


def _give_up(*_: object) -> Node:
    raise Inexact


def _leaves(node: Node) -> Iterator[Node]:
    """Yields the leaves of a tree of AND, OR and NOT."""
    match node:
        case And(args) | Or(args):
            for arg in args:
                yield from _leaves(arg)
        case Not(arg):
            yield from _leaves(arg)
        case _:
            yield node


def _needs_duckdb(node: Node) -> bool:
    return isinstance(node, Opaque) and not isinstance(node.expression, (ColumnPair, Like))


def _is_list_or_null(value: object) -> bool:
    if not isinstance(value, pa.Scalar):
        return False
    lists = (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar)
    return isinstance(value, lists) or not value.is_valid
