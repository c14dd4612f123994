"""Least and greatest values of each file's columns, so that scans leave files unopened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.expr.nodes import Compare, In
from nimblepy.files.bounds import EncodedKeys
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import successor

# Columns that are described, and bytes that are kept of a value.
MOST_COLUMNS = 32
MOST_BYTES = 32
TYPE = pa.list_(
    pa.struct(
        [
            pa.field("column", pa.string(), nullable=False),
            pa.field("lower", pa.binary()),
            pa.field("upper", pa.binary()),
            pa.field("nulls", pa.int64(), nullable=False),
        ]
    )
)
_ORDER = (SortKey("value"),)


class Collector:
    """Statistics of rows that are being written.

    Cost: one pass over the columns of each batch.
    """

    def __init__(self, schema: pa.Schema) -> None:
        ordered = [i for i, field in enumerate(schema) if _has_order(field.type)][:MOST_COLUMNS]
        self._columns = {i: schema.field(i) for i in ordered}
        self._ends: dict[int, list[pa.Scalar]] = {i: [] for i in ordered}
        self._nulls = dict.fromkeys(ordered, 0)
        self._nan: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        for i, field in self._columns.items():
            column = batch.column(i)
            self._nulls[i] += column.null_count
            if pt.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
                self._nan.add(i)
            ends = pc.min_max(column)
            both = pc.min_max(pa.array([*self._ends[i], ends["min"], ends["max"]], field.type))
            self._ends[i] = [both["min"], both["max"]]

    def result(self) -> list[dict[str, Any]]:
        """One entry per column: the form that the manifest keeps."""
        return [self._entry(i, field) for i, field in self._columns.items() if self._ends[i]]

    def _entry(self, i: int, field: pa.Field) -> dict[str, Any]:
        entry: dict[str, Any] = {"column": field.name, "lower": None, "upper": None}
        entry["nulls"] = self._nulls[i]
        if self._ends[i][0].is_valid and i not in self._nan:  # nothing bounds a NaN
            lower, upper = encoded(pa.array(self._ends[i], field.type))
            entry["lower"] = lower[:MOST_BYTES]
            entry["upper"] = upper if len(upper) <= MOST_BYTES else successor(upper[:MOST_BYTES])
        return entry


def encoded(values: pa.Array) -> list[bytes]:
    """Values as byte strings in their order."""
    batch = pa.RecordBatch.from_arrays([values], names=["value"])
    return EncodedKeys(batch, _ORDER).to_list()


def files_that_may_pass(statistics: pa.ChunkedArray, node: Compare | In) -> set[int] | None:
    """Files in which a value may satisfy ``node``; ``None``: any may.

    Args:
        statistics: of every file, of type ``TYPE``; null where a file has none.
    """
    if isinstance(node, Compare) and node.op == "!=":
        return None
    tests = _tests(node)
    left = set(range(len(statistics)))
    for number, entries in enumerate(statistics.to_pylist()):
        for entry in entries or ():
            if (entry["column"],) == node.column.path and not _may(entry, tests):
                left.discard(number)
    return left


def _tests(node: Compare | In) -> list[tuple[str, bytes]]:
    values: Sequence[pa.Scalar] = node.values if isinstance(node, In) else (node.value,)
    op = "==" if isinstance(node, In) else node.op
    return [(op, encoded(pa.array([value], value.type))[0]) for value in values]


def _may(entry: dict[str, Any], tests: list[tuple[str, bytes]]) -> bool:
    """Bounds are inclusive, and only ever too wide: ``<`` is tested like ``<=``."""
    lower, upper = entry["lower"], entry["upper"]
    for op, key in tests:
        above = op.startswith("<") or upper is None or key <= upper
        below = op.startswith(">") or lower is None or lower <= key
        if above and below:
            return True
    return False


def _has_order(kind: pa.DataType) -> bool:
    return bool(
        pt.is_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or pt.is_decimal128(kind)
        or pt.is_date32(kind)
        or pt.is_timestamp(kind)
        or pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
    )
