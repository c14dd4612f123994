"""Filters: parses pyarrow expressions and SQL text, and finds conjuncts for indexes.

    filter = parse_filter("k = 7 AND note LIKE '%late%'", schema)
    filter.conjuncts      # (Compare k == 7,): facts true of every row that passes
    filter.columns        # (("k",), ("note",)): what evaluation reads
    filter.mask(batch)    # which rows pass, exactly

``nodes.py`` defines the tree, and ``schema/values.py`` the exact conversion of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrow import read_expression
from nimblepy.expr.evaluate import RowBatch, passing
from nimblepy.expr.nodes import (
    And,
    Compare,
    Const,
    In,
    IsValid,
    Node,
    Not,
    Opaque,
    Or,
    StartsWith,
    all_of,
    any_of,
    columns_of,
)
from nimblepy.schema.names import Path

Parameters: TypeAlias = Mapping[str, object] | Sequence[object] | None


@dataclass(frozen=True, eq=False)
class BoundText:
    """SQL text with the values of its parameters."""

    text: str
    params: Mapping[str, object] | Sequence[object]

    def __str__(self) -> str:
        return self.text


def with_params(filter: Any, params: Parameters) -> Any:
    """Returns ``filter`` with the values of its parameters, if any.

    Raises:
        InvalidArgumentError: the filter is not SQL text, or ``params`` is not a dict or list.
    """
    if params is None:
        return filter
    if not isinstance(filter, str):
        raise InvalidArgumentError("params: only SQL text has parameters")
    if isinstance(params, (str, bytes)) or not isinstance(params, (Mapping, Sequence)):
        raise InvalidArgumentError(f"params: expected a dict or a list, got {params!r}")
    if isinstance(params, Mapping):
        return BoundText(filter, {name: _parameter(filter, v) for name, v in params.items()})
    return BoundText(filter, [_parameter(filter, value) for value in params])


def _parameter(text: str, value: Any) -> Any:
    """Checks a parameter's value. Converts an iterator to a list, so that it can be read twice."""
    if isinstance(value, Iterator):
        return list(value)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"filter {text}: parameter {value!r} is not Unicode text: {error}"
            ) from None
    return value


@dataclass(frozen=True, eq=False)
class Filter:
    """A parsed filter over one schema.

    Attributes:
        node: the whole filter as a tree.
        columns: paths of the columns that evaluation reads, without repeats.
        conjuncts: nodes that are true for every row that passes, for indexes and zone maps. Their
            kinds are Compare, In, StartsWith, IsNull, IsValid, and Or / And of these. They may be
            weaker than the filter. So :meth:`mask` must test the rows, unless ``exact``.
        exact: whether the conjuncts together are equivalent to the filter.
        matches_nothing: whether no row can pass, whatever the data.
    """

    node: Node
    columns: tuple[Path, ...]
    conjuncts: tuple[Node, ...]
    exact: bool
    matches_nothing: bool

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Returns for each row of ``batch`` whether it passes. The result has no nulls.

        Args:
            batch: a batch with all ``columns``. Structs need only the fields that are listed there.

        Raises:
            InvalidArgumentError: pyarrow cannot evaluate the filter on these values.
        """
        if self.matches_nothing:
            return pa.repeat(pa.scalar(False), batch.num_rows)
        try:
            return passing(self.node, RowBatch(batch))
        except (InvalidArgumentError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgumentError(f"filter {self}: {error}") from error

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of ``batch`` that pass, in order, with all columns of the batch."""
        return batch.filter(self.mask(batch))

    def __str__(self) -> str:
        return str(self.node)


