"""Reads SQL text (the part after WHERE, in DuckDB's dialect) as a filter tree.

Conditions are read here; the values they compare are read in ``sql_values.py``. A
comparison of a column with a constant becomes a node that indexes understand; anything else that
pyarrow can compute becomes an opaque one; the rest is refused with the place in the text.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.evaluate import build, evaluable, evaluate, field, opaque
from nimblepy.expr.nan import compare_values
from nimblepy.expr.nodes import (
    FALSE,
    FLIPPED,
    UNKNOWN,
    Const,
    IsNull,
    IsValid,
    Node,
    Op,
    StartsWith,
    all_of,
    any_of,
    columns_of,
    negate,
    never,
)
from nimblepy.expr.sql_values import (
    Constant,
    Operand,
    ValueReader,
    literal_for,
    refuse,
)
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.schema.text import parse_text
from nimblepy.schema.values import as_scalar

_COMPARISONS: dict[type[exp.Expr], Op] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FUNCTIONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def read_sql(text: str, schema: pa.Schema) -> Node:
    """The filter tree of SQL ``text`` over the columns of ``schema``.

    NaN equals itself and is above all numbers, as in DuckDB, PostgreSQL and Spark.

    Raises:
        InvalidArgumentError: syntax error (shows where), unknown column, mismatched types, or a
            construct that a filter cannot have, such as a subquery.
    """
    if not text.strip():
        raise InvalidArgumentError("filter: the SQL text is empty; write a condition such as x > 3")
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb", into=exp.Condition)
        return _ConditionReader(schema).read(tree)
    except SqlglotError as error:
        raise InvalidArgumentError(_syntax_message(text, error)) from error
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"filter {text!r}: {error}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"filter of {len(text)} characters nests too deep") from error


def _syntax_message(text: str, error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return f"filter {text!r}: SQL syntax error: {error}"
    first = details[0]
    shown = str(first.get("highlight") or "").strip()
    near = f"near {shown!r} " if shown else ""
    place = f"line {first.get('line')}, column {first.get('col')}"
    start = len(first.get("start_context") or "")
    # Point below the text when it is one line and the context starts with it.
    pointer = ""
    if "\n" not in text and shown and text[start : start + len(shown)] == shown:
        pointer = f"\n  {text}\n  {' ' * start}{'^' * len(shown)}"
    return f"filter: SQL syntax error {near}at {place}{pointer}"


class _ConditionReader:
    """Turns a sqlglot condition into filter nodes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._values = ValueReader(schema)

    def read(self, tree: exp.Expr) -> Node:
        node = self._read(tree)
        # sqlglot writes NOT LIKE either as a Not node or as this flag.
        return negate(node) if tree.args.get("negate") else node

    def _read(self, tree: exp.Expr) -> Node:
        if isinstance(tree, exp.Paren):
            return self.read(tree.this)
        # Flattened, so that a chain of thousands of conditions is no deep recursion.
        if isinstance(tree, exp.And):
            return all_of(*(self.read(arg) for arg in tree.flatten(unnest=False)))
        if isinstance(tree, exp.Or):
            return any_of(*(self.read(arg) for arg in tree.flatten(unnest=False)))
        if isinstance(tree, exp.Not):
            return negate(self.read(tree.this))
        if type(tree) in _COMPARISONS:
            return self._compare(tree.this, _COMPARISONS[type(tree)], tree.expression)
        if isinstance(tree, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            same = self._same(tree.this, tree.expression)
            return same if isinstance(tree, exp.NullSafeEQ) else negate(same)
        if isinstance(tree, exp.Between):
            return self._between(tree)
        if isinstance(tree, exp.In):
            return self._in(tree)
        if isinstance(tree, exp.Is):
            return self._is(tree)
        if isinstance(tree, (exp.Like, exp.ILike, exp.Escape)):
            return self._like(tree)
        if isinstance(tree, exp.StartsWith):
            return self._starts_with(tree)
        return self._boolean(tree)

    def _boolean(self, tree: exp.Expr) -> Node:
        value = self._values.read(tree)
        if isinstance(value, Constant):
            if value.value is None or isinstance(value.value, bool):
                return Const(value.value)
        elif value.column is None:
            return opaque(value.expression, value.columns)
        elif pa.types.is_boolean(value.column.value_type):
            return compare(value.column, "==", True)
        raise refuse(tree, "is not a condition; a filter must be true or false for each row")

    def _compare(self, left: exp.Expr, op: Op, right: exp.Expr) -> Node:
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple) and op in ("==", "!="):
            same = self._same_tuples(left, right)
            return same if op == "==" else negate(same)
        a, b = self._values.read(left), self._values.read(right)
        if isinstance(a, Constant) and not isinstance(b, Constant):
            a, b, op = b, a, FLIPPED[op]
        if isinstance(b, Constant) and b.value is None:
            return UNKNOWN
        if isinstance(a, Operand) and isinstance(b, Constant) and a.column is not None:
            return self._against(a.column, op, b)
        columns = tuple(dict.fromkeys([*a.columns, *b.columns]))
        types = [self._type_of(a), self._type_of(b)]
        if isinstance(b, Constant) and b.quoted and types[0] is not None:
            b = Constant(parse_text(types[0], str(b.value)))
        if any(data_type is not None and pa.types.is_floating(data_type) for data_type in types):
            return opaque(compare_values(op, a.expression, b.expression), columns)
        function = getattr(pc, _FUNCTIONS[op])
        return opaque(function(a.expression, b.expression), columns)

    def _same_tuples(self, left: exp.Tuple, right: exp.Tuple) -> Node:
        """DuckDB compares rows as values: nulls in them are equal, and the answer is known."""
        pairs = list(zip(left.expressions, right.expressions, strict=False))
        if not len(pairs) == len(left.expressions) == len(right.expressions):
            raise refuse(right, f"has not as many values as {left.sql(dialect='duckdb')}")
        return all_of(*(self._same(a, b) for a, b in pairs))

    def _against(self, column: Column, op: Op, constant: Constant) -> Node:
        return compare(column, op, literal_for(column, constant), nan_greatest=True)

    def _type_of(self, value: Constant | Operand) -> pa.DataType | None:
        """The type of what is compared; ``None`` where pyarrow cannot tell, as it then says."""
        if isinstance(value, Constant):
            return None if isinstance(value.value, Decimal) else as_scalar(value.value).type
        fields = [self._schema.field(name) for name in dict.fromkeys(p[0] for p in value.columns)]
        arrays = [pa.nulls(0, item.type) for item in fields]
        nothing = evaluable(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
        try:
            return evaluate(value.expression, nothing).type
        except pa.ArrowException:
            return None

    def _same(self, left: exp.Expr, right: exp.Expr) -> Node:
        """IS NOT DISTINCT FROM a constant: equality that finds nulls equal."""
        a, b = self._values.read(left), self._values.read(right)
        if isinstance(a, Constant):
            a, b = b, a
        if not isinstance(a, Operand) or a.column is None or not isinstance(b, Constant):
            raise refuse(left, "IS [NOT] DISTINCT FROM needs a column and a constant")
        if b.value is None:
            return IsNull(a.column)
        return all_of(IsValid(a.column), self._against(a.column, "==", b))

    def _between(self, tree: exp.Between) -> Node:
        if tree.args.get("symmetric"):
            raise refuse(tree, "BETWEEN SYMMETRIC is not supported")
        low = self._compare(tree.this, ">=", tree.args["low"])
        return all_of(low, self._compare(tree.this, "<=", tree.args["high"]))

    def _in(self, tree: exp.In) -> Node:
        if any(tree.args.get(part) for part in ("query", "unnest", "field")):
            raise refuse(tree, "IN takes a list of values here, not a query")
        if isinstance(tree.this, exp.Tuple):
            return any_of(*(self._compare(tree.this, "==", row) for row in tree.expressions))
        value = self._values.read(tree.this)
        members = [self._values.read(member) for member in tree.expressions]
        constants = [member for member in members if isinstance(member, Constant)]
        column = value.column if isinstance(value, Operand) else None
        if column is not None and len(constants) == len(members):
            if not members:
                return FALSE
            literals = [literal_for(column, member) for member in constants]
            return one_of(column, literals, nan_greatest=True)
        return any_of(*(self._compare(tree.this, "==", member) for member in tree.expressions))

    def _is(self, tree: exp.Is) -> Node:
        if isinstance(tree.expression, exp.Null):
            value = self._values.read(tree.this)
            if isinstance(value, Constant):
                return Const(value.value is None)
            if value.column is not None:
                return IsNull(value.column)
            return opaque(value.expression.is_null(), value.columns)
        if isinstance(tree.expression, exp.Boolean):
            node = self.read(tree.this)
            if not tree.expression.this:
                node = negate(node)
            if isinstance(node, Const):
                return Const(node.value is True)
            # IS TRUE is never unknown, which matters below NOT.
            known = pc.coalesce(build(node, keep_unknown=True), pc.scalar(False))
            return opaque(known, columns_of(node), implies=node)
        raise refuse(tree, "IS takes NULL, TRUE or FALSE")

    def _starts_with(self, tree: exp.StartsWith) -> Node:
        prefix = self._text(tree.expression)
        return self._prefix(self._text_column(tree.this), prefix)

    def _text_column(self, tree: exp.Expr) -> Column:
        value = self._values.read(tree)
        column = value.column if isinstance(value, Operand) else None
        if column is None or not (is_text(column.value_type) or is_bytes(column.value_type)):
            kind = f" of type {column.type}" if column is not None else ""
            raise refuse(
                tree, f"type mismatch: LIKE needs a string or binary column, not one{kind}"
            )
        return column

    def _text(self, tree: exp.Expr) -> str:
        value = self._values.read(tree)
        if not isinstance(value, Constant) or not isinstance(value.value, str):
            raise refuse(tree, "a pattern must be a quoted string")
        return value.value

    def _prefix(self, column: Column, prefix: str) -> Node:
        if not pa.types.is_fixed_size_binary(column.value_type):
            return StartsWith(column, prefix)
        # Such a type has no values as short as a prefix: the range of those that begin with it.
        width, octets = column.value_type.byte_width, prefix.encode()
        if len(octets) > width:
            return never(column)
        low, high = octets.ljust(width, b"\0"), octets.ljust(width, b"\xff")
        return all_of(compare(column, ">=", low), compare(column, "<=", high))

    def _like(self, tree: exp.Expr) -> Node:
        escape = None
        if isinstance(tree, exp.Escape):
            escape = self._text(tree.expression)
            if len(escape) != 1:
                raise refuse(tree, f"ESCAPE takes one character, got {escape!r}")
            inner = self._like_pattern(tree.this, escape)
            return negate(inner) if tree.this.args.get("negate") else inner
        return self._like_pattern(tree, escape)

    def _like_pattern(self, tree: exp.Expr, escape: str | None) -> Node:
        column, pattern = self._text_column(tree.this), self._text(tree.expression)
        prefix, regex = _like_parts(pattern, escape)
        ignore_case = isinstance(tree, exp.ILike)
        if not ignore_case and regex == re.escape(prefix):
            return compare(column, "==", prefix)
        if not ignore_case and regex == re.escape(prefix) + ".*":
            return self._prefix(column, prefix)
        matches = pc.match_substring_regex(
            field(column), rf"(?s)\A(?:{regex})\z", ignore_case=ignore_case
        )
        known = prefix and not ignore_case
        known_prefix = self._prefix(column, prefix) if known else IsValid(column)
        return opaque(matches, (column.path,), implies=known_prefix)


def _like_parts(pattern: str, escape: str | None) -> tuple[str, str]:
    """The literal text before the first wildcard, and the whole pattern as a regular expression.

    Not pc.match_like: it takes backslash for an escape character, which SQL has only on request.
    """
    prefix, regex, fixed = "", "", True
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if not character:
                raise InvalidArgumentError(
                    f"LIKE pattern {pattern!r} ends with its escape character"
                )
        elif character in "%_":
            regex += ".*" if character == "%" else "."
            fixed = False
            continue
        regex += re.escape(character)
        prefix += character if fixed else ""
    return prefix, regex
