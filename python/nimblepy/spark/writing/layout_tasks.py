"""Task functions for layouts of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nimblepy.schema.names import Path
from nimblepy.spark.base.tasks import Batches, numbers

if TYPE_CHECKING:
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.otree.planned import Planned
    from nimblepy.table.writing.write import Target


def sampled_rows(schema: pa.Schema, paths: Sequence[Path], most: int) -> Batches:
    """Maps rows to a sample of the layout's columns, with at most ``most`` rows."""
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.otree.planned import RowSample
    from nimblepy.table.otree.space import space_columns

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sample = RowSample(most)
        generator = np.random.default_rng()
        conform_rows: Conformer | None = None
        for batch in batches:
            conform_rows = conform_rows or Conformer(batch.schema, schema)
            rows = pa.Table.from_batches([conform_rows(batch)])
            sample.add(space_columns(rows, paths), generator)
        if sample.parts:
            yield pa.RecordBatch.from_pydict({"sample": [sample.to_bytes()]})

    return run


def merged_samples(most: int) -> Batches:
    """Merges samples."""
    from nimblepy.table.otree.planned import RowSample

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sample = RowSample(most)
        for batch in batches:
            for octets in batch.column(0).to_pylist():
                sample.merge(RowSample.from_bytes(octets, most))
        if sample.parts:
            yield pa.RecordBatch.from_pydict({"sample": [sample.to_bytes()]})

    return run


def curve_parts(
    planned: Planned, names: Sequence[str], schema: pa.Schema, paths: Sequence[Path]
) -> Callable[[Iterable[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """Maps the columns of a layout to the part of the curve that contains each row."""
    from nimblepy.table.base.types import Conformer

    def run(batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for arrays in batches:
            batch = pa.RecordBatch.from_arrays(list(arrays), names=list(names))
            rows = pa.Table.from_batches([Conformer(batch.schema, schema)(batch)])
            yield pa.array(planned.part(rows, paths), pa.int32())

    return run


def joined_pieces(groups: Sequence[str], target: Target) -> Batches:
    """Maps numbers of groups of files to descriptions of merged files with the same rows."""
    from nimblepy.table.reading.shipped import files_as_text, files_of_text
    from nimblepy.table.writing.pieces import join_pieces

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            files = join_pieces(files_of_text(groups[number]), target)
            yield pa.RecordBatch.from_pydict({"files": [files_as_text(files)]})

    return run
