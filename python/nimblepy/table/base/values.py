"""Converts single values between Iceberg's in-memory form and Arrow."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.types as pt


def constant(kind: pa.DataType, value: Any) -> pa.Scalar:
    """Converts a value in Iceberg's in-memory form (days, microseconds, ...) to an Arrow scalar."""
    if value is None:
        return pa.scalar(None, kind)
    if pt.is_date(kind) and isinstance(value, int):
        return pa.scalar(value, pa.int32()).cast(kind)
    if (pt.is_time(kind) or pt.is_timestamp(kind)) and isinstance(value, int):
        return pa.scalar(value, pa.int64()).cast(kind)
    if isinstance(value, uuid.UUID):
        value = value.bytes
    return pa.scalar(value, kind)


def internal_value(kind: pa.DataType, scalar: pa.Scalar) -> Any:
    """Converts an Arrow scalar to Iceberg's in-memory form: days, microseconds, bytes, ..."""
    if not scalar.is_valid:
        return None
    if pt.is_date32(kind):
        return scalar.cast(pa.int32()).as_py()
    if pt.is_time(kind) or pt.is_timestamp(kind):
        return scalar.cast(pa.int64()).as_py()
    return scalar.as_py()
