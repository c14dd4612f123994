"""Finds manifests and files that may have passing rows, or have only passing rows.

A filter becomes a tree of tests of columns. Literals already have the column's type, and tests name
field ids, so nothing is converted or looked up by name. Tests are evaluated on the statistics of
files. The transforms of a partition spec turn them into tests of partition values.

All rows of a file pass if no row can fail the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.expr import nodes
from nimblepy.schema.decimals import scaled, unscaled
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.plain import plain_type
from nimblepy.schema.values import is_nan
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import Manifest
from nimblepy.table.base.transforms import transform
from nimblepy.table.base.values import constant, internal_value
from nimblepy.table.iceberg.metadata import Metadata
from nimblepy.table.iceberg.pruning import (
    Always,
    Both,
    Counts,
    End,
    Files,
    Leaf,
    Mask,
    Op,
    Test,
    comparable,
    may_match,
)

# Possible results of a filter for a row; SQL keeps the rows for which it is true.
_Outcome: TypeAlias = Literal["true", "false", "not true", "not false"]
_SWAPPED: dict[_Outcome, _Outcome] = {
    "true": "false",
    "false": "true",
    "not true": "not false",
    "not false": "not true",
}
_COMPARISONS: dict[nodes.Op, Op] = {op: op for op in nodes.FLIPPED}


class Pruner:
    """Tests files for rows that pass all conditions.

    Attributes:
        metrics_test: the test of the statistics of a file.
    """

    def __init__(
        self, metadata: Metadata, conjuncts: Sequence[nodes.Node], schema_id: int | None
    ) -> None:
        self._metadata = metadata
        self._schema_id = schema_id
        schema = metadata.schema(schema_id)
        self.metrics_test = _joined([_test(node, "true", schema) for node in conjuncts])
        self._by_spec: dict[int, Test] = {}

    def manifests(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Returns the manifests that may list files with such rows, by their summaries of partition
        values.

        Raises:
            CorruptFileError: a summary has a bound that is impossible for its type.
        """
        left = set()
        for spec_id in {item.spec_id for item in manifests}:
            test = self.partition_test(spec_id)
            some = [item for item in manifests if item.spec_id == spec_id and item.raw.partitions]
            try:
                passes = may_match(_Summaries(some), test)
            except BAD_BYTES as error:
                raise CorruptFileError(
                    f"{some[0].path}: the partition bounds of this manifest, or of one of the "
                    f"{len(some)} manifests listed with it, are invalid: {error!r}"
                ) from error
            left |= {item.path for item, may in zip(some, passes, strict=True) if may}
        return [item for item in manifests if item.path in left or not item.raw.partitions]

    def partition_test(self, spec_id: int) -> Test:
        """Returns the test of the partition values of a file."""
        test = self._by_spec.get(spec_id)
        if test is None:
            test = self._by_spec[spec_id] = _projected(self.metrics_test, self._fields(spec_id))
        return test

    def _fields(self, spec_id: int) -> _Fields:
        """Returns, for each source column, the position, transform and value type of its fields."""
        by_source: _Fields = {}
        kinds = self._metadata.spec_types(spec_id, self._schema_id)
        for place, item in enumerate(self._metadata.spec(spec_id)):
            kind = kinds[place]
            if kind is not None:
                by_source.setdefault(item.source_id, []).append((place, item.transform, kind))
        return by_source


class Proof:
    """Tests files for rows that do not pass a filter.

    Attributes:
        possible: whether statistics can prove that a file has no such rows.
    """

    def __init__(self, metadata: Metadata, filter: nodes.Node, schema_id: int | None) -> None:
        self._test = _test(filter, "not true", metadata.schema(schema_id))
        self.possible = self._test != Always(True)

    def whole(self, files: Files) -> Mask:
        """Returns which files have only passing rows, as their statistics prove."""
        if not self.possible:
            return np.zeros(files.num_files, dtype=np.bool_)
        mask: Mask = ~may_match(files, self._test)
        return mask


