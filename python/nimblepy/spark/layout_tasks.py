"""Task functions for layouts of tables. ``tasks.py`` exports them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nimblepy.schema.names import Path
from nimblepy.spark.inputs import InputTable, open_cached
from nimblepy.spark.schemas import conform

if TYPE_CHECKING:
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.otree.planned import Planned
    from nimblepy.table.reading.sample import SamplePlan, Taking, Window
    from nimblepy.table.writing.write import Target

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class SampleSpec:
    """A sample, as it is sent to the workers.

    Attributes:
        files: the files that have sampled rows, in the order of ``taking``.
        parts: the files that each task reads.
        target: Spark's Arrow types of the columns of the result.
    """

    files: InputTable
    fraction: float
    window: Window
    seed: int | None
    taking: tuple[Taking, ...]
    parts: tuple[tuple[int, ...], ...]
    columns: tuple[str, ...]
    filter: Any
    target: pa.Schema

    def plan(self) -> SamplePlan:
        """The plan on a worker, with opened files."""
        from nimblepy.table.reading.members import MemberRows
        from nimblepy.table.reading.sample import SamplePlan

        rows = open_cached(self.files)
        assert isinstance(rows, MemberRows)
        return SamplePlan(
            rows.reading, self.fraction, self.window, self.seed, rows.members, self.taking
        )


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


def merged_samples(
    most: int,
) -> Batches:
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


def sampled_parts(spec: SampleSpec) -> Batches:
    """Maps numbers of parts of a sample to the sampled rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = spec.plan()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in spec.parts[number]:
                    for rows in plan.read(file, spec.filter, spec.columns, threads=1):
                        if rows.num_rows:
                            yield conform(rows, spec.target)

    return run


def joined_pieces(groups: Sequence[str], target: Target) -> Batches:
    """Maps numbers of groups of files to descriptions of merged files with the same rows."""
    from nimblepy.table.reading.shipped import files_as_text, files_of_text
    from nimblepy.table.writing.pieces import join_pieces

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = join_pieces(files_of_text(groups[number]), target)
                yield pa.RecordBatch.from_pydict({"files": [files_as_text(files)]})

    return run
