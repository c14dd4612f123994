"""Streams of the core as tables and record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def stream_table(stream: Any) -> pa.Table:
    """All batches of a core stream; what fails keeps its own exception type."""
    try:
        return pa.table(stream)
    except Exception:
        stream.check_failure()
        raise


def stream_batches(stream: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a core stream one by one."""
    try:
        yield from pa.RecordBatchReader.from_stream(stream)
    except Exception:
        stream.check_failure()
        raise