# ------------------------------------------------------------------ tests of columns


def _test(node: nodes.Node, outcome: _Outcome, schema: pa.Schema) -> Test:
    """Returns a test that is true if ``node`` can have the outcome.

    The test may also be true if it cannot.
    """
    match node:
        case nodes.Const(value):
            return Always(_answer(value, outcome))
        case nodes.Not(arg):
            return _test(arg, _SWAPPED[outcome], schema)
        case nodes.And(args) | nodes.Or(args):
            parts = [_test(arg, outcome, schema) for arg in args]
            either = isinstance(node, nodes.Or) == (outcome in ("true", "not false"))
            return _joined(parts, either=either)
        case nodes.Opaque(_, _, implies):
            if outcome == "true" and implies is not None:
                return _test(implies, "true", schema)
            return Always(True)
    try:
        number = field_id_at(schema, node.column.path)
    except LookupError:  # computed and dropped columns have no statistics, so read the rows
        return Always(True)
    kind = plain_type(node.column.type)
    null, valid = Leaf("is null", number, kind), Leaf("not null", number, kind)
    if isinstance(node, nodes.IsNull | nodes.IsValid):
        return (
            null if isinstance(node, nodes.IsNull) == (outcome in ("true", "not false")) else valid
        )
    if pt.is_nested(kind):
        return Always(True)
    passes = outcome in ("true", "not false")
    test = _values_test(node, passes, number, kind)
    return _joined([null, test], either=True) if outcome.startswith("not") else test


def _answer(value: bool | None, outcome: _Outcome) -> bool:
    if outcome.startswith("not"):
        return value is not (outcome == "not true")
    return value is (outcome == "true")


def _values_test(
    node: nodes.Compare | nodes.In | nodes.StartsWith, passes: bool, number: int, kind: pa.DataType
) -> Test:
    """Returns a test for non-null values that pass, or do not pass."""

    def leaf(op: Op, *values: pa.Scalar) -> Test:
        return Leaf(op, number, kind, tuple(internal_value(kind, value) for value in values))

    nan = Leaf("is nan", number, kind)
    match node:
        case nodes.StartsWith(_, prefix):
            return Leaf("starts with", number, kind, (prefix,)) if passes else Always(True)
        case nodes.In(_, values):
            rest = [value for value in values if not is_nan(value)]
            if not passes:
                return leaf("not in", *rest)
            test = leaf("in", *rest) if rest else Always(False)
            return test if len(rest) == len(values) else _joined([test, nan], either=True)
        case nodes.Compare(_, op, value, nan_greatest):
            if is_nan(value):
                if op not in ("==", "!="):
                    return Always(True)
                return nan if (op == "==") == passes else Leaf("not null", number, kind)
            operator = op if passes else nodes.NEGATED[op]
            test = leaf(_COMPARISONS[operator], value)
            if not pt.is_floating(kind) or op in ("==", "!="):
                return test  # in tests, NaN differs from every number
            nan_passes = nan_greatest and op in (">", ">=")
            return _joined([test, nan], either=True) if nan_passes == passes else test
    return Always(True)


def _joined(parts: Sequence[Test], *, either: bool = False) -> Test:
    """Joins tests with AND, or with OR if ``either``, in a balanced tree."""
    left = [part for part in parts if part != Always(not either)]
    if Always(either) in left:
        return Always(either)
    if not left:
        return Always(not either)
    while len(left) > 1:
        pairs = [left[i : i + 2] for i in range(0, len(left), 2)]
        left = [Both(p[0], p[1], either) if len(p) == 2 else p[0] for p in pairs]
    return left[0]


# ------------------------------------------------------------------ tests of partition values

# For each source column's field id: position, transform and type of the partition values.
_Fields: TypeAlias = dict[int, list[tuple[int, str, pa.DataType]]]


