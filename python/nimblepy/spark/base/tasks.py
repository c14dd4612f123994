"""Shared code of task functions.

A task function takes its arguments, which the driver pickles, and returns a generator function over
the batches of one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

Batches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def named_batches(
    names: list[str], make: Callable[..., Batches], arguments: tuple[Any, ...]
) -> Batches:
    """Renames the columns of the batches and calls the task function ``make``."""
    function = make(*arguments)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batch.rename_columns(names) for batch in batches)

    return run


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Returns the values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def reader_of(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    """Returns a reader of the batches; ``None`` if there are no batches."""
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
