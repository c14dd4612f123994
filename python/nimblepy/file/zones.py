"""Prunes with zone maps: excludes zones that cannot contain rows for which a filter is true.

A zone is a part of a file, or a whole file of a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.nodes import And, Compare, In, IsNull, IsValid, Node, Or, StartsWith
from nimblepy.file.key_ranges import ranges_of
from nimblepy.schema.values import is_nan, successor

Ranges: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
# _core.prune for a file, or _core.prune_files. The arguments are the path of a column, the kind of
# test, the lower bound and whether it is inclusive, the upper bound and whether it is inclusive,
# and whether NaN matches.
Prune: TypeAlias = Callable[..., Ranges]
# Longer IN lists are tested as one range, from the smallest to the largest value.
_MOST_VALUES = 64


def prune_by_zones(node: Node, prune: Prune) -> Ranges | None:
    """Returns the ranges that may satisfy ``node``; ``None`` if zone maps do not help."""
    match node:
        case And(args):
            ranges: Ranges | None = None
            for arg in args:
                part = prune_by_zones(arg, prune)
                if part is not None:
                    ranges = part if ranges is None else _core.intersect(ranges, part)
            return ranges
        case Or(args):
            parts = [prune_by_zones(arg, prune) for arg in args]
            if any(part is None for part in parts):
                return None
            return _union(part for part in parts if part is not None)
        case IsNull(column) | IsValid(column):
            kind = "null" if isinstance(node, IsNull) else "valid"
            return prune(column.steps, kind, None, True, None, True, False)
        case Compare(column, "!="):
            return prune(column.steps, "valid", None, True, None, True, False)
        case Compare(column, op, value):
            (b,) = ranges_of(node)
            nan = is_nan(value) if op == "==" else node.nan_greatest and op in (">", ">=")
            lower, upper = _one(b.lower), _one(b.upper)
            steps = column.steps
            return prune(steps, "range", lower, b.lower_inclusive, upper, b.upper_inclusive, nan)
        case In(column, values) if len(values) <= _MOST_VALUES:
            return _union(
                prune(column.steps, "range", _one(v), True, _one(v), True, is_nan(v))
                for v in values
            )
        case In(column, values):
            items = sorted(values, key=lambda scalar: (is_nan(scalar), scalar.as_py()))
            least, most = items[0], items[-1]
            bounds = _one(least), True, _one(most), True
            return prune(column.steps, "range", *bounds, is_nan(most))
        case StartsWith(column, prefix):
            octets = prefix.encode() if isinstance(prefix, str) else prefix
            above = successor(octets)
            upper = None if above is None else pa.array([above], pa.binary())
            lower = pa.array([octets], pa.binary())
            return prune(column.steps, "range", lower, True, upper, False, False)
    return None


def _one(value: pa.Scalar | None) -> pa.Array | None:
    return None if value is None else pa.array([value], value.type)


def _union(parts: Iterable[Ranges]) -> Ranges:
    ranges = [*parts]
    return _core.merge(np.concatenate(ranges)) if ranges else np.empty((0, 2), dtype=np.uint64)
