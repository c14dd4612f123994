"""Filters: one form for pyarrow expressions and SQL text, split into what an index may use.

    filter = parse_filter("k = 7 AND note LIKE '%late%'", schema)
    filter.conjuncts      # (Compare k == 7,): facts true of every row that passes
    filter.columns        # (("k",), ("note",)): what evaluation reads
    filter.mask(batch)    # which rows pass, exactly

Start in ``nodes.py`` for the tree, ``schema/values.py`` for exact sql_values.
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
    """Returns ``filter`` as a caller gave it, together with the values of its parameters.

    Raises:
        InvalidArgumentError: parameters without SQL text, or of another form.
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
    """Returns the value of a parameter; an iterator becomes a list, since it may be read twice."""
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
        columns: paths of the columns that evaluation reads, each once.
        conjuncts: nodes that are true of every row that passes, for indexes and zone maps. Kinds:
            Compare, In, StartsWith, IsNull, IsValid, and Or / And of these. They may be weaker
            than the filter, so rows they admit still need :meth:`mask` unless ``exact``.
        exact: the conjuncts together say all that the filter says.
        matches_nothing: no row can pass, whatever the data.
    """

    node: Node
    columns: tuple[Path, ...]
    conjuncts: tuple[Node, ...]
    exact: bool
    matches_nothing: bool

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Returns true for the rows of ``batch`` that pass; never null.

        Args:
            batch: has the columns of ``columns``; structs need only the fields named there.

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
    """Understands ``filter`` over the columns of ``schema``. Reads no data.

    Args:
        filter: a pyarrow expression, in which NaN compares as IEEE 754 says; or SQL text (the
            part after WHERE), in which NaN equals itself and is above all numbers. Inside the
            package also a tree of nodes, or a filter that has been parsed for such a schema.
        schema: the file's schema.
        sides: structs whose fields SQL text may name without them if only one of them has it.

    Raises:
        InvalidArgumentError: SQL syntax error, unknown column, mismatched types, or not boolean.

    Cost: SQL text is parsed once for files of one schema; the last texts are remembered.
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
    from nimblepy.expr.sql import read_sql  # only where there is SQL

    return make_filter(read_sql(text, schema, params, sides), schema)


def make_filter(node: Node, schema: pa.Schema) -> Filter:
    """Returns the :class:`Filter` of a tree.

    Evaluates opaque parts on zero rows, to check that they fit the schema.
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
    """Returns the strongest node made of indexable parts that is true wherever ``node`` is."""
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
