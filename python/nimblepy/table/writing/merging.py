"""Merges sorted rows of several files in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.source import key_order
from nimblepy.schema.types import SortKey
from nimblepy.table.writing.write import key_table


@dataclass(frozen=True, eq=False)
class Run:
    """Rows in the order of a key.

    Attributes:
        lower: a lower bound for the encoded keys of the run.
        batches: opens the run and yields its batches.
    """

    lower: bytes
    batches: Callable[[], Iterator[pa.RecordBatch]]


def merged(
    runs: Sequence[Run], schema: pa.Schema, keys: Sequence[SortKey]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of all runs in the order of the key.

    If a run is not sorted, the result is not sorted either. That is not an error.

    Cost: one batch in memory for each run whose key range overlaps with the current position.
    """
    waiting = sorted(runs, key=lambda run: run.lower, reverse=True)
    open_runs: list[_Open] = []
    while waiting or open_runs:
        if not open_runs:
            _begin(waiting.pop(), open_runs, keys)
        while waiting and open_runs and waiting[-1].lower <= min(run.last for run in open_runs):
            _begin(waiting.pop(), open_runs, keys)
        if not open_runs:
            continue
        # All rows up to this key are in memory: unread rows of every run have greater keys.
        bound = min(run.last for run in open_runs)
        parts = [part for run in open_runs if (part := run.take_up_to(bound)) is not None]
        open_runs = [run for run in open_runs if run.is_open]
        if len(parts) == 1:
            yield parts[0]
            continue
        table = pa.Table.from_batches(parts, schema).combine_chunks()
        order = key_order(key_table(table, keys), keys, False)
        yield from table.take(pa.array(order)).to_batches()


def _begin(run: Run, open_runs: list[_Open], keys: Sequence[SortKey]) -> None:
    begun = _Open(run.batches(), keys)
    if begun.is_open:
        open_runs.append(begun)


class _Open:
    """A run that is being read, with the unread rest of its current batch."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keys: Sequence[SortKey]) -> None:
        self._batches = batches
        self._keys = keys
        self._batch: pa.RecordBatch | None = None
        self._fill()

    @property
    def is_open(self) -> bool:
        return self._batch is not None

    def _fill(self) -> None:
        self._batch = next((batch for batch in self._batches if batch.num_rows), None)
        if self._batch is None:
            return
        table = key_table(pa.Table.from_batches([self._batch]), self._keys)
        encoded = EncodedKeys(table.combine_chunks().to_batches()[0], self._keys)
        self._fixed = encoded.fixed() if encoded.width else None
        self._width = encoded.width
        self._encoded = encoded.to_list() if self._fixed is None else []
        self._at = 0
        if self._fixed is None:
            self.last = self._encoded[-1]
        else:
            self.last = self._fixed[-1:].tobytes()

    def take_up_to(self, bound: bytes) -> pa.RecordBatch | None:
        """Removes and returns the rows with keys up to and including ``bound``."""
        assert self._batch is not None
        if self.last <= bound:
            end = self._batch.num_rows
        elif self._fixed is not None and len(bound) == self._width:
            value = np.frombuffer(bound, self._fixed.dtype)
            end = int(np.searchsorted(self._fixed, value, side="right")[0])
        else:
            keys = self._encoded or self._fixed_list()
            end = bisect_right(keys, bound)
        begin, self._at = self._at, end
        part = self._batch.slice(begin, end - begin) if end > begin else None
        if end == self._batch.num_rows:
            self._fill()
        return part

    def _fixed_list(self) -> list[bytes]:
        assert self._fixed is not None
        raw, width = self._fixed.tobytes(), self._width
        return [raw[i : i + width] for i in range(0, len(raw), width)]