def _projected(test: Test, fields: _Fields) -> Test:
    """Returns a test of partition values that is true for files with a row that passes ``test``."""
    match test:
        case Both(left, right, either):
            return _joined([_projected(left, fields), _projected(right, fields)], either=either)
        case Leaf(number=number):
            tests = [
                _leaf_of_values(test, place, text, kind)
                for place, text, kind in fields.get(number, ())
            ]
            return _joined(tests)
    return test


def _leaf_of_values(leaf: Leaf, place: int, text: str, kind: pa.DataType) -> Test:
    """Returns the test of one partition field."""
    name, _, width = text.partition("[")
    if name == "identity":
        return Leaf(leaf.op, place, kind, leaf.values)
    if name not in ("bucket", "truncate", "year", "month", "day", "hour"):
        return Always(True)
    if leaf.op == "is null":
        return Leaf("is null", place, kind)
    if leaf.op == "starts with" and name == "truncate":
        length, prefix = int(width[:-1]), leaf.values[0]
        op: Op = "starts with" if len(prefix) < length else "=="
        return Leaf(op, place, kind, (prefix[:length],))
    # Only nulls have a null partition value.
    valid = Leaf("not null", place, kind)
    try:
        return _moved(leaf, place, text, kind, ordered=name != "bucket") or valid
    except (InvalidArgumentError, pa.ArrowException, ValueError, OverflowError):
        return valid  # every value is at least the minimum, so all non-null values pass


def _moved(leaf: Leaf, place: int, text: str, kind: pa.DataType, *, ordered: bool) -> Leaf | None:
    """Returns a comparison of partition values that follows from a comparison of values, or
    ``None``.
    """
    op, values = leaf.op, leaf.values
    if op in ("<", "<=", ">", ">=") and ordered:
        if op in ("<", ">"):
            values = (_neighbour(leaf.kind, values[0], 1 if op == ">" else -1),)
        op = "<=" if op in ("<", "<=") else ">="
    elif op not in ("==", "in"):
        return None
    scalars = [constant(leaf.kind, value) for value in values]
    moved = transform(text, leaf.kind)(pa.array(scalars, leaf.kind))
    values_moved = dict.fromkeys(internal_value(moved.type, scalar) for scalar in moved)
    return Leaf(op, place, kind, tuple(values_moved))


def _neighbour(kind: pa.DataType, value: Any, step: int) -> Any:
    """Returns the adjacent value for discrete types, otherwise the value itself."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value + step
    if pt.is_decimal(kind):
        return scaled(unscaled(value, kind.scale) + step, kind.scale)
    return value


class _Summaries(Files):
    """The summaries of partition values in a manifest list, as
    statistics of manifests of one spec.
    """

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self._summaries = [item.raw.partitions for item in manifests]

    @property
    def num_files(self) -> int:
        return len(self._summaries)

    @property
    def rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.ones(self.num_files, dtype=np.int64)

    def counts(self, what: Counts, number: int) -> pa.Array | None:
        """Counts each manifest as one value, which is null or NaN if all its values are."""
        counts_found: list[int | None] = []
        for summaries in self._summaries:
            item = summaries[number]
            has_bounds = item.lower_bound is not None
            has = item.contains_null if what == "nulls" else item.contains_nan
            other = item.contains_nan if what == "nulls" else item.contains_null
            if what == "values":
                counts_found.append(1)
            elif has is False:
                counts_found.append(0)
            else:
                counts_found.append(1 if has and other is False and not has_bounds else None)
        return pa.array(counts_found, pa.int64())

    def bound(self, end: End, number: int, kind: pa.DataType) -> pa.Array | None:
        values = [getattr(summaries[number], f"{end}_bound") for summaries in self._summaries]
        return comparable(kind, pa.array(values, pa.binary()))

    def partition(self, place: int, kind: pa.DataType) -> pa.Array:
        raise AssertionError("manifests have bounds of partition values, and no partition values")
