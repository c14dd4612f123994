"""Converts the keys of a probe batch to a request for rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.join.plan import JoinPlan
from nimblepy.rows.request import Keys
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.key_values import key_array, value_range
from nimblepy.schema.names import ColumnName

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def probe_keys(plan: JoinPlan, build: pa.Schema, batch: pa.RecordBatch) -> Keys:
    """Returns a request for the keys of a probe batch, converted to the types of ``build``."""
    usable = np.ones(batch.num_rows, dtype=np.bool_)
    values = []
    for probe_name, build_name in zip(plan.probe_keys, plan.build_keys, strict=True):
        column = batch.column(probe_name)
        if not plan.null_equals and column.null_count:
            usable &= _valid(column)
        array, bad = key_array(column, _key_type(build, build_name))
        if bad is not None:
            usable &= ~bad
        values.append(array)
    between = plan.indexed_between
    if between is None:
        return Keys(plan.build_keys, tuple(values), _mask(usable), plan.null_equals)
    key_type = _key_type(build, between.column)
    bounds = []
    for name, ends in ((between.lower, 0), (between.upper, 1)):
        if name is None:
            # No bound: use the least or greatest value of the type, which is always valid.
            end = value_range(key_type, plan.nan_greatest)[ends]
            bounds.append(pa.repeat(end, batch.num_rows))
            continue
        bound = batch.column(name)
        usable &= _valid(bound) if plan.nan_greatest else _is_number(bound)
        bounds.append(key_array(bound, key_type)[0])
    return Keys(
        plan.build_keys,
        tuple(values),
        _mask(usable),
        plan.null_equals,
        between.column,
        *bounds,
    )


def _mask(usable: Mask) -> Mask | None:
    return None if usable.all() else usable


def _key_type(build: pa.Schema, name: ColumnName) -> pa.DataType:
    return resolve_column(build, name).value_type


def _valid(column: pa.Array) -> Mask:
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _is_number(column: pa.Array) -> Mask:
    """Returns whether each value is neither null nor NaN, which cannot be bounds of a range."""
    mask = _valid(column)
    if pt.is_floating(column.type):
        nan = pc.fill_null(pc.is_nan(column), False)
        mask = mask & ~nan.to_numpy(zero_copy_only=False)
    return mask
