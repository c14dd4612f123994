"""Checks a query of an agent, and renders it as SQL for DuckDB.

The text is untrusted. sqlglot parses it, and every node of the tree must be of a form that is
listed here. Functions keep the names that the agent wrote, and these names must be listed too.
DuckDB gets SQL that is rendered from the tree, with all names in quotes. It never sees the text, so
the two parsers cannot read it differently.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from nimblepy.errors import InvalidArgumentError

MOST_CHARACTERS = 20_000
_MOST_NODES = 4_000

_FORMS = frozenset(
    {
        *("Select", "From", "Join", "Where", "Group", "Having", "Qualify", "Order", "Ordered"),
        *("Limit", "Offset", "Fetch", "Distinct", "With", "CTE", "Union", "Intersect", "Except"),
        *("Subquery", "Table", "TableAlias", "Alias", "Column", "Identifier", "Star", "Values"),
        *("Cube", "Rollup", "GroupingSets", "Literal", "Boolean", "Null", "Paren", "Tuple"),
        *("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Pow", "Neg", "DPipe", "And", "Or", "Not"),
        *("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Is", "Between"),
        *("In", "Exists", "Any", "All", "Like", "ILike", "Escape", "SimilarTo", "Case", "If"),
        *("Cast", "TryCast", "DataType", "DataTypeParam", "Interval", "IntervalSpan", "Var"),
        *("Extract", "Substring", "Trim", "StrPosition", "AtTimeZone", "Window", "WindowSpec"),
        *("Filter", "WithinGroup", "Array", "Bracket", "Struct", "PropertyEQ"),
        *("Dot", "CurrentDate", "CurrentTimestamp", "Anonymous"),
    }
)
_FUNCTIONS = frozenset(
    {
        # of one value
        *("abs", "ceil", "ceiling", "exp", "floor", "greatest", "isfinite", "isinf", "isnan"),
        *("least", "ln", "log", "log10", "log2", "mod", "pow", "power", "round", "sign", "sqrt"),
        *("trunc", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "radians", "degrees"),
        *("pi", "coalesce", "if", "ifnull", "nullif", "typeof", "hash", "md5", "even", "cbrt"),
        # text
        *("concat", "concat_ws", "contains", "ends_with", "instr", "lcase", "left", "len"),
        *("length", "lower", "ltrim", "octet_length", "position", "prefix", "regexp_extract"),
        *("regexp_full_match", "regexp_matches", "regexp_replace", "replace", "reverse", "right"),
        *("rtrim", "split_part", "starts_with", "strlen", "strpos", "substr", "substring"),
        *("suffix", "trim", "ucase", "upper", "levenshtein", "jaccard", "ascii", "strip_accents"),
        # times
        *("age", "century", "date_add", "date_diff", "date_part", "date_sub", "date_trunc"),
        *("datediff", "datepart", "datesub", "datetrunc", "day", "dayname", "dayofmonth"),
        *("dayofweek", "dayofyear", "decade", "dow", "doy", "epoch", "epoch_ms", "epoch_us"),
        *("hour", "isodow", "isoyear", "last_day", "make_date", "make_timestamp", "microsecond"),
        *("millennium", "millisecond", "minute", "month", "monthname", "now", "quarter"),
        *("second", "strftime", "strptime", "time_bucket", "timezone", "to_days", "to_hours"),
        *("to_minutes", "to_months", "to_seconds", "to_timestamp", "to_weeks", "to_years"),
        *("today", "try_strptime", "week", "weekday", "weekofyear", "year", "yearweek"),
        # lists and structs
        *("array_contains", "array_extract", "array_length", "list_contains", "list_element"),
        *("list_extract", "list_has", "list_sort", "list_distinct", "list_sum", "list_max"),
        *("list_min", "list_avg", "struct_extract", "cardinality", "map_extract"),
        # aggregates
        *("any_value", "approx_count_distinct", "approx_quantile", "arg_max", "arg_min"),
        *("argmax", "argmin", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bool_and"),
        *("bool_or", "corr", "count", "count_if", "countif", "covar_pop", "covar_samp"),
        *("entropy", "favg", "first", "fsum", "geomean", "group_concat", "histogram"),
        *("kurtosis", "last", "list", "listagg", "mad", "max", "max_by", "mean", "median"),
        *("min", "min_by", "mode", "percentile_cont", "percentile_disc", "product", "quantile"),
        *("quantile_cont", "quantile_disc", "regr_intercept", "regr_r2", "regr_slope"),
        *("skewness", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "var_pop"),
        *("var_samp", "variance", "grouping", "grouping_id"),
        # of windows
        *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"),
        *("first_value", "last_value", "nth_value"),
    }
)
_TYPES = frozenset(
    {
        *("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT"),
        *("UBIGINT", "UINT128", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "TEXT", "VARCHAR"),
        *("CHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS"),
        *("TIMESTAMP_NS", "TIMESTAMPNTZ", "INTERVAL", "UUID", "BLOB", "BINARY", "VARBINARY"),
        *("LIST", "ARRAY", "TIMETZ"),
    }
)
# Names of DuckDB's own views, which a query must not shadow.
_SYSTEM_NAMES = ("duckdb_", "pg_", "sqlite_", "pragma_", "information_schema", "system", "temp")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"[0-9.][0-9_.eE+-]*")
# DuckDB calls these functions if no table has a column of that name, even if it is quoted.
_BARE_FUNCTIONS = frozenset(
    {"user", "session_user", "current_user", "current_role", "current_catalog", "current_schema"}
)
_TABLE_PARTS = {"this", "db", "catalog", "alias", "joins"}
_HINTS = {
    "RegexpLike": "~ is not supported; use regexp_matches or regexp_full_match",
    "Placeholder": "parameters are not supported; write the value",
    "Parameter": "parameters are not supported; write the value",
    "Lateral": "LATERAL is not supported",
    "TableSample": "samples are not supported; use the tool sample",
    "Lambda": "functions with -> are not supported",
}


class _Parser(DuckDB.Parser):  # type: ignore[misc]
    """Keeps the names of functions as they are written, because sqlglot would rename some."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser
        for name, parser in DuckDB.Parser.FUNCTION_PARSERS.items()
        if name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION")
    }


