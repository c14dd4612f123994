"""Reads SQL that the small language does not cover: sqlglot parses it, and DuckDB evaluates it.

The text is untrusted. Only the expressions, operators and functions that are listed here are
allowed. DuckDB gets SQL that is generated from the tree, with generated column names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.types as pt
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from nimblepy.duck.evaluate import SqlCondition, SqlValue
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bind import Binder, clock_hint
from nimblepy.expr.formula import read_formula
from nimblepy.expr.nodes import Const, Formula, Node, Opaque
from nimblepy.expr.solve import Solver
from nimblepy.expr.syntax import Syntax, SyntaxFault, fault_error, tokens
from nimblepy.schema import sql_values
from nimblepy.schema.columns import Column
from nimblepy.schema.sql_values import Inexact

_T = TypeVar("_T")
MOST_CHARACTERS = 100_000

_FORMS = frozenset(
    {
        *("Add", "And", "Anonymous", "Any", "Array", "AtTimeZone", "Between", "Boolean"),
        *("Bracket", "Case", "Cast", "Column", "DPipe", "DataType", "DataTypeParam", "Div"),
        *("Dot", "EQ", "Escape", "Extract", "GT", "GTE", "ILike", "Identifier", "If", "In"),
        *("IntDiv", "Interval", "IntervalSpan", "Is", "LT", "LTE", "Like", "Literal", "Mod"),
        *("Mul", "NEQ", "Neg", "Not", "Null", "NullSafeEQ", "NullSafeNEQ", "Or", "Paren"),
        *("Placeholder", "Pow", "SimilarTo", "Sub", "Substring"),
        *("StrPosition", "Trim", "TryCast", "Tuple", "Var"),
    }
)
_FUNCTIONS = frozenset(
    {
        *("abs", "ceil", "ceiling", "exp", "floor", "greatest", "isfinite", "isinf", "isnan"),
        *("least", "ln", "mod", "pow", "power", "round", "sign", "sqrt", "trunc"),
        *("coalesce", "if", "ifnull", "nullif"),
        *("concat", "contains", "ends_with", "instr", "lcase", "left", "len", "length", "lower"),
        *("ltrim", "octet_length", "position", "prefix", "regexp_full_match", "regexp_matches"),
        *("repeat", "replace", "reverse", "right", "rtrim", "starts_with", "strlen", "strpos"),
        *("substr", "substring", "suffix", "trim", "ucase", "upper"),
        *("century", "date_diff", "date_part", "date_trunc", "datediff", "datepart", "datetrunc"),
        *("day", "dayofmonth", "dayofweek", "dayofyear", "decade", "dow", "doy", "epoch", "hour"),
        *("isodow", "isoyear", "last_day", "microsecond", "millennium", "millisecond", "minute"),
        *("month", "quarter", "second", "week", "weekday", "weekofyear", "year"),
        *("array_contains", "array_extract", "list_contains", "list_element", "list_extract"),
        *("list_has", "struct_extract"),
    }
)
# Names of expressions for messages.
_NOUNS = {
    "Select": "a query", "Subquery": "a query", "Exists": "a query", "Star": "*",
    "Window": "a window function", "Lambda": "a function with ->", "Collate": "COLLATE",
    "Glob": "GLOB", "Slice": "a slice", "Distinct": "DISTINCT", "Filter": "FILTER",
}  # fmt: skip


class _Parser(DuckDB.Parser):
    """Keeps the names of functions as they are written, because sqlglot would change some."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser
        for name, parser in DuckDB.Parser.FUNCTION_PARSERS.items()
        if name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION")
    }


