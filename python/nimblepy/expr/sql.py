"""Converts SQL text (the part after WHERE, in DuckDB's dialect) to a filter tree or a value.

``syntax.py`` parses the text, ``bind.py`` resolves columns, types and kernels, and ``lower.py``
extracts conditions that indexes can use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import full
from nimblepy.expr.bind import Parameters, bind
from nimblepy.expr.casts import cast
from nimblepy.expr.domain import settle
from nimblepy.expr.lower import lower
from nimblepy.expr.nodes import UNKNOWN, Node
from nimblepy.expr.syntax import Syntax, parse
from nimblepy.expr.terms import RowBatch, evaluate, paths_of


def read_sql(
    text: str, schema: pa.Schema, params: Parameters = None, sides: Sequence[str] = ()
) -> Node:
    """The filter tree of SQL ``text`` over the columns of ``schema``.

    NaN equals itself and is greater than all numbers, as in DuckDB, PostgreSQL and Spark.

    Args:
        params: values of ``$name`` by name, or of ``$1`` or ``?`` in order.
        sides: structs whose fields may be named without them.

    Raises:
        InvalidArgumentError: syntax error (shows where), unknown column, mismatched types, or a
            construct that a filter cannot have, such as a subquery.
    """
    tree = _parsed(text)
    try:
        term = bind(tree, text, schema, params, sides)
        if pt.is_null(term.type):
            return UNKNOWN
        if not pt.is_boolean(term.type):
            shown = text if len(text) < 100 else text[:97] + "..."
            raise InvalidArgumentError(
                f"{shown} is not a condition; a filter must be boolean, this is {term.type}"
            )
        return settle(lower(term))
    except InvalidArgumentError as error:
        shown = repr(text) if len(text) < 200 else f"of {len(text)} characters"
        raise InvalidArgumentError(f"filter {shown}: {error}") from error


class Computed:
    """A value that SQL text computes for each row.

    Attributes:
        columns: paths of the columns that it reads, without repetition.

    Raises:
        InvalidArgumentError: as :func:`read_sql`.
    """

    def __init__(self, text: str, schema: pa.Schema, sides: Sequence[str] = ()) -> None:
        self._text = text
        try:
            self._term = bind(_parsed(text), text, schema, sides=sides)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{text!r}: {error}") from error
        self.columns = paths_of(self._term)

    def values(self, batch: pa.RecordBatch, target: pa.DataType) -> pa.Array:
        """The values for the rows of a batch, cast to ``target`` as in SQL.

        Raises:
            InvalidArgumentError: a value cannot be computed or cast.
        """
        try:
            computed = full(evaluate(self._term, RowBatch(batch)), batch.num_rows)
            if computed.type == target:
                return computed
            return cast(computed, self._term.type, target, lenient=False).cast(target)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"{self._text!r}: {error}") from error


@lru_cache(maxsize=256)
def _parsed(text: str) -> Syntax:
    return parse(text)