@dataclass(frozen=True)
class Query:
    """A query that passed the checks.

    Attributes:
        sql: the text for DuckDB. Tables are called ``"namespace"."name"``.
        tables: the names of the tables that it reads.
    """

    sql: str
    tables: tuple[str, ...]


def checked_query(text: str, tables: Collection[str]) -> Query:
    """Checks that a text is a single SELECT, and returns it as a query.

    Args:
        tables: names of the tables that the query may read.

    Raises:
        InvalidArgumentError: the text is not a single SELECT, or uses something that is not
            allowed.
    """
    try:
        return _checked(text, tables)
    except RecursionError:
        raise InvalidArgumentError("query: nested too deep") from None


def _checked(text: str, tables: Collection[str]) -> Query:
    tree = _parsed(text)
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise _refused(f"{type(tree).__name__.upper()} is not allowed; expected one SELECT")
    nodes = list(tree.walk())
    if len(nodes) > _MOST_NODES:
        raise _refused("too long")
    used: dict[str, None] = {}
    for node in nodes:
        _check(node)
        if isinstance(node, exp.Table):
            name = _table_name(node, tables)
            if name is not None:
                used[name] = None
                namespace, _, short = name.rpartition(".")
                node.set("db", exp.to_identifier(namespace, quoted=True))
                node.set("this", exp.to_identifier(short, quoted=True))
                node.set("catalog", None)
    for group in list(tree.find_all(exp.WithinGroup)):
        group.replace(_quantile(group))
    lowered = {name.lower() for name in used}
    if len(lowered) < len(used):
        raise _refused(f"the names {', '.join(used)} differ only in case")
    for ordered in tree.find_all(exp.Ordered):
        column = ordered.this
        if isinstance(column, exp.Column) and column.sql().upper() == "ALL":
            ordered.set("this", exp.var("ALL"))  # if quoted, it would be a column
    try:
        sql = tree.sql(
            DuckDB,
            identify=True,
            normalize_functions=False,
            comments=False,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
        )
    except SqlglotError as error:
        raise _refused(str(error).partition("\n")[0]) from None
    return Query(sql, tuple(used))


