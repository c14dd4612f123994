"""What Spark tasks run for layouts of tables; ``tasks.py`` names these functions too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nimblepy.schema.names import Path

if TYPE_CHECKING:
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.otree.planned import Planned
    from nimblepy.table.writing.write import Target

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def sampled_rows(schema: pa.Schema, paths: Sequence[Path], most: int) -> Batches:
    """Rows to a sample of the columns of a layout, at most so many rows of it."""
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.otree.planned import RowSample
    from nimblepy.table.otree.space import space_columns

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = RowSample(most)
        generator = np.random.default_rng()
        conform_rows: Conformer | None = None
        for batch in batches:
            conform_rows = conform_rows or Conformer(batch.schema, schema)
            rows = pa.Table.from_batches([conform_rows(batch)])
            found.add(space_columns(rows, paths), generator)
        if found.parts:
            yield pa.RecordBatch.from_pydict({"sample": [found.to_bytes()]})

    return run


def merged_samples(
    most: int,
) -> Batches:
    """Samples of parts of the rows to one of all of them."""
    from nimblepy.table.otree.planned import RowSample

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = RowSample(most)
        for batch in batches:
            for octets in batch.column(0).to_pylist():
                found.merge(RowSample.from_bytes(octets, most))
        if found.parts:
            yield pa.RecordBatch.from_pydict({"sample": [found.to_bytes()]})

    return run


def curve_parts(
    planned: Planned, names: Sequence[str], schema: pa.Schema, paths: Sequence[Path]
) -> Callable[[Iterable[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """Columns of a layout to the part of the curve that each row lies in."""
    from nimblepy.table.base.types import Conformer

    def run(batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for arrays in batches:
            batch = pa.RecordBatch.from_arrays(list(arrays), names=list(names))
            rows = pa.Table.from_batches([Conformer(batch.schema, schema)(batch)])
            yield pa.array(planned.part(rows, paths), pa.int32())

    return run


def joined_pieces(groups: Sequence[str], target: Target) -> Batches:
    """Numbers of groups of files to descriptions of new ones with the same rows."""
    from nimblepy.table.reading.shipped import files_as_text, files_of_text
    from nimblepy.table.writing.pieces import join_pieces

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                made = join_pieces(files_of_text(groups[number]), target)
                yield pa.RecordBatch.from_pydict({"files": [files_as_text(made)]})

    return run
