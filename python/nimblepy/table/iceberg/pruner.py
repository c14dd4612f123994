"""Which manifests and files a condition can match, by Iceberg's own projections."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotNull,
    BoundPredicate,
    BoundStartsWith,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions import visitors as ice_visitors
from pyiceberg.manifest import (
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from nimblepy.errors import (
    NimbleError,
)
from nimblepy.expr import nodes
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.values import is_nan
from nimblepy.table.base.model import (
    Entry,
    Manifest,
)
from nimblepy.table.base.values import internal_value
from nimblepy.table.iceberg.manifest_forms import ice_file
from nimblepy.table.iceberg.metadata import Metadata, decoding
from nimblepy.table.iceberg.pruning import Always, Both, Leaf, Op, Test
from nimblepy.table.iceberg.schemas import arrow_type

_COMPARISONS: dict[str, Callable[..., BooleanExpression]] = {
    "==": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}


class Pruner:
    """Iceberg's inclusive evaluation: what it leaves out has no row that passes.

    Attributes:
        exact: the tests say just what the conjuncts say, so that :meth:`whole` may be asked.
        expression: all of them, as the library has it; it may say less than they do.
    """

    def __init__(
        self, metadata: Metadata, conjuncts: Sequence[nodes.Node], schema_id: int | None
    ) -> None:
        self._metadata = metadata
        self._schema = metadata.ice_schema(schema_id)
        self._arrow = metadata.schema(schema_id)
        expression: BooleanExpression = AlwaysTrue()
        self.exact = True
        self._tested: set[int] = set()
        self._parts = [self._expression(node) for node in conjuncts]
        for part in self._parts:
            expression = And(expression, part)
        self.expression = expression
        self._by_spec: dict[int, Test] = {}
        self._by_manifest: dict[int, Callable[[ManifestFile], bool]] = {}

    def manifest(self, manifest: Manifest) -> bool:
        """Whether a manifest may list files with such rows."""
        evaluator = self._by_manifest.get(manifest.spec_id)
        if evaluator is None:
            spec = self._metadata.ice_spec(manifest.spec_id)
            evaluator = self._by_manifest[manifest.spec_id] = ice_visitors.manifest_evaluator(
                spec, self._schema, self._projected(spec)
            )
        with decoding(manifest.path, "manifest with bounds of partitions"):
            return bool(evaluator(manifest.raw))

    @cached_property
    def metrics_test(self) -> Test:
        """What the statistics of a file are tested for."""
        bound = ice_visitors.bind(self._schema, self.expression, True)
        return _test(bound, lambda ref: ref.field.field_id)

    def partition_test(self, spec_id: int) -> Test:
        """What the partition values of a file are tested for."""
        known = self._by_spec.get(spec_id)
        if known is None:
            spec = self._metadata.ice_spec(spec_id)
            fields = Schema(*spec.partition_type(self._schema).fields)
            bound = ice_visitors.bind(fields, self._projected(spec), True)
            places = {item.field_id: i for i, item in enumerate(fields.fields)}
            known = self._by_spec[spec_id] = _test(bound, lambda ref: places[ref.field.field_id])
        return known

    def whole(self, entry: Entry) -> bool:
        """Whether all rows of a file pass, as its statistics prove.

        The library takes a column whose nulls were not counted for one without.
        """
        counted = entry.file.metrics.nulls
        if not self.exact or any(number not in counted for number in self._tested):
            return False
        strict = ice_visitors._StrictMetricsEvaluator(self._schema, self.expression)
        return bool(strict.eval(ice_file(entry.file)))

    def _projected(self, spec: PartitionSpec) -> BooleanExpression:
        project = ice_visitors.inclusive_projection(self._schema, spec)
        found: BooleanExpression = AlwaysTrue()
        for part in self._parts:
            # Days and times next to the first and the last that Python has rule nothing out.
            with contextlib.suppress(OverflowError):
                found = And(found, project(part))
        return found

    def _expression(self, node: nodes.Node) -> BooleanExpression:
        match node:
            case nodes.And(args):
                return _folded(And, [self._expression(arg) for arg in args])
            case nodes.Or(args):
                return _folded(Or, [self._expression(arg) for arg in args])
            case nodes.Compare() | nodes.In() | nodes.IsNull() | nodes.IsValid():
                return self._leaf(node)
            case nodes.StartsWith(_, prefix) if isinstance(prefix, str):
                return self._leaf(node)
        self.exact = False
        return AlwaysTrue()

    def _leaf(self, node: Any) -> BooleanExpression:
        """One test; true where the library cannot bind it to just this column."""
        name = ".".join(node.column.path)
        if pt.is_floating(node.column.type):
            self.exact = False  # of NaN the statistics of some writers say nothing
        try:
            made = self._unbound(node, name)
            found = self._schema.find_field(name)
            if found.field_id == field_id_at(self._arrow, node.column.path):
                ice_visitors.bind(self._schema, made, True)
                self._tested.add(found.field_id)
                return made
        except (ValueError, TypeError, KeyError, AssertionError, OverflowError, NimbleError):
            pass
        self.exact = False
        return AlwaysTrue()

    def _unbound(self, node: Any, name: str) -> BooleanExpression:
        match node:
            case nodes.IsNull():
                return IsNull(name)
            case nodes.IsValid():
                return NotNull(name)
            case nodes.StartsWith(_, prefix):
                return StartsWith(name, prefix)
            case nodes.In(column, values):
                nan = any(is_nan(value) for value in values)
                rest = [_literal(column.type, v) for v in values if not is_nan(v)]
                return Or(In(name, rest), IsNaN(name)) if nan else In(name, rest)
            case nodes.Compare(column, op, value, nan_greatest):
                if is_nan(value):
                    return IsNaN(name) if op == "==" else AlwaysTrue()
                made = _COMPARISONS[op](name, _literal(column.type, value))
                if op == "!=":  # of a null it is true in Iceberg, and null in our filters
                    return And(made, NotNull(name))
                above = nan_greatest and op in (">", ">=") and pt.is_floating(column.type)
                return Or(made, IsNaN(name)) if above else made
        return AlwaysTrue()


_UNARY: dict[type[BooleanExpression], Op] = {
    BoundIsNull: "is null",
    BoundNotNull: "not null",
    BoundIsNaN: "is nan",
}


_WITH_VALUE: dict[type[BooleanExpression], Op] = {
    BoundEqualTo: "==",
    BoundNotEqualTo: "!=",
    BoundLessThan: "<",
    BoundLessThanOrEqual: "<=",
    BoundGreaterThan: ">",
    BoundGreaterThanOrEqual: ">=",
    BoundStartsWith: "starts with",
}


def _test(bound: BooleanExpression, number: Callable[[Any], int]) -> Test:
    """A bound expression of the library as a test; what it may say besides is true."""
    if isinstance(bound, And | Or):
        left, right = _test(bound.left, number), _test(bound.right, number)
        return Both(left, right, isinstance(bound, Or))
    if isinstance(bound, AlwaysFalse):
        return Always(False)
    if isinstance(bound, BoundPredicate):
        ref = bound.term.ref()
        kind = arrow_type(ref.field.field_type)
        if type(bound) in _UNARY:
            return Leaf(_UNARY[type(bound)], number(ref), kind)
        if isinstance(bound, BoundIn):
            return Leaf("in", number(ref), kind, tuple(bound.value_set))
        if isinstance(bound, BoundLiteralPredicate) and type(bound) in _WITH_VALUE:
            return Leaf(_WITH_VALUE[type(bound)], number(ref), kind, (bound.literal.value,))
    return Always(True)


def _folded(kind: Callable[..., BooleanExpression], args: list[Any]) -> BooleanExpression:
    found = args[0]
    for arg in args[1:]:
        found = kind(found, arg)
    return cast(BooleanExpression, found)


def _literal(kind: pa.DataType, scalar: pa.Scalar) -> Any:
    """The value of a scalar as the library takes it: times are numbers."""
    return internal_value(kind, scalar)
