"""Converts SQL text (the part after WHERE, in DuckDB's dialect) to a filter tree or a value.

``syntax.py`` parses the text, and ``bind.py`` resolves the parts that the core can answer.
``extended.py`` reads the other parts with sqlglot, and ``nimblepy.duck`` evaluates them with
DuckDB. These two modules are imported only if they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError, MissingExtraError
from nimblepy.expr.bind import Binder, Parameters
from nimblepy.expr.nodes import Node
from nimblepy.expr.syntax import Syntax, parse, place_of, shortened


def read_sql(
    text: str, schema: pa.Schema, params: Parameters = None, sides: Sequence[str] = ()
) -> Node:
    """Returns the filter tree of SQL ``text`` over the columns of ``schema``.

    NaN equals itself and is greater than all numbers, as in DuckDB, PostgreSQL and Spark.

    Args:
        params: values of ``$name`` by name, or of ``$1`` or ``?`` in order.
        sides: names of structs whose fields may be named without the struct.

    Raises:
        InvalidArgumentError: the text has a syntax error (the message has its place), an unknown
            column, types that do not match, or a construct that is not allowed in a filter, such
            as a subquery.
        MissingExtraError: the text needs sqlglot and DuckDB, and they are not installed.
    """
    tree = _parsed(text)
    binder = Binder(text, schema, params, sides, _by_duckdb)
    try:
        node = binder.condition(tree)
        binder.check_parameters()
        return node
    except InvalidArgumentError as error:
        shown = repr(text) if len(text) < 200 else f"of {len(text)} characters"
        raise InvalidArgumentError(f"filter {shown}: {error}") from error


def _by_duckdb(
    binder: Binder, part: Syntax, error: InvalidArgumentError | None, implies: Node | None
) -> Node:
    node: Node = extended(binder, part, error).read_condition(binder, part, error, implies)
    return node


def read_value(text: str, schema: pa.Schema, sides: Sequence[str]) -> Any:
    """Converts an expression of any type to a ``duck.SqlValue``, which DuckDB evaluates.

    Raises:
        InvalidArgumentError, MissingExtraError: see :func:`read_sql`.
    """
    whole = Syntax("other", None, (), 0, len(text))
    binder = Binder(text, schema, None, sides, _by_duckdb)
    try:
        value = extended(binder, whole, None).read_value(binder, whole)
        value.check(binder.types([path for path, _ in value.names]))
        return value
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{text!r}: {error}") from error


def extended(binder: Binder, part: Syntax, error: InvalidArgumentError | None) -> Any:
    """Imports and returns the module ``extended``, which needs sqlglot and DuckDB.

    Args:
        error: the error to raise if these are not installed; ``None`` for an error that names them.
    """
    try:
        from nimblepy.expr import extended
    except ImportError as missing:
        shown, place = (
            shortened(binder.text[part.start : part.end]),
            place_of(binder.text, part.start),
        )
        raise error or MissingExtraError(
            f"filter: {shown} (at {place}) needs sqlglot and duckdb: pip install 'nimblepy[sql]'"
        ) from missing
    return extended


@lru_cache(maxsize=256)
def _parsed(text: str) -> Syntax:
    return parse(text)