def read_condition(
    binder: Binder, part: Syntax, doubt: InvalidArgumentError | None, implies: Node | None
) -> Node:
    """Returns a node for a part of a filter.

    Args:
        doubt: the error to raise if DuckDB rejects a constant in the part.
        implies: a node that is true for every row for which the part is true, if known.

    Raises:
        InvalidArgumentError: the part has a syntax error, a construct that is not allowed, or types
            that do not match.
    """
    text = binder.text[part.start : part.end]
    formula = None
    if doubt is None and implies is None:
        solved = _within_depth(binder, part, _solved)
        if isinstance(solved, Formula):
            formula = solved
        elif solved is not None:
            return solved
    value = _within_depth(binder, part, _rendered)
    paths = tuple(path for path, _ in value.names)
    try:
        data_type = value.check(binder.types(paths))
        if doubt is not None:
            value.values([pa.nulls(1, item.type) for item in binder.types(paths)], 1)
        if pt.is_boolean(data_type) and not paths:
            return Const(value.values([], 1)[0].as_py())
    except InvalidArgumentError as error:
        raise doubt or binder.refuse(part, error) from None
    if not pt.is_boolean(data_type):
        raise binder.refuse(
            part, f"is not a condition but a value of type {data_type}; a filter must be boolean"
        )
    condition = SqlCondition(value.sql, value.names, value.zone, text)
    return Opaque(condition, paths, implies, formula)


def read_value(binder: Binder, whole: Syntax) -> SqlValue:
    """Returns the whole text as an expression of any type."""
    return _within_depth(binder, whole, _rendered)


def _rendered(tree: exp.Expression, binder: Binder, part: Syntax) -> SqlValue:
    return _Renderer(binder, part).render(tree)


def _solved(tree: exp.Expression, binder: Binder, part: Syntax) -> Node | Formula | None:
    """Returns a part as tests of columns or as a formula; ``None`` if neither is possible."""

    def column_of(node: exp.Expression) -> Column | None:
        is_column = isinstance(_root(node), exp.Column)
        return _Renderer(binder, part).column(node) if is_column else None

    def value_of(node: exp.Expression) -> pa.Scalar | None:
        if node.find(exp.Column):
            return None
        return _Renderer(binder, part).render(node).values([], 1)[0]

    def node_of(node: exp.Expression) -> Node | None:
        return binder.node_of(node.sql(DuckDB, normalize_functions=False))

    try:
        solved = Solver(column_of, node_of, value_of).solve(tree)
        return read_formula(tree, column_of, value_of) if solved is None else solved
    except (Inexact, InvalidArgumentError, pa.ArrowException, OverflowError, ValueError):
        return None


def _within_depth(binder: Binder, part: Syntax, function: Callable[..., _T]) -> _T:
    """Calls ``function`` with the tree of a part. Rejects text that is nested too deep."""
    text = binder.text[part.start : part.end]
    try:
        tree = _parsed(text, binder.text.count("?", 0, part.start))
        return function(tree, binder, part)
    except RecursionError:
        raise binder.refuse(part, "is nested too deep") from None
    except SyntaxFault as fault:
        fault.start, fault.end = fault.start + part.start, fault.end + part.start
        raise fault_error(binder.text, fault) from None


@lru_cache(maxsize=256)
def _parsed(text: str, questions: int) -> exp.Expression:
    if len(text) > MOST_CHARACTERS:
        raise SyntaxFault(0, 1, f"the SQL for DuckDB has more than {MOST_CHARACTERS} characters")
    pieces, at = [], 0
    for token in tokens(text):
        if token.text == "?":
            questions += 1
            pieces += [text[at : token.start], f"${questions}"]
            at = token.end
    dialect = DuckDB()
    try:
        # Without the space, sqlglot rejects a text with $ that ends in two quotes.
        parsed_tokens = dialect.tokenize("".join(pieces) + text[at:] + " ")
        parser = _Parser(dialect=dialect, error_level=sqlglot.ErrorLevel.IMMEDIATE)
        (tree,) = parser.parse_into(exp.Condition, parsed_tokens, text)
    except SqlglotError as error:
        raise _fault(text, error) from None
    if tree is None:
        raise SyntaxFault(0, len(text), "expected a condition")
    return tree


