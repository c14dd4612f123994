"""Replaces conditions on a column with few distinct values, such as a category, by value tests.

For example, ``upper(mode) = 'RAIL'`` is evaluated for the values in the first rows. If the column
has only these values, the condition becomes a test of values, which the core answers on encoded
data. Otherwise, the core excludes rows whose values fail, and the condition is evaluated for the
remaining rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import RowBatch, passing
from nimblepy.expr.nodes import And, In, IsNull, Node, Not, Opaque, all_of, any_of
from nimblepy.file.handle import FileHandle
from nimblepy.file.pushdown import is_tested, split
from nimblepy.schema.columns import Column, resolve_column
from nimblepy.schema.plain import plain_array

# Number of rows in the sample, and maximum number of distinct values in it.
_SAMPLED, _FEW = 2048, 64


def answered_by_values(file: FileHandle, node: Node) -> Node:
    """Returns ``node`` with value tests for its conditions on columns with few distinct values.

    Cost: for each condition on one column that the core cannot evaluate, decodes the column's first
    rows. If these have few distinct values and the file is mapped, tests the whole column.
    """
    parts: list[Node] = []
    for part in node.args if isinstance(node, And) else (node,):
        is_one_column = isinstance(part, Opaque) and len(part.columns) == 1
        if is_one_column and split(part).residual is not None:
            assert isinstance(part, Opaque)
            parts += _tested(file, part)
        else:
            parts.append(part)
    return all_of(*parts)


def _tested(file: FileHandle, part: Opaque) -> list[Node]:
    """Returns conjuncts that together are equivalent to ``part``. A value test is the first."""
    (path,) = part.columns
    column = resolve_column(file.schema, path)
    # Floats are excluded: -0.0 equals 0.0, but only one of them may pass.
    if (
        len(path) > 1
        or isinstance(part.expression, pc.Expression)
        or pt.is_floating(column.value_type)
        or not is_tested(column.type)
    ):
        return [part]
    sample = file.projection((path,)).range_batch(0, min(_SAMPLED, file.num_rows), 1)
    try:
        values = plain_array(pa.RecordBatch._import_from_c_capsule(*sample).column(0))
        counts = pc.value_counts(values)
        if len(counts) > _FEW:
            return [part]
        distinct = counts.field("values").drop_null()
        values_and_null = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
        passes = passing(part, RowBatch(pa.RecordBatch.from_arrays([values_and_null], [path[0]])))
        null_passes = passes[-1].as_py()
        literals = distinct.cast(column.value_type)
    except (InvalidArgumentError, pa.ArrowException):
        return [part]
    passes = passes[: len(distinct)]
    or_null = (IsNull(column),) if null_passes else ()
    if file.core.is_mapped and not _has_others(file, column, literals):
        return [any_of(In(column, tuple(literals.filter(passes))), *or_null)]
    failing = literals.filter(pc.invert(passes))
    is_failing = pc.is_in(values, distinct.filter(pc.invert(passes)))
    if 2 * (pc.sum(is_failing).as_py() or 0) < len(values):
        return [part]
    return [any_of(Not(In(column, tuple(failing))), *or_null), part]


def _has_others(file: FileHandle, column: Column, values: pa.Array) -> bool:
    """Returns whether a row has a value that is not null and not one of ``values``."""
    spec = split(Not(In(column, tuple(values)))).spec
    assert spec is not None  # is_tested
    rows = np.array([[0, file.num_rows]], dtype=np.uint64)
    others = _core.ScanPart(file.projection(()), rows, _core.RowFilter(file.core, spec))
    return bool(_core.count([others], 0))