def parse_filter(
    filter: pc.Expression | str | BoundText | Node | Filter,
    schema: pa.Schema,
    *,
    sides: tuple[str, ...] = (),
) -> Filter:
    """Parses ``filter`` for the columns of ``schema``. Does not read data.

    Args:
        filter: a pyarrow expression, in which NaN compares as in IEEE 754; or SQL text (the part
            after WHERE), in which NaN equals itself and is above all numbers. Inside the package,
            also a tree of nodes, or a filter that was already parsed for an equal schema.
        schema: the file's schema.
        sides: names of structs. SQL text may name a field of these structs without the struct, if
            only one of them has the field.

    Raises:
        InvalidArgumentError: the SQL text has a syntax error, a column is unknown, types do not
            match, or the filter is not boolean.

    Cost: SQL text is parsed once per schema; the latest texts are cached.
    """
    if isinstance(filter, str):
        return _parse_sql(filter, schema, sides)
    if isinstance(filter, BoundText):
        return _bound(filter.text, schema, filter.params, sides)
    if isinstance(filter, Filter):
        return filter
    if isinstance(filter, pc.Expression):
        return make_filter(read_expression(filter, schema), schema)
    if isinstance(filter, Node):
        return make_filter(filter, schema)
    raise InvalidArgumentError(
        f"filter: expected a pyarrow.compute.Expression or SQL text, got {type(filter).__name__}"
    )


@lru_cache(maxsize=256)
def _parse_sql(text: str, schema: pa.Schema, sides: tuple[str, ...]) -> Filter:
    return _bound(text, schema, None, sides)


def _bound(text: str, schema: pa.Schema, params: Parameters, sides: tuple[str, ...]) -> Filter:
    from nimblepy.expr.sql import read_sql  # imported only for SQL text

    return make_filter(read_sql(text, schema, params, sides), schema)


def make_filter(node: Node, schema: pa.Schema) -> Filter:
    """Returns the :class:`Filter` of a tree.

    Evaluates opaque parts on an empty batch, to check that they fit the schema.
    """
    implied = _implied(node)
    parts = (
        () if implied == Const(True) else (implied.args if isinstance(implied, And) else (implied,))
    )
    nothing = any(_is_never(part) for part in parts)
    result = Filter(
        node=node,
        columns=columns_of(node),
        conjuncts=tuple(part for part in parts if not isinstance(part, Const)),
        exact=_is_exact(node),
        matches_nothing=nothing,
    )
    if _has_opaque(node):
        _check_types(result, schema)
    return result


def _implied(node: Node) -> Node:
    """Returns the strongest condition implied by ``node`` that consists of indexable parts."""
    match node:
        case And(args):
            return all_of(*(_implied(arg) for arg in args))
        case Or(args):
            return any_of(*(_implied(arg) for arg in args))
        case Not(In(column, _)):
            return IsValid(column)
        case Not(Compare(column, _, _)) | Not(StartsWith(column, _)):
            return IsValid(column)
        case Not():
            return Const(True)
        case Const(value):
            return Const(value is True)
        case Opaque(_, _, implies):
            return _implied(implies) if implies is not None else Const(True)
    return node


def _is_exact(node: Node) -> bool:
    match node:
        case And(args) | Or(args):
            return all(_is_exact(arg) for arg in args)
        case Not() | Opaque():
            return False
    return True


def _is_never(node: Node) -> bool:
    match node:
        case Const(value):
            return value is not True
        case In(_, values):
            return not values
        case And(args):
            return any(_is_never(arg) for arg in args)
        case Or(args):
            return all(_is_never(arg) for arg in args)
    return False


def _has_opaque(node: Node) -> bool:
    match node:
        case And(args) | Or(args):
            return any(_has_opaque(arg) for arg in args)
        case Not(arg):
            return _has_opaque(arg)
    return isinstance(node, Opaque) and isinstance(node.expression, pc.Expression)


def _check_types(filter: Filter, schema: pa.Schema) -> None:
    tops = dict.fromkeys(path[0] for path in filter.columns)
    fields = [schema.field(name) for name in tops]
    batch = pa.RecordBatch.from_arrays(
        [pa.nulls(0, item.type) for item in fields], schema=pa.schema(fields)
    )
    filter.mask(batch)