def _fault(text: str, error: SqlglotError) -> SyntaxFault:
    details = (getattr(error, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    if line is None or column is None:
        return SyntaxFault(0, len(text), str(error).partition("\n")[0])
    begin = 0
    for _ in range(line - 1):
        begin = text.find("\n", begin) + 1
    highlight = details.get("highlight") or ""
    end = min(begin + column, len(text))
    reason = str(details.get("description") or "").partition(". Line")[0]
    return SyntaxFault(max(end - len(highlight), 0), end, "" if "into <class" in reason else reason)


class _Renderer:
    """Checks a tree, and generates SQL for DuckDB from it."""

    def __init__(self, binder: Binder, part: Syntax) -> None:
        self._binder = binder
        self._part = part
        self._columns: dict[str, Column] = {}

    def render(self, tree: exp.Expression) -> SqlValue:
        tree = tree.copy()
        for node in list(tree.walk()):
            self._check(node)
        tree = self._replaced(tree)
        sql = tree.sql(DuckDB, normalize_functions=False)
        names = tuple((column.path, name) for name, column in self._columns.items())
        zones = {
            column.value_type.tz
            for column in self._columns.values()
            if pt.is_timestamp(column.value_type) and column.value_type.tz is not None
        }
        return SqlValue(sql, names, zones.pop() if len(zones) == 1 else "UTC")

    def _syntax(self, node: exp.Expression) -> Syntax:
        """Returns the place of a node, for messages: from its first to its last token."""
        spans = [n.meta for n in node.walk() if "start" in n.meta]
        if not spans:
            return self._part
        start = self._part.start + min(span["start"] for span in spans)
        end = self._part.start + max(span["end"] for span in spans) + 1
        return Syntax("other", None, (), start, min(end, self._part.end))

    def _check(self, node: exp.Expression) -> None:
        form = type(node).__name__
        if isinstance(node, exp.Anonymous):
            name = str(node.this)
            if name.lower() not in _FUNCTIONS:
                raise self._binder.refuse(
                    self._syntax(node),
                    f"function {name} is not supported in a filter{clock_hint(name)}",
                )
        elif form not in _FORMS:
            noun = _NOUNS.get(form, form.upper())
            reason = f"{noun} is not supported in a filter"
            if form == "RegexpLike":  # DuckDB 1 compares whole texts, DuckDB 2 looks for a part
                reason = "~ is not supported in a filter; use regexp_matches or regexp_full_match"
            if noun == "a query":
                reason = "a filter takes values here, not a query"
            raise self._binder.refuse(self._syntax(node), reason)

    def _replaced(self, tree: exp.Expression) -> exp.Expression:
        """Returns the tree with generated column names, and with the values of parameters."""

        def replace(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return self._column(node)
            if isinstance(node, exp.Dot) and isinstance(_root(node), exp.Column):
                return self._column(node)
            if isinstance(node, (exp.Placeholder, exp.Parameter)):
                return self._parameter(node)
            return node

        return tree.transform(self._expanded, copy=False).transform(replace, copy=False)

    def _expanded(self, node: exp.Expression) -> exp.Expression:
        """Returns ``IN $list`` with the items: DuckDB would convert the list to one type."""
        if not isinstance(node, exp.In):
            return node
        field = node.args.get("field")
        if not isinstance(field, (exp.Placeholder, exp.Parameter)):
            return node
        texts = self._sql_of(field, sql_values.written_items)
        if texts is None:
            return node
        if not texts:
            return exp.false()
        items = [exp.maybe_parse(text, dialect="duckdb") for text in texts]
        return exp.In(this=node.this, expressions=items)

    def column(self, node: exp.Expression) -> Column:
        """Returns the column that a name refers to."""
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        quoted = any(part.args.get("quoted") for part in parts)
        place = self._syntax(node)
        tree = Syntax(
            "name", (tuple(part.name for part in parts), quoted), (), place.start, place.end
        )
        return self._binder.column(tree)

    def _column(self, node: exp.Expression) -> exp.Expression:
        column = self.column(node)
        name = "c" + "_".join(map(str, column.steps))
        self._columns[name] = column
        return exp.column(name)

    def _parameter(self, node: exp.Expression) -> exp.Expression:
        return exp.paren(exp.maybe_parse(self._sql_of(node, sql_values.written), dialect="duckdb"))

    def _sql_of(self, node: exp.Expression, write: Callable[[object], _T]) -> _T:
        """Returns the value of a parameter as SQL."""
        name = node.name
        tree = Syntax(
            "parameter",
            int(name) if name.isdigit() else name,
            (),
            self._part.start,
            self._part.end,
        )
        value = self._binder.parameter(tree)
        try:
            return write(value)
        except (InvalidArgumentError, pa.ArrowException, ValueError, TypeError) as error:
            raise self._binder.refuse(tree, error) from None


def _root(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Dot):
        node = node.this
    return node
