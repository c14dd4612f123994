"""Task functions that read samples, changes and metadata of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nimblepy.spark.base.inputs import InputTable, open_cached
from nimblepy.spark.base.schemas import conform
from nimblepy.spark.base.tasks import Batches, numbers

if TYPE_CHECKING:
    from nimblepy.table.reading.holding import KeysOf, MetadataFile
    from nimblepy.table.reading.sample import SamplePlan, Taking, Window
    from nimblepy.table.reading.shared_changes import ChangesShare


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


def sampled_parts(spec: SampleSpec) -> Batches:
    """Maps numbers of parts of a sample to the sampled rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = spec.plan()
        for number in numbers(batches):
            for file in spec.parts[number]:
                for rows in plan.read(file, spec.filter, spec.columns, threads=1):
                    if rows.num_rows:
                        yield conform(rows, spec.target)

    return run


def changed_rows(shares: list[ChangesShare], target: pa.Schema) -> Batches:
    """Maps numbers of shares to the changes in them, with the types of ``target``."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            for batch in shares[number].batches():
                yield conform(batch, target)

    return run


def holding_files(file: MetadataFile, keys: KeysOf) -> Batches:
    """Maps numbers of manifests to their files that may contain one of the keys."""
    from nimblepy.table.reading.holding import data_manifests, files_for_keys

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        metadata = file.open()
        manifests = data_manifests(metadata)
        for batch in batches:
            some_manifests = [manifests[number] for number in batch.column(0).to_pylist()]
            yield from files_for_keys(metadata, some_manifests, keys).to_batches()

    return run