def _parsed(text: str) -> exp.Expression:
    if len(text) > MOST_CHARACTERS:
        raise _refused(f"{len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed")
    if "\0" in text:
        raise _refused("it contains a null character")
    dialect = DuckDB()
    parser = _Parser(dialect=dialect, error_level=sqlglot.ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(dialect.tokenize(text), text)
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        place = (
            f" at line {details['line']}, column {details['col']}" if details.get("line") else ""
        )
        reason = details.get("description") or str(error).partition("\n")[0]
        raise _refused(f"syntax error{place}: {reason}") from None
    statements = [tree for tree in trees if tree is not None]
    if len(statements) != 1:
        raise _refused(f"{len(statements)} statements; expected one SELECT")
    (statement,) = statements
    return statement


def _quantile(group: exp.WithinGroup) -> exp.Expression:
    """Renders ``percentile_cont(q) WITHIN GROUP (ORDER BY x)`` as DuckDB's quantile function."""
    call, order = group.this, group.expression
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    (first, *others) = order.expressions or [None]
    plain = isinstance(first, exp.Ordered) and not first.args.get("desc") and not others
    if not plain or not name.startswith("percentile_") or len(call.expressions) != 1:
        raise _refused("WITHIN GROUP is allowed for percentile_cont and percentile_disc, ascending")
    return exp.Anonymous(
        this=name.replace("percentile", "quantile"),
        expressions=[first.this.copy(), call.expressions[0].copy()],
    )


def _refused(reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"query: {reason}")


def _check(node: exp.Expression) -> None:
    form = type(node).__name__
    if isinstance(node, exp.Anonymous):
        name = node.this
        if not isinstance(name, str) or name.lower() not in _FUNCTIONS:
            raise _refused(f"function {str(name)[:60]} is not allowed")
        return
    if form not in _FORMS:
        raise _refused(_HINTS.get(form, f"{form} is not allowed"))
    if isinstance(node, exp.Var) and _WORD.fullmatch(node.name) is None:
        raise _refused(f"{node.name[:60]!r} is not allowed here")
    if isinstance(node, exp.Literal) and not node.is_string and not _NUMBER.fullmatch(node.name):
        raise _refused(f"{node.name[:60]!r} is not a number")
    if isinstance(node, exp.Column) and node.args.get("catalog") is not None:
        raise _refused(f"column {node.sql()[:100]} has too many parts")
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in _BARE_FUNCTIONS:
        raise _refused(f"write the table before {node.name}, which could be a function")
    if isinstance(node, exp.DataType):
        kind = node.this
        name = kind.value if isinstance(kind, exp.DataType.Type) else ""
        if name not in _TYPES and not isinstance(node.parent, exp.Interval):
            raise _refused(f"type {node.sql(DuckDB)[:60]} is not allowed")
    if isinstance(node, exp.In) and (node.args.get("field") or node.args.get("unnest")):
        raise _refused("IN takes a list of values or a query in parentheses")
    if isinstance(node, exp.Dot) and isinstance(node.expression, (exp.Anonymous, exp.Func)):
        raise _refused("functions are not called with a dot")
    if isinstance(node, exp.With) and node.args.get("recursive"):
        raise _refused("WITH RECURSIVE is not allowed")
    if isinstance(node, exp.CTE) and node.alias.lower().startswith(_SYSTEM_NAMES):
        raise _refused(f"the name {node.alias} is reserved by DuckDB")
    if isinstance(node, exp.Select) and (node.args.get("into") or node.args.get("locks")):
        raise _refused("INTO and FOR UPDATE are not allowed")


def _table_name(node: exp.Table, tables: Collection[str]) -> str | None:
    """Returns the name of the table that a node reads; ``None`` for a CTE."""
    others = {key for key, value in node.args.items() if value} - _TABLE_PARTS
    if others:
        raise _refused(f"{', '.join(sorted(others))} of a table is not allowed")
    if not all(isinstance(part, exp.Identifier) for part in node.parts):
        raise _refused("functions that return tables are not allowed")
    parts = [part.name for part in node.parts]
    if len(parts) == 1 and parts[0].lower() in _visible(node):
        return None
    name = ".".join(parts)
    if name in tables:
        return name
    same = [table for table in tables if table.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    short = parts[-1].lower()
    near = [table for table in tables if table.rpartition(".")[2].lower() == short]
    hint = f"; did you mean {near[0]}?" if near else "; find_tables lists tables"
    raise _refused(f"there is no table {name[:100]!r}{hint}")


def _visible(node: exp.Expression) -> Iterator[str]:
    """Returns the CTEs that a node can read: those that enclosing queries define before it."""
    inside, around = node, node.parent
    while around is not None:
        with_ = around.args.get("with_")
        if isinstance(with_, exp.With) and inside is not with_:
            yield from (cte.alias.lower() for cte in with_.expressions)
        elif isinstance(around, exp.With):
            for cte in around.expressions:
                if cte is inside:
                    break
                yield cte.alias.lower()
        inside, around = around, around.parent
